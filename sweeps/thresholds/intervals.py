"""Intervals from bootstrap replicates of few seeds: percentiles at levels widened for the sample's size.

Percentiles of a bootstrap of n values are too narrow by sqrt((n-1)/n) and by normal against t quantiles; reading them at the
level that makes up for both is the expanded percentile interval of Hesterberg 2015, doi:10.1080/00031305.2015.1089789,
section 5.3. Whatever the level, an interval made of n seeds cannot reach beyond what n seeds can tell: see
`attainable_level`.
"""

import math
from collections.abc import Sequence
from functools import cache

import numpy as np
import scipy  # its submodules load when they are used

LARGE = 200
"""From so many values on, t and normal quantiles agree to a hundredth."""


def interval_of(replicates: np.ndarray, *, level: float, num: int) -> tuple[float, float]:
    """The expanded percentile interval of bootstrap replicates [B] of a statistic of `num` values; inf is allowed."""
    ordered = np.sort(replicates)
    tail = expanded_tail(level, num)
    low = math.floor(tail * len(ordered))
    return float(ordered[low]), float(ordered[len(ordered) - 1 - low])


@cache
def expanded_tail(level: float, num: int) -> float:
    """The probability to leave out at each end, so that percentiles of a bootstrap of `num` values have about the `level`."""
    nominal = (1 - level) / 2
    if num < 2 or num > LARGE:
        return nominal
    quantile = float(scipy.special.stdtrit(num - 1, 1 - nominal))
    return float(scipy.special.ndtr(-quantile * math.sqrt(num / (num - 1))))


def mean_interval(values: Sequence[float], less: Sequence[float] = (), *, level: float) -> tuple[float, float, float]:
    """The mean of at least two values, or by how much it exceeds the mean of others, with Student's or Welch's interval.

    Source: Welch 1947, doi:10.1093/biomet/34.1-2.28; degrees of freedom are rounded down to a whole number.
    """
    mean, error, freedom = _mean(values)
    if less:
        other, other_error, other_freedom = _mean(less)
        mean, both = mean - other, error**2 + other_error**2
        parts = error**4 / freedom + other_error**4 / other_freedom
        error, freedom = math.sqrt(both), max(1, math.floor(both**2 / parts)) if parts else freedom + other_freedom
    reach = float(scipy.special.stdtrit(freedom, (1 + level) / 2)) * error
    return mean, mean - reach, mean + reach


def _mean(values: Sequence[float]) -> tuple[float, float, int]:
    """The mean, its standard error and its degrees of freedom."""
    num = len(values)
    mean = math.fsum(values) / num
    return mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (num - 1) / num), num - 1


def attainable_level(num: int, success_rate: float) -> float:
    """The highest level that an interval between the least and the largest of `num` values can have for the `success_rate`
    quantile.

    It misses only where all values lie on one side: 1 - p^n - (1-p)^n.
    """
    return float(1 - success_rate**num - (1 - success_rate) ** num)


def order_interval(num: int, level: float) -> tuple[int, float]:
    """The rank r and the level of the interval from the r-th least to the r-th largest of `num` values for their median.

    The largest r whose interval has at least the `level`; where none has, r = 1 with the level that it has.
    """
    levels = 1 - 2 * scipy.special.bdtr(np.arange(num // 2), num, 0.5) if num > 1 else np.zeros(1)
    rank = max(1, int(np.count_nonzero(levels >= level - 1e-12)))  # levels fall with the rank
    return rank, float(levels[rank - 1])
