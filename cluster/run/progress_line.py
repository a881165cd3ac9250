"""Shows the progress of a run and the time it will take: a line, renewed on a terminal and repeated elsewhere.

Steps of running packs are read from the ends of their journals. Rates count model-steps (a step of a pack of 32 counts
32); the time left is estimated from operations, because a model-step of a wide trial costs more than one of a narrow trial.
"""

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from rich.console import Console
from rich.live import Live
from rich.text import Text

from cluster.run.terminal import harmless
from sweeps.cells import Pack
from sweeps.schedule import PackOutcome, PackQueue
from sweeps.store import last_step

PLAIN_EVERY_S = 5.0
LIVE_EVERY_S = 0.5


@dataclass(frozen=True)
class Amount:
    """Work done: model-steps, and operations (multiply-adds)."""

    model_steps: float = 0.0
    operations: float = 0.0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.model_steps + other.model_steps, self.operations + other.operations)


@dataclass(frozen=True)
class Pace:
    """The speed of a run, and the seconds it will take; None while there is no estimate."""

    model_steps_per_s: float = 0.0
    seconds_left: float | None = None


class ProgressLine:
    """The progress line of one run, while open; the runner calls `started`, `stopped` and `ended` from one thread.

    `pace` is as of the newest line.
    """

    def __init__(self, queue: PackQueue, curves: Path, console: Console, *, num_workers: int = 1) -> None:
        self._queue = queue
        self._curves = curves
        self._console = console
        self._running: dict[str, Pack] = {}
        self._base: dict[str, float] = {}
        self._done = Amount()
        self.num_workers = num_workers
        self._began = time.monotonic()
        self._trained_since: float | None = None
        self.pace = Pace()
        self._over = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)
        self._live: Live | None = None

    def __enter__(self) -> "ProgressLine":
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over = True
        self._wake.set()
        self._thread.join()
        if self._live is not None:
            self._live.stop()

    def started(self, pack: Pack) -> None:
        """A pack was sent to a worker."""
        self._base[pack.pack_id] = self._fraction(pack)
        self._running = {**self._running, pack.pack_id: pack}
        self._trained_since = self._trained_since or time.monotonic()

    def stopped(self, pack: Pack) -> None:
        """A pack has lost its worker and waits for another."""
        self._running = {pack_id: other for pack_id, other in self._running.items() if pack_id != pack.pack_id}

    def ended(self, outcome: PackOutcome) -> None:
        """A pack's outcome is in the ledger."""
        pack = outcome.pack
        self._running = {pack_id: other for pack_id, other in self._running.items() if pack_id != pack.pack_id}
        if outcome.failure is None:
            is_first = not self._done.model_steps
            self._done += _share(pack, 1.0 - self._base.pop(pack.pack_id, 0.0))
            if is_first:
                self._wake.set()  # a person waits for the first result

    def note(self, text: str) -> None:
        """Print a line that stays on the screen."""
        self._console.print(harmless(text), highlight=False, markup=False)

    def line(self) -> str:
        """The run's state in one line."""
        queue, now = self._queue, time.monotonic()
        parts = [f"{queue.done + queue.skipped}/{queue.total} trials", *filter(None, [queue.progress])]
        parts += [f"{count} {word}" for word, count in (("diverged", queue.diverged), ("failed", queue.failed)) if count]
        running = [(pack, self._fraction(pack)) for pack in self._running.values()]
        for pack, part in running:  # a pack that goes on from a state begins before the end of its journal
            self._base[pack.pack_id] = min(self._base.get(pack.pack_id, 0.0), part)
        done = sum((_share(pack, part - self._base[pack.pack_id]) for pack, part in running), self._done)
        if done.model_steps and self._trained_since is not None:
            seconds = max(now - self._trained_since, 1e-3)
            left = queue.waiting_operations + sum(pack.operations * (1.0 - part) for pack, part in running)
            seconds_left = left * seconds / done.operations
            self.pace = Pace(done.model_steps / seconds, seconds_left)
            parts += [f"{_short(self.pace.model_steps_per_s)} model-steps/s", f"about {_clock(seconds_left)} left"]
        else:
            parts.append("starting" if not self._running else f"{len(self._running)} packs sent to {self.num_workers} workers")
        return " · ".join([*parts, f"{_clock(now - self._began)} gone"])

    @property
    def model_steps_ended(self) -> float:
        """Model-steps of the packs that ended in this session."""
        return self._done.model_steps

    def summary(self) -> str:
        """The number of trials, their time and speed in one line, once the run is over."""
        queue, seconds = self._queue, max(time.monotonic() - (self._trained_since or self._began), 1e-3)
        counts = ((queue.diverged, "diverged"), (queue.failed, "failed"))
        ended = ", ".join([f"{queue.done} trials ended", *(f"{count} of them {word}" for count, word in counts if count)])
        rate = f"{_short(self._done.model_steps / seconds)} model-steps/s on {self.num_workers} workers"
        return f"{ended}; {_clock(seconds)}, {rate}"

    def _fraction(self, pack: Pack) -> float:
        return min(1.0, last_step(self._curves / f"{pack.pack_id}.jsonl") / max(1, pack.num_steps))

    def _show(self) -> None:
        while True:
            self._wake.wait(LIVE_EVERY_S if self._live else PLAIN_EVERY_S)
            self._wake.clear()
            if self._over:
                return
            line = self.line()
            if self._live is not None:
                self._live.update(Text(line, overflow="ellipsis", no_wrap=True), refresh=True)
            else:
                self.note(line)


def _share(pack: Pack, fraction: float) -> Amount:
    return Amount(len(pack.trials) * pack.num_steps * fraction, pack.operations * fraction)


def _short(number: float) -> str:
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.3g}{suffix}"
    return f"{number:.3g}"


def _clock(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
