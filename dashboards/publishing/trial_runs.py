"""The W&B runs of a sweep in which every trial has its own run, made from the ledger and the journals.

A trial counts for its cell's threshold as soon as it has ended, where the cell has one learning rate. Where it has several, the
rate of a width is chosen among all of them, which needs every declared trial of the cell to have ended; the runs of that cell
are then published once more, with that field and without a new row. The trials of a search are not declared beforehand: the
rounds that it asked for (`RUN/rounds.jsonl`) name them before they train.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

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
    trial_row,
)
from stsq_core.configs import Measurement, TrialConfig
from sweeps.cells import ExpandedSweep, Shard, cell_of, describe
from sweeps.store import (
    Ledger,
    LedgerRecord,
    RunDirectory,
    follow,
    follow_rounds,
    read_curves,
    read_metrics,
    trials_of_journal,
)
from sweeps.thresholds import width_thresholds

MAX_ROWS = 1000
"""Upper limit on the rows of a trial in W&B."""


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
        self._asked: dict[str, TrialConfig] = {}
        self._rounds_read = 0
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
        """Read the new lines of the ledger; returns the trials of this shard whose runs changed."""
        records, self._offset = Ledger(self._run.ledger).follow(self._offset)
        newest = {record.trial_id: record for record in records}
        self._records |= newest
        self._tails.forget(newest)
        for trial_id in newest:
            self._asked.pop(trial_id, None)
            self._started.pop(trial_id, None)
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
            counts = self._counts.get(record.trial_id)
            outcome = trial_outcome(record, criterion=self._criterion, counts=counts)
            projections.append(self._project(record.trial_config, tuple(kept), outcome))
        return projections

    def live(self) -> list[RunProjection]:
        """The runs of trials that are training now: declared ones, and points that a search asked for."""
        journals = self._tails.journals()  # first: a round is written before the journals of its trials
        self._read_rounds()
        self._tails.read_on(journals, self._is_wanted, self._is_settled)
        live = []
        for trial_id in self._tails.trial_ids:
            if trial_id not in self._started:
                config = self._config(trial_id)
                self._started[trial_id] = self._project(config, (), None), Thinning(config)
            run, thinning = self._started[trial_id]
            live.append(replace(run, rows=tuple(thinning.kept(self._tails.rows(trial_id), ended=False))))
        return live

    def _read_rounds(self) -> None:
        """Note the trials that searches asked for since the last look."""
        rounds, self._rounds_read = follow_rounds(self._run.rounds, self._rounds_read)
        for one in rounds:
            if one.points and (cell := self._searched.get(one.cell_id)) is not None:
                trials = cell.trials(one.points)
                for place, trial_id in enumerate(trials.trial_ids):
                    if trial_id not in self._records and self._shard.owns(trial_id):
                        self._asked[trial_id] = trials[place]

    def _is_wanted(self, trial_id: str) -> bool:
        is_known = trial_id in self._planned or trial_id in self._asked
        return is_known and trial_id not in self._records and self._shard.owns(trial_id)

    def _is_settled(self, trial_id: str) -> bool:
        """Whether it will never be wanted: it has ended, or belongs to another shard."""
        return trial_id in self._records or not self._shard.owns(trial_id)

    def _config(self, trial_id: str) -> TrialConfig:
        if trial_id in self._asked:
            return self._asked[trial_id]
        trials = self._planned[trial_id].trials
        return trials[trials.trial_ids.index(trial_id)]

    def _project(self, config: TrialConfig, rows: tuple[Row, ...], outcome: Outcome | None) -> RunProjection:
        size, planned = self._criterion.size, self._planned.get(config.trial_id)
        cell_id = cell_of(config, size) if planned is None else planned.cell_id
        cell = planned or self._cells.get(cell_id) or self._searched.get(cell_id)
        label, tags = describe(config) if cell is None else cell.label, self._tags
        return project_trial(
            config, rows, outcome, directory_id=self._identity, cell=label, cell_id=cell_id, tags=tags, size=size
        )

    def _is_of_one_rate(self, record: LedgerRecord) -> bool:
        """Whether it is a point of a searched cell with one learning rate, so that it counts as soon as it has ended."""
        if record.trial_id in self._planned:
            return False
        cell = self._searched.get(cell_of(record.trial_config, self._criterion.size))
        return cell is not None and len(cell.rates) == 1

    def _judge(self, cell_ids: Collection[str], newest: Collection[str]) -> set[str]:
        """Decide which trials of these cells count for the threshold, where that is known now; returns those that changed."""
        judged: dict[str, bool] = {}
        for cell in (self._cells[cell_id] for cell_id in cell_ids):
            left = self._left[cell.cell_id]
            left.difference_update(newest)
            if len(cell.rates) == 1:
                judged |= {i: self._records[i].status != "failed" for i in newest if self._planned.get(i) is cell}
            elif not left:
                records = [self._records[trial_id] for trial_id in cell.trials.trial_ids]
                (threshold,) = width_thresholds(records, self._criterion.each[0])
                points = threshold.points
                chosen = dict(zip(points.outcomes.trial_ids, points.chosen.tolist(), strict=True))
                judged |= {one.trial_id: chosen.get(one.trial_id, False) and one.status != "failed" for one in records}
        changed = {trial_id for trial_id, counts in judged.items() if self._counts.get(trial_id) != counts}
        self._counts |= judged
        return changed


class Thinning:
    """Which logged steps of a trial W&B is sent: at most `MAX_ROWS`, by a rule of the step alone, and always the last.

    A trial reports at the multiples of `training.report_steps`, at those of `evaluation.every`, and after its last step. Where
    that is more than `MAX_ROWS`, the multiples of a coarser stride are kept of each kind. Because the rule depends on the step
    alone, a stream, its continuation after a crash and a later replay keep the same rows.
    """

    def __init__(self, config: TrialConfig) -> None:
        steps, every = config.training.steps, config.evaluation.every
        strides = [config.training.report_steps, *([every] if every else [])]
        both = steps // math.lcm(*strides) + 1 if len(strides) > 1 else 0
        num_reported = sum(steps // stride + 1 for stride in strides) - both
        room = MAX_ROWS // len(strides) - 2  # without step 0 and the last step
        self._keeps_all = num_reported < MAX_ROWS
        self._steps = steps
        self._strides = tuple(stride * math.ceil(steps / stride / room) for stride in strides)

    def kept(self, rows: Iterable[Row], *, ended: bool) -> Iterator[Row]:
        """The rows that are sent; of a trial that has `ended` also the last row."""
        last = None
        for row in rows:
            is_kept = self._keeps_all or row.step >= self._steps or any(row.step % stride == 0 for stride in self._strides)
            last = None if is_kept else row
            if is_kept:
                yield row
        if ended and last is not None:
            yield last


class JournalTails:
    """The rows of trials that are training; each look at a journal begins where the last one ended.

    A pack that resumed from a checkpoint, or was formed again, repeats steps with the same numbers, because trials depend on
    their config alone. Such a step is taken once.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._offsets: dict[str, int] = {}
        self._over: set[str] = set()
        self._rows: dict[str, list[Row]] = {}

    def journals(self) -> list[Path]:
        """The journals that there are now."""
        return sorted(self._folder.glob("*.jsonl"))

    def read_on(self, journals: Iterable[Path], wanted: Callable[[str], bool], settled: Callable[[str], bool]) -> None:
        """Read what was written since the last look; a journal all of whose trials are `settled` is never opened again.

        Trials of which nothing is known yet are neither: their journals are looked at again.
        """
        for path in journals:
            if path.name in self._over:
                continue
            trial_ids = trials_of_journal(path)
            if trial_ids and not any(map(wanted, trial_ids)):
                if all(map(settled, trial_ids)):
                    self._over.add(path.name)
                continue
            measurements, self._offsets[path.name] = follow(path, self._offsets.get(path.name, 0))
            for measurement in measurements:
                self._take(measurement, wanted)

    def rows(self, trial_id: str) -> tuple[Row, ...]:
        """The rows of a trial so far, in order."""
        return tuple(self._rows.get(trial_id, ()))

    @property
    def trial_ids(self) -> tuple[str, ...]:
        """The trials with rows."""
        return tuple(self._rows)

    def forget(self, trial_ids: Iterable[str]) -> None:
        """Drop trials that have ended: their rows are read from their last pack's journal."""
        for trial_id in trial_ids:
            self._rows.pop(trial_id, None)

    def _take(self, measurement: Measurement, wanted: Callable[[str], bool]) -> None:
        for place, trial_id in enumerate(measurement.trial_ids):
            if not wanted(trial_id):
                continue
            rows = self._rows.setdefault(trial_id, [])
            if not rows or measurement.step > rows[-1].step:
                metrics = {name: values[place] for name, values in measurement.metrics.items()}
                rows.append(trial_row(measurement.step, measurement.relative_loss[place], metrics))
