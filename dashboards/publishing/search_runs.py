"""The W&B run of each searched cell: how the interval of its threshold narrows as the rounds of its search end.

It has one in either form of the sweep, beside its trials' runs or in their place. A round ends with the last of the points that
it asked for (`RUN/rounds.jsonl`). Its row has the threshold that the points so far give, and is a function of the ledger's
lines up to there, so that a restarted publisher makes the same rows. Summary and table come when the search has ended.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dashboards.publishing.cell_log import CellLog
from dashboards.publishing.cell_outcome import cell_outcome
from dashboards.publishing.client import MAX_OPEN_RUNS, write_client_files
from dashboards.publishing.files import Target
from dashboards.publishing.form import Form
from dashboards.publishing.keys import NUM_POINTS, search_keys, searched_config
from dashboards.publishing.projection import Outcome, RunProjection, short
from dashboards.publishing.replay import Runs
from sweeps.cells import ExpandedSweep, SearchedCell, Shard
from sweeps.laws import unfinished_cells
from sweeps.schema import SweepSpec
from sweeps.store import FAILED, Ledger, Outcomes, RunDirectory, follow_rounds
from sweeps.thresholds import WidthThreshold, outcomes_by_cell, searched_threshold

AXES = {"search/*": NUM_POINTS}

MAX_LIVE = MAX_OPEN_RUNS // 2
"""Upper limit on the runs of searches that go on, which leaves room for those of trials."""


class SearchRuns:
    """The runs of one shard; `read_on` first, then `ended` and `live`."""

    write_offline = staticmethod(write_client_files)

    def __init__(
        self, run: RunDirectory, sweep: ExpandedSweep, shard: Shard, *, identity: str, tags: tuple[str, ...], form: Form
    ) -> None:
        self._run = run
        self._spec = sweep.spec
        self._searched = sweep.searched
        self._identity = identity
        self._tags = tags
        self._form = form
        self._own = {cell.cell_id for cell in sweep.searched if shard.owns(cell.cell_id)}
        # where laws decide, whether a search has ended follows from all cells
        needed = (
            sweep.searched if sweep.spec.search.decide is not None else [c for c in sweep.searched if c.cell_id in self._own]
        )
        self._states = {cell.cell_id: SearchedState(cell, sweep.spec) for cell in needed}
        self._logs = {cell_id: CellLog(run.wandb / "cells" / f"{cell_id}.jsonl") for cell_id in self._own}
        self._ended: set[str] = set()
        self._is_closing = False
        self._offset = self._rounds_read = 0

    @property
    def ended_keys(self) -> set[str]:
        """The cells whose search has ended; at the end of a publication, all cells with a point."""
        return {i for i in self._own if self._states[i].num_lines and (self._is_closing or i in self._ended)}

    def holds(self, key: str) -> bool:
        """Whether this is the key of one of these runs."""
        return key in self._own

    def read_on(self, *, closing: bool = False) -> set[str]:
        """Read the new lines of the ledger and add to the cells' logs; returns the ended runs that changed."""
        self._is_closing = closing
        records, self._offset = Ledger(self._run.ledger).follow(self._offset)
        rounds, self._rounds_read = follow_rounds(self._run.rounds, self._rounds_read)  # second: they precede their trials
        for one in rounds:
            if (state := self._states.get(one.cell_id)) is not None and one.points:
                state.rounds.append(frozenset(one.points))
        changed = outcomes_by_cell([state.cell for state in self._states.values()], records)
        for cell_id, outcomes in changed.items():
            for num_lines in self._states[cell_id].take(outcomes):
                self._write_row(cell_id, num_lines)
        self._note_ended(changed)
        if not closing:
            return changed.keys() & self.ended_keys
        for cell_id in self.ended_keys:
            self._write_row(cell_id, self._states[cell_id].num_lines)
        return self.ended_keys

    def ended(self, keys: Collection[str]) -> list[RunProjection]:
        """The runs of searches that have ended, each with its threshold and its trials."""
        return [
            self._project(
                self._states[i].cell, cell_outcome(self._states[i].thresholds(), is_complete=i in self._ended)
            )
            for i in keys
        ]  # fmt: skip

    def live(self) -> list[RunProjection]:
        """The runs of searches that go on."""
        ended = self.ended_keys
        going_on = [i for i, log in self._logs.items() if log.rows and i not in ended]
        return [self._project(self._states[i].cell, None) for i in going_on[:MAX_LIVE]]

    def _note_ended(self, changed: Iterable[str]) -> None:
        """Note which searches have ended; where laws decide, that is looked at when the sweep has ended."""
        if self._spec.search.decide is None:
            for cell_id in changed:
                state = self._states[cell_id]
                (self._ended.add if state.is_between_rounds and state.is_over else self._ended.discard)(cell_id)
        if self._is_closing:
            begun = [state for state in self._states.values() if state.num_lines]
            thresholds = [threshold for state in begun for threshold in state.thresholds()]
            cells = [state.cell for state in self._states.values()]
            self._ended = {state.cell.cell_id for state in begun} - unfinished_cells(self._spec, cells, thresholds)

    def _write_row(self, cell_id: str, num_lines: int) -> None:
        """Add the row for the state of a cell to its log, unless an earlier publisher has."""
        log = self._logs.get(cell_id)
        if log is not None and num_lines > log.num_lines:
            log.append([self._states[cell_id].row(num_lines)])

    def _project(self, cell: SearchedCell, outcome: Outcome | None) -> RunProjection:
        return RunProjection(
            key=cell.cell_id,
            run_id=f"{self._identity}-{cell.cell_id}",
            name=short(cell.label),
            group=short(cell.label if self._form == "trial" else cell.group),
            job_type=cell.family.sample.model.kind,
            tags=(*self._tags, "cell", "search"),
            config=searched_config(cell, directory_id=self._identity),
            rows=self._logs[cell.cell_id].rows,
            outcome=outcome,
            axes=AXES,
        )


class SearchedState:
    """The points of a searched cell that have ended, and the rounds that asked for them."""

    def __init__(self, cell: SearchedCell, spec: SweepSpec) -> None:
        self.cell = cell
        self.rounds: list[frozenset[tuple[int, int]]] = []
        self._spec = spec
        self._num_over = 0
        self._rates: dict[tuple[int, int], set[float]] = {}
        self._complete: set[tuple[int, int]] = set()
        self._lines = Outcomes.of((), cell.family.size)
        self._known: tuple[int, tuple[WidthThreshold, ...]] = (0, ())
        self._last_end = 0

    @property
    def num_lines(self) -> int:
        """Lines of the ledger that are about points of this cell."""
        return len(self._lines)

    @property
    def is_between_rounds(self) -> bool:
        """Whether nothing has ended since the last round did."""
        return self._last_end == self.num_lines

    @property
    def is_over(self) -> bool:
        """Whether the threshold of every target is known, or its search was given up."""
        return all(one.search is not None and one.search.finished for one in self.thresholds())

    def take(self, outcomes: Outcomes) -> list[int]:
        """Take outcomes in the ledger's order; returns the numbers of lines after which a round had ended."""
        trials = outcomes.trials
        own = (trials.widths >= self.cell.low) & (trials.widths <= self.cell.high) & np.isin(trials.rates, self.cell.rates)
        taken, before, ends = outcomes.take(own), self.num_lines, []
        columns = (taken.trials.widths, taken.trials.seeds, taken.trials.rates)
        for place, (width, seed, rate) in enumerate(zip(*(column.tolist() for column in columns), strict=True), start=1):
            point = width, seed
            rates = self._rates.setdefault(point, set())
            rates.add(rate)
            if point not in self._complete and len(rates) == len(self.cell.rates):
                self._complete.add(point)
                if self._ends_round():
                    ends.append(before + place)
        self._lines = Outcomes.joined([self._lines, taken]) if before else taken
        self._last_end = ends[-1] if ends else self._last_end
        return ends

    def row(self, num_lines: int) -> dict[str, Any]:
        """The row for the state after so many lines: the threshold and its interval, as far as they are known."""
        thresholds = self.thresholds(num_lines)
        row: dict[str, Any] = {"num_lines": num_lines}
        for one in thresholds:
            names = search_keys(one.size, target=one.target_loss if len(thresholds) > 1 else None)
            numbers = zip(names, (one.m_star, one.low, one.high), strict=True)
            row |= {name: number for name, number in numbers if number is not None}
        state = thresholds[0].search
        assert state is not None
        return row | {NUM_POINTS: state.num_points, "num_ended": thresholds[0].num_trials}

    def thresholds(self, num_lines: int | None = None) -> tuple[WidthThreshold, ...]:
        """The threshold of each target after so many lines, by default all."""
        num_lines = self.num_lines if num_lines is None else num_lines
        if self._known[0] != num_lines:
            criterion, settings = self._spec.criterion, self._spec.search
            outcomes = _newest(self._lines[:num_lines]).judged_by(criterion.metric)
            found = (searched_threshold(self.cell, self.cell.label, outcomes, one, settings) for one in criterion.each)
            self._known = num_lines, tuple(found)
        return self._known[1]

    def _ends_round(self) -> bool:
        """Whether a round has ended with the newest point; where none is known (old directories) every batch is one."""
        if not self.rounds:
            return len(self._complete) % self._spec.search.batch == 0
        over = [place for place in range(self._num_over, len(self.rounds)) if self.rounds[place] <= self._complete]
        if not over:
            return False
        self._num_over = over[-1] + 1
        return True


def _newest(lines: Outcomes) -> Outcomes:
    """The newest line of each trial; a failure does not replace a result."""
    places: dict[str, int] = {}
    for place, (trial_id, status) in enumerate(zip(lines.trial_ids, lines.status.tolist(), strict=True)):
        if trial_id not in places or status != FAILED or lines.status[places[trial_id]] == FAILED:
            places[trial_id] = place
    return lines.take(np.array([*places.values()], dtype=np.int64))


class JoinedRuns:
    """The runs of trials or of grids' cells, and those of searched cells."""

    def __init__(self, first: Runs, searches: SearchRuns) -> None:
        self._first = first
        self._searches = searches

    @property
    def ended_keys(self) -> set[str]:
        """The runs that have ended."""
        return {*self._first.ended_keys, *self._searches.ended_keys}

    def read_on(self, *, closing: bool = False) -> set[str]:
        """Read new results; returns the ended runs that changed."""
        return self._first.read_on(closing=closing) | self._searches.read_on(closing=closing)

    def ended(self, keys: Collection[str]) -> list[RunProjection]:
        """Ended runs as they are now."""
        own = [key for key in keys if self._searches.holds(key)]
        others = [key for key in keys if not self._searches.holds(key)]
        return [*self._first.ended(others), *self._searches.ended(own)]

    def live(self) -> list[RunProjection]:
        """Runs that are not complete."""
        return [*self._first.live(), *self._searches.live()]

    def write_offline(self, projections: Sequence[RunProjection], target: Target) -> Mapping[str, Path]:
        """Write ended runs as offline files; returns these by key."""
        own = [one for one in projections if self._searches.holds(one.key)]
        others = [one for one in projections if not self._searches.holds(one.key)]
        files = dict(self._first.write_offline(others, target)) if others else {}
        return files | dict(self._searches.write_offline(own, target)) if own else files
