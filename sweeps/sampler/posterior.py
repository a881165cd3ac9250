"""What the losses of a cell say about its width threshold: a posterior over log m*, and where to look next.

The threshold is where the fraction of solved seeds, lapses counted as unsolved, equals the success rate p:
`(1 - lapse) Phi(s) = p` at s standard deviations of the seeds. It lies `s noise / slope` beyond the crossing of the median of
the seeds that did not lapse (module `loss_curve`); where `1 - lapse <= p` no width reaches the success rate, and the mass
counts as above the range. The posterior is made on a grid that closes in on the mass, and is a function of the points alone:
neither their order nor how they came about matters. Of very many points those nearest to the threshold count.

The loss may also turn before it reaches the target, or rise again beyond the threshold. Curves that turn within the range
before their crossing have no threshold (`probability_not_reached`); quantiles are those of the others.
"""

import math
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from statistics import NormalDist
from typing import Literal

import numpy as np

from sweeps.sampler.loss_curve import Axis, Evidence, Grid, Lapses, Weights, weigh
from sweeps.sampler.trend import STRETCH, Trend, trend_of

Standing = Literal["found", "above_range", "below_range", "not_reached"]

MARGIN = 1.5
"""How far beyond the range, in log m, a threshold is thought possible before any evidence."""
SLOPES = math.log(0.1), math.log(100.0)
NOISES = math.log(0.02), math.log(1.5)
LAPSES = Lapses((0.01, 0.04, 0.09, 0.15, 0.25, 0.5), (0.24, 0.32, 0.23, 0.13, 0.07, 0.01))
"""At the last rate half of the seeds lapse whatever the width: where all seeds diverge, no width is the threshold."""
FEW_LAPSES = Lapses((0.03, 0.15, 0.5), (0.7, 0.29, 0.01))
COARSE, FINE = (48, 6, 4), (56, 10, 5)
"""Cells of the crossing, of a slope and of the noise while the grid closes in, and in the end."""
MOST_POINTS = 128
NEAR, FEW_NEAR = 0.15, 2
"""A solved point is alone with so few points, itself counted, this near in log m."""
TAIL, NUISANCE_TAIL = 1e-5, 1e-4
"""Mass that closing in may leave outside at each end, of the crossing and of the other axes."""
MOST_STAGES = 4
ROUNDING = 1e-9
LEAST_LOG_LOSS = -27.0


class ThresholdPosterior:
    """The posterior of log m* of one cell.

    Args:
        widths: [n] above 0, whole numbers where whole ones are to be asked.
        log_losses: [n] log relative losses; inf or nan where the point diverged, which counts as the zero predictor's loss.
        low: the least width that may be asked.
        high: the largest.
        log_target: log of the target of the relative loss, below 0.
        success_rate: the fraction of seeds that must reach the target.
        is_cut: whether wider nets fail, so that `high` is no bound that anybody chose.
        by_sign: [n] of which points only the side of the target is known, on which their log loss lies.
        log_ceiling: the log loss of what has learned nothing; inf where it is unknown.
    """

    def __init__(
        self,
        widths: Sequence[int] | np.ndarray,
        log_losses: Sequence[float] | np.ndarray,
        *,
        low: float,
        high: float,
        log_target: float,
        success_rate: float = 0.5,
        is_cut: bool = False,
        by_sign: Sequence[bool] | np.ndarray | None = None,
        log_ceiling: float = 0.0,
    ) -> None:
        if not 0 < low <= high:
            raise ValueError(f"a search needs 0 < low <= high; got low={low}, high={high}")
        if not log_target < 0:
            raise ValueError(f"the target must be below 1, the zero predictor's loss; got {math.exp(log_target):g}")
        if not 0 < success_rate < 1:
            raise ValueError(f"success_rate must lie between 0 and 1; got {success_rate}")
        self.low, self.high, self.is_cut = low, high, is_cut
        self.log_target, self.success_rate = log_target, success_rate
        self.widths = np.asarray(widths)
        self.log_losses = np.asarray(log_losses, dtype=float)
        self.by_sign = np.zeros(len(self.widths), dtype=bool) if by_sign is None else np.asarray(by_sign, dtype=bool)
        self.log_ceiling = log_ceiling
        if self.widths.shape != self.log_losses.shape:
            raise ValueError(f"as many widths as losses are needed; got {len(self.widths)} and {len(self.log_losses)}")

    def at_rate(self, success_rate: float) -> "ThresholdPosterior":
        """The posterior of the same points for another fraction of the seeds; what the curves weigh is the same, and shared."""
        if not 0 < success_rate < 1:
            raise ValueError(f"success_rate must lie between 0 and 1; got {success_rate}")
        _ = self._weights
        other = copy(self)
        other.success_rate = success_rate
        for name in ("_cumulative", "_sought"):  # which depend on the rate
            other.__dict__.pop(name, None)
        return other

    def quantiles(self, levels: Sequence[float] | np.ndarray) -> np.ndarray:
        """Log m* at these levels; -inf or inf where the mass lies below or above the range, or the points that there are."""
        low, high = math.log(self.low), math.log(self.high)
        if len(self.widths):
            low, high = max(low, math.log(self.widths.min())), min(high, math.log(self.widths.max()))
        values = self._unbounded(levels)
        values = np.where(values < low - ROUNDING, -np.inf, values)
        return np.where(values > high + ROUNDING, np.inf, values)

    def interval(self, level: float) -> tuple[float, float]:
        """The central interval of log m*, ends possibly infinite."""
        low, high = self.quantiles([(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

    def samples(self, num: int, seed: int) -> np.ndarray:
        """Draws of log m* [num], with -inf and inf."""
        return self.quantiles(np.random.default_rng(seed).uniform(size=num))

    @property
    def median(self) -> float:
        """The estimate of log m*."""
        return float(self.quantiles([0.5])[0])

    @property
    def probability_below(self) -> float:
        """That the threshold lies below the range."""
        return self._mass_up_to(math.log(self.low)) * (1 - self.probability_not_reached)

    @property
    def probability_above(self) -> float:
        """That the threshold lies above the range, or that no width reaches the success rate."""
        return (1 - self._mass_up_to(math.log(self.high))) * (1 - self.probability_not_reached)

    @cached_property
    def probability_not_reached(self) -> float:
        """That the loss turns within the range before it reaches the target."""
        weights = self._weights
        return float(weights.unreached[weights.turned_at <= math.log(self.high)].sum() / weights.total)

    @property
    def standing(self) -> Standing:
        """Where the threshold most likely lies: above the range only where the loss falls at its upper end."""
        if self.probability_below >= 0.5:
            return "below_range"
        if self.probability_above + self.probability_not_reached < 0.5:
            return "found"
        is_falling = self.trend == "falling" or (self.trend == "unclear" and self.is_cut)
        return "above_range" if is_falling else "not_reached"

    @cached_property
    def lone_solved(self) -> np.ndarray:
        """Log widths of solved points around which hardly another was asked: each is a lapse, or a valley to look into."""
        evidence = self._evidence
        widths = evidence.log_widths
        near = np.abs(widths[:, None] - widths) <= NEAR
        places: np.ndarray = widths[(evidence.log_losses <= self.log_target) & (near.sum(axis=1) <= FEW_NEAR)]
        return places

    @cached_property
    def trend(self) -> Trend:
        """What the loss does towards the upper end of the range."""
        order = np.lexsort((self.log_losses, self.widths))
        losses = np.where(np.isnan(self.log_losses), np.inf, np.maximum(self.log_losses, LEAST_LOG_LOSS))[order]
        ends = math.log(self.low), math.log(self.high)
        return trend_of(np.log(self.widths[order]), losses, log_low=ends[0], log_high=ends[1], log_ceiling=self.log_ceiling)

    def next_widths(self, num: int, in_flight: Sequence[int] | np.ndarray = (), *, shift: float = 0.0) -> list[int]:
        """Whole widths to ask now, as `next_log_widths`."""
        return [int(width) for width in np.rint(np.exp(self.next_log_widths(num, in_flight, shift=shift)))]

    def next_log_widths(self, num: int, in_flight: Sequence[float] | np.ndarray = (), *, shift: float = 0.0) -> np.ndarray:
        """Log widths to ask now: spread over the posterior's quantiles, without evidence over the range, less those in flight.

        `shift`, between -1/2 and 1/2, moves the quantiles by that part of their distance.
        """
        total = num + len(in_flight)
        ends = math.log(self.low), math.log(self.high)
        wanted = np.linspace(*ends, total) if not len(self.widths) and total > 1 else self._spread(total, shift)
        open_places = np.ones(total, dtype=bool)
        for width in in_flight:
            distances = np.where(open_places, np.abs(wanted - math.log(width)), np.inf)
            open_places[np.argmin(distances)] = False
        asked: np.ndarray = wanted[open_places]
        return asked

    def _spread(self, num: int, shift: float) -> np.ndarray:
        """So many log widths at quantiles of where the curve crosses the target, or turns before it does.

        Of those beyond the range a quarter at most is asked at its ends, since a valley may hide between widths asked before;
        and where the threshold is hardly within the range, two lie in its last stretch, to see whether the loss falls there.
        """
        ends = np.log([self.low, self.high])
        if self.probability_above + self.probability_not_reached > 0.5 and len(lone := self.lone_solved) and num >= 4:
            rest = self._spread(num - num // 2, shift)
            return np.concatenate([rest, np.clip(np.resize(lone, num // 2) + NEAR * np.linspace(-1, 1, num // 2), *ends)])
        places, reached = self._sought
        low, high = (float(np.interp(end, places, reached)) for end in ends)
        most = max(1, num // 4)
        num_low, num_high = min(round(num * low), most), min(round(num * (1 - high)), most)
        is_sought = self.probability_above + self.probability_not_reached > 0.9 and num - num_low - num_high > 2
        num_last = 2 if is_sought else 0
        within = num - num_low - num_high - num_last
        levels = low + (high - low) * (np.arange(within) + 0.5 + shift) / max(within, 1)
        last = ends[1] - STRETCH * (np.arange(num_last) + 0.5 + shift) / 2
        wanted = (np.full(num_low, ends[0]), np.interp(levels, reached, places), last, np.full(num_high, ends[1]))
        spread: np.ndarray = np.clip(np.concatenate(wanted), *ends)
        return spread

    @cached_property
    def _sought(self) -> tuple[np.ndarray, np.ndarray]:
        """Log widths, and the mass up to each of crossings, and of turns before the crossing."""
        edges, reached = self._cumulative
        weights, never = self._weights, self.probability_not_reached
        within = weights.turned_at <= math.log(self.high)
        turns, masses = weights.turned_at[within], weights.unreached[within]
        if not masses.sum() > 0:
            return edges, reached
        order = np.argsort(turns)
        turned = np.cumsum(masses[order]) / masses.sum()
        places = np.union1d(edges, turns)
        of_turns = np.interp(places, turns[order], turned, left=0.0)
        return places, (1 - never) * np.interp(places, edges, reached) + never * of_turns

    def _unbounded(self, levels: Sequence[float] | np.ndarray) -> np.ndarray:
        edges, reached = self._cumulative
        values: np.ndarray = np.interp(np.asarray(levels, dtype=float), reached, edges, right=np.inf)
        return values

    def _mass_up_to(self, log_width: float) -> float:
        edges, reached = self._cumulative
        return float(np.interp(log_width, edges, reached))

    @cached_property
    def _cumulative(self) -> tuple[np.ndarray, np.ndarray]:
        """Log widths, and the mass up to each; less than 1 in the end where no width may reach the success rate."""
        weights = self._weights
        beyond = float(weights.unreached[weights.turned_at > math.log(self.high)].sum())
        return _threshold_masses(weights, self.success_rate, beyond)

    @cached_property
    def _weights(self) -> Weights:
        evidence = self._evidence
        num, num_slopes, num_noises = COARSE
        slopes = Axis(*SLOPES, num_slopes)
        crossing = Axis(math.log(self.low) - MARGIN, math.log(self.high) + MARGIN, num)
        weights = weigh(evidence, Grid(crossing, slopes, slopes, Axis(*NOISES, num_noises), FEW_LAPSES))
        for _ in range(MOST_STAGES):
            closer = _closer(weights, COARSE, FEW_LAPSES)
            shrunk = closer.crossing.step / weights.grid.crossing.step
            weights = weigh(evidence, closer)
            if shrunk > 0.7:
                break
        return weigh(evidence, _closer(weights, FINE, LAPSES))

    @property
    def _evidence(self) -> Evidence:
        diverged = np.isnan(self.log_losses) | (self.log_losses == np.inf)
        losses = np.where(diverged, 0.0, np.maximum(self.log_losses, LEAST_LOG_LOSS))
        order = np.lexsort((losses, self.widths))
        log_widths, log_losses = np.log(self.widths[order]), losses[order]
        nearest = _nearest(log_losses <= self.log_target)
        by_sign = self.by_sign[order][nearest]
        return Evidence(log_widths[nearest], log_losses[nearest], by_sign, self.log_target, math.log(self.low))


def _nearest(solved: np.ndarray) -> slice:
    """Of points in the order of their widths, as many as count: those about the place that parts unsolved from solved best."""
    wrong = np.concatenate([[0], np.cumsum(solved)]) + np.concatenate([np.cumsum(~solved[::-1])[::-1], [0]])
    middle = int(np.flatnonzero(wrong == wrong.min()).mean())
    start = max(0, min(middle - MOST_POINTS // 2, len(solved) - MOST_POINTS))
    return slice(start, start + MOST_POINTS)


def _closer(weights: Weights, nums: tuple[int, int, int], lapses: Lapses) -> Grid:
    """A grid over the mass."""
    grid, (num, num_slopes, num_noises) = weights.grid, nums
    return Grid(
        crossing=grid.crossing.around(weights.by_left.sum(axis=(1, 2, 3)) + weights.unreached.sum(axis=0), tail=TAIL, num=num),
        left=grid.left.around(weights.by_left.sum(axis=(0, 2, 3)), tail=NUISANCE_TAIL, num=num_slopes),
        right=grid.right.around(weights.by_right.sum(axis=(0, 2, 3)), tail=NUISANCE_TAIL, num=num_slopes),
        noise=grid.noise.around(weights.by_left.sum(axis=(0, 1, 3)), tail=NUISANCE_TAIL, num=num_noises),
        lapses=lapses,
    )


def _threshold_masses(weights: Weights, success_rate: float, beyond: float) -> tuple[np.ndarray, np.ndarray]:
    """The cumulative distribution of the threshold: crossings moved by the seeds' scatter and the lapse rate; `beyond` is the
    weight of curves that turn above the range before their crossing.
    """
    grid, step = weights.grid, weights.grid.crossing.step
    moves, masses, total = [], [], float(weights.by_left.sum()) + beyond
    for place, rate in enumerate(grid.lapses.rates):
        if 1 - rate <= success_rate:
            continue
        deviations = NormalDist().inv_cdf(success_rate / (1 - rate))
        axis, mass = (grid.right, weights.by_right) if deviations > 0 else (grid.left, weights.by_left)
        move = deviations * np.exp(grid.noise.centres) / np.exp(axis.centres[:, None])
        moves.append(np.broadcast_to(move / step, mass.shape[1:3]))
        masses.append(mass[..., place])
    move, mass = np.stack(moves), np.stack(masses, axis=1)  # [lapse, slope, noise], [crossing, lapse, slope, noise]
    whole = np.floor(move).astype(int)
    least = int(whole.min())
    cells = np.arange(grid.crossing.num)[:, None, None, None] + whole - least
    part = move - whole
    num = int(cells.max()) + 2
    bins = np.bincount(cells.ravel(), (mass * (1 - part)).ravel(), num)
    bins += np.bincount(cells.ravel() + 1, (mass * part).ravel(), num)
    edges = grid.crossing.low + step * (least + np.arange(num + 1))
    return edges, np.concatenate([[0.0], np.cumsum(bins)]) / total
