"""What the loss does towards the largest widths of a cell that is not solved: it still falls, is flat, or has turned."""

import math
from typing import Literal

import numpy as np
from scipy.stats import theilslopes

Trend = Literal["falling", "flat", "turned", "unclear"]

GROUP = 4
"""Points whose median stands for the loss at a width."""
STRETCH = 1.5
"""The last stretch of the range, in log m, over which a slope is fitted."""
LEAST_POINTS = 8
FALL, FLAT = 0.1, 0.5
"""A fall of the log loss a unit of log m counts above the one, and is ruled out below the other."""
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
    slope = theilslopes(log_losses[end], log_widths[end], alpha=0.98)
    if slope.high_slope < -FALL:
        return "falling"
    return "flat" if slope.low_slope > -FLAT else "unclear"


def short_words(log_widths: np.ndarray, log_losses: np.ndarray, trend: Trend, *, letter: str) -> str:
    """Why no width reaches the target, in words, with what to try, from the log losses [n] at log widths [n]."""
    order = np.lexsort((log_losses, log_widths))
    widths, losses = log_widths[order], np.where(np.isnan(log_losses), np.inf, log_losses)[order]
    group = min(GROUP, len(losses))
    medians = [float(np.median(losses[start : start + group])) for start in range(len(losses) - group + 1)]
    least = int(np.argmin(medians))
    if medians[least] > LEARNED:
        return (
            f"not reached: nothing learned at any width: {math.exp(min(medians[least], 0.0)):.2f} throughout; try another rate"
        )
    place = f"{math.exp(float(np.median(widths[least : least + group]))):.0f}"
    beyond = "rising" if trend == "turned" else "not falling"
    loss = f"{math.exp(medians[least]):.2g}"
    return (
        f"not reached: least loss {loss} at {letter} = {place}, {beyond} beyond; try more steps, a smaller rate or a schedule"
    )
