"""Divides the runs of a directory among publishers: every run has exactly one owner, however they are divided.

A publisher locks the places of its shard as a range of bytes in `RUN/wandb/publisher.lock`. A lock of byte ranges, and not a
lock file for each shard, because two publishers with different N may overlap in part; it also works between machines that share
the directory, and ends with its process.
"""

import fcntl
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from stsq_core.configs import UserError
from sweeps.cells import WHOLE, Shard
from sweeps.store import disk_errors


@contextmanager
def sole_publisher(folder: Path, shard: Shard = WHOLE, *, may_wait: Callable[[], bool]) -> Iterator[None]:
    """Be the only publisher of a shard's runs.

    Raises:
        UserError: another publisher has one of these runs, and `may_wait()` is false.
    """
    path = folder / "publisher.lock"
    with disk_errors(path):
        folder.mkdir(parents=True, exist_ok=True)
        lock = path.open("a+b")
    with lock:
        while True:
            with suppress(BlockingIOError, PermissionError):
                fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, len(shard.places), shard.places.start)
                break
            if not may_wait():
                raise UserError(
                    f"another publisher ({_holder(lock, shard)}) is writing {folder}: wait until it has ended, then try again"
                )
            time.sleep(0.2)
        lock.write(f"{shard} process {os.getpid()} on {socket.gethostname()}\n".encode())
        lock.flush()
        yield


def _holder(lock: BinaryIO, shard: Shard) -> str:
    """The newest publisher named in the file whose shard overlaps."""
    lock.seek(0)
    for line in reversed(lock.read().decode(errors="replace").splitlines()):
        if named := re.fullmatch(r"(\d+)/([1-9]\d*) (.+)", line):
            places = Shard(int(named[1]), int(named[2])).places
            if places.start < shard.places.stop and shard.places.start < places.stop:
                return named[3]
    return "unknown process"
