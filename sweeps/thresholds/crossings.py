"""Where seeds begin to solve a task as the width grows, computed for many bootstrap replicates at once.

Each seed's log loss is a broken line in log width. It says at which widths the seed is solved, between the widths that were
tried as well; S(m) is the fraction of seeds solved at m, a step function whose jumps are the seeds' own crossings of the
target.
"""

import math

import numpy as np

WORST = 0.0
"""Log of the zero predictor's relative loss, 1: what a trial that did worse, or diverged, counts when a line is drawn to it."""
MOST = 1e300


def chosen_rates(log_losses: np.ndarray, *, log_target: float | None = None) -> np.ndarray:
    """The learning rate of each width with the least median over seeds of the log loss.

    Args:
        log_losses: [..., rate, seed]; inf where a trial diverged, nan where there is none. Either counts as inf.
        log_target: given where only solved or not counts: then of the rates that leave fewest seeds above it.

    Returns:
        Indices of rates, [...].
    """
    known = np.where(np.isnan(log_losses), np.inf, log_losses)
    medians = np.median(known, axis=-1)
    if log_target is not None:
        unsolved = np.sum(known > log_target, axis=-1)
        medians = np.where(unsolved == unsolved.min(axis=-1, keepdims=True), np.minimum(medians, MOST), np.inf)
    chosen: np.ndarray = np.argmin(medians, axis=-1)
    return chosen


def least_crossing(
    log_widths: np.ndarray, log_losses: np.ndarray, *, log_target: float, success_rate: float
) -> tuple[np.ndarray, np.ndarray]:
    """The least width at which the fraction of solved seeds reaches the success rate, and whether it falls below it again.

    Where the fraction stays exactly at the success rate over a stretch of widths (2 of 4 seeds, say), the stretch's middle in
    log width is taken, as for a median. Nothing is extrapolated: -inf means already reached at the least width, inf not
    reached at the largest.

    Args:
        log_widths: [width], increasing.
        log_losses: [replicate, width, seed] at the chosen rates; nan where there is no number. A seed without a number at the
            least widths counts as unsolved there.

    Returns:
        Log widths [replicate] and flags [replicate].
    """
    num_seeds = log_losses.shape[-1]
    started, places, changes = _events(log_widths, np.minimum(log_losses, WORST), log_target)
    solved = started[:, None] + np.cumsum(changes, axis=1)
    # Rounding must not turn 0.3 * 10 into a fourth seed.
    reach = math.ceil(success_rate * num_seeds - 1e-9)
    exceed = math.floor(success_rate * num_seeds + 1e-9) + 1
    low, high = (_first(started, solved, places, count) for count in (reach, exceed))
    with np.errstate(invalid="ignore"):
        middle = np.where(low == high, low, (low + high) / 2)
    # At the success rate from the least width to the largest: no width is known to exceed it.
    crossing = np.where(np.isnan(middle), np.inf, middle)
    was_reached = np.maximum.accumulate(np.concatenate([started[:, None], solved], axis=1), axis=1)[:, :-1] >= reach
    return crossing, np.any(was_reached & (solved < reach), axis=1)


def _events(log_widths: np.ndarray, losses: np.ndarray, target: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The seeds solved at the least width [replicate], and every later change of that number by width: places and +1 or -1."""
    started = np.sum(losses[:, 0] <= target, axis=-1)
    before_place = np.full_like(losses[:, 0], log_widths[0])
    before = losses[:, 0]
    ups, downs = [np.full_like(before, np.inf)], [np.full_like(before, np.inf)]
    for place, now in zip(log_widths[1:], np.moveaxis(losses, 1, 0)[1:], strict=True):
        with np.errstate(invalid="ignore", divide="ignore"):
            between = before_place + (place - before_place) * (before - target) / (before - now)
        known, knew = ~np.isnan(now), ~np.isnan(before)
        is_solved, was_solved = now <= target, before <= target
        ups.append(np.where(known & is_solved & ~was_solved, np.where(knew, between, place), np.inf))
        downs.append(np.where(known & ~is_solved & was_solved, between, np.inf))
        before_place = np.where(known, place, before_place)
        before = np.where(known, now, before)
    places = np.concatenate([*ups, *downs], axis=1)
    signs = np.repeat([1, -1], places.shape[1] // 2)
    order = np.argsort(places, axis=1, kind="stable")
    places = np.take_along_axis(places, order, axis=1)
    return started, places, np.where(np.isinf(places), 0, signs[order])


def _first(started: np.ndarray, solved: np.ndarray, places: np.ndarray, count: int) -> np.ndarray:
    """The place at which the number of solved seeds first is `count`."""
    reached = solved >= count
    where = np.take_along_axis(places, np.argmax(reached, axis=1)[:, None], axis=1)[:, 0]
    first: np.ndarray = np.where(started >= count, -np.inf, np.where(reached.any(axis=1), where, np.inf))
    return first
