"""Curves of log loss against log width for a simulated trainer: smooth ones, a kinked one and the FCN's exact line."""

import math
from dataclasses import dataclass

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


Curve = Logistic | Exponential | Plateau | Kinked | FcnLine
