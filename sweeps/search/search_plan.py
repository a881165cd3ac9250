"""What the searches of a sweep will cost, as far as that is known beforehand: what they are expected to take, and the most."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sweeps.cells import SearchedCell, trial_operations
from sweeps.schema import SweepSpec
from sweeps.store import Results
from sweeps.thresholds import CellPoints, outcomes_by_cell, state_of

EXPECTED_POINTS = 24
"""Points after which half of all searches have ended, or more (docs/search.md)."""


@dataclass(frozen=True)
class SearchPlan:
    """One cell's search: points that have ended, and how many more are expected and possible, with their multiply-adds."""

    cell: SearchedCell
    num_done: int
    num_expected: int
    num_most: int
    expected_operations: float
    most_operations: float

    @property
    def model_steps(self) -> int:
        """Expected model-steps."""
        return self.num_expected * len(self.cell.rates) * self.cell.family.sample.training.steps


def plan_searches(spec: SweepSpec, results: Results) -> tuple[SearchPlan, ...]:
    """The plan of each searched cell, given what the ledger holds."""
    held = outcomes_by_cell(results.searched, results.records)
    return tuple(
        _plan(spec, cell, CellPoints.of(cell, held.get(cell.cell_id, results.records[:0]))) for cell in results.searched
    )


def _plan(spec: SweepSpec, cell: SearchedCell, points: CellPoints) -> SearchPlan:
    state = state_of(points, spec.criterion, spec.search)
    cap, batch, num = spec.search.cap, spec.search.batch, state.num_points
    expected, most = (0, 0) if state.finished else (max(min(EXPECTED_POINTS, cap) - num, 1), cap - num)
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
