"""A simulated trainer: cells whose threshold is known, so that a way of searching is tried on thousands of them in seconds.

A cell answers a width and a seed with a relative loss, as training does, and draws for a seed

    log r = f(log m + shift u) + noise v        with probability 1 - lapse_rate - divergence_rate; u, v standard normal
    r even between 0.2 and 1                    a lapse: the seed got stuck
    r = nan                                     it diverged

with f the log loss of a curve (`Curve`) at a log width. None is the estimator's broken line (module
`loss_curve`) but the kinked one, whose kink lies elsewhere. The width threshold is the definition's, computed from the
distribution that is drawn from.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stsq_core.oracles import theory

LEAST_LOSS = 1e-4
"""Training does not go below it."""


@dataclass(frozen=True)
class Logistic:
    """`r = 1 / (1 + (m / scale)^power)`: a power law in the end."""

    scale: float
    power: float

    def log_loss(self, log_width: np.ndarray) -> np.ndarray:
        return -np.logaddexp(0.0, self.power * (log_width - math.log(self.scale)))

    @classmethod
    def through(cls, crossing: float, *, slope: float, log_target: float) -> "Logistic":
        """The curve that passes the target at log width `crossing` with `d log r / d log m = -slope`."""
        power = slope / (1 - math.exp(log_target))
        return cls(math.exp(crossing - math.log(math.expm1(-log_target)) / power), power)


@dataclass(frozen=True)
class Exponential:
    """`r = exp(-(m / scale)^power)`: ever steeper."""

    scale: float
    power: float

    def log_loss(self, log_width: np.ndarray) -> np.ndarray:
        return -np.exp(np.minimum(self.power * (log_width - math.log(self.scale)), 50.0))

    @classmethod
    def through(cls, crossing: float, *, slope: float, log_target: float) -> "Exponential":
        power = slope / -log_target
        return cls(math.exp(crossing - math.log(-log_target) / power), power)


@dataclass(frozen=True)
class Plateau:
    """`r = floor + (1 - floor) / (1 + (m / scale)^power)`: the loss stays at a floor above 0."""

    floor: float
    curve: Logistic

    def log_loss(self, log_width: np.ndarray) -> np.ndarray:
        log_loss: np.ndarray = np.log(self.floor + (1 - self.floor) * np.exp(self.curve.log_loss(log_width)))
        return log_loss

    @classmethod
    def through(cls, crossing: float, *, slope: float, log_target: float, floor: float) -> "Plateau":
        target = math.exp(log_target)
        inner = (target - floor) / (1 - floor)
        steeper = slope * target / (target - floor)
        return cls(floor, Logistic.through(crossing, slope=steeper, log_target=math.log(inner)))


@dataclass(frozen=True)
class Kinked:
    """A broken line with its kink at the log width `kink` and the log loss `height`, capped at the zero predictor's."""

    kink: float
    height: float
    left: float
    right: float

    def log_loss(self, log_width: np.ndarray) -> np.ndarray:
        beyond = log_width - self.kink
        return np.minimum(self.height - np.where(beyond < 0, self.left, self.right) * beyond, 0.0)


@dataclass(frozen=True)
class FcnLine:
    """The least loss of a fully connected network of first-layer width m (`stsq_core.oracles.theory.fcn_floor`)."""

    T: int
    q: int
    d: int

    def log_loss(self, log_width: np.ndarray) -> np.ndarray:
        floors = [theory.fcn_floor(width, T=self.T, q=self.q, d=self.d) for width in np.ravel(np.exp(log_width)).tolist()]
        return np.log(np.maximum(floors, LEAST_LOSS)).reshape(np.shape(log_width))


@dataclass(frozen=True)
class Valley:
    """Falls to its least log loss at the log width `turn`, then rises by `rise` a unit of log m, to the log loss `top` at most.

    On its way it passes the log loss `height` at the log width `kink`, where its slope changes from `left`.
    """

    kink: float
    height: float
    left: float
    turn: float
    least: float
    rise: float
    top: float

    def log_loss(self, log_width: np.ndarray) -> np.ndarray:
        right = (self.height - self.least) / (self.turn - self.kink)
        beyond = log_width - self.kink
        falling = np.maximum(self.height - np.where(beyond < 0, self.left, right) * beyond, self.least)
        rising = np.minimum(self.least + self.rise * (log_width - self.turn), self.top)
        return np.minimum(np.where(log_width < self.turn, falling, rising), 0.0)


Curve = Logistic | Exponential | Plateau | Kinked | FcnLine | Valley

STUCK = (0.2, 1.0)
NODES, NODE_WEIGHTS = np.polynomial.hermite_e.hermegauss(41)
NODE_WEIGHTS = NODE_WEIGHTS / NODE_WEIGHTS.sum()


@dataclass(frozen=True)
class SimulatedCell:
    """A cell of which everything is known. `noise` and `shift` are standard deviations over seeds: of log r, and of log m."""

    curve: Curve
    noise: float
    shift: float
    lapse_rate: float
    divergence_rate: float
    stream: int

    def relative_loss(self, width: int, seed: int) -> float:
        """What training this width with this seed ends with; nan where it diverges."""
        draws = np.random.default_rng((self.stream, seed))
        chance, stuck = draws.uniform(), draws.uniform(*STUCK)
        moved, scatter = draws.normal(scale=(self.shift, self.noise))
        if chance < self.divergence_rate:
            return math.nan
        if chance < self.divergence_rate + self.lapse_rate:
            return float(stuck)
        log_loss = self.curve.log_loss(np.log(width) + moved) + scatter
        return max(float(np.exp(log_loss)), LEAST_LOSS)

    def log_threshold(self, target_loss: float, success_rate: float = 0.5) -> float:
        """Log m*: where the `success_rate` quantile over all seeds of the log loss passes the log target, linear in log m
        between whole widths.

        Raises:
            ValueError: no width up to 2^24 reaches the success rate.
        """
        part = success_rate / (1 - self.lapse_rate - self.divergence_rate)
        log_target = math.log(target_loss)
        if not part < 1 or self._reached(2**24, log_target) < part:
            raise ValueError(f"no width is solved by {success_rate:.0%} of the seeds of {self}")
        low, high = 0, 2**24
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._reached(middle, log_target) >= part else (middle, high)
        if high == 1:
            return 0.0
        above, below = self._quantile(low, part), self._quantile(high, part)
        return math.log(low) + (math.log(high) - math.log(low)) * (above - log_target) / (above - below)

    def least_log_threshold(self, target_loss: float, *, low: int, high: int) -> float:
        """Log m* of the least whole width of a range that half of all seeds solve; inf where none is, -inf where `low` is."""
        part = 0.5 / (1 - self.lapse_rate - self.divergence_rate)
        log_target = math.log(target_loss)
        width = next((width for width in range(low, high + 1) if self._reached(width, log_target) >= part), None)
        if width is None or width == low:
            return math.inf if width is None else -math.inf
        above, below = self._quantile(width - 1, part), self._quantile(width, part)
        step = math.log(width) - math.log(width - 1)
        return math.log(width - 1) + step * (above - log_target) / (above - below)

    def _reached(self, width: int, log_loss: float) -> float:
        """The part of the seeds, lapses aside, whose log loss is at most this."""
        depths = (log_loss - self.curve.log_loss(math.log(width) + self.shift * NODES)) / self.noise
        return float(NODE_WEIGHTS @ np.array([0.5 * math.erfc(-depth / math.sqrt(2)) for depth in depths]))

    def _quantile(self, width: int, part: float) -> float:
        low, high = -60.0, 10.0
        for _ in range(48):
            middle = (low + high) / 2
            low, high = (low, middle) if self._reached(width, middle) >= part else (middle, high)
        return (low + high) / 2


Stress = Literal["lapses", "fcn_line", "kink"]


def smooth_cell(stream: int, *, slope: float, log_target: float, low: float = 4.0, high: float = 4096.0) -> SimulatedCell:
    """A cell with a logistic, exponential or plateau curve of this slope at the target, which it passes between `low` and
    `high`, log-uniformly; noise of 0.1 to 0.3, a shift of 2 to 5%, and 5% lapses.
    """
    draws = np.random.default_rng((stream, 1))
    crossing = draws.uniform(math.log(low), math.log(high))
    families: tuple[Curve, ...] = (
        Logistic.through(crossing, slope=slope, log_target=log_target),
        Exponential.through(crossing, slope=slope, log_target=log_target),
        Plateau.through(crossing, slope=slope, log_target=log_target, floor=math.exp(log_target) / 5),
    )
    curve = families[int(draws.integers(len(families)))]
    return SimulatedCell(curve, draws.uniform(0.1, 0.3), draws.uniform(0.02, 0.05), 0.05, 0.0, stream)


def stress_cell(stream: int, kind: Stress, *, log_target: float) -> SimulatedCell:
    """A cell that is unlike what the estimator expects.

    `lapses`: 10% of the seeds lapse and another 5% diverge; `fcn_line`: the curve is an FCN's exact line; `kink`: the curve is
    broken where the loss is up to 0.7 above or below the log target.
    """
    draws = np.random.default_rng((stream, 2))
    noise, shift = draws.uniform(0.1, 0.3), draws.uniform(0.02, 0.05)
    match kind:
        case "lapses":
            slope = float(draws.choice([1.0, 3.0, 10.0]))
            smooth = smooth_cell(stream, slope=slope, log_target=log_target)
            return SimulatedCell(smooth.curve, noise, shift, 0.10, 0.05, stream)
        case "fcn_line":
            line = FcnLine(T=int(draws.integers(8, 129)), q=int(draws.integers(1, 4)), d=int(draws.integers(2, 33)))
            return SimulatedCell(line, noise, shift, 0.05, 0.0, stream)
        case "kink":
            left, right = np.exp(draws.uniform(0.0, math.log(10.0), size=2))
            offset, kink = draws.uniform(-0.7, 0.7), draws.uniform(math.log(8.0), math.log(2048.0))
            return SimulatedCell(Kinked(kink, log_target + offset, left, right), noise, shift, 0.05, 0.0, stream)


@dataclass(frozen=True)
class RangedCell:
    """A cell and the range in which it is searched."""

    cell: SimulatedCell
    low: int
    high: int


def valley_cell(stream: int, *, log_target: float, is_reached: bool) -> RangedCell:
    """A cell whose loss falls, turns and rises again.

    It passes the target at a log-uniform width in 8..1024 with a slope of 1.5 to 10 and has its least loss, 1.2 to 30 times
    below the target, at 1.2 to 4 times that width; or, where it is not reached, a least loss of 1.2 to 3 times the target. From
    there it rises with a slope of 0.3 to 6, to a plateau or the zero predictor's loss. The range is 2 to 100 times wider than
    from crossing to turn on either side.
    """
    draws = np.random.default_rng((stream, 3))
    crossing = draws.uniform(math.log(8.0), math.log(1024.0))
    turn = crossing + draws.uniform(math.log(1.2), math.log(4.0))
    depth = draws.uniform(math.log(1.2), math.log(30.0)) if is_reached else -draws.uniform(math.log(1.2), math.log(3.0))
    left, rise = np.exp(draws.uniform(np.log([1.5, 0.3]), np.log([10.0, 6.0])))
    least = log_target - depth
    height = log_target if is_reached else least + left * (turn - crossing) / 2
    top = draws.uniform(least, 0.0) if draws.uniform() < 0.8 else 0.0
    below, above = np.exp(draws.uniform(math.log(2.0), math.log(100.0), size=2))
    curve = Valley(crossing, height, left, turn, least, rise, top)
    cell = SimulatedCell(curve, draws.uniform(0.1, 0.3), draws.uniform(0.02, 0.05), 0.05, 0.0, stream)
    return RangedCell(cell, max(2, round(math.exp(crossing) / below)), round(math.exp(turn) * above) + 2)


def flat_cell(stream: int) -> RangedCell:
    """A cell that learns nothing at any width: its loss stays within a few percent of the zero predictor's."""
    draws = np.random.default_rng((stream, 4))
    curve = Kinked(0.0, math.log(draws.uniform(0.95, 1.0)), 0.0, 0.0)
    low, high = np.exp(np.sort(draws.uniform(math.log(2.0), math.log(4096.0), size=2)))
    return RangedCell(SimulatedCell(curve, draws.uniform(0.005, 0.03), 0.03, 0.0, 0.0, stream), round(low), round(4 * high))


def above_cell(stream: int, *, log_target: float) -> RangedCell:
    """A smooth cell, of slope 1 to 10, whose range ends where the loss falls and is 1.5 to 5 times the target."""
    draws = np.random.default_rng((stream, 5))
    cell = smooth_cell(stream, slope=math.exp(draws.uniform(0.0, math.log(10.0))), log_target=log_target, low=64.0)
    end = log_target + draws.uniform(math.log(1.5), math.log(5.0))
    log_widths = np.linspace(0.0, math.log(8192.0), 4096)
    high = math.exp(log_widths[np.searchsorted(-cell.curve.log_loss(log_widths), -end)])
    low = max(2.0, high / math.exp(draws.uniform(math.log(8.0), math.log(200.0))))
    return RangedCell(cell, round(low), round(high))
