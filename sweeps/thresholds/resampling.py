"""Bootstrap replicates and intervals: seeds drawn with replacement, learning rates chosen anew in each replicate.

Seeds are drawn jointly for all widths where these share their seeds, else within each width. Of seeds shared by all widths a
replicate is a count of each seed: then medians are taken from sorted losses by counts, and each seed's crossings are made once
and weighted, which is quick for cells of any size and gives the numbers of `least_crossing` for the drawn seeds.

Intervals. Percentiles of a bootstrap of n values are too narrow by sqrt((n-1)/n) and by normal against t quantiles; reading
them at the level that makes up for both is the expanded percentile interval of Hesterberg 2015,
doi:10.1080/00031305.2015.1089789, section 5.3. Whatever the level, an interval made of n seeds cannot reach beyond what n seeds
support: see `attainable_level`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import assert_never

import numpy as np
import scipy  # its submodules load when they are used

from sweeps.schema import Criterion
from sweeps.thresholds.crossings import chosen_rates, counted_crossing, least_crossing, mean_crossing, solved_crossing

NUM_REPLICATES = 2000
CHUNK_NUMBERS = 400_000
"""Numbers resampled at a time, so that a large cell fills neither memory nor caches."""

BLOCK = 65_536
"""Medians computed at a time, so that they stay in the caches."""

WINDOW = 3.0
"""A replicate's median has a rank within so many square roots of the number of seeds from the middle, nearly always."""

FEW = 5
"""Of so many seeds the replicates are few different ones."""

LARGE = 200
"""From so many values on, t and normal quantiles agree to a hundredth."""


@dataclass(frozen=True)
class CellLosses:
    """The losses of a cell. `log_losses` [width, rate, seed]: inf where diverged, nan where missing.

    `shared` where seeds are the same at all widths; else a column holds the i-th seed of each width.
    """

    widths: tuple[int, ...]
    rates: tuple[float, ...]
    log_losses: np.ndarray
    shared: bool

    @property
    def num_seeds(self) -> int:
        return int(self.log_losses.shape[-1])


@dataclass(frozen=True)
class GridEstimate:
    """Log m* of a cell, whether S falls below the success rate again, bootstrap replicates of log m*, the rate by width."""

    crossing: float
    again: bool
    replicates: np.ndarray
    chosen: dict[int, float]


NO_ESTIMATE = GridEstimate(math.nan, False, np.array([]), {})


def estimate(losses: CellLosses, criterion: Criterion, *, seed: int) -> GridEstimate:
    """The threshold of a cell by the criterion, with `NUM_REPLICATES` replicates."""
    stream = np.random.default_rng(seed)
    by_counts = losses.shared and criterion.statistic == "median"
    crossings, again = (_counted_estimates if by_counts else _drawn_estimates)(losses, criterion, stream)
    chosen = [losses.rates[rate] for rate in _rates(losses.log_losses, criterion).tolist()]
    return GridEstimate(float(crossings[0]), bool(again[0]), crossings[1:], dict(zip(losses.widths, chosen, strict=True)))


def _counted_estimates(losses: CellLosses, criterion: Criterion, stream: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Log m* and the flag of the seeds as they are, then of replicates."""
    log_widths, log_target = np.log(losses.widths), math.log(criterion.target)
    drawn = [draws[0] for draws in _draws(losses, losses.num_seeds, stream)]
    drawn[0] = np.concatenate([np.arange(losses.num_seeds)[None], drawn[0]])
    parts = [
        replicated_crossings(log_widths, losses.log_losses, own, log_target=log_target, success_rate=criterion.success_rate)
        for own in drawn
    ]
    crossings, again = zip(*parts, strict=True)
    return np.concatenate(crossings), np.concatenate(again)


def _drawn_estimates(losses: CellLosses, criterion: Criterion, stream: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """As `_counted_estimates`, by any criterion."""
    parts = [_drawn_crossings(losses, np.arange(losses.num_seeds)[None, None, :], criterion)]
    parts += [_drawn_crossings(losses, draws, criterion, stream) for draws in _draws(losses, losses.log_losses.size, stream)]
    crossings, again = zip(*parts, strict=True)
    return np.concatenate(crossings), np.concatenate(again)


def _draws(losses: CellLosses, numbers: int, stream: np.random.Generator) -> Iterator[np.ndarray]:
    """Seeds of `NUM_REPLICATES` replicates, [width or 1, replicate, seed], in parts; a replicate needs so many `numbers`."""
    chunk = max(1, CHUNK_NUMBERS // numbers)
    for start in range(0, NUM_REPLICATES, chunk):
        size = (1 if losses.shared else len(losses.widths), min(chunk, NUM_REPLICATES - start), losses.num_seeds)
        yield stream.integers(losses.num_seeds, size=size)


def _drawn_crossings(
    losses: CellLosses, draws: np.ndarray, criterion: Criterion, stream: np.random.Generator | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Log m* and the flag for each draw of seeds; `draws` is [width or 1, replicate, seed], `stream` is for replicates."""
    drawn = np.take_along_axis(losses.log_losses[:, :, None, :], draws[:, None], axis=-1)  # [width, rate, replicate, seed]
    drawn = np.moveaxis(drawn, 2, 0)  # [replicate, width, rate, seed]
    own = np.take_along_axis(drawn, _rates(drawn, criterion)[:, :, None, None], axis=2)[:, :, 0, :]
    log_widths, log_target, rate = np.log(losses.widths), math.log(criterion.target), criterion.success_rate
    match criterion.statistic:
        case "median":
            return least_crossing(log_widths, own, log_target=log_target, success_rate=rate)
        case "mean":
            return mean_crossing(log_widths, own, log_target=log_target)
        case "solved":
            return solved_crossing(log_widths, own, log_target=log_target, success_rate=rate, stream=stream)
        case other:
            assert_never(other)


def _rates(log_losses: np.ndarray, criterion: Criterion) -> np.ndarray:
    """The rate of each width, by its place."""
    return chosen_rates(log_losses, log_target=math.log(criterion.target) if criterion.statistic == "solved" else None)


def replicated_crossings(
    log_widths: np.ndarray, log_losses: np.ndarray, draws: np.ndarray, *, log_target: float, success_rate: float
) -> tuple[np.ndarray, np.ndarray]:
    """Log m* of each replicate, with the learning rates chosen anew in each, and whether S falls again.

    Args:
        log_widths: [width], increasing.
        log_losses: [width, rate, seed]; inf where a trial diverged, nan where there is none.
        draws: seeds drawn in each replicate, [replicate, seed].
    """
    counts, own = _counts(draws)
    rates = _chosen_rates(log_losses, counts)
    crossings, again = counted_crossing(log_widths, log_losses, rates, counts, log_target=log_target, success_rate=success_rate)
    return crossings[own], again[own]


def _counts(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How often each seed counts in replicates [replicate, seed], and the place there of each draw; of few seeds each once."""
    num, num_seeds = draws.shape
    places = np.arange(num)
    if num_seeds <= FEW:
        digits = (num_seeds + 1) ** np.arange(num_seeds)
        names = sum(digits[seeds] for seeds in draws.T)  # a digit a seed
        is_drawn = np.bincount(names) > 0
        distinct = np.flatnonzero(is_drawn)
        counts = distinct[:, None] // digits % (num_seeds + 1)
        places = (np.cumsum(is_drawn) - 1)[names]
    else:
        offsets = places[:, None] * num_seeds
        counts = np.bincount((draws + offsets).ravel(), minlength=num * num_seeds).reshape(num, num_seeds)
    return counts.astype(np.int16 if num_seeds < 2**15 else np.int32), places


def _chosen_rates(log_losses: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The rate of least median log loss, [replicate, width], as `chosen_rates` chooses it, from counts of each seed."""
    num_widths, num_rates, num_seeds = log_losses.shape
    chosen = np.zeros((len(counts), num_widths), dtype=np.int64)
    if num_rates == 1:
        return chosen
    known = np.where(np.isnan(log_losses), np.inf, log_losses).reshape(-1, num_seeds)
    orders = np.argsort(known, axis=-1)
    ordered = np.take_along_axis(known, orders, axis=-1)
    drawn = np.ascontiguousarray(counts.T)
    medians = np.empty((len(known), len(counts)))
    block = max(1, BLOCK // len(counts))
    for start in range(0, len(known), block):
        rows = slice(start, start + block)
        medians[rows] = _medians(ordered[rows], orders[rows], drawn)
    best = np.argmin(medians.reshape(num_widths, num_rates, -1), axis=1)
    chosen[:] = best.T
    return chosen


def _medians(ordered: np.ndarray, orders: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """The median of each row of values in increasing order, counted as drawn: [row, replicate].

    Args:
        ordered: [row, seed].
        orders: the seed of each value.
        drawn: how often each seed is drawn, [seed, replicate].
    """
    num_seeds = len(drawn)
    middle = (num_seeds - 1) // 2, num_seeds // 2
    reach = math.ceil(WINDOW * math.sqrt(num_seeds))
    low, high = max(0, middle[0] - reach), min(num_seeds, middle[1] + reach + 1)
    reached = _num_below(orders[:, :low], drawn)
    missed = reached > middle[0]
    places = [np.full(reached.shape, low, dtype=drawn.dtype) for _ in middle]
    for seeds in orders[:, low:high].T:
        reached += drawn[seeds]
        for place, own in zip(middle, places, strict=True):
            own += reached <= place
    missed |= reached <= middle[1]
    ends = [np.take_along_axis(ordered, np.minimum(own, num_seeds - 1).astype(np.int64), axis=1) for own in places]
    medians = ends[0] if num_seeds % 2 else (ends[0] + ends[1]) / 2
    for row, replicate in np.argwhere(missed):
        medians[row, replicate] = np.median(np.repeat(ordered[row], drawn[orders[row], replicate]))
    return medians


def _num_below(orders: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """How many of the drawn seeds are among those named in each row, [row, replicate]."""
    among = np.zeros((len(orders), len(drawn)), dtype=np.float32)
    np.put_along_axis(among, orders, 1.0, axis=1)
    counted: np.ndarray = (among @ drawn.astype(np.float32)).astype(drawn.dtype)
    return counted


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
