"""How far the search of a cell has come, and what the rest of it will cost.

Computed from the points alone, so that the running search, the table and the page agree.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from sweeps.cells import SearchedCell, trial_operations
from sweeps.schema import Criterion, SearchSettings, SweepSpec
from sweeps.store import Results
from sweeps.thresholds.posterior import ThresholdPosterior
from sweeps.thresholds.search_points import CellPoints, outcomes_by_cell

StopReason = Literal["precise", "cap", "above_range", "below_range", "not_reached", "diverged", "failed", ""]

FAILED_ROUNDS = 2
"""Rounds in which points beyond all others failed, after which no more are asked there: one may have lost a worker."""

LEAST_TRIED = 8
"""So many points over the whole range without one loss end a search, however few are asked at a time."""

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
class Failed:
    """Widths [n] of failed points and the rounds [n] in which they were asked."""

    widths: np.ndarray
    rounds: np.ndarray


def posterior_of(
    widths: np.ndarray,
    log_losses: np.ndarray,
    failed: Failed,
    *,
    low: int,
    high: int,
    log_target: float,
    success_rate: float,
) -> ThresholdPosterior:
    """The posterior of points that gave evidence, over the range less the ends at which points fail.

    An end is left out when points beyond all those that ended well have failed in `FAILED_ROUNDS` rounds: no more are asked
    there, and none of it counts as tried.
    """
    least, most = low, high
    if len(widths):
        above, below = failed.widths > widths.max(), failed.widths < widths.min()
        if len(np.unique(failed.rounds[above])) >= FAILED_ROUNDS:
            most = max(int(failed.widths[above].min()) - 1, low)
        if len(np.unique(failed.rounds[below])) >= FAILED_ROUNDS:
            least = min(int(failed.widths[below].max()) + 1, most)
    return ThresholdPosterior(
        widths,
        log_losses,
        low=least,
        high=most,
        log_target=log_target,
        success_rate=success_rate,
        is_cut=most < high,
    )


def judge(
    posterior: ThresholdPosterior, *, num_failed: int, level: float, tolerance: float, batch: int, cap: int, offset: int = 0
) -> SearchState:
    """The state of a search with this posterior and so many failed points; arguments as of `stop_reason`."""
    reason = stop_reason(
        posterior, num_failed=num_failed, level=level, tolerance=tolerance, batch=batch, cap=cap, offset=offset
    )
    has_loss = bool(np.isfinite(posterior.log_losses).any())
    return SearchState(reason != "", reason, len(posterior.widths) + num_failed, posterior if has_loss else None)


def stop_reason(
    posterior: ThresholdPosterior, *, num_failed: int, level: float, tolerance: float, batch: int, cap: int, offset: int = 0
) -> StopReason:
    """Why a search may end; empty where it goes on.

    `below_range`: the threshold lies there as surely as the interval's `level` asks. `above_range` and `not_reached`: it is as
    sure that none lies within the range, no solved point stands alone, and it is clear whether the loss still falls at the
    upper end. `precise`: the interval's ends, less `offset` (the part of the width that is not searched, d of m = d + d_e), lie
    within `tolerance` of their middle, or one unit of width apart. `cap`: that many points have ended, failed ones among them.
    `diverged` and `failed`: a round over the whole range, of eight points or more, went without one loss.
    """
    num = len(posterior.widths) + num_failed
    if not np.isfinite(posterior.log_losses).any():
        # No width is to blame, and more rounds would bring no number.
        is_over = num >= min(max(batch, LEAST_TRIED), cap)
        return "" if not is_over else "diverged" if len(posterior.widths) else "failed"
    beyond = (1 + level) / 2
    if posterior.probability_below >= beyond:
        return "below_range"
    is_spent = num >= cap
    if posterior.probability_above + posterior.probability_not_reached >= beyond:
        is_clear = (posterior.trend != "unclear" or posterior.is_cut) and not len(posterior.lone_solved)
        standing = posterior.standing
        return standing if standing in ("above_range", "not_reached") and (is_spent or is_clear) else ""
    low, high = posterior.interval(level)
    is_bounded = math.isfinite(low) and math.isfinite(high) and posterior.probability_not_reached <= 1 - beyond
    if is_bounded:
        least, most = math.exp(low) - offset, math.exp(high) - offset
        if most - least <= 1 or most <= least * (1 + tolerance) ** 2:
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
