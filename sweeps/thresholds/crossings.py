"""The definition of a threshold, for each criterion, computed for many bootstrap replicates at once.

S(m) is the fraction of seeds whose relative loss at width m is at most the target. The threshold is the least m where S(m)
reaches the success rate. Between adjacent widths that were tried each seed's log loss is linear in log width, so S is a step
function whose jumps are the seeds' own crossings of the target (`least_crossing`). Nothing is extrapolated: a log threshold is
-inf where the least width reaches the success rate already, and inf where none does.

The other criteria. `solved_crossing` interpolates S itself and no loss, because a loss that counts errors falls from far above
the target to zero between two sizes. `mean_crossing` asks where the mean loss falls to the target, another quantity: a seed
that diverged, or did worse than the zero predictor, counts as the zero predictor, because a mean must not hang on how far a
trial went astray. A search has about one seed a width: there the mean is taken to fall with the width (`isotonic_crossings`).
`log_median` is the threshold of counts that seeds give directly (samples to a target).

Source of isotonic regression: Barlow et al. 1972, Statistical Inference under Order Restrictions.
"""

import math
from dataclasses import dataclass

import numpy as np

from sweeps.schema import Criterion

WORST = 0.0
"""Log of the zero predictor's relative loss, 1: the value of a trial that did worse, or diverged, in interpolation."""

MOST = 1e300
ROUNDING = 1e-9
"""Rounding must not turn 0.3 * 10 seeds into a fourth, nor keep 8 of 10 from being 0.8."""

NUM_MEAN_REPLICATES = 500
UNSOLVED, SOLVED, UNKNOWN = 0, 1, 2


def reach_and_exceed(success_rate: float, num_seeds: int) -> tuple[int, int]:
    """The least numbers of solved seeds whose fraction reaches the success rate, and exceeds it."""
    return math.ceil(success_rate * num_seeds - ROUNDING), math.floor(success_rate * num_seeds + ROUNDING) + 1


def middle(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The middle of the stretch in which S is exactly the success rate (2 of 4 seeds, say), as for a median.

    A stretch over the whole range (-inf to inf) gives inf: no width is known to exceed the success rate.
    """
    with np.errstate(invalid="ignore"):
        half_way = np.where(low == high, low, (low + high) / 2)
    return np.where(np.isnan(half_way), np.inf, half_way)


def is_reached(losses: np.ndarray, criterion: Criterion) -> bool:
    """Whether relative losses [seed] at one width meet the criterion."""
    if criterion.statistic == "mean":
        return bool(np.mean(np.minimum(losses, 1.0)) <= criterion.target)
    return int(np.sum(losses <= criterion.target)) >= reach_and_exceed(criterion.success_rate, len(losses))[0]


def chosen_rates(log_losses: np.ndarray, *, log_target: float | None = None) -> np.ndarray:
    """The learning rate of each width with the least median over seeds of the log loss.

    Args:
        log_losses: [..., rate, seed]; inf where a trial diverged, nan where there is none. Either counts as inf.
        log_target: given where only solved or not counts: then of the rates that leave fewest seeds above it.

    Returns:
        Indices of rates, [...].
    """
    if log_losses.shape[-2] == 1:
        return np.zeros(log_losses.shape[:-2], dtype=np.int64)
    known = np.where(np.isnan(log_losses), np.inf, log_losses)
    medians = np.median(known, axis=-1)
    if log_target is not None:
        unsolved = np.sum(known > log_target, axis=-1)
        # An infinite median at a rate that solves most seeds must still be less than the inf of the rates passed over.
        medians = np.where(unsolved == unsolved.min(axis=-1, keepdims=True), np.minimum(medians, MOST), np.inf)
    chosen: np.ndarray = np.argmin(medians, axis=-1)
    return chosen


def least_crossing(
    log_widths: np.ndarray, log_losses: np.ndarray, *, log_target: float, success_rate: float
) -> tuple[np.ndarray, np.ndarray]:
    """The least width at which the fraction of solved seeds reaches the success rate, and whether it falls below it again.

    Args:
        log_widths: [width], increasing.
        log_losses: [replicate, width, seed] at the chosen rates; nan where there is no number. A seed without a number at the
            least widths counts as unsolved there.

    Returns:
        Log widths [replicate] and flags [replicate].
    """
    num, num_widths, num_seeds = log_losses.shape
    own = np.broadcast_to(np.arange(num)[:, None], (num, num_widths))
    once = np.ones((num, num_seeds), dtype=np.int64)
    return counted_crossing(
        log_widths, np.moveaxis(log_losses, 0, 1), own, once, log_target=log_target, success_rate=success_rate
    )


def counted_crossing(
    log_widths: np.ndarray,
    log_losses: np.ndarray,
    rates: np.ndarray,
    counts: np.ndarray,
    *,
    log_target: float,
    success_rate: float,
) -> tuple[np.ndarray, np.ndarray]:
    """As `least_crossing`, of replicates that count each seed several times or not at all.

    Args:
        log_widths: [width], increasing.
        log_losses: [width, rate, seed].
        rates: the place of each replicate's rate, [replicate, width].
        counts: how often each seed counts, [replicate, seed]; as many seeds in all replicates.
    """
    changes = _changes(log_widths, np.minimum(log_losses, WORST), rates, counts, log_target)
    reach, exceed = reach_and_exceed(success_rate, int(counts[0].sum()))
    (low, change), (high, _) = changes.first(reach), changes.first(exceed)
    falls = (np.arange(len(changes.solved)) > change[changes.replicates]) & (changes.solved < reach)
    return middle(low, high), np.bincount(changes.replicates[falls], minlength=len(low)) > 0


@dataclass(frozen=True)
class _Changes:
    """Changes of the number of solved seeds, by replicate and then by place; at one place gains come first.

    `started` is the number at the least width [replicate], `solved` the number after each change.
    """

    started: np.ndarray
    replicates: np.ndarray
    places: np.ndarray
    solved: np.ndarray

    def first(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The place at which at least `count` seeds are solved first, and the change that it is (-1: none), [replicate]."""
        reached = np.flatnonzero(self.solved >= count)
        replicates = self.replicates[reached]
        first = np.flatnonzero(np.diff(replicates, prepend=-1))
        replicates = replicates[first]
        places, changes = np.full(len(self.started), np.inf), np.full(len(self.started), len(self.solved))
        places[replicates], changes[replicates] = self.places[reached[first]], reached[first]
        at_once = self.started >= count
        return np.where(at_once, -np.inf, places), np.where(at_once, -1, changes)


def _changes(log_widths: np.ndarray, losses: np.ndarray, rates: np.ndarray, counts: np.ndarray, target: float) -> _Changes:
    """Every seed's crossings of the target; a width without a number is passed over."""
    states = np.where(np.isnan(losses), UNKNOWN, losses <= target).astype(np.uint8)
    state = states[0][rates[:, 0]]
    started = np.asarray(np.sum(counts, axis=1, where=state == SOLVED, dtype=np.int64))
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
    # NumPy sorts short integers by radix.
    order = order[np.argsort(replicates[order].astype(np.uint16 if len(started) < 2**16 else np.int64), kind="stable")]
    total = np.cumsum((np.where(kind == SOLVED, 1, -1) * counts.ravel()[where].astype(np.int64))[order])
    ends = np.cumsum(np.bincount(replicates, minlength=len(started)))
    before_own = np.concatenate([[0], total])[np.concatenate([[0], ends[:-1]])]
    replicates = replicates[order]
    return _Changes(started, replicates, places[order], started[replicates] + total - before_own[replicates])


def solved_crossing(
    log_widths: np.ndarray,
    log_losses: np.ndarray,
    *,
    log_target: float,
    success_rate: float,
    stream: np.random.Generator | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The size at which the isotonic fraction of solved seeds reaches the success rate, and whether it is lost again.

    A replicate puts the threshold anywhere between the two sizes that enclose it: so an interval spans nearly a step of the
    grid at least, and its level is that over thresholds anywhere between the sizes.

    Args:
        log_widths: [width], increasing.
        log_losses: [replicate, width, seed]; inf where a trial diverged, which is unsolved, nan where there is none.
        log_target: at most this log loss is solved.
        success_rate: between 0 and 1.
        stream: draws a place between the two enclosing sizes, for replicates; without it the fraction is linear in log size.

    Returns:
        Log sizes [replicate]; and flags [replicate], where a fraction reaches the success rate and that of the largest size
        that is known does not.
    """
    known = ~np.isnan(log_losses)
    counts = known.sum(axis=-1)
    solved = (known & (log_losses <= log_target)).sum(axis=-1)
    fractions = isotonic(solved, counts)
    reached = fractions >= success_rate - ROUNDING
    first, rows = np.argmax(reached, axis=1), np.arange(len(fractions))
    last_known = np.maximum.accumulate(np.where(counts > 0, np.arange(len(log_widths)), 0), axis=1)
    before = last_known[rows, np.maximum(first - 1, 0)]
    if stream is None:
        rise = fractions[rows, first] - fractions[rows, before]
        share = np.divide(success_rate - fractions[rows, before], rise, out=np.ones_like(rise), where=rise > 0)
        share = np.clip(share, 0, 1)
    else:
        share = stream.uniform(size=len(fractions))
    enough = (counts > 0) & (solved >= success_rate * counts - ROUNDING)
    return _between(log_widths, reached, before, share), enough.any(axis=1) & ~enough[rows, last_known[:, -1]]


def isotonic(solved: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The fractions solved / counts [replicate, width], made to grow with the width; 0 where nothing is known up to there.

    The value at a width is the greatest over starts at or before it, where something is known, of the least over ends at or
    after it of the fraction between: all replicates at once, and each fraction one exact quotient.
    """
    num_widths = solved.shape[1]
    totals, seen = (np.pad(np.cumsum(values, axis=1), ((0, 0), (1, 0))) for values in (solved, counts))
    fitted = np.zeros(solved.shape)
    for start in range(num_widths):
        num = seen[:, start + 1 :] - seen[:, [start]]
        fractions = np.divide(totals[:, start + 1 :] - totals[:, [start]], num, out=np.full(num.shape, np.inf), where=num > 0)
        least = np.minimum.accumulate(fractions[:, ::-1], axis=1)[:, ::-1]
        fitted[:, start:] = np.maximum(fitted[:, start:], np.where(counts[:, [start]] > 0, least, 0.0))
    return fitted


def mean_crossing(log_widths: np.ndarray, log_losses: np.ndarray, *, log_target: float) -> tuple[np.ndarray, np.ndarray]:
    """The least width at which the mean loss is at most the target, log mean loss linear in log width, and whether it rises
    again.

    Args:
        log_widths: [width], increasing.
        log_losses: [replicate, width, seed]; inf where a trial diverged, nan where there is none.

    Returns:
        Log widths [replicate] and flags [replicate].
    """
    losses = np.exp(np.minimum(log_losses, WORST))
    known = ~np.isnan(losses)
    counts = known.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.where(known, losses, 0.0).sum(axis=-1) / counts)  # [replicate, width]
    logs = np.where(counts > 0, logs, np.inf)
    reached = logs <= log_target
    first, rows = np.argmax(reached, axis=1), np.arange(len(logs))
    before = np.maximum(first - 1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (logs[rows, before] - log_target) / (logs[rows, before] - logs[rows, first])
    share = np.where(np.isfinite(share), share, 1.0)  # a width before without a number gives no line
    return _between(log_widths, reached, before, share), np.any(np.maximum.accumulate(reached, axis=1) & ~reached, axis=1)


def _between(log_widths: np.ndarray, reached: np.ndarray, before: np.ndarray, share: np.ndarray) -> np.ndarray:
    """The crossing [replicate] at a share of the way from the width `before` to the first that reaches the criterion."""
    first = np.argmax(reached, axis=1)
    between = log_widths[before] + (log_widths[first] - log_widths[before]) * share
    return np.where(reached[:, 0], -np.inf, np.where(reached.any(axis=1), between, np.inf))


def isotonic_crossings(log_widths: np.ndarray, log_losses: np.ndarray, *, log_target: float, seed: int) -> np.ndarray:
    """Where the mean loss of the points [n], taken to fall with the width, crosses the target, and the same of
    `NUM_MEAN_REPLICATES` draws of the points with replacement: log widths [1 + replicates].
    """
    order = np.argsort(log_widths, kind="stable")
    x, losses = log_widths[order], np.exp(np.minimum(log_losses[order], WORST))
    draws = np.random.default_rng(seed).multinomial(len(x), np.full(len(x), 1 / len(x)), size=NUM_MEAN_REPLICATES)
    weights = [np.ones(len(x)), *draws.astype(float)]
    return np.array([_isotonic_crossing(x, losses, own, log_target) for own in weights])


def _isotonic_crossing(x: np.ndarray, losses: np.ndarray, weights: np.ndarray, log_target: float) -> float:
    """Pools adjacent violators; log mean is then linear in log width between the middles of the pools."""
    steps: list[tuple[float, float, float]] = []  # weight, weighted loss, weighted place of each pool
    for place, loss, weight in zip(x.tolist(), losses.tolist(), weights.tolist(), strict=True):
        if not weight:
            continue
        own = (weight, weight * loss, weight * place)
        while steps and steps[-1][1] * own[0] <= own[1] * steps[-1][0]:
            before = steps.pop()
            own = (own[0] + before[0], own[1] + before[1], own[2] + before[2])
        steps.append(own)
    before_x, before_log = -math.inf, math.inf
    for weight, loss, place in steps:
        now_x, now_log = place / weight, math.log(max(loss / weight, 1e-12))
        if now_log <= log_target:
            if before_log == math.inf:
                return -math.inf
            return before_x + (now_x - before_x) * (before_log - log_target) / (before_log - now_log)
        before_x, before_log = now_x, now_log
    return math.inf


def log_median(logs: np.ndarray) -> np.ndarray:
    """The median of log counts along the last axis: of two middle ones the mean, inf where one is never reached.

    nan (no number) counts as inf.
    """
    ordered = np.sort(np.where(np.isnan(logs), np.inf, logs), axis=-1)
    reach, exceed = reach_and_exceed(0.5, ordered.shape[-1])
    return middle(ordered[..., reach - 1], ordered[..., exceed - 1])
