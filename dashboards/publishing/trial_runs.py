"""The W&B runs of a sweep in which every trial has a run of its own, as the ledger and the journals tell them.

Whether a trial counts for its cell's threshold is known at once where the cell has one learning rate. Where it has several,
the rate of a width is chosen among all of them, so it is known once every declared trial of the cell has ended; the runs of
that cell are then published once more, with the answer and without a new row. The trials of a search are not declared
beforehand: their runs appear when they have ended.
"""

from collections.abc import Collection
from dataclasses import replace

from dashboards.publishing.client import trial_writer
from dashboards.publishing.projection import (
    NO_CURVE,
    NO_METRICS,
    Outcome,
    Row,
    RunProjection,
    project_trial,
    rows_of,
    trial_outcome,
)
from dashboards.publishing.shards import Shard
from dashboards.publishing.tails import JournalTails
from dashboards.publishing.thinning import Thinning
from stsq_core.configs import TrialConfig
from sweeps.cells import Cell, ExpandedSweep, cell_of, describe
from sweeps.store import Ledger, LedgerRecord, RunDirectory, read_curves, read_metrics
from sweeps.thresholds import width_thresholds


class TrialRuns:
    """The runs of one shard; `read_on` first, then `ended` and `live`."""

    def __init__(self, run: RunDirectory, sweep: ExpandedSweep, shard: Shard, *, identity: str, tags: tuple[str, ...]) -> None:
        self.write_offline = trial_writer()
        self._run = run
        self._criterion = sweep.spec.criterion
        self._shard = shard
        self._identity = identity
        self._tags = tags
        self._cells = {cell.cell_id: cell for cell in sweep.cells}
        self._planned = {trial_id: cell for cell in sweep.cells for trial_id in cell.trials.trial_ids}
        self._left = {cell.cell_id: set(cell.trials.trial_ids) for cell in sweep.cells}
        self._searched = {cell.cell_id: cell for cell in sweep.searched}
        self._records: dict[str, LedgerRecord] = {}
        self._counts: dict[str, bool] = {}
        self._tails = JournalTails(run.curves)
        self._started: dict[str, tuple[RunProjection, Thinning]] = {}
        self._offset = 0

    @property
    def ended_keys(self) -> set[str]:
        """The trials of this shard that have ended."""
        return {trial_id for trial_id in self._records if self._shard.owns(trial_id)}

    def read_on(self, *, closing: bool = False) -> set[str]:
        """Take what the ledger has got since; returns the trials of this shard whose runs changed."""
        records, self._offset = Ledger(self._run.ledger).follow(self._offset)
        newest = {record.trial_id: record for record in records}
        self._records |= newest
        self._tails.forget(newest)
        self._counts |= {i: newest[i].status != "failed" for i in newest if self._is_of_one_rate(newest[i])}
        changed = set(newest) | self._judge({self._planned[i].cell_id for i in newest if i in self._planned}, newest)
        return {trial_id for trial_id in changed if self._shard.owns(trial_id)}

    def ended(self, keys: Collection[str]) -> list[RunProjection]:
        """The runs of ended trials, with rows from the journals of the packs in which they ended."""
        records = [self._records[trial_id] for trial_id in keys]
        ended_in = {record.trial_id: record.pack_id for record in records}
        curves = read_curves(self._run, keys, ended_in=ended_in) if keys else {}
        evaluated = [record.trial_id for record in records if record.trial_config.evaluation.has_metrics]
        metrics = read_metrics(self._run, evaluated, ended_in=ended_in) if evaluated else {}
        projections = []
        for record in records:
            rows = rows_of(curves.get(record.trial_id, NO_CURVE), metrics.get(record.trial_id, NO_METRICS))
            kept = Thinning(record.trial_config).kept(rows, ended=True)
            projections.append(self._project(record.trial_config, tuple(kept), self._outcome(record)))
        return projections

    def live(self) -> list[RunProjection]:
        """The runs of declared trials that are training now."""
        self._tails.read_on(lambda i: i in self._planned and i not in self._records and self._shard.owns(i))
        live = []
        for trial_id in self._tails.trial_ids:
            run, thinning = self._started.get(trial_id) or self._start(trial_id)
            kept = thinning.kept(self._tails.rows(trial_id), ended=False)
            live.append(replace(run, rows=tuple(kept)))
        return live

    def _start(self, trial_id: str) -> tuple[RunProjection, Thinning]:
        """The run of a trial before its first row, and which rows it is to have."""
        trials = self._planned[trial_id].trials
        config = trials[trials.trial_ids.index(trial_id)]
        self._started[trial_id] = self._project(config, (), None), Thinning(config)
        return self._started[trial_id]

    def _project(self, config: TrialConfig, rows: tuple[Row, ...], outcome: Outcome | None) -> RunProjection:
        cell_id = cell_of(config, self._criterion.size)
        cell = self._cells.get(cell_id) or self._searched.get(cell_id)
        label = describe(config) if cell is None else cell.label
        size = self._criterion.size
        return project_trial(config, rows, outcome, directory_id=self._identity, cell=label, tags=self._tags, size=size)

    def _outcome(self, record: LedgerRecord) -> Outcome:
        counts = self._counts.get(record.trial_id)
        return trial_outcome(record, target_loss=self._criterion.target_loss, counts=counts)

    def _is_of_one_rate(self, record: LedgerRecord) -> bool:
        """Whether it is a point of a searched cell with one learning rate, so that it counts as soon as it has ended."""
        cell = (
            None if record.trial_id in self._planned else self._searched.get(cell_of(record.trial_config, self._criterion.size))
        )
        return cell is not None and len(cell.rates) == 1

    def _judge(self, cell_ids: Collection[str], newest: Collection[str]) -> set[str]:
        """Say which trials of these cells count for the threshold, where that is known now; returns those newly judged."""
        judged: dict[str, bool] = {}
        for cell in (self._cells[cell_id] for cell_id in cell_ids):
            left = self._left[cell.cell_id]
            left.difference_update(newest)
            if len(cell.rates) == 1:
                own = [trial_id for trial_id in newest if self._planned.get(trial_id) is cell]
                judged |= {trial_id: self._records[trial_id].status != "failed" for trial_id in own}
            elif not left:
                judged |= self._chosen(cell)
        told = {trial_id for trial_id, counts in judged.items() if self._counts.get(trial_id) != counts}
        self._counts |= judged
        return told

    def _chosen(self, cell: Cell) -> dict[str, bool]:
        records = [self._records[trial_id] for trial_id in cell.trials.trial_ids]
        (threshold,) = width_thresholds(records, self._criterion)
        points = threshold.points
        chosen = dict(zip(points.outcomes.trial_ids, points.chosen.tolist(), strict=True))
        return {i: chosen.get(i, False) and self._records[i].status != "failed" for i in cell.trials.trial_ids}
