"""What an objective has to reach, and how far its values are from it as log losses, of which the posterior is made."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sweeps.sampler.loss_curve import REACH

Scale = Literal["log", "linear"]

LOG_TARGET = math.log(0.1)
"""Where the target lies among the log losses if nobody knows the loss of what has learned nothing."""
MOST = 50.0
"""The most that a log loss can miss the target by."""
FAR = 1.5
"""How far the ends of a curve are to lie from the target in log loss: what lies beyond 1.2 counts as beyond, so that ends,
which are flat, are not mistaken for a slope."""


@dataclass(frozen=True)
class Objective:
    """A target for values on a scale, which are `maximized` or minimized. A `target` of None is reached where the user says so.

    `is_relative` where values are losses relative to that of what has learned nothing, 1.
    """

    target: float | None
    scale: Scale
    is_relative: bool
    is_maximized: bool = False

    @property
    def log_target(self) -> float:
        return math.log(self.target) if self.is_relative and self.target is not None else LOG_TARGET

    @property
    def log_ceiling(self) -> float:
        return 0.0 if self.is_relative else math.inf

    def log_losses(self, values: np.ndarray, solved: np.ndarray, *, num_first: int) -> tuple[np.ndarray, np.ndarray]:
        """Log losses [n] of values [n] in the order of their trials, and of which [n] only the side of the target is known.

        A value that is not finite is that of a trial that diverged, with a log loss of inf. `solved` [n] is 1 or 0 where the
        user says so, else -1. The first `num_first` values set the unit of a linear scale.
        """
        by_sign = solved >= 0
        log_losses = np.full(len(values), np.inf)
        known = np.isfinite(values) & ~by_sign
        log_losses[known] = self._of(values[known], num_first)
        log_losses[by_sign] = self.log_target + np.where(solved[by_sign] == 1, -REACH, REACH)
        return log_losses, by_sign

    def _of(self, values: np.ndarray, num_first: int) -> np.ndarray:
        if not len(values):
            return values
        assert self.target is not None
        logs = self.scale == "log"
        if logs:
            values = np.log(values, out=np.full(len(values), -np.inf), where=values > 0)
        if self.is_relative:
            return values
        misses = values - (math.log(self.target) if logs else self.target)
        misses = _stretched(-misses if self.is_maximized else misses, num_first, is_log=logs)
        return np.clip(LOG_TARGET + misses, -MOST, MOST)


def _stretched(misses: np.ndarray, num_first: int, *, is_log: bool) -> np.ndarray:
    """Distances from the target, above 0 where it is missed, in a unit in which the first values lie `FAR` away at most, on the
    side where they come less far. Logarithms, which have a unit of their own, become no shorter.
    """
    first = misses[:num_first]
    ends = [end for end in (first.max(), -first.min()) if end > 0]
    length = min(ends, default=FAR)
    stretched: np.ndarray = misses * FAR / (min(length, FAR) if is_log else length)
    return stretched
