"""Thresholds, their intervals and the ends of what was tried, as tables and figures tell them."""

from stsq_core.configs import SAMPLES, WIDTH, Size
from sweeps.thresholds import WidthThreshold


def star_words(value: float | None) -> str:
    """A threshold as it is told: two decimals, none from a thousand on."""
    if value is None:
        return ""
    return f"{value:.2f}" if value < 1000 else f"{value:.0f}"


def interval_text(threshold: WidthThreshold) -> str:
    """An interval as it is told: an end beyond the widths tried is told as an inequality, never as a number."""
    if threshold.status == "failed" or (threshold.low is None and threshold.high is None and not _censored(threshold)):
        return "none"
    low = f"below {min(threshold.widths):g}" if threshold.low is None else star_words(threshold.low)
    high = f"above {max(threshold.widths):g}" if threshold.high is None else star_words(threshold.high)
    return f"{low} to {high}"


def whole_letter(size: Size) -> str:
    """The heading of the next whole number: M, of the width; `least n` of another size."""
    return "M" if size == WIDTH else f"least {size.letter}"


def found_words(threshold: WidthThreshold) -> str:
    """A threshold that was found, with the next whole number: `m* = 24.34, M = 25`."""
    letter = threshold.size.letter
    return f"{letter}* = {star_words(threshold.m_star)}, {whole_letter(threshold.size)} = {threshold.M}"


def end_words(threshold: WidthThreshold, *, largest: bool) -> str:
    """What the largest or the least is of the sizes tried."""
    if threshold.size == WIDTH:
        return "the widest tried" if largest else "the narrowest tried"
    if threshold.size == SAMPLES:
        return "the budget" if largest else "the first evaluation"
    return f"the {'largest' if largest else 'least'} {threshold.size.noun} tried"


def _censored(threshold: WidthThreshold) -> bool:
    return threshold.low_censored or threshold.high_censored
