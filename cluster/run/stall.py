"""Finds a run that stalls: in which nothing has ended and no step was trained for long, or for which no worker is there."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Self

STALLED_AFTER_S = 1800.0
"""How long nothing may end and no step be trained: longer than the watchdog gives any worker to come back."""

NO_WORKER_SHARE = 1 / 3
"""The part of it for which no worker may have a pack: none has to be trained first."""

LOOKS = 20
MIN_LOOK_S, MAX_LOOK_S = 0.1, 30.0
EXIT_TIMEOUT_S = 1.0


@dataclass(frozen=True)
class Signs:
    """What shows that a run goes on: the trials that have ended, and the last step of each pack in training."""

    num_ended: int
    steps: Mapping[str, int]


class StallWatch:
    """Looks at a run in a thread, while the context is open, and reports each stall once; one that is over may come again.

    Args:
        signs: what is seen of the run now.
        report: gets why it counts as stalled.
        after_s: the seconds after which it does; 0 never.
    """

    def __init__(self, signs: Callable[[], Signs], report: Callable[[str], None], *, after_s: float) -> None:
        self._signs = signs
        self._report = report
        self._after_s = after_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Self:
        if self._after_s > 0:
            self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(EXIT_TIMEOUT_S)  # a notice that is being sent is not waited for

    def _watch(self) -> None:
        pause_s = min(MAX_LOOK_S, max(MIN_LOOK_S, self._after_s / LOOKS))
        seen, changed_at, had_worker_at, is_reported = self._signs(), time.monotonic(), time.monotonic(), False
        looked_at = time.monotonic()
        while not self._over.wait(pause_s):
            signs, now = self._signs(), time.monotonic()
            if now - looked_at > pause_s + self._after_s / 2:  # this process was held up: nobody knows what happened meanwhile
                changed_at = had_worker_at = now
            looked_at = now
            if signs != seen:
                seen, changed_at, is_reported = signs, now, False
            if signs.steps:
                had_worker_at = now
            if is_reported:
                continue
            if now - changed_at > self._after_s:
                is_reported = True
                self._report(f"no trial has ended and no step was trained for {_words(now - changed_at)}")
            elif now - had_worker_at > self._after_s * NO_WORKER_SHARE and now - changed_at > self._after_s * NO_WORKER_SHARE:
                is_reported = True
                self._report(f"no worker has had anything to train for {_words(now - had_worker_at)}")


def _words(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} s"
