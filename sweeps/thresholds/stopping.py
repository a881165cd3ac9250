"""When a search may end: the rule that the sampler, the running search and the tables share."""

import math
from typing import Literal

from sweeps.thresholds.posterior import ThresholdPosterior

StopReason = Literal["precise", "cap", "above_range", "below_range", ""]


def stop_reason(posterior: ThresholdPosterior, *, level: float, tolerance: float, cap: int) -> StopReason:
    """Why a search may end; empty where it goes on.

    `above_range` and `below_range`: the threshold lies there as surely as the interval's `level` asks. `precise`: the
    interval's ends lie within `tolerance` of its middle, or one unit of width apart. `cap`: that many points are told.
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
