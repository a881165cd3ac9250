"""How far the search of a cell has come, and what the rest of it will cost.

Computed from the points alone, so that the running search, the table and the page agree.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sweeps.cells import SearchedCell, trial_operations
from sweeps.sampler import Failed, SearchState, judge, posterior_of
from sweeps.schema import Criterion, SearchSettings, SweepSpec
from sweeps.store import Results
from sweeps.thresholds.search_points import CellPoints, outcomes_by_cell

EXPECTED_POINTS = 24
"""Points after which half of all searches have ended, or more (docs/search.md)."""


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
    return judge(
        posterior,
        num_failed=len(failed.widths),
        level=criterion.level,
        tolerance=settings.tolerance,
        batch=settings.batch,
        cap=settings.cap,
        offset=points.cell.tolerance_offset(settings),
    )


def open_target(points: CellPoints, criterion: Criterion, settings: SearchSettings) -> tuple[Criterion, SearchState]:
    """The first target whose threshold is not known yet, with the state of its search; of a search that has ended, the last."""
    for one in criterion.each:
        state = state_of(points, one, settings)
        if not state.finished:
            break
    return one, state


@dataclass(frozen=True)
class SearchPlan:
    """One cell's search: points that have ended, and how many more are expected and possible, with their multiply-adds."""

    cell: SearchedCell
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


def plan_searches(spec: SweepSpec, results: Results) -> tuple[SearchPlan, ...]:
    """The plan of each searched cell, given what the ledger holds."""
    held = outcomes_by_cell(results.searched, results.records.judged_by(spec.criterion.metric))
    return tuple(
        _plan(spec, cell, CellPoints.of(cell, held.get(cell.cell_id, results.records[:0]))) for cell in results.searched
    )


def _plan(spec: SweepSpec, cell: SearchedCell, points: CellPoints) -> SearchPlan:
    states = [state_of(points, one, spec.search) for one in spec.criterion.each]
    cap, batch, num = spec.search.cap, spec.search.batch, states[0].num_points
    num_open, expected, most = sum(not state.finished for state in states), 0, 0
    if num_open:  # further targets share the points of the first
        expected, most = min(max(min(EXPECTED_POINTS, cap) - num, 1) + batch * (num_open - 1), cap - num), cap - num
    first = list(cell.even_widths(batch)) if num < batch else []
    middle = _middle(points)
    return SearchPlan(
        cell=cell,
        num_done=num,
        num_expected=expected,
        num_most=most,
        expected_operations=_operations(cell, [*first, *[middle] * (expected - len(first))][:expected]),
        most_operations=_operations(cell, [cell.high] * most),
    )


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
