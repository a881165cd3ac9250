"""Notices what is removed from a run directory under a run that is at work."""

from stsq_core.configs import UserError
from sweeps.store.files import UNREACHABLE, disk_errors, is_removed
from sweeps.store.run_directory import Lock, RunDirectory


class RunGuard:
    """Called before the ledger is added to, and now and then: makes sure that lock, ledger and folders are still this run's.

    Raises:
        UserError: by every call: one of them was removed or replaced, or the ledger is shorter than it was.
        OSError: by every call: the storage cannot be reached.
    """

    def __init__(self, run: RunDirectory, lock: Lock) -> None:
        self._run = run
        self._lock = lock
        self._size = 0
        self._has_rooms = False
        self()

    def __call__(self) -> None:
        self._lock.check()
        run = self._run
        with disk_errors(run.ledger, but=UNREACHABLE):
            run.spec.stat()  # raises where the storage is away, which would look like missing files
            size = run.ledger.stat().st_size if run.ledger.exists() else 0
            gone = [folder for folder in (run.curves, run.checkpoints) if is_removed(folder)]
        if size < self._size:
            what = "has become shorter" if size else "was removed"
            raise UserError(
                f"{str(run.ledger)!r} {what} under the run that adds to it, which stops, because the next one would train "
                "again what it no longer holds: put it back if you can, and then run the same command"
            )
        if gone and self._has_rooms:
            raise UserError(
                f"{str(gone[0])!r} was removed under the run that writes there, which stops: the same command makes it anew, "
                "and goes on from the ledger"
            )
        self._size, self._has_rooms = size, not gone
