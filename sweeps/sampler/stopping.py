"""When the search for a threshold may end, and why: from its points alone."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sweeps.sampler.posterior import ThresholdPosterior

StopReason = Literal["precise", "cap", "above_range", "below_range", "not_reached", "diverged", "failed", ""]

FAILED_ROUNDS = 2
"""Rounds in which points beyond all others failed, after which no more are asked there: one may have lost a worker."""

LEAST_TRIED = 8
"""So many points over the whole range without one loss end a search, however few are asked at a time; and no search ends below
its range with fewer: one that was lucky at the lower end says nothing of the noise."""


@dataclass(frozen=True)
class SearchState:
    """`reason` says why a search has finished: its interval is as narrow as asked (`precise`), its budget of points is spent
    (`cap`), the threshold lies beyond its range, the loss turned or never moved short of the target (`not_reached`), or every
    point diverged or failed. `posterior` is None where no point is evidence.
    """

    finished: bool
    reason: StopReason
    num_points: int
    posterior: ThresholdPosterior | None


@dataclass(frozen=True)
class Failed:
    """Widths [n] of failed points and the rounds [n] in which they were asked."""

    widths: np.ndarray
    rounds: np.ndarray


def posterior_of(
    widths: np.ndarray,
    log_losses: np.ndarray,
    failed: Failed,
    *,
    low: float,
    high: float,
    log_target: float,
    success_rate: float,
    by_sign: np.ndarray | None = None,
    log_ceiling: float = 0.0,
    step: Callable[[float, int], float] = lambda width, steps: int(width) + steps,
) -> ThresholdPosterior:
    """The posterior of points that gave evidence, over the range less the ends at which points fail.

    An end is left out when points beyond all those that ended well have failed in `FAILED_ROUNDS` rounds: no more are asked
    there, and none of it counts as tried. `step` gives the width that lies so many steps from another.
    """
    least, most = low, high
    if len(widths):
        above, below = failed.widths > widths.max(), failed.widths < widths.min()
        if len(np.unique(failed.rounds[above])) >= FAILED_ROUNDS:
            most = max(step(failed.widths[above].min(), -1), low)
        if len(np.unique(failed.rounds[below])) >= FAILED_ROUNDS:
            least = min(step(failed.widths[below].max(), 1), most)
    return ThresholdPosterior(
        widths,
        log_losses,
        low=least,
        high=most,
        log_target=log_target,
        success_rate=success_rate,
        is_cut=most < high,
        by_sign=by_sign,
        log_ceiling=log_ceiling,
    )


@dataclass(frozen=True)
class StopRule:
    """When a search is over.

    Args:
        level: of the interval.
        tolerance: how far its ends, less `offset`, may lie from their middle, relative to it.
        batch: points of a round.
        cap: the most points of a search.
        offset: the part of the width that is not searched, d of m = d + d_e.
        unit: an interval of this length is narrow enough.
    """

    level: float
    tolerance: float
    batch: int
    cap: int
    offset: float = 0
    unit: float = 1


def judge(posterior: ThresholdPosterior, rule: StopRule, *, num_failed: int) -> SearchState:
    """The state of a search with this posterior and so many failed points."""
    reason = stop_reason(posterior, rule, num_failed=num_failed)
    has_loss = bool(np.isfinite(posterior.log_losses).any())
    return SearchState(reason != "", reason, len(posterior.widths) + num_failed, posterior if has_loss else None)


def stop_reason(posterior: ThresholdPosterior, rule: StopRule, *, num_failed: int) -> StopReason:
    """Why a search may end; empty where it goes on.

    `below_range`: the threshold lies there as surely as the interval's `level` asks, by eight points or more. `above_range` and
    `not_reached`: it is as sure that none lies within the range, no solved point stands alone, and it is clear whether the loss
    still falls at the upper end. `precise`: the interval's ends lie within the tolerance of their middle, or one unit apart.
    `cap`: that many points have ended, failed ones among them.
    `diverged` and `failed`: a round over the whole range, of eight points or more, went without one loss.
    """
    num = len(posterior.widths) + num_failed
    if not np.isfinite(posterior.log_losses).any():
        # No width is to blame, and more rounds would bring no number.
        is_over = num >= min(max(rule.batch, LEAST_TRIED), rule.cap)
        return "" if not is_over else "diverged" if len(posterior.widths) else "failed"
    beyond, is_spent = (1 + rule.level) / 2, num >= rule.cap
    if posterior.probability_below >= beyond:
        return "below_range" if is_spent or len(posterior.widths) >= LEAST_TRIED else ""
    if posterior.probability_above + posterior.probability_not_reached >= beyond:
        is_clear = (posterior.trend != "unclear" or posterior.is_cut) and not len(posterior.lone_solved)
        standing = posterior.standing
        return standing if standing in ("above_range", "not_reached") and (is_spent or is_clear) else ""
    low, high = posterior.interval(rule.level)
    is_bounded = math.isfinite(low) and math.isfinite(high) and posterior.probability_not_reached <= 1 - beyond
    if is_bounded:
        least, most = math.exp(low) - rule.offset, math.exp(high) - rule.offset
        if most - least <= rule.unit or most <= least * (1 + rule.tolerance) ** 2:
            return "precise"
    return "cap" if is_spent else ""
