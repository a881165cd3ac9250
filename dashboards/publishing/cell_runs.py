"""The W&B runs of a large sweep: one run a cell, with a series a width and a table of the trials.

So a sweep of 100,000 trials makes as many runs as it has cells, and stays within W&B's rate limits. The history is the cell's
log (`cell_log`), which grows as trials end and is never rewritten; summary and table come when the cell is complete, or when
the publisher ends.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from dashboards.plots import median_curve
from dashboards.publishing.cell_log import CellLog
from dashboards.publishing.cell_state import CellState, curve_rows
from dashboards.publishing.client import INTERRUPTED, write_client_files
from dashboards.publishing.keys import cell_config
from dashboards.publishing.projection import Outcome, RunProjection, Table, short
from dashboards.publishing.shards import Shard
from sweeps.cells import Cell, ExpandedSweep
from sweeps.store import Ledger, Outcomes, RunDirectory, read_curves, read_results
from sweeps.thresholds import WidthThreshold, width_thresholds

AXES = {
    "training_loss/*": "step",
    "relative_loss/*": "num_ended",
    "success_rate/*": "num_ended",
    "num_trials/*": "num_ended",
}
COLUMNS = ("trial_id", "m", "lr", "seed", "status", "relative_loss", "relative_loss_stderr", "solved", "counts_for_threshold")
MAX_TABLE_ROWS = 10_000
"""The most rows of a table that W&B shows; of a larger cell the table has the trials of least width."""


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
        self._states = {i: CellState(cell, self._criterion.target_loss) for i, cell in self._cells.items()}
        self._logs = {cell_id: CellLog(run.wandb / "cells" / f"{cell_id}.jsonl") for cell_id in self._cells}
        self._closing = False
        self._offset = 0

    @property
    def ended_keys(self) -> set[str]:
        """The cells that are complete; at the end of a publication all of which anything is known."""
        return {i for i, state in self._states.items() if state.is_complete or (self._closing and state.num_lines)}

    def read_on(self, *, closing: bool = False) -> set[str]:
        """Take what the ledger has got since, and tell it in the cells' logs; returns the ended runs that changed."""
        self._closing = closing
        records, self._offset = Ledger(self._run.ledger).follow(self._offset)
        changed = set()
        for record in records:
            if (cell_id := self._cell_of.get(record.trial_id)) is not None:
                changed.add(cell_id)
                is_due, completed = self._states[cell_id].take(record)
                if is_due:
                    self._tell(cell_id, completed)
        if closing:
            for cell_id in self.ended_keys:
                self._tell(cell_id, None)
            return self.ended_keys
        return changed & self.ended_keys

    def ended(self, keys: Collection[str]) -> list[RunProjection]:
        """The runs of ended cells, each with its threshold and its trials."""
        cells = [self._cells[cell_id] for cell_id in keys]
        results = read_results(self._run, replace(self._sweep, cells=tuple(cells))).records if cells else Outcomes.of(())
        thresholds = {threshold.cell_id: threshold for threshold in width_thresholds(results, self._criterion)}
        return [self._project(cell, self._outcome(cell.cell_id, thresholds[cell.cell_id])) for cell in cells]

    def live(self) -> list[RunProjection]:
        """The runs of cells of which something is known and more is to come."""
        return [self._project(self._cells[i], None) for i, log in self._logs.items() if log.rows and i not in self.ended_keys]

    def _tell(self, cell_id: str, completed: int | None) -> None:
        """Add the rows for the state of a cell to its log, unless an earlier publisher has."""
        state, log = self._states[cell_id], self._logs[cell_id]
        row = state.told()
        if state.num_lines > log.num_lines:
            curve = [] if completed is None else list(self._curve(state, completed))
            log.append([*curve, row])

    def _curve(self, state: CellState, width: int) -> Iterator[Mapping[str, Any]]:
        best = state.best(width)
        curves = read_curves(self._run, best, ended_in={trial_id: ended.pack_id for trial_id, ended in best.items()})
        if told := [curve for curve in curves.values() if len(curve[0])]:
            curve = median_curve(width, told)
            yield from curve_rows(width, curve.steps, curve.losses, state.num_lines, letter=self._criterion.size.letter)

    def _project(self, cell: Cell, outcome: Outcome | None) -> RunProjection:
        config = cell.trials[0]
        told = cell_config(cell, directory_id=self._identity)
        return RunProjection(
            key=cell.cell_id,
            run_id=f"{self._identity}-{cell.cell_id}",
            name=short(cell.label),
            group=short(cell.group),
            job_type=config.model.kind,
            tags=(*self._tags, "cell"),
            config=told,
            rows=self._logs[cell.cell_id].rows,
            outcome=outcome,
            axes=AXES,
        )

    def _outcome(self, cell_id: str, threshold: WidthThreshold) -> Outcome:
        is_complete = self._states[cell_id].is_complete
        points, target = threshold.points, threshold.target_loss
        summary = {
            "status": threshold.status if is_complete else "interrupted",
            "M": threshold.M,
            "m_star": threshold.m_star,
            "low": threshold.low,
            "high": threshold.high,
            "level": threshold.level,
            "target_loss": target,
            "num_ended": threshold.num_trials,
            "num_solved": int((points.outcomes.relative_loss <= target).sum()),
            "num_diverged": threshold.num_diverged,
            "num_failed": threshold.num_failed,
        }
        failed = 1 if threshold.num_failed else 0
        last = max(datetime.fromisoformat(text).timestamp() for text in points.outcomes.finished_at.tolist())
        columns = tuple(threshold.size.letter if name == "m" else name for name in COLUMNS)
        tables = {"trials": Table(columns, tuple(_rows(threshold)))}
        return Outcome(summary, failed if is_complete else INTERRUPTED, last, tables)


def _rows(threshold: WidthThreshold) -> Iterator[tuple[Any, ...]]:
    for point in threshold.points[:MAX_TABLE_ROWS]:
        loss = point.relative_loss
        solved = None if point.status == "failed" else loss is not None and loss <= threshold.target_loss
        counts = point.chosen and point.status != "failed"
        yield (
            point.trial_id, point.width, point.lr, point.seed, point.status, loss, point.relative_loss_stderr, solved, counts,
        )  # fmt: skip
