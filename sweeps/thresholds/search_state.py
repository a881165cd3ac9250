"""How far the search of a cell has come: what its points say of the threshold, and whether more would be asked for.

Computed from the points alone, so that the running search, the table and the page agree.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sweeps.schema import Criterion, SearchSettings
from sweeps.thresholds.posterior import ThresholdPosterior
from sweeps.thresholds.search_points import CellPoints

StopReason = Literal["precise", "cap", "above_range", "below_range", "diverged", "failed", ""]


@dataclass(frozen=True)
class SearchState:
    """`reason` says why a search has finished: its interval is as narrow as asked (`precise`), its budget of points is spent
    (`cap`), the threshold lies beyond its range, or every point diverged or failed. `posterior` is None where no point is
    evidence.
    """

    finished: bool
    reason: StopReason
    num_points: int
    posterior: ThresholdPosterior | None


def state_of(points: CellPoints, criterion: Criterion, settings: SearchSettings) -> SearchState:
    """The state of a cell's search, no point of which is in flight."""
    num = points.num_complete
    losses = points.judged[points.evidence]
    if not len(losses):
        return SearchState(num >= settings.batch, "failed" if num >= settings.batch else "", num, None)
    if np.isinf(losses).all():
        # A round over the whole range without one loss: no width is to blame, and more rounds would bring no number.
        return SearchState(num >= settings.batch, "diverged" if num >= settings.batch else "", num, None)
    posterior = posterior_of(points, criterion)
    reason: StopReason = stop_reason(posterior, level=criterion.level, tolerance=settings.tolerance, cap=settings.cap)
    if not reason and num >= settings.cap:
        reason = "cap"  # failed points are no evidence, and cost as much
    return SearchState(reason != "", reason, num, posterior)


def posterior_of(points: CellPoints, criterion: Criterion) -> ThresholdPosterior:
    """The posterior of log m* from the points that are evidence, each at the rate of its neighbourhood."""
    evidence = points.evidence
    return ThresholdPosterior(
        points.widths[evidence],
        points.judged[evidence],
        low=points.cell.low,
        high=points.cell.high,
        log_target=math.log(criterion.target_loss),
        success_rate=criterion.success_rate,
    )


def stop_reason(posterior: ThresholdPosterior, *, level: float, tolerance: float, cap: int) -> StopReason:
    """Why a search may end; empty where it goes on.

    `above_range` and `below_range`: the threshold lies there as surely as the interval's `level` asks. `precise`: the
    interval's ends lie within `tolerance` of its middle, or one unit of width apart. `cap`: that many points have ended.
    """
    beyond = (1 + level) / 2
    if posterior.probability_above >= beyond:
        return "above_range"
    if posterior.probability_below >= beyond:
        return "below_range"
    if _is_precise(posterior, level=level, tolerance=tolerance):
        return "precise"
    return "cap" if len(posterior.widths) >= cap else ""


def _is_precise(posterior: ThresholdPosterior, *, level: float, tolerance: float) -> bool:
    low, high = posterior.interval(level)
    if math.isinf(low) or math.isinf(high):
        return False
    return high - low <= 2 * math.log1p(tolerance) or math.exp(high) - math.exp(low) <= 1
