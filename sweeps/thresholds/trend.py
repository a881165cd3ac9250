"""What the loss does towards the largest widths of a cell that is not solved: it still falls, is flat, or has turned."""

import math
from typing import Literal

import numpy as np
import scipy  # its submodules load when they are used

from stsq_core.configs import Transformer, TrialConfig

Trend = Literal["falling", "flat", "turned", "unclear"]

GROUP = 4
"""Points whose median stands for the loss at a width."""
STRETCH = 1.5
"""The last stretch of the range, in log m, over which a slope is fitted."""
LEAST_POINTS = 10
FALL, LAST_FALL, FLAT = 0.1, 0.2, 0.5
"""Falls of the log loss a unit of log m: one counts that is surely above the first, and in the last half of the stretch likely
above the second; none is left that is surely below the third."""
LEARNED = math.log(0.9)
"""Losses above it are the zero predictor's."""


def trend_of(log_widths: np.ndarray, log_losses: np.ndarray, *, log_high: float) -> Trend:
    """The trend of log losses [n] at log widths [n], in order of width, up to `log_high`.

    `turned`: some neighbouring points have less loss than the widest ones. `flat`: nothing was learned at any width, or the
    loss does not fall over the last stretch. `falling`: it does. Slopes are Theil's, which lapses hardly move, with a 98%
    interval. `unclear`: too few points to say.
    """
    num = len(log_losses)
    if num < 3 * GROUP:
        return "unclear"
    medians = np.array([np.median(log_losses[start : start + GROUP]) for start in range(num - GROUP + 1)])
    least = int(np.argmin(medians))
    if medians[least] > LEARNED:
        return "flat"
    lowest, middle = log_losses[least : least + GROUP], float(np.median(log_widths[least : least + GROUP]))
    start = log_high - STRETCH
    if middle < log_high - STRETCH / 4:
        if np.mean(lowest[:, None] < log_losses[-GROUP:]) >= 0.9:
            return "turned"
        start = max(start, middle)  # left of the least loss it falls in any case
    end = log_widths >= start
    if np.count_nonzero(end) < LEAST_POINTS or np.ptp(log_widths[end]) < STRETCH / 4:
        return "unclear"
    if not np.ptp(log_losses[end]):
        return "flat"
    slope = scipy.stats.theilslopes(log_losses[end], log_widths[end], alpha=0.98)
    if slope.high_slope < -FALL:
        # A loss that fell early in the stretch and falls no more has fallen over the whole of it, too.
        last = end & (log_widths >= max(start, log_high - STRETCH / 2))
        return "falling" if scipy.stats.theilslopes(log_losses[last], log_widths[last]).slope < -LAST_FALL else "unclear"
    return "flat" if slope.low_slope > -FLAT else "unclear"


def trend_of_widths(log_widths: np.ndarray, log_losses: np.ndarray) -> Trend:
    """The trend of a grid's log losses [width, seed], nan where there is none: as `trend_of`, and where the points are too few
    for that, whether the widest nets have the least median.
    """
    known = np.isfinite(log_losses)
    places, _ = np.nonzero(known)
    trend = trend_of(log_widths[places], log_losses[known], log_high=float(log_widths[-1]))
    if trend != "unclear":
        return trend
    medians = [float(np.median(own[~np.isnan(own)])) for own in log_losses if not np.isnan(own).all()]
    if min(medians) > LEARNED:
        return "flat"
    return "falling" if medians[-1] == min(medians) else "turned"


def short_words(log_widths: np.ndarray, log_losses: np.ndarray, trend: Trend, *, letter: str, sample: TrialConfig) -> str:
    """Why no width reaches the target, in words, with what to try, from the log losses [n] at log widths [n]."""
    order = np.lexsort((log_losses, log_widths))
    widths, losses = log_widths[order], np.where(np.isnan(log_losses), np.inf, log_losses)[order]
    group = min(GROUP, len(losses))
    medians = [float(np.median(losses[start : start + group])) for start in range(len(losses) - group + 1)]
    least = int(np.argmin(medians))
    match sample.model:
        case Transformer(positions=positions) if positions.query == "sum" and positions.kind != "one_hot":
            query = ", or positions.query: dual"
        case _:
            query = ""
    if medians[least] > LEARNED:
        loss = math.exp(min(float(np.median(losses)), 0.0))
        return f"not reached: nothing learned at any width, loss {loss:.2f} throughout (try another rate or more steps{query})"
    place = f"least loss {math.exp(medians[least]):.2g} at {letter} = {_middle(widths[least : least + group])}"
    match trend:
        case "turned":
            return f"not reached: {place}, rising beyond (try more steps, a smaller rate or a schedule{query})"
        case "flat":
            return f"not reached: {place}, not falling beyond (try more steps, a smaller rate or a schedule{query})"
        case _:
            return f"not reached: {place}, unclear whether falling beyond (try a larger high or a larger cap{query})"


def _middle(log_widths: np.ndarray) -> str:
    return f"{math.exp(float(np.median(log_widths))):.0f}"
