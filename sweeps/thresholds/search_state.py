"""How far the search of a cell has come, and what the rest of it will cost.

Computed from the points alone, so that the running search, the table and the page agree.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sweeps.cells import SearchedCell, trial_operations
from sweeps.schema import Criterion, SearchSettings, SweepSpec
from sweeps.store import Results
from sweeps.thresholds.posterior import ThresholdPosterior
from sweeps.thresholds.search_points import CellPoints, outcomes_by_cell

StopReason = Literal["precise", "cap", "above_range", "below_range", "not_reached", "diverged", "failed", ""]

EXPECTED_POINTS = 24
"""Points after which half of all searches have ended, or more (docs/search.md)."""


@dataclass(frozen=True)
class SearchState:
    """`reason` says why a search has finished: its interval is as narrow as asked (`precise`), its budget of points is spent
    (`cap`), the threshold lies beyond its range, the loss turned or never moved short of the target (`not_reached`), or every
    point diverged or failed. `posterior` is None where no point is evidence.
    """

    finished: bool
    reason: StopReason
    num_points: int
    posterior: ThresholdPosterior | None


def state_of(points: CellPoints, criterion: Criterion, settings: SearchSettings) -> SearchState:
    """The state of a cell's search, no point of which is in flight."""
    num, evidence = points.num_complete, points.evidence
    losses = points.judged[evidence]
    if not np.isfinite(losses).any():
        # A round over the whole range without one loss: no width is to blame, and more rounds would bring no number.
        is_over = num >= settings.batch
        return SearchState(is_over, "" if not is_over else "diverged" if len(losses) else "failed", num, None)
    posterior = ThresholdPosterior(
        points.widths[evidence],
        losses,
        low=points.cell.low,
        high=points.cell.high,
        log_target=math.log(criterion.target_loss),
        success_rate=criterion.success_rate,
    )
    reason: StopReason = stop_reason(posterior, level=criterion.level, tolerance=settings.tolerance, cap=settings.cap)
    if not reason and num >= settings.cap:
        reason = "cap"  # failed points are no evidence, and cost as much
    return SearchState(reason != "", reason, num, posterior)


def stop_reason(posterior: ThresholdPosterior, *, level: float, tolerance: float, cap: int) -> StopReason:
    """Why a search may end; empty where it goes on.

    `below_range`: the threshold lies there as surely as the interval's `level` asks. `above_range` and `not_reached`: it is as
    sure that none lies within the range, and clear whether the loss still falls at its upper end. `precise`: the interval's
    ends lie within `tolerance` of its middle, or one unit of width apart. `cap`: that many points have ended.
    """
    beyond = (1 + level) / 2
    if posterior.probability_below >= beyond:
        return "below_range"
    is_spent = len(posterior.widths) >= cap
    if posterior.probability_above + posterior.probability_not_reached >= beyond:
        if posterior.trend != "unclear" or is_spent:
            return "above_range" if posterior.standing == "above_range" else "not_reached"
        return ""
    low, high = posterior.interval(level)
    is_bounded = math.isfinite(low) and math.isfinite(high) and posterior.probability_not_reached <= 1 - beyond
    if is_bounded and (high - low <= 2 * math.log1p(tolerance) or math.exp(high) - math.exp(low) <= 1):
        return "precise"
    return "cap" if is_spent else ""


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
