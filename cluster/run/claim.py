"""The claim of a worker on its pack's files: one worker writes them at a time, and one that was given up writes no more.

A worker locks the file `checkpoints/PACK.claim` and writes its name and a number there. One that finds it locked waits, because
the worker of a killed driver ends soon, and then puts a file with the next number in its place. The first worker, frozen or cut
off meanwhile, reads that number before it would write anything else, and stops.
"""

import contextlib
import fcntl
import os
import re
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import Self, TextIO

from stsq_core.kernels import training_clock
from sweeps.store import RunDirectory, retry_io

PATIENCE_S = 60.0
"""How long a worker waits for another that holds its pack."""


def claim_path(run: RunDirectory, pack_id: str) -> Path:
    """The file of a pack's claim, while the pack trains."""
    return run.checkpoints / f"{pack_id}.claim"


class SupersededError(Exception):
    """Another worker has taken the pack: what this one would write is left out."""


class Claim:
    """Within the context the pack's files are this worker's; `taken_from` names the worker that did not let go of them."""

    def __init__(self, path: Path) -> None:
        self.taken_from: str | None = None
        self._path = path
        self._signed = ""
        self._trained = 0.0
        self._began_at = 0.0
        self._file: TextIO

    def check(self) -> None:
        """Make sure that nobody has taken the pack: called before anything is written.

        Raises:
            SupersededError: another worker has.
        """
        if (found := retry_io(self._path, self._read)) != self._signed:
            raise SupersededError(
                f"{self._path} is held by {found.strip() or 'nobody'} and no longer by {self._signed.strip()}"
            )

    def note_compiling(self) -> None:
        """Let the file's time be when training would have begun had no loop been compiled since: rates are told from it."""
        began_at = time.time() - (training_clock.trained() - self._trained)
        if began_at > self._began_at + 0.5:
            self._began_at = began_at
            with contextlib.suppress(OSError):
                os.utime(self._path, (began_at, began_at))

    def __enter__(self) -> Self:
        self._trained, self._began_at = training_clock.trained(), time.time()
        deadline = time.monotonic() + PATIENCE_S
        while not retry_io(self._path, self._lock):
            if time.monotonic() > deadline:
                retry_io(self._path, self._take_over)
                break
            time.sleep(0.1)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._file, contextlib.suppress(OSError):
            if self._read() == self._signed:
                self._path.unlink(missing_ok=True)

    def _lock(self) -> bool:
        """Take the claim if nobody holds it, or removed it while we waited for its lock."""
        with contextlib.ExitStack() as opened:
            file = opened.enter_context(self._path.open("a"))
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.fstat(file.fileno()).st_ino != self._path.stat().st_ino:
                    return False
            except (BlockingIOError, FileNotFoundError):
                return False
            self._sign(file, self._read())
            opened.pop_all()
        return True

    def _take_over(self) -> None:
        holder = self._read()
        beside = self._path.with_name(f".{self._path.name}.{os.getpid()}.new")
        with contextlib.ExitStack() as opened:
            file = opened.enter_context(beside.open("w"))
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._sign(file, holder)
            beside.replace(self._path)
            opened.pop_all()
        self.taken_from = holder.strip() or "another worker"

    def _sign(self, file: TextIO, holder: str) -> None:
        found = re.search(r"claim (\d+)", holder)
        self._signed = f"process {os.getpid()} on {socket.gethostname()}, claim {int(found.group(1)) + 1 if found else 1}\n"
        file.truncate(0)
        file.write(self._signed)
        file.flush()
        self._file = file

    def _read(self) -> str:
        try:
            return self._path.read_text(errors="replace")
        except FileNotFoundError:
            self._path.parent.stat()  # raises where the storage is away, and not the claim alone
            return ""
