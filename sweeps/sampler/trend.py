"""What the loss does towards the largest widths of a cell that is not solved: it falls, is flat, has turned, or diverges."""

import math
from typing import Literal

import numpy as np
import scipy  # its submodules load when they are used

Trend = Literal["falling", "flat", "turned", "diverging", "unclear"]

GROUP = 4
"""Points whose median stands for the loss at a width."""
STRETCH = 1.5
"""The last stretch of the range, in log m, over which a slope is fitted."""
LEAST_POINTS = 10
FALL, LAST_FALL, FLAT = 0.1, 0.2, 0.5
"""Falls of the log loss a unit of log m: one counts that is surely above the first, and in the last half of the stretch likely
above the second; none is left that is surely below the third."""
LEARNED = math.log(0.9)
"""Losses above it, relative to the ceiling, are those of what has learned nothing."""
WIDEST = 2
"""So many of the widest points in a row, all diverged, are no lapses."""
STEP, MARGIN = 0.35, 0.03
"""Of a grid: medians this far apart in log m are compared, and differ by at least this much."""


def trend_of(
    log_widths: np.ndarray, log_losses: np.ndarray, *, log_low: float, log_high: float, log_ceiling: float = 0.0
) -> Trend:
    """The trend of log losses [n], inf where a point diverged, at log widths [n], in order of width, over a range.

    `diverging`: beyond some width all points diverged, of at least `3 GROUP`. `turned`: some neighbouring points have less loss
    than the widest ones. `flat`: nothing was learned at any width, or the loss does not fall over the last stretch. `falling`:
    it does. Slopes are Theil's, which lapses hardly move, with a 98% interval. `unclear`: too few points to say.
    """
    if len(log_losses) >= 3 * GROUP and _diverge(log_losses):
        return "diverging"
    known = np.isfinite(log_losses)
    log_widths, log_losses = log_widths[known], log_losses[known]
    if len(log_losses) < 3 * GROUP:
        return "unclear"
    medians = neighbours(log_losses)
    least = int(np.argmin(medians))
    if medians[least] > LEARNED + log_ceiling:
        return "flat"
    lowest, middle = log_losses[least : least + GROUP], float(np.median(log_widths[least : least + GROUP]))
    start = log_high - STRETCH
    if middle < log_high - STRETCH / 4:
        if np.mean(lowest[:, None] < log_losses[-GROUP:]) >= 0.9:
            return "turned"
        start = max(start, middle)  # left of the least loss it falls in any case
    end = log_widths >= start
    if np.count_nonzero(end) < LEAST_POINTS or np.ptp(log_widths[end]) < min(STRETCH / 4, (log_high - log_low) / 2):
        return "unclear"
    if not np.ptp(log_losses[end]):
        return "flat"
    slope = scipy.stats.theilslopes(log_losses[end], log_widths[end], alpha=0.98)
    if slope.high_slope < -FALL:
        # A loss that fell early in the stretch and falls no more has fallen over the whole of it, too.
        last = end & (log_widths >= max(start, log_high - STRETCH / 2))
        if not np.ptp(log_widths[last]):  # a single width has no slope
            return "unclear"
        return "falling" if scipy.stats.theilslopes(log_losses[last], log_widths[last]).slope < -LAST_FALL else "unclear"
    return "flat" if slope.low_slope > -FLAT else "unclear"


def trend_of_widths(log_widths: np.ndarray, log_losses: np.ndarray) -> Trend:
    """The trend of a grid's log losses [width, seed], inf where a trial diverged and nan where there is none.

    As `trend_of`; where the points are too few for that, the medians of the widths are compared with a margin for the scatter
    of the seeds, and what does not fall at the end is flat.
    """
    has_loss = ~np.isnan(log_losses).all(axis=1)
    log_widths, log_losses = log_widths[has_loss], log_losses[has_loss]
    known = ~np.isnan(log_losses)
    places, _ = np.nonzero(known)
    ends = float(log_widths[0]), float(log_widths[-1])
    trend = trend_of(log_widths[places], log_losses[known], log_low=ends[0], log_high=ends[1])
    if trend != "unclear":
        return trend
    medians = np.array([np.median(own[~np.isnan(own)]) for own in log_losses])
    if not math.isfinite(medians[-1]):
        return "diverging"
    finite = np.isfinite(log_losses) & np.isfinite(medians)[:, None]
    deviations = np.subtract(log_losses, medians[:, None], where=finite, out=np.zeros(finite.shape))
    scatter = 1.5 * float(np.median(np.abs(deviations[finite])))
    margin = max(MARGIN, 3 * scatter / math.sqrt(log_losses.shape[1]))
    if medians.min() > LEARNED:
        return "flat"
    if medians[-1] > medians.min() + margin:
        return "turned"
    before = np.flatnonzero(log_widths <= log_widths[-1] - STEP)
    if not len(before):
        return "falling"
    return "falling" if medians[-1] < medians[before[-1]] - margin else "flat"


def falling_side(log_widths: np.ndarray, log_losses: np.ndarray) -> np.ndarray:
    """Which points [n], in any order, lie at or before the least loss: a mask."""
    order = np.lexsort((log_losses, log_widths))
    least = int(np.argmin(neighbours(log_losses[order])))
    last = log_widths[order][min(least + GROUP, len(order)) - 1]
    before: np.ndarray = log_widths <= last
    return before


def neighbours(log_losses: np.ndarray) -> np.ndarray:
    """The median of each `GROUP` points in a row; of fewer points one median."""
    group = min(GROUP, len(log_losses))
    return np.array([np.median(log_losses[start : start + group]) for start in range(len(log_losses) - group + 1)])


def _diverge(log_losses: np.ndarray) -> bool:
    """Whether the widest points all diverged though others did not, in order of width."""
    finite = np.flatnonzero(np.isfinite(log_losses))
    return bool(len(finite)) and len(log_losses) - 1 - int(finite[-1]) >= WIDEST
