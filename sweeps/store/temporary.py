"""Temporary folders that the next one of their kind removes where a killed process has left them."""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def held_folder(prefix: str, root: Path | None = None) -> Iterator[Path]:
    """A folder in the temporary directory, or another `root`, while the block runs.

    It is held by a file lock that falls with this process: by it others distinguish the folder of a living process from that
    of a dead one, which they remove.
    """
    root = root or Path(tempfile.gettempdir())
    for held in root.glob(f"{prefix}*/held"):  # other users' and living processes' raise
        with contextlib.suppress(OSError), held.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(held.parent, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=root))
    lock = os.open(folder / "new", os.O_CREAT | os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    (folder / "new").rename(folder / "held")  # visible to others only once it is locked
    try:
        yield folder
    finally:
        os.close(lock)
        shutil.rmtree(folder, ignore_errors=True)
