"""Where the ticks of a logarithmic axis stand, and their words: paper and page have the same."""

import math
from collections.abc import Iterable


def ticks_at(values: Iterable[float], ends: tuple[float, float]) -> tuple[float, ...]:
    """The values themselves where they are few, else round numbers between the ends."""
    measured = sorted(set(values))
    return tuple(measured) if len(measured) <= 8 else round_numbers(*ends)


def round_numbers(low: float, high: float) -> tuple[float, ...]:
    """Up to eight round numbers within a range, for a logarithmic axis."""
    for mantissas in ((1, 1.5, 2, 3, 4, 5, 6, 8), (1, 2, 3, 4, 6, 8), (1, 2, 5), (1, 3), (1,)):
        decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
        found = [m * 10.0**k for k in decades for m in mantissas if low <= m * 10.0**k <= high and (m != 1.5 or k > 0)]
        if len(found) <= 8:
            return tuple(found)
    return tuple(found[:: len(found) // 6])


def decades(low: float, high: float) -> tuple[float, ...]:
    """Powers of ten within a range, at most about four."""
    exponents = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    return tuple(10.0**exponent for exponent in exponents[:: max(1, len(exponents) // 4)])


def loss_ticks(low: float, high: float) -> tuple[float, ...]:
    """Powers of ten, or other round numbers where there are fewer than two of them."""
    powers = decades(low, high)
    return powers if len(powers) > 1 else round_numbers(low, high)


def tick_words(value: float) -> str:
    """A tick's number: `24`, `0.1`, `30k`, `3M`."""
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1e4 else f"{value:g}"
