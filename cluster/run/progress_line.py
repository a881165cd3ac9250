"""Shows the progress of a run and the time it will take: a line, renewed on a terminal and repeated elsewhere.

Steps of running packs are read from the ends of their journals. Rates count model-steps (a step of a pack of 32 counts
32); the time left is estimated from operations, with what searches are expected to ask for, as `stsq status` and the page do
(module `sweeps.schedule.time_left`).
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.text import Text

from cluster.run.stall import Signs
from cluster.run.terminal import harmless
from dashboards.words import about_words, searches_words
from sweeps.cells import Pack, cell_of_family, trial_operations
from sweeps.schedule import Load, PackOutcome, PackQueue, WorkerPace, ends_of
from sweeps.store import FINISHED, Outcomes, last_step

PLAIN_EVERY_S = 5.0
PLAIN_SAME_EVERY_S = 60.0
"""How soon a line that says the same again is repeated."""

LIVE_EVERY_S = 0.5

SILENT_S = 5.0
"""How long a pack may train without a report before that is said."""

COMPILING = "a new machine compiles first"


@dataclass
class Running:
    """A pack that was sent to a worker: when, in which part of its steps it began, and the first part that was seen of it."""

    pack: Pack
    sent_at: float
    base: float
    seen_at: float | None = None
    seen: float = 0.0

    def look(self, part: float, now: float) -> None:
        """Take note of how far it is; one that goes on from a state begins before the end of its journal."""
        self.base = min(self.base, part)
        if self.seen_at is None and part > self.base:
            self.seen_at, self.seen = now, part


@dataclass
class Trained:
    """What the trials that finished in this session took: operations in seconds of their workers, and when the first began."""

    operations: float = 0.0
    seconds: float = 0.0
    began_at: float = float("inf")


@dataclass(frozen=True)
class Pace:
    """The speed of a run, and the seconds it will take; None while there is no estimate."""

    model_steps_per_s: float = 0.0
    seconds_left: float | None = None


class ProgressLine:
    """The progress line of one run, while open; the runner calls `started`, `stopped` and `ended` from one thread.

    `pace` is as of the newest line. `rate_before` is that of former sessions, in operations a second of a worker.
    """

    def __init__(
        self,
        queue: PackQueue,
        curves: Path,
        console: Console,
        *,
        num_workers: int = 1,
        rate_before: float | None = None,
    ) -> None:
        self._queue = queue
        self._curves = curves
        self._console = console
        self._running: dict[str, Running] = {}
        self._model_steps = 0.0
        self._trained = Trained()
        self._rate_before = rate_before
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
        now = time.monotonic()
        self._running = {**self._running, pack.pack_id: Running(pack, now, self._fraction(pack))}
        self._trained_since = self._trained_since or now

    def stopped(self, pack: Pack) -> None:
        """A pack has lost its worker and waits for another."""
        self._running = {pack_id: other for pack_id, other in self._running.items() if pack_id != pack.pack_id}

    def ended(self, outcome: PackOutcome) -> None:
        """A pack's outcome is in the ledger."""
        pack, now = outcome.pack, time.monotonic()
        known = self._running.get(pack.pack_id)
        self.stopped(pack)
        if outcome.failure is None:
            is_first = not self._model_steps
            self._model_steps += _model_steps(pack, 1.0 - (known.base if known else 0.0))
            finished = [result.seconds for result in outcome.results if result.status == "finished"]
            self._trained.operations += pack.operations * len(finished) / len(outcome.results)
            self._trained.seconds += sum(finished)
            self._trained.began_at = min(self._trained.began_at, now - sum(finished))
            if is_first:
                self._wake.set()  # a person waits for the first result

    def note(self, text: str) -> None:
        """Print a line that stays on the screen."""
        self._console.print(harmless(text), highlight=False, markup=False)

    def line(self) -> str:
        """The run's state in one line."""
        return f"{self.state()} · {_clock(time.monotonic() - self._began)} gone"

    def state(self) -> str:
        """The run's state, without the time that has gone."""
        queue, now = self._queue, time.monotonic()
        outlook = queue.outlook
        total = about_words(queue.num_known + outlook.num_trials, searching=bool(outlook.num_searching))
        parts = [f"{queue.num_ended:,} of {total} trials", *filter(None, [searches_words(outlook), queue.progress])]
        parts += [f"{count} {word}" for word, count in (("diverged", queue.diverged), ("failed", queue.failed)) if count]
        running = [(one, self._fraction(one.pack)) for one in self._running.values()]
        for one, part in running:
            one.look(part, now)
        model_steps = self._model_steps + sum(_model_steps(one.pack, part - one.base) for one, part in running)
        if model_steps and self._trained_since is not None:
            seconds_left = self._seconds_left(running, now)
            self.pace = Pace(model_steps / max(now - self._trained_since, 1e-3), seconds_left)
            parts.append(f"{_short(self.pace.model_steps_per_s)} model-steps/s")
            parts += [] if seconds_left is None else [f"about {_clock(seconds_left)} left"]
        else:
            num = len(self._running)
            packs = (
                f"{num} pack{'' if num == 1 else 's'} sent to {self.num_workers} worker{'' if self.num_workers == 1 else 's'}"
            )
            parts.append(packs if num else "starting")
        if silent := sum(part <= one.base and now - one.sent_at > SILENT_S for one, part in running):
            parts.append(f"no report yet of {silent} pack{'' if silent == 1 else 's'} ({COMPILING})")
        return " · ".join(parts)

    def _seconds_left(self, running: Sequence[tuple[Running, float]], now: float) -> float | None:
        """The time to the end of the sweep; None where no worker has shown its speed."""
        trained = self._trained
        if trained.seconds > 0:
            pace = WorkerPace.of(
                trained.operations / trained.seconds,
                trained_s=trained.seconds + sum(now - max(one.sent_at, trained.began_at) for one, _ in running),
                span_s=now - trained.began_at,
                num_workers=self.num_workers,
            )
        elif self._rate_before is not None:
            pace = WorkerPace(self._rate_before)
        else:
            seen = [(one, part, now - one.seen_at) for one, part in running if one.seen_at is not None]
            operations = sum(one.pack.operations * (part - one.seen) for one, part, _ in seen)
            if operations <= 0:
                return None
            pace = WorkerPace(operations / sum(seconds for *_, seconds in seen))
        ahead = self._queue.outlook.ahead
        at_work = [Load(_cells_of(one.pack) if ahead else (), one.pack.operations * (1.0 - part)) for one, part in running]
        waiting = [Load(_cells_of(pack) if ahead else (), pack.operations) for pack in self._queue.waiting]
        return pace.seconds(ends_of(at_work, waiting, ahead, num_workers=self.num_workers).last)

    def signs(self) -> Signs:
        """What shows that the run goes on."""
        steps = {pack_id: last_step(self._curves / f"{pack_id}.jsonl") for pack_id in self._running}
        return Signs(self._queue.done, steps)

    @property
    def model_steps_ended(self) -> float:
        """Model-steps of the packs that ended in this session."""
        return self._model_steps

    def summary(self) -> str:
        """The number of trials, their time and speed in one line, once the run is over."""
        queue, seconds = self._queue, max(time.monotonic() - (self._trained_since or self._began), 1e-3)
        counts = ((queue.diverged, "diverged"), (queue.failed, "failed"))
        ended = ", ".join([f"{queue.done} trials ended", *(f"{count} of them {word}" for count, word in counts if count)])
        workers = f"{self.num_workers} {'worker' if self.num_workers == 1 else 'workers'}"
        rate = f"{_short(self._model_steps / seconds)} model-steps/s on {workers}"
        return f"{ended}; {_clock(seconds)}, {rate}"

    def _fraction(self, pack: Pack) -> float:
        return min(1.0, last_step(self._curves / f"{pack.pack_id}.jsonl") / max(1, pack.num_steps))

    def _show(self) -> None:
        shown, shown_at = "", 0.0
        while True:
            self._wake.wait(LIVE_EVERY_S if self._live else PLAIN_EVERY_S)
            self._wake.clear()
            if self._over:
                return
            if self._live is not None:
                self._live.update(Text(self.line(), overflow="ellipsis", no_wrap=True), refresh=True)
            elif (state := self.state()) != shown or time.monotonic() > shown_at + PLAIN_SAME_EVERY_S:
                shown, shown_at = state, time.monotonic()
                self.note(f"{state} · {_clock(shown_at - self._began)} gone")


def rate_of(records: Outcomes) -> float | None:
    """Operations a second of a worker, as the trials that finished show it; None where none has."""
    finished = records.take(records.status == FINISHED)
    seconds = float(finished.seconds.sum())
    return trial_operations(finished.trials) / seconds if seconds > 0 else None


def _cells_of(pack: Pack) -> tuple[str, ...]:
    return tuple(cell_of_family(pack.trials.families[place]) for place in np.unique(pack.trials.family).tolist())


def _model_steps(pack: Pack, fraction: float) -> float:
    return len(pack.trials) * pack.num_steps * fraction


def _short(number: float) -> str:
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.3g}{suffix}"
    return f"{number:.3g}"


def _clock(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
