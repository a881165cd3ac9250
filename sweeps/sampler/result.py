"""What a threshold search has found, as numbers and as one line."""

import math
from dataclasses import dataclass

from sweeps.sampler.parameter import Parameter
from sweeps.sampler.stopping import SearchState, StopReason

TURNED: dict[StopReason, StopReason] = {"above_range": "below_range", "below_range": "above_range"}
"""What the ends of a range are called where the axis of widths is turned around."""


@dataclass(frozen=True)
class ThresholdResult:
    """The threshold of a parameter and its interval; ends beyond the range tried, and a threshold that is not in it, are None.
    Of a search that ended beyond its range, the interval has the end of the range on this side.

    `reason` says why the search ended, as `SearchState.reason`; empty while it goes on. `str` gives all of it as a line.
    """

    parameter: str
    threshold: float | None
    interval: tuple[float | None, float | None]
    level: float
    reason: StopReason
    num_points: int

    @classmethod
    def of(cls, state: SearchState, level: float, parameter: Parameter | None = None) -> "ThresholdResult":
        """Of the state of a search over `parameter`, or over widths named m where that is None."""
        ends = [math.nan] * 3 if state.posterior is None else [state.posterior.median, *state.posterior.interval(level)]
        if state.posterior is not None and state.reason in TURNED:
            ends[1] = math.log(state.posterior.high) if ends[1] == math.inf else ends[1]
            ends[2] = math.log(state.posterior.low) if ends[2] == -math.inf else ends[2]
        values = [end if not math.isfinite(end) else parameter.value(end) if parameter else math.exp(end) for end in ends]
        if space := parameter.distribution if parameter else state.posterior:  # whose ends are exact, and their logarithms not
            own, close = (float(space.low), float(space.high)), 1e-12 * max(abs(space.low), abs(space.high))
            values = [next((end for end in own if abs(value - end) <= close), value) for value in values]
        reason = state.reason
        if parameter is not None and parameter.is_upper:
            values[1:] = values[:0:-1]
            reason = TURNED.get(reason, reason)
        threshold, low, high = (value if math.isfinite(value) else None for value in values)
        return cls(parameter.name if parameter else "m", threshold, (low, high), level, reason, state.num_points)

    def __str__(self) -> str:
        low, high = self.interval
        ending = f"{self.reason.replace('_', ' ') or 'searching'}, {self.num_points} points"
        if self.threshold is None:
            return f"{self.parameter}*: no threshold yet, {ending}" if not self.reason else f"{self.parameter}*: {ending}"
        digits = _digits([value for value in (self.threshold, low, high) if value is not None])
        best = f"{self.threshold:.{digits}f}"
        if low is None and high is None:
            between = "unbounded"
        elif high is None:
            between = f"from {low:.{digits}f}"
        elif low is None:
            between = f"up to {high:.{digits}f}"
        else:
            between = f"{low:.{digits}f} to {high:.{digits}f}"
        return f"{self.parameter}* = {best} ({self.level:.0%} interval {between}), {ending}"


def _digits(values: list[float]) -> int:
    """Decimals that show three digits of the largest value, or, where an interval is narrow, two of its length."""
    top = max(abs(value) for value in values) or 1.0
    length = max(values) - min(values)
    wanted = max(3 - 1 - math.floor(math.log10(top)), 1 - math.floor(math.log10(length)) if length > 0 else 0)
    return min(max(wanted, 0), 12)
