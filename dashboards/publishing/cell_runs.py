"""The W&B runs of a large sweep: one run a cell, with a series a width and a table of the trials.

So a sweep of 100,000 trials makes as many runs as it has cells, and stays within W&B's rate limits. The history is the cell's
log, which grows as trials end and is never rewritten; summary and table come when the cell is complete, or when the publisher
ends. Every row is a function of the cell's ledger lines in their order, so that a restarted publisher makes the same rows.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dashboards.plots import median_curve
from dashboards.publishing.cell_log import CellLog
from dashboards.publishing.cell_outcome import cell_outcome
from dashboards.publishing.client import write_client_files
from dashboards.publishing.keys import cell_config
from dashboards.publishing.projection import Outcome, RunProjection, short
from sweeps.cells import Cell, ExpandedSweep, Shard
from sweeps.schema import Criterion
from sweeps.store import (
    LEAST_LOSS,
    Ledger,
    LedgerRecord,
    Outcomes,
    RunDirectory,
    judged_loss,
    read_curves,
    read_results,
)
from sweeps.thresholds import WidthThreshold, width_thresholds

AXES = {
    "training_loss/*": "step",
    "relative_loss/*": "num_ended",
    "success_rate/*": "num_ended",
    "num_trials/*": "num_ended",
}

MAX_PROGRESS_ROWS = 500
"""Upper limit on the rows of a cell's progress; the training curve of each complete width comes on top."""


class CellRuns:
    """The runs of one shard; `read_on` first, then `ended` and `live`."""

    write_offline = staticmethod(write_client_files)

    def __init__(self, run: RunDirectory, sweep: ExpandedSweep, shard: Shard, *, identity: str, tags: tuple[str, ...]) -> None:
        self._run = run
        self._sweep = sweep
        self._criterion = sweep.spec.criterion
        self._identity = identity
        self._tags = tags
        self._cells = {cell.cell_id: cell for cell in sweep.cells if shard.owns(cell.cell_id)}
        self._cell_of = {trial_id: cell.cell_id for cell in self._cells.values() for trial_id in cell.trials.trial_ids}
        self._states = {i: CellState(cell, self._criterion) for i, cell in self._cells.items()}
        self._logs = {cell_id: CellLog(run.wandb / "cells" / f"{cell_id}.jsonl") for cell_id in self._cells}
        self._closing = False
        self._offset = 0

    @property
    def ended_keys(self) -> set[str]:
        """The complete cells; at the end of a publication, all cells with a ledger line."""
        return {i for i, state in self._states.items() if state.is_complete or (self._closing and state.num_lines)}

    def read_on(self, *, closing: bool = False) -> set[str]:
        """Read the new lines of the ledger and add to the cells' logs; returns the ended runs that changed."""
        self._closing = closing
        records, self._offset = Ledger(self._run.ledger).follow(self._offset)
        changed = set()
        for record in records:
            if (cell_id := self._cell_of.get(record.trial_id)) is not None:
                changed.add(cell_id)
                is_due, completed = self._states[cell_id].take(record)
                if is_due:
                    self._write_rows(cell_id, completed)
        if closing:
            for cell_id in self.ended_keys:
                self._write_rows(cell_id, None)
            return self.ended_keys
        return changed & self.ended_keys

    def ended(self, keys: Collection[str]) -> list[RunProjection]:
        """The runs of ended cells, each with its threshold and its trials."""
        cells = [self._cells[cell_id] for cell_id in keys]
        results = read_results(self._run, replace(self._sweep, cells=tuple(cells))).records if cells else Outcomes.of(())
        thresholds: dict[str, list[WidthThreshold]] = {}
        for threshold in width_thresholds(results, self._criterion):
            thresholds.setdefault(threshold.cell_id, []).append(threshold)
        return [
            self._project(cell, cell_outcome(thresholds[cell.cell_id], is_complete=self._states[cell.cell_id].is_complete))
            for cell in cells
        ]

    def live(self) -> list[RunProjection]:
        """The runs of cells that are not complete."""
        return [self._project(self._cells[i], None) for i, log in self._logs.items() if log.rows and i not in self.ended_keys]

    def _write_rows(self, cell_id: str, completed: int | None) -> None:
        """Add the rows for the state of a cell to its log, unless an earlier publisher has."""
        state, log = self._states[cell_id], self._logs[cell_id]
        row = state.next_row()
        if state.num_lines > log.num_lines:
            curve = [] if completed is None else list(self._curve(state, completed))
            log.append([*curve, row])

    def _curve(self, state: "CellState", width: int) -> Iterator[Mapping[str, Any]]:
        """The median training curve of a width whose trials have all ended, a row a point."""
        best = state.best(width)
        curves = read_curves(self._run, best, ended_in={trial_id: ended.pack_id for trial_id, ended in best.items()})
        if measured := [curve for curve in curves.values() if len(curve[0])]:
            curve, key = median_curve(width, measured), f"training_loss/{self._criterion.size.letter}={width}"
            for step, loss in zip(curve.steps.tolist(), curve.losses.tolist(), strict=True):
                yield {"num_lines": state.num_lines, "step": step, key: loss}

    def _project(self, cell: Cell, outcome: Outcome | None) -> RunProjection:
        return RunProjection(
            key=cell.cell_id,
            run_id=f"{self._identity}-{cell.cell_id}",
            name=short(cell.label),
            group=short(cell.group),
            job_type=cell.trials[0].model.kind,
            tags=(*self._tags, "cell"),
            config=cell_config(cell, directory_id=self._identity),
            rows=self._logs[cell.cell_id].rows,
            outcome=outcome,
            axes=AXES,
        )


@dataclass(frozen=True)
class Ended:
    """How one trial ended; `judged` is what stands against the target. Both are inf where it diverged, nan where it failed."""

    lr: float
    relative_loss: float
    judged: float
    pack_id: str


class CellState:
    """The trials of a cell that have ended."""

    def __init__(self, cell: Cell, criterion: Criterion) -> None:
        trials = cell.trials
        self._criterion = criterion
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
        width = int(self._widths[place])
        known = record.trial_id in self._ended[width]
        missing = math.inf if record.status == "diverged" else math.nan
        numbers = record.relative_loss, judged_loss(record, self._criterion.metric)
        loss, judged = (missing if number is None else number for number in numbers)
        self._ended[width][record.trial_id] = Ended(float(self._rates[place]), loss, judged, record.pack_id)
        self._changed.add(width)
        self.num_lines += 1
        self._left[width] -= not known
        completed = width if not known and not self._left[width] else None
        return self.is_complete or completed is not None or self.num_lines % self._every == 0, completed

    def next_row(self) -> dict[str, Any]:
        """The row of the changes since the last one."""
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
        return own[min(sorted(own), key=lambda lr: _median([ended.judged for ended in own[lr].values()]))]

    def _of_width(self, width: int) -> Iterator[tuple[str, Any]]:
        best = self.best(width)
        losses = [ended.relative_loss for ended in best.values()]
        measured = [ended.judged for ended in best.values() if not math.isnan(ended.judged)]
        yield f"num_trials/{self._letter}={width}", len(self._ended[width])
        if measured:
            yield (
                f"success_rate/{self._letter}={width}",
                sum(own <= self._criterion.target for own in measured) / len(measured),
            )
        if math.isfinite(median := _median(losses)):
            yield f"relative_loss/{self._letter}={width}", median


def _median(losses: list[float]) -> float:
    """The median of the log losses, as a loss; a failed trial counts as the worst."""
    logs = [math.inf if math.isnan(loss) else math.log(max(loss, LEAST_LOSS)) for loss in losses]
    return math.exp(float(np.median(logs)))
