"""Bootstrap replicates of a width threshold where all widths share their seeds, for cells of any size.

A replicate draws seeds with replacement, so it is a count of each seed. Each seed's broken line crosses the target a few times;
only these crossings are made, weighted by the counts and sorted. The numbers are those of `crossings.least_crossing` for the
drawn seeds.
"""

import math
from dataclasses import dataclass

import numpy as np

from sweeps.thresholds.crossings import WORST

UNSOLVED, SOLVED, UNKNOWN = 0, 1, 2

BLOCK = 65_536
"""Medians computed at a time, so that they stay in the caches."""

WINDOW = 3.0
"""A replicate's median has a rank within so many square roots of the number of seeds from the middle, nearly always."""


def replicated_crossings(
    log_widths: np.ndarray, log_losses: np.ndarray, draws: np.ndarray, *, log_target: float, success_rate: float
) -> np.ndarray:
    """Log m* of each replicate, with the learning rates chosen anew in each.

    Args:
        log_widths: [width], increasing.
        log_losses: [width, rate, seed]; inf where a trial diverged, nan where there is none.
        draws: seeds drawn in each replicate, [replicate, seed].
    """
    num, num_seeds = draws.shape
    offsets = np.arange(num)[:, None] * num_seeds
    counts = np.bincount((draws + offsets).ravel(), minlength=num * num_seeds).reshape(num, num_seeds)
    counts = counts.astype(np.int16 if num_seeds < 2**15 else np.int32)
    rates = _chosen_rates(log_losses, counts)
    # Rounding must not turn 0.3 * 10 into a fourth seed.
    levels = math.ceil(success_rate * num_seeds - 1e-9), math.floor(success_rate * num_seeds + 1e-9) + 1
    started, events = _events(log_widths, np.minimum(log_losses, WORST), rates, counts, log_target)
    low, high = (_first(started, events, level) for level in levels)
    with np.errstate(invalid="ignore"):
        middle = np.where(low == high, low, (low + high) / 2)
    return np.where(np.isnan(middle), np.inf, middle)


def _chosen_rates(log_losses: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The rate of least median log loss, [replicate, width], as `crossings.chosen_rates` chooses it."""
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


@dataclass(frozen=True)
class _Events:
    """Every change of the number of solved seeds, by replicate and then by place; changes at one place gains first."""

    replicates: np.ndarray
    places: np.ndarray
    changes: np.ndarray


def _events(
    log_widths: np.ndarray, losses: np.ndarray, rates: np.ndarray, counts: np.ndarray, target: float
) -> tuple[np.ndarray, _Events]:
    """The number of solved seeds at the least width [replicate], and every later change of it."""
    states = np.where(np.isnan(losses), UNKNOWN, losses <= target).astype(np.uint8)
    state = states[0][rates[:, 0]]
    started = np.sum(counts, axis=1, where=state == SOLVED, dtype=np.int64)
    last = np.zeros(state.shape, dtype=np.int32)  # the width at which a seed was last known
    found, kinds, found_places = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.uint8)], [np.zeros(0)]
    for width in range(1, len(log_widths)):
        now = states[width][rates[:, width]]
        is_known = now != UNKNOWN
        where = np.flatnonzero(is_known & (now != state))
        replicate, seed = np.divmod(where, counts.shape[1])
        before_width, kind = last.ravel()[where], now.ravel()[where]
        before = losses[before_width, rates[replicate, before_width], seed]
        at = losses[width, rates[replicate, width], seed]
        start, end = log_widths[before_width], log_widths[width]
        with np.errstate(invalid="ignore"):
            between = start + (end - start) * (before - target) / (before - at)
        knew = ~np.isnan(before)
        counted = knew | (kind == SOLVED)
        found.append(where[counted])
        kinds.append(kind[counted])
        found_places.append(np.where(knew, between, end)[counted])
        if is_known.all():
            state = now
            last.fill(width)
        else:
            state = np.where(is_known, now, state)
            np.copyto(last, width, where=is_known)
    where, kind, places = np.concatenate(found), np.concatenate(kinds), np.concatenate(found_places)
    order = np.argsort(kind == UNSOLVED, kind="stable")
    order = order[np.argsort(places[order], kind="stable")]
    replicates = where // counts.shape[1]
    order = order[np.argsort(replicates[order].astype(np.uint16), kind="stable")]
    changes = np.where(kind == SOLVED, 1, -1) * counts.ravel()[where].astype(np.int64)
    return np.asarray(started), _Events(replicates[order], places[order], changes[order])


def _first(started: np.ndarray, events: _Events, level: int) -> np.ndarray:
    """The place at which the number of solved seeds first is `level`, [replicate]."""
    total = np.cumsum(events.changes)
    ends = np.cumsum(np.bincount(events.replicates, minlength=len(started)))
    before = np.concatenate([[0], total])[np.concatenate([[0], ends[:-1]])]
    solved = started[events.replicates] + total - before[events.replicates]
    reached = np.flatnonzero(solved >= level)
    replicates, first = np.unique(events.replicates[reached], return_index=True)
    crossing = np.full(len(started), np.inf)
    crossing[replicates] = events.places[reached[first]]
    return np.where(started >= level, -np.inf, crossing)
