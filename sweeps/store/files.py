"""Writing files so that a crash leaves the old or the new one, and a full or read-only disk is a clear error at once.

Storage that is away for a minute costs a minute and no result: `retry_io`.
"""

import errno
import os
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from stsq_core.configs import UserError

OUTAGE_PATIENCE_S = 180.0
"""How long a run waits for storage that cannot be reached."""

_PAUSES_S = (0.2, 5.0)
"""The first pause between two tries and the longest: each is twice the one before."""

_MEND = {
    errno.ENOSPC: "free some space, or choose another directory with --out",
    errno.EDQUOT: "your quota is used up: free some space, or choose another directory with --out",
    errno.EROFS: "choose a directory that can be written with --out",
    errno.EACCES: "choose a directory that you may write with --out, or change its permissions",
    errno.EPERM: "choose a directory that you may write with --out, or change its permissions",
}

UNREACHABLE = frozenset(
    getattr(errno, name)
    for name in (
        "EIO", "EREMOTEIO", "ESTALE", "ETIMEDOUT", "ENOTCONN", "ECONNRESET", "ECONNREFUSED", "ECONNABORTED", "ESHUTDOWN",
        "EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETUNREACH", "ENODEV", "ENXIO", "ENOENT",
    )
    if hasattr(errno, name)
)  # fmt: skip
"""What an operating system says of a file system that went away, ENOENT of the files below a mount that is gone."""

Done = TypeVar("Done")


@contextmanager
def disk_errors(path: Path, *, but: Collection[int] = ()) -> Iterator[None]:
    """Turn the operating system's refusals inside the block into a `UserError` that names the path and what to do.

    Those with a number in `but` are left as they are.
    """
    try:
        yield
    except OSError as error:
        if error.errno in but:
            raise
        mend = _MEND.get(error.errno or 0, "choose another directory with --out")
        raise UserError(f"{str(path)!r} cannot be written: {error.strerror or error}; {mend}") from None


def retry_io(path: Path, action: Callable[[], Done], *, notify: Callable[[str], None] | None = None) -> Done:
    """Do what reads or writes a file of a run, and do it again while its storage cannot be reached.

    `action` starts anew each time, so it must be one that may be done twice. Its folder must have been made before: a folder
    that is made below a mount that went away would take results that nobody finds. `notify` gets a line when waiting begins.

    Raises:
        UserError: the storage did not come back within `OUTAGE_PATIENCE_S`, or (at once) it is full, may not be written, or the
            file's folder was removed from its run directory.
    """
    pause_s, longest_s = _PAUSES_S
    began: float | None = None
    while True:
        try:
            with disk_errors(path, but=UNREACHABLE):
                return action()
        except OSError as error:
            why = error.strerror or str(error)
            if is_removed(path.parent):
                raise UserError(f"{str(path.parent)!r} was removed under the run that writes there") from None
            if began is None:
                began = time.monotonic()
                if notify is not None:
                    notify(f"{str(path)!r} cannot be reached ({why}): waiting up to {OUTAGE_PATIENCE_S:.0f} s for its storage")
            if time.monotonic() - began > OUTAGE_PATIENCE_S:
                raise UserError(
                    f"{str(path)!r} could not be reached for {OUTAGE_PATIENCE_S:.0f} s ({why}): once its storage is back, the "
                    "same command goes on from the ledger and the saved states"
                ) from None
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, longest_s)


def is_removed(folder: Path) -> bool:
    """Whether a folder of a run directory is gone while the directory is there.

    A link may lead to other storage, which is waited for. Without the sweep file, the directory's own storage is away.
    """
    with suppress(OSError):
        return not folder.is_dir() and not folder.is_symlink() and (folder.parent / "spec.yaml").is_file()
    return False


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file as a whole: written beside it, forced to disk, renamed over it.

    Raises:
        UserError: the disk is full or may not be written.
    """
    with disk_errors(path):
        _replace(path, data)


def write_first(path: Path, data: bytes) -> None:
    """Make a file as a whole where there is none; of several writers at once the first makes it.

    Raises:
        UserError: the disk is full or may not be written.
    """
    with disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        draft.write_bytes(data)
        with suppress(FileExistsError):
            os.link(draft, path)
        draft.unlink()


def write_with_retries(path: Path, data: bytes) -> None:
    """`write_atomically` for what a run must not lose: waits for storage that cannot be reached.

    Raises:
        UserError: as `retry_io`.
    """
    retry_io(path, lambda: _replace(path, data))


def _replace(path: Path, data: bytes) -> None:
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
