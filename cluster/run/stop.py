"""Stopping in order: a signal becomes one exception in the main thread, never in the middle of a ledger line.

`ray job stop` sends SIGTERM (or SIGINT, as `stsq job submit` asks), a terminal SIGINT, and SIGHUP when it is closed, Slurm
SIGUSR1 before a requeue (`--signal=USR1@300`). A second signal acts as it did before: it ends the process at once, which loses
nothing but the time since the last checkpoint. A signal that is ignored (`nohup`) stays ignored.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
OF_A_GROUP = (signal.SIGHUP, signal.SIGUSR1)
"""Signals that may come to every process of a group or job at once; the run ends the processes that it started itself."""


class Stopped(BaseException):
    """The run was asked to stop; not an `Exception`, so that no retry logic takes it for a failure."""

    def __init__(self, signal_name: str) -> None:
        super().__init__(signal_name)
        self.signal_name = signal_name


class StopSignals:
    """Turns the first of `SIGNALS` into `Stopped`, between `install` and `restore`."""

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._num_deferrals = 0
        self._num_polled = 0
        self.requested: str | None = None

    def install(self) -> None:
        """Take the signals over, also from a library that has taken them meanwhile (Ray and Tune do)."""
        for number in SIGNALS if self.requested is None else ():
            before = self._before.setdefault(number, signal.getsignal(number))
            if before != signal.SIG_IGN:
                signal.signal(number, self._handle)

    def restore(self) -> None:
        """Restore the handlers that were there before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def check(self) -> None:
        """Raise `Stopped` if it was asked for, unless that is deferred."""
        if self.requested and not self._num_deferrals:
            raise Stopped(self.requested)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Delay a stop until the block ends: for what must not be left half done."""
        self._num_deferrals += 1
        try:
            yield
        finally:
            self._num_deferrals -= 1
        self.check()

    @contextmanager
    def polled(self) -> Iterator[None]:
        """Let only `check` raise while the block runs: an exception from a signal handler in compiled code is a crash."""
        self._num_polled += 1
        try:
            yield
        finally:
            self._num_polled -= 1
        self.check()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self.requested = signal.Signals(number).name
        self.restore()
        if not self._num_polled:
            self.check()


@contextmanager
def sheltered() -> Iterator[None]:
    """Let no process that is started in the block notice the signals `OF_A_GROUP`."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, OF_A_GROUP)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def stop_signals() -> Iterator[StopSignals]:
    """Stop in order while the block runs; only in the main thread, as signals are."""
    stop = StopSignals()
    stop.install()
    try:
        yield stop
    finally:
        stop.restore()
