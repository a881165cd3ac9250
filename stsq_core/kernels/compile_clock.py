"""The time that this process has spent on compiling or loading loops, which is no part of training: it is done once."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class TrainingClock:
    """Counts seconds in which loops are compiled, loaded or awaited from another process; one may begin within another."""

    def __init__(self) -> None:
        self._seconds = self._begun = 0.0
        self._depth = 0

    def begin(self) -> None:
        if self._depth == 0:
            self._begun = time.perf_counter()
        self._depth += 1

    def end(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._seconds += time.perf_counter() - self._begun

    @contextmanager
    def running(self) -> Iterator[None]:
        self.begin()
        try:
            yield
        finally:
            self.end()

    def trained(self) -> float:
        """Seconds, from any origin, that stand still while loops are compiled."""
        return (self._begun if self._depth else time.perf_counter()) - self._seconds


training_clock = TrainingClock()
"""The clock of this process."""
