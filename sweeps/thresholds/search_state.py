"""How far the search of a cell has come, and what the rest of it will cost.

Computed from the points alone, so that the running search, the table and the page agree.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sweeps.cells import SearchedCell, trial_operations
from sweeps.sampler import Failed, SearchState, StopRule, judge, posterior_of
from sweeps.schedule import Ahead
from sweeps.schema import Criterion, SearchSettings, SweepSpec
from sweeps.store import Results
from sweeps.thresholds.search_points import CellPoints, outcomes_by_cell

EXPECTED_ROUNDS = 2
"""Rounds after which a search of trials that learn well has ended, as all of the sweep width_vs_T have (docs/search.md)."""

NEAR, WIDE_ROUNDS = 3.5, 2
"""After a round of simulated searches, half of those whose interval is at most so many times too long end with the next round,
and half of the others after so many."""


def state_of(points: CellPoints, criterion: Criterion, settings: SearchSettings) -> SearchState:
    """The state of a cell's search, no point of which is in flight."""
    evidence = points.evidence
    is_failed = points.complete & ~evidence
    failed = Failed(points.widths[is_failed], points.rounds(batch=settings.batch, seed=settings.seed)[is_failed])
    posterior = posterior_of(
        points.widths[evidence],
        points.judged[evidence],
        failed,
        low=points.cell.low,
        high=points.cell.high,
        log_target=math.log(criterion.target),
        success_rate=criterion.success_rate,
    )
    rule = StopRule(criterion.level, settings.tolerance, settings.batch, settings.cap, points.cell.tolerance_offset(settings))
    return judge(posterior, rule, num_failed=len(failed.widths))


def open_target(points: CellPoints, criterion: Criterion, settings: SearchSettings) -> tuple[Criterion, SearchState]:
    """The first target whose threshold is not known yet, with the state of its search; of a search that has ended, the last."""
    for one in criterion.each:
        state = state_of(points, one, settings)
        if not state.finished:
            break
    return one, state


@dataclass(frozen=True)
class SearchPlan:
    """One cell's search: points that have ended, and how many more are expected and possible, with their multiply-adds.

    `middle` is a width about which most points will lie.
    """

    cell: SearchedCell
    batch: int
    middle: int
    num_done: int
    num_expected: int
    num_most: int
    expected_operations: float
    most_operations: float

    def scaled(self, most: int, expected: int) -> "SearchPlan":
        """With so many more points possible and expected, the latter at the middle of the range."""
        middle = _operations(self.cell, [round(math.sqrt(self.cell.low * self.cell.high))])
        return replace(
            self,
            num_expected=expected,
            num_most=most,
            expected_operations=expected * middle,
            most_operations=most * _operations(self.cell, [self.cell.high]),
        )

    @property
    def model_steps(self) -> int:
        """Expected model-steps."""
        return self.num_expected * len(self.cell.rates) * self.cell.family.sample.training.steps

    def ahead(self, num: int) -> Ahead:
        """So many points that are asked for later, in rounds."""
        operations = num * _operations(self.cell, [self.middle])
        return Ahead((self.cell.cell_id,), num * len(self.cell.rates), math.ceil(num / self.batch), operations)


def plan_searches(spec: SweepSpec, results: Results) -> tuple[SearchPlan, ...]:
    """The plan of each searched cell, given what the ledger holds."""
    held = outcomes_by_cell(results.searched, results.records.judged_by(spec.criterion.metric))
    points = (CellPoints.of(cell, held.get(cell.cell_id, results.records[:0])) for cell in results.searched)
    return tuple(plan_of(one, spec, *open_target(one, spec.criterion, spec.search)) for one in points)


def plan_of(points: CellPoints, spec: SweepSpec, criterion: Criterion, state: SearchState) -> SearchPlan:
    """The plan of one cell: its first open target and the state of that (`open_target`)."""
    cell, cap, batch, num = points.cell, spec.search.cap, spec.search.batch, state.num_points
    most = 0 if state.finished else cap - num
    num_later = len(spec.criterion.each) - 1 - spec.criterion.each.index(criterion)  # they share the points of the first
    expected = 0 if state.finished else min(_points_ahead(cell, state, spec) + batch * num_later, most)
    first, middle = list(cell.even_widths(batch)) if num < batch else [], _middle(points)
    return SearchPlan(
        cell=cell,
        batch=batch,
        middle=middle,
        num_done=num,
        num_expected=expected,
        num_most=most,
        expected_operations=_operations(cell, [*first, *[middle] * (expected - len(first))][:expected]),
        most_operations=_operations(cell, [cell.high] * most),
    )


def _points_ahead(cell: SearchedCell, state: SearchState, spec: SweepSpec) -> int:
    """How many more points a search that goes on is expected to take: `EXPECTED_ROUNDS`; after the first of them one
    round where the interval of log m* is nearly as short as asked, else `WIDE_ROUNDS`.
    """
    settings = spec.search
    if state.num_points < settings.batch:
        return EXPECTED_ROUNDS * settings.batch - state.num_points
    low, high = state.posterior.interval(spec.criterion.level) if state.posterior is not None else (-math.inf, math.inf)
    least, most = (math.exp(min(end, 700.0)) - cell.tolerance_offset(settings) for end in (low, high))
    goal = max(2 * math.log1p(settings.tolerance), 2 / (least + most)) if least > 0 else 0.0
    is_near = least > 0 and math.log(most / least) <= NEAR * goal
    return settings.batch * (1 if is_near else WIDE_ROUNDS)


def _middle(points: CellPoints) -> int:
    """Where most points will lie: about the estimate, or the middle of the range in log width before there is one."""
    if points.num_complete:
        return int(np.median(points.widths))
    return round(math.sqrt(points.cell.low * points.cell.high))


def _operations(cell: SearchedCell, widths: Sequence[int]) -> float:
    """Multiply-adds of points at these widths."""
    if not widths:
        return 0.0
    return trial_operations(cell.trials([(width, seed) for seed, width in enumerate(widths)]))
