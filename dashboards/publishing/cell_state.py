"""What a cell's W&B run shows while the cell's trials end: per width, the number that ended, the median loss and the success
rate.

Everything is a function of the cell's ledger lines in their order, so that a publisher that starts anew tells the same rows.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sweeps.cells import Cell
from sweeps.store import LEAST_LOSS, LedgerRecord

MAX_PROGRESS_ROWS = 500
"""Rows that tell a cell's progress, at most; a width's training curve is told once more beside them."""


@dataclass(frozen=True)
class Ended:
    """How one trial ended, as much as a cell's run needs: `relative_loss` is inf where it diverged, nan where it failed."""

    lr: float
    relative_loss: float
    pack_id: str


class CellState:
    """The trials of a cell that have ended."""

    def __init__(self, cell: Cell, target_loss: float) -> None:
        trials = cell.trials
        self._target_loss = target_loss
        self._letter = trials.families[0].size.letter
        self._places = {trial_id: place for place, trial_id in enumerate(trials.trial_ids)}
        self._widths, self._rates = trials.widths, trials.rates
        self._left = {
            int(width): int(count) for width, count in zip(*np.unique(trials.widths, return_counts=True), strict=True)
        }
        self._every = max(1, math.ceil(len(trials) / MAX_PROGRESS_ROWS))
        self._changed: set[int] = set()
        self._ended: dict[int, dict[str, Ended]] = {width: {} for width in self._left}
        self.num_lines = 0

    @property
    def num_ended(self) -> int:
        """Declared trials that have ended."""
        return sum(map(len, self._ended.values()))

    @property
    def is_complete(self) -> bool:
        """Whether every declared trial has ended."""
        return self.num_ended == len(self._places)

    def take(self, record: LedgerRecord) -> tuple[bool, int | None]:
        """Take a ledger line; returns whether a row is due, and the width that it completes (None: none)."""
        place = self._places[record.trial_id]
        width, loss = int(self._widths[place]), record.relative_loss
        known = record.trial_id in self._ended[width]
        missing = math.nan if record.status == "failed" else math.inf
        self._ended[width][record.trial_id] = Ended(
            float(self._rates[place]), missing if loss is None else loss, record.pack_id
        )
        self._changed.add(width)
        self.num_lines += 1
        self._left[width] -= not known
        completed = width if not known and not self._left[width] else None
        return self.is_complete or completed is not None or self.num_lines % self._every == 0, completed

    def told(self) -> dict[str, Any]:
        """The row for what has changed since the last one."""
        row: dict[str, Any] = {"num_lines": self.num_lines, "num_ended": self.num_ended}
        for width in sorted(self._changed):
            row |= dict(self._of_width(width))
        self._changed.clear()
        return row

    def best(self, width: int) -> dict[str, Ended]:
        """The ended trials of a width at the rate of the least median loss, as thresholds choose it."""
        own: dict[float, dict[str, Ended]] = {}
        for trial_id, ended in self._ended[width].items():
            own.setdefault(ended.lr, {})[trial_id] = ended
        return own[min(sorted(own), key=lambda lr: _median([ended.relative_loss for ended in own[lr].values()]))]

    def _of_width(self, width: int) -> Iterator[tuple[str, Any]]:
        best = self.best(width)
        losses = [ended.relative_loss for ended in best.values()]
        told = [loss for loss in losses if not math.isnan(loss)]
        yield f"num_trials/{self._letter}={width}", len(self._ended[width])
        if told:
            yield f"success_rate/{self._letter}={width}", sum(loss <= self._target_loss for loss in told) / len(told)
        if math.isfinite(median := _median(losses)):
            yield f"relative_loss/{self._letter}={width}", median


def curve_rows(
    width: int, steps: np.ndarray, losses: np.ndarray, num_lines: int, *, letter: str = "m"
) -> Iterator[Mapping[str, Any]]:
    """The median training curve of a width whose trials have all ended, a row a point."""
    for step, loss in zip(steps.tolist(), losses.tolist(), strict=True):
        yield {"num_lines": num_lines, "step": step, f"training_loss/{letter}={width}": loss}


def _median(losses: list[float]) -> float:
    """The median of the log losses, as a loss; a failed trial counts as the worst."""
    logs = [math.inf if math.isnan(loss) else math.log(max(loss, LEAST_LOSS)) for loss in losses]
    return math.exp(float(np.median(logs)))
