"""Divides the runs of a directory among publishers: every run has exactly one owner, however they are divided.

A run's key (a `trial_id` or a `cell_id`) is hashed to one of 65,536 places, and shard I of N owns the places from I/N to
(I+1)/N of them. A publisher locks its places as a range of bytes in `RUN/wandb/publisher.lock`. A lock of byte ranges, and not
a lock file for each shard, because two publishers with different N may overlap in part; it also works between machines that
share the directory, and ends with its process.
"""

import fcntl
import hashlib
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from stsq_core.configs import UserError
from sweeps.store import disk_errors

PLACES = 1 << 16
MAX_SHARDS = 1024


@dataclass(frozen=True)
class Shard:
    """The share `index` (from 0) of `count` equal ones."""

    index: int = 0
    count: int = 1

    @property
    def places(self) -> range:
        """Its places."""
        return range(self.index * PLACES // self.count, (self.index + 1) * PLACES // self.count)

    def owns(self, key: str) -> bool:
        """Whether it has the run of this trial or cell."""
        return self.count == 1 or int.from_bytes(hashlib.sha256(key.encode()).digest()[:2], "big") in self.places

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"


WHOLE = Shard()


def read_shard(text: str) -> Shard:
    """Parse `I/N`, with I from 0 to N - 1.

    Raises:
        UserError: another shape, or numbers out of range.
    """
    match = re.fullmatch(r"(\d+)/(\d+)", text.strip())
    shard = Shard(*map(int, match.groups())) if match else None
    if shard is None or not 0 <= shard.index < shard.count <= MAX_SHARDS:
        raise UserError(
            f"--shard {text}: a shard is I/N with 0 <= I < N <= {MAX_SHARDS}; for example 0/4, 1/4, 2/4 and 3/4 on four nodes"
        )
    return shard


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
