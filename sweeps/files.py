"""Writing files so that a crash leaves the old or the new one, and so that a full or read-only disk is a clear error."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from stsq_core.errors import UserError

_MEND = {
    errno.ENOSPC: "free some space, or choose another directory with --out",
    errno.EDQUOT: "your quota is used up: free some space, or choose another directory with --out",
    errno.EROFS: "choose a directory that can be written with --out",
    errno.EACCES: "choose a directory that you may write with --out, or change its permissions",
    errno.EPERM: "choose a directory that you may write with --out, or change its permissions",
}


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's refusals inside the block into a `UserError` that names the path and what to do."""
    try:
        yield
    except OSError as error:
        mend = _MEND.get(error.errno or 0, "choose another directory with --out")
        raise UserError(f"{str(path)!r} cannot be written: {error.strerror or error}; {mend}") from None


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file as a whole: written beside it, forced to disk, renamed over it.

    Raises:
        UserError: the disk is full or may not be written.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    with disk_errors(path):
        try:
            with beside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        finally:
            with suppress(OSError):
                beside.unlink(missing_ok=True)
