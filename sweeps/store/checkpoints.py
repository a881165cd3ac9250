"""The state of a training pack on disk, and with it the length of its journal, so that the two always agree."""

import json
import time
from collections.abc import Callable
from pathlib import Path

from stsq_core.numerics import Checkpoint
from sweeps.store.files import disk_errors, retry_io, write_with_retries
from sweeps.store.journal import JournalWriter

SCHEMA = 1


class Preempted(Exception):  # noqa: N818  (it is no error)
    """The place where a pack trains is being taken away; its state is saved, and it goes on elsewhere."""


class FileCheckpoint(Checkpoint):
    """Keeps the newest state in one file, replaced as a whole at most every `every_s` seconds.

    Once `leaving()` is true the state is saved at once, and training ends with `Preempted`. A load cuts the journal back to
    its length at the save: later measurements will be reported again.
    """

    def __init__(
        self, path: Path, journal: JournalWriter, *, every_s: float = 20.0, leaving: Callable[[], bool] = lambda: False
    ) -> None:
        self.path = path
        self._journal = journal
        self._every_s = every_s
        self._leaving = leaving
        self._saved_at = time.monotonic()
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)

    def load(self) -> bytes | None:
        """The newest state whose journal is still there, else None; the journal is cut back to it."""
        state, size = retry_io(self.path, self._read)
        self._journal.truncate(size)
        return state

    def due(self) -> bool:
        """Whether `every_s` seconds have passed since the last save, or since the start, or the worker is to leave."""
        return self._leaving() or time.monotonic() - self._saved_at >= self._every_s

    def save(self, state: bytes) -> None:
        """Commit the journal, then replace the state.

        Raises:
            UserError: the disk is full, may not be written or did not come back.
            Preempted: the state is saved, and the worker is to leave.
        """
        self._journal.sync()
        head = json.dumps({"schema": SCHEMA, "journal_size": self._journal.size(), "state_size": len(state)})
        write_with_retries(self.path, head.encode() + b"\n" + state)
        self._saved_at = time.monotonic()
        if self._leaving():
            raise Preempted(f"saved {self.path}")

    def discard(self) -> None:
        """Remove the saved state: its pack has ended."""
        retry_io(self.path, lambda: self.path.unlink(missing_ok=True))

    def _read(self) -> tuple[bytes | None, int]:
        """The saved state and the journal's size at that time; a file that is damaged or of another schema counts as absent."""
        try:
            head, _, state = self.path.read_bytes().partition(b"\n")
            header = json.loads(head)
            size = int(header["journal_size"])
            if header["schema"] == SCHEMA and header["state_size"] == len(state) and size <= self._journal.size():
                return state, size
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            pass
        return None, 0
