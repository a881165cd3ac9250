"""The parameter whose threshold is sought, and how its values lie on the posterior's axis of log widths."""

import math
from dataclasses import dataclass

from optuna.distributions import BaseDistribution, FloatDistribution, IntDistribution

SPAN = 3.0
"""The length of a range on a linear axis, in log width: a width of 1 at its lower end and of 20 at its upper one."""
NUDGE = 1e-3
"""A step of a parameter that has none, in log width."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a study. Whole numbers above 0, and real ones of a log distribution, count by their ratios: their width is
    their value. Others have their range as a linear axis.

    `is_upper` where the target is reached up to the threshold and not from it on: the axis is turned around.
    """

    name: str
    distribution: IntDistribution | FloatDistribution
    is_upper: bool = False

    @classmethod
    def of(cls, name: str, distribution: BaseDistribution, *, is_upper: bool = False) -> "Parameter":
        """Raises a `ValueError` for a categorical parameter."""
        if not isinstance(distribution, IntDistribution | FloatDistribution):
            raise ValueError(
                f"a threshold needs numbers in an order: suggest_int or suggest_float for {name!r}; it has {distribution}"
            )
        return cls(name, distribution, is_upper)

    @property
    def is_whole(self) -> bool:
        return isinstance(self.distribution, IntDistribution)

    @property
    def is_linear(self) -> bool:
        return self.distribution.low < 1 if self.is_whole else not self.distribution.log

    @property
    def step(self) -> float:
        """The distance of neighbouring values; 0 where there is none."""
        return float(self.distribution.step or 0)

    @property
    def low(self) -> float:
        """The least width."""
        return min(self.width(self.distribution.low), self.width(self.distribution.high))

    @property
    def high(self) -> float:
        """The largest width."""
        return max(self.width(self.distribution.low), self.width(self.distribution.high))

    def width(self, value: float) -> float:
        """The width of a value."""
        low, high = self.distribution.low, self.distribution.high
        if self.is_linear:
            part = (value - low) / (high - low) if high > low else 0.0
            return math.exp(SPAN * (1 - part if self.is_upper else part))
        return low * high / value if self.is_upper else value

    def value(self, log_width: float) -> float:
        """The value at a log width, not rounded; infinite where that is, beyond the end that it means."""
        low, high = self.distribution.low, self.distribution.high
        if math.isinf(log_width):
            return -log_width if self.is_upper else log_width
        if self.is_linear:
            part = log_width / SPAN
            return low + (high - low) * (1 - part if self.is_upper else part)
        width = math.exp(log_width)
        return low * high / width if self.is_upper else width

    def asked(self, log_width: float) -> float:
        """The value that the parameter can have next to a log width."""
        low, high, value = self.distribution.low, self.distribution.high, self.value(log_width)
        if self.is_whole:
            steps = int(self.step)
            return int(min(max(low + round((round(value) - low) / steps) * steps, low), high))
        if self.step:
            value = low + round((value - low) / self.step) * self.step
        return float(min(max(value, low), high))

    def beside(self, width: float, steps: int) -> float:
        """The width so many steps beyond another."""
        if self.is_whole and not self.is_linear and not self.is_upper:
            return int(width) + steps * int(self.step)
        return width * math.exp(steps * NUDGE)

    def is_one_step(self, low: float, high: float) -> bool:
        """Whether an interval of log widths is no longer than one step of whole numbers."""
        if not (self.is_whole and math.isfinite(low) and math.isfinite(high)):
            return False
        return abs(self.value(high) - self.value(low)) <= self.step

    def narrowness(self, tolerance: float) -> tuple[float, float]:
        """The tolerance and the unit by which an interval of widths is narrow enough; `tolerance` is relative to the range on a
        linear axis.
        """
        if not self.is_linear:
            has_unit = self.is_whole and not self.is_upper  # the widths of an axis that is turned around are no values
            return tolerance, self.step if has_unit else 0.0
        length = self.distribution.high - self.distribution.low
        part = max(tolerance, self.step / length / 2 if length else 0.0)
        return math.expm1(SPAN * part), 0.0
