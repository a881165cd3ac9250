"""How likely the losses of a cell are, for every threshold, slope, noise and lapse rate on a grid.

The curve. With `x = log m` and `y = log relative loss`, the median over the seeds that did not lapse falls by `a` a unit of x
below the crossing `x0` of the log target and by `b` above it, and is capped at the zero predictor's loss, log 1 = 0. Losses
are read within a window of `REACH` about the log target; of one beyond it only that it is beyond counts. So neither a
floor of the loss nor the way in which it leaves the zero predictor's is mistaken for a slope.

The turn. Beyond its least value the loss of a wide net may rise again (a fixed rate and budget are soon too much for it). So
the curve holds up to a turn only, at one of a few distances `TURNS` beyond its crossing, and beyond the turn the loss goes
anywhere, though not by leaps (`_log_beyond_turn`). A curve that turns before its crossing never reaches the target. Without a
turn the solved widths of a narrow valley would be taken for lapses of a curve that crosses far above the range.

The scatter. A seed's log loss is Gaussian about the curve with variance `noise^2 + (SHIFT slope)^2 + (MISFIT D)^2`: noise of
the loss, a shift of the seed's curve in log width, and a misfit that grows with the distance D of the curve from the target. A
broken line is a good picture of a curve near its kink only, and without the last term many distant points would be sure of a
wrong threshold. With probability `lapse` a seed lapses instead: its log loss is spread evenly between the target and the zero
predictor's loss, rarely below. A diverged seed has the loss
of the zero predictor: it lapsed, or its width is too small. (As a lapse whatever the width, seeds that diverge at small widths
only would leave no width to the threshold.)

The grid. Each axis is a row of equal cells; the extent of a cell is part of the variance. So a coarse grid blurs the
posterior and never makes it sure of the wrong cell, and a finer one may be laid over what the coarse one left.
"""

import math
from dataclasses import dataclass

import numpy as np

REACH = 1.2
"""Half the length of the window about the log target in which losses are read."""
SHIFT = 0.04
MISFIT = 0.45
SOLVED_LAPSES = 0.05
"""The part of the lapses that is spread over solved losses: an allowance for tails that are heavier than Gaussian."""
TYPICAL_SLOPE, SLOPE_SPREAD, KINK_SPREAD = 4.0, 1.3, 1.0
"""Prior of the slopes: log a is normal about log 4, and log b normal about log a."""
TYPICAL_SLOPE_OF_SIGNS = 1.3
"""Of points of which only the side of the target is known: half of the seeds are solved at widths a factor of 1.1 from those at
which a quarter is."""
TYPICAL_NOISE, NOISE_SPREAD = 0.2, 0.8
"""Prior of the noise: log-normal."""
TURNS = (-1.0, -0.5, -0.25, -0.1, 0.12, 0.25, 0.5, 1.0, 2.0, math.inf)
TURN_PRIOR = (0.006, 0.008, 0.008, 0.008, 0.02, 0.03, 0.03, 0.03, 0.03, 0.83)
"""How far beyond its crossing, in log m, a curve turns; negative: before it, and the target is never reached."""
TURNED_NOISE, TURNED_SLOPE, TURNED_LAPSES, TURNED_DROP = 0.35, 2.0, 0.1, 0.5
"""Beyond the turn: noise of a log loss, its change a unit of log m, the share of lapses, and how far a loss may fall again."""
NEVER = -1e300
"""A log likelihood of zero that survives subtraction."""


@dataclass(frozen=True)
class Axis:
    """`num` equal cells from `low` to `high`."""

    low: float
    high: float
    num: int

    @property
    def step(self) -> float:
        return (self.high - self.low) / self.num

    @property
    def centres(self) -> np.ndarray:
        return self.low + self.step * (np.arange(self.num) + 0.5)

    def around(self, masses: np.ndarray, *, tail: float, num: int) -> "Axis":
        """The cells that hold all but `tail` of the mass at each end, and one more on each side, as `num` cells."""
        reached = np.cumsum(masses) / masses.sum()
        first = int(np.searchsorted(reached, tail))
        last = int(np.searchsorted(reached, 1 - tail))
        low = self.low + self.step * max(first - 1, 0)
        high = self.low + self.step * min(last + 2, self.num)
        return Axis(low, high, num)


@dataclass(frozen=True)
class Lapses:
    """Lapse rates and their prior probabilities."""

    rates: tuple[float, ...]
    prior: tuple[float, ...]


@dataclass(frozen=True)
class Grid:
    """Axes of the log crossing, the log slopes to its left and right, and the log noise."""

    crossing: Axis
    left: Axis
    right: Axis
    noise: Axis
    lapses: Lapses


@dataclass(frozen=True)
class Evidence:
    """Log widths, in order, and log losses [n] of the points, the log target and that of the least width that may be asked.

    Of points `by_sign` [n] only the side of the target is known, on which their log loss lies.
    """

    log_widths: np.ndarray
    log_losses: np.ndarray
    by_sign: np.ndarray
    log_target: float
    log_low: float


@dataclass(frozen=True)
class Weights:
    """Posterior weights on a grid: [crossing, left, noise, lapse] of curves that cross the target, with the right slope summed
    over, and with the left one; and [turn, crossing] of curves that turn before, all else summed over.
    """

    grid: Grid
    by_left: np.ndarray
    by_right: np.ndarray
    unreached: np.ndarray

    @property
    def total(self) -> float:
        """The weight of all curves."""
        return float(self.by_left.sum() + self.unreached.sum())

    @property
    def turned_at(self) -> np.ndarray:
        """Log widths at which the unreached curves turn [turn, crossing]."""
        early = np.array([turn for turn in TURNS if turn < 0])
        places: np.ndarray = early[:, None] + self.grid.crossing.centres
        return places


def weigh(evidence: Evidence, grid: Grid) -> Weights:
    """Posterior weights, up to one factor."""
    left, right, turned = _log_likelihoods(evidence, grid)  # [crossing, slope, noise, lapse], the last [turn, ..]
    common = _log_prior(grid)
    tops = left.max(axis=1, keepdims=True), right.max(axis=1, keepdims=True)
    base = tops[0] + tops[1] + common
    most = max(base.max(), (turned + common).max())
    left, right = np.exp(left - tops[0]), np.exp(right - tops[1])
    pairs = _slope_prior(grid, TYPICAL_SLOPE_OF_SIGNS if len(evidence.by_sign) and evidence.by_sign.all() else TYPICAL_SLOPE)
    base = np.exp(base - most)
    by_left = left * np.einsum("ab,xbsl->xasl", pairs, right) * base
    by_right = right * np.einsum("ab,xasl->xbsl", pairs, left) * base
    unreached = np.einsum("a,txasl->tx", pairs.sum(axis=1), np.exp(turned + common - most))
    return Weights(grid, by_left, by_right, unreached)


def _log_prior(grid: Grid) -> np.ndarray:
    """[1, 1, noise, lapse]; even over log m."""
    noise = -0.5 * ((grid.noise.centres - np.log(TYPICAL_NOISE)) / NOISE_SPREAD) ** 2
    both: np.ndarray = (noise[:, None] + np.log(grid.lapses.prior))[None, None]
    return both


def _slope_prior(grid: Grid, typical: float) -> np.ndarray:
    """[left, right]"""
    left, right = grid.left.centres[:, None], grid.right.centres[None, :]
    prior: np.ndarray = np.exp(
        -0.5 * ((left - np.log(typical)) / SLOPE_SPREAD) ** 2 - 0.5 * ((right - left) / KINK_SPREAD) ** 2
    )
    return prior


def _log_likelihoods(evidence: Evidence, grid: Grid) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the points left of each crossing, of those right of it, turns summed over: [crossing, slope, noise, lapse] each; and
    of all points where the curve turns before its crossing [turn, ...].

    Points lie in the order of their widths, so that what any stretch of them says is a difference of two running sums.
    """
    widths, crossings = evidence.log_widths, grid.crossing.centres
    before = crossings - widths[:, None]  # [n, crossing]
    kept, lapsed = _densities(evidence, before, grid)
    rates = np.array(grid.lapses.rates)
    sums = np.zeros((len(widths) + 1, *kept.shape[1:], len(rates)))
    for place, rate in enumerate(rates):
        np.cumsum(np.log((1 - rate) * kept + rate * lapsed), axis=0, out=sums[1:, ..., place])
    solved, unsolved = _log_beyond_turn(evidence, reached=True), _log_beyond_turn(evidence, reached=False)
    every = np.arange(len(crossings))
    first = np.searchsorted(widths, crossings)
    left = sums[first, every]
    right, unreached = [], []
    for turn, prior in zip(TURNS, TURN_PRIOR, strict=True):
        last = np.searchsorted(widths, crossings + turn, side="right")
        beyond = ((unsolved if turn < 0 else solved)[last] + math.log(prior))[:, None, None, None]
        if turn < 0:
            unreached.append(sums[last, every] + beyond)
        else:
            # A valley wholly below the range would explain whatever lies in it: it is left out.
            seen = np.where(crossings + turn >= evidence.log_low, 0.0, NEVER)[:, None, None, None]
            right.append(sums[last, every] - left + beyond + seen)
    return left, np.logaddexp.reduce(right), np.array(unreached)


def _log_beyond_turn(evidence: Evidence, *, reached: bool) -> np.ndarray:
    """Log likelihood of all points from each one on [n + 1], had the curve turned before it.

    The first of them may have any loss; each other is normal about the one before, with a variance that grows with their
    distance, or a lapse. A chain, because independent points at one width would count as so many proofs against a turn. Nor
    does the loss fall again: a point is expected no lower than `TURNED_DROP` below the highest two neighbours since the turn.
    A curve that has not `reached` the target is nowhere below it.
    """
    height, target, num = -evidence.log_target, evidence.log_target, len(evidence.log_losses)
    losses = np.clip(evidence.log_losses, target - REACH, 0.0)
    solved = 0.5 if reached else SOLVED_LAPSES
    anywhere = np.where(losses > target, (1 - solved) / height, solved / REACH)
    if num < 2:
        return np.append(np.log(anywhere), 0.0)
    before = losses[:-1] if reached else np.maximum(losses[:-1], target)
    pairs = np.concatenate([[-np.inf], np.minimum(losses[:-2], losses[1:-1])])  # of the two points before each but the first
    starts, places = np.arange(num)[:, None], np.arange(1, num)
    highest = np.maximum.accumulate(np.where(places - 2 >= starts, pairs, -np.inf), axis=1)
    spread = 2 * TURNED_NOISE**2 + (TURNED_SLOPE * np.diff(evidence.log_widths)) ** 2
    residuals = losses[1:] - np.maximum(before, highest - TURNED_DROP)
    normal = np.exp(-0.5 * residuals**2 / spread) / np.sqrt(2 * np.pi * spread)
    steps = np.log((1 - TURNED_LAPSES) * normal + TURNED_LAPSES * anywhere[1:])
    return np.append(np.log(anywhere) + np.where(places > starts, steps, 0.0).sum(axis=1), 0.0)


def _densities(evidence: Evidence, before: np.ndarray, grid: Grid) -> tuple[np.ndarray, np.ndarray]:
    """Likelihoods of each loss, had its seed not lapsed [n, crossing, slope, noise], and had it [n, 1, 1, 1]: densities within
    the window, probabilities beyond it and of a side.
    """
    height = -evidence.log_target
    above = np.clip(evidence.log_losses - evidence.log_target, -REACH, REACH)
    distances, variances = _predictions(before, grid, height)
    residuals = (above[:, None, None] - distances)[..., None] / np.sqrt(variances)
    kept = np.exp(-0.5 * residuals**2) / np.sqrt(2 * np.pi * variances)
    lapsed = np.where(above > 0, (1 - SOLVED_LAPSES) / height, SOLVED_LAPSES / REACH / 2)
    deep, high = above == -REACH, above == REACH
    kept[deep] = _normal_tail(-residuals[deep])
    kept[high] = _normal_tail(residuals[high])
    lapsed[deep] = SOLVED_LAPSES / 2
    lapsed[high] = (1 - SOLVED_LAPSES) * max(1 - REACH / height, SOLVED_LAPSES)
    if (sides := evidence.by_sign).any():
        signs = np.where(above[sides] > 0, -1.0, 1.0)
        kept[sides] = _normal_tail(signs[:, None, None, None] * distances[sides][..., None] / np.sqrt(variances[sides]))
        lapsed[sides] = np.where(signs < 0, 1 - SOLVED_LAPSES, SOLVED_LAPSES)
    return kept, lapsed[:, None, None, None]


def _predictions(before: np.ndarray, grid: Grid, height: float) -> tuple[np.ndarray, np.ndarray]:
    """The curve's distance above the log target at each point [n, crossing, slope], and the variance there [.., noise].

    Args:
        before: how far each point lies left of each crossing [n, crossing].
        grid: of which the cells' extents count as scatter.
        height: of the zero predictor's log loss above the log target.
    """
    is_left = (before > 0)[..., None]
    slopes = np.exp(np.where(is_left, grid.left.centres, grid.right.centres))
    distances = np.clip(slopes * before[..., None], -2 * REACH, height)
    misfits = np.minimum(distances**2, REACH**2) * (MISFIT**2 + np.where(is_left, grid.left.step, grid.right.step) ** 2 / 12)
    shifts = np.minimum(slopes**2 * (SHIFT**2 + grid.crossing.step**2 / 12), height**2)
    return distances, (misfits + shifts)[..., None] + np.exp(2 * grid.noise.centres)


def _normal_tail(deviations: np.ndarray) -> np.ndarray:
    """The probability that a normal variable exceeds this, to 0.01, by the logistic function."""
    tail: np.ndarray = 1 / (1 + np.exp(1.702 * deviations))
    return tail
