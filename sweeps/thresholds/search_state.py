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

    `above_range` and `below_range`: the threshold lies there as surely as the interval's `level` asks. `precise`: the
    interval's ends lie within `tolerance` of its middle, or one unit of width apart. `cap`: that many points have ended.
    """
    beyond = (1 + level) / 2
    if posterior.probability_above >= beyond:
        return "above_range"
    if posterior.probability_below >= beyond:
        return "below_range"
    low, high = posterior.interval(level)
    is_bounded = math.isfinite(low) and math.isfinite(high)
    if is_bounded and (high - low <= 2 * math.log1p(tolerance) or math.exp(high) - math.exp(low) <= 1):
        return "precise"
    return "cap" if len(posterior.widths) >= cap else ""
