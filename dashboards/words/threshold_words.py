"""Thresholds, their intervals and the settings of their cells in words, for tables and figures."""

import math
from typing import assert_never

from stsq_core.configs import SAMPLES, WIDTH, Fcn, Size, Transformer
from sweeps.cells import model_words
from sweeps.findings import Regime
from sweeps.thresholds import WidthThreshold

_REDRAWS = {"never": "fixed", "per_step": "redrawn every step", "per_sample": "redrawn for every sample"}


def star_words(value: float | None) -> str:
    """A threshold with two decimals; with none from a thousand on."""
    if value is None:
        return ""
    return f"{value:.2f}" if value < 1000 else f"{value:.0f}"


def interval_text(threshold: WidthThreshold) -> str:
    """An interval in words; an end beyond the widths tried is an inequality, never a number."""
    if not has_interval(threshold):
        return "none"
    low = f"below {min(threshold.widths):g}" if threshold.low is None else star_words(threshold.low)
    high = f"above {max(threshold.widths):g}" if threshold.high is None else star_words(threshold.high)
    return f"{low} to {high}"


def has_interval(threshold: WidthThreshold) -> bool:
    """Whether the threshold has an interval, or an end of one beyond the widths tried."""
    ends = threshold.low, threshold.high
    return threshold.is_bounded and (ends != (None, None) or threshold.low_censored or threshold.high_censored)


def ratio_words(value: float, low: float, high: float) -> str:
    """A ratio with its interval: `0.94 (0.88 to 1.01)`; an open end is an inequality, and what is not known is left out."""
    number = f"{value:.2f}" if math.isfinite(value) else ""
    has_low, has_high = math.isfinite(low) and low > 0, math.isfinite(high)
    if has_low and has_high:
        interval = f"{low:.2f} to {high:.2f}"
    else:
        interval = f"above {low:.2f}" if has_low else f"below {high:.2f}" if has_high else ""
    return f"{number} ({interval})" if number and interval else number or interval


STATUS_WORDS = {
    "found": "found",
    "above_range": "above the range tried",
    "below_range": "below the range tried",
    "not_reached": "not reached at any width",
    "solved": "solved at the only width",
    "not_solved": "not solved at the only width",
    "failed": "not found",
    "open": "not known yet",
}
"""Each status of a threshold, in words."""


def size_words(threshold: WidthThreshold) -> str:
    """A threshold in the place of its number: `24.34`, `> 64`, `≤ 4`, or why there is none."""
    match threshold.status:
        case "found":
            return star_words(threshold.m_star)
        case "above_range":
            return f"> {max(threshold.widths)}"
        case "below_range":
            return f"≤ {min(threshold.widths)}"
        case "solved" | "not_solved":
            return f"only {threshold.widths[0]}"
        case "not_reached":
            return "not reached"
        case "failed":
            return "none"
        case "open":
            return "not yet"
        case _:
            assert_never(threshold.status)


def whole_letter(size: Size) -> str:
    """The heading of the next whole number: M, of the width; `least n` of another size."""
    return "M" if size == WIDTH else f"least {size.letter}"


def found_words(threshold: WidthThreshold) -> str:
    """A threshold that was found, with the next whole number: `m* = 24.34, M = 25`."""
    letter = threshold.size.letter
    return f"{letter}* = {star_words(threshold.m_star)}, {whole_letter(threshold.size)} = {threshold.M}"


def end_words(threshold: WidthThreshold, *, largest: bool) -> str:
    """The name of the largest or the least size tried."""
    if threshold.size == WIDTH:
        return "the widest tried" if largest else "the narrowest tried"
    if threshold.size == SAMPLES:
        return "the budget" if largest else "the first evaluation"
    return f"the {'largest' if largest else 'least'} {threshold.size.noun} tried"


def regime_words(regime: Regime, *, without: str = "") -> str:
    """The settings that a regime's cells share, in words; task letters that vary appear as a list."""
    config = regime.sample
    letters = []
    for name in ("q", "d", "T"):
        values = sorted({getattr(threshold.config_sample.task, name) for threshold in regime.thresholds})
        listed = ", ".join(map(str, values)) if len(values) <= 6 else f"{values[0]} to {values[-1]}"
        letters += [f"`{regime.letter(name)}` = {listed}"] if name != without else []
    match config.model:
        case Transformer(positions=positions, extensions=extensions):
            kind = {"one_hot": "one-hot", "random_sign": "random-sign", "gaussian": "Gaussian"}.get(
                positions.kind, positions.kind
            )
            redrawn = "" if positions.kind == "learned" else f" {_REDRAWS.get(positions.redraw, positions.redraw)}"
            further = [name for name in extensions if not name.startswith("positions.")]
            model = ", ".join([f"{kind} codes{redrawn}", f"{positions.query} query", *further])
        case Fcn(depth=depth, tail_width=tail):
            model = f"{depth} hidden layers, later ones {tail} wide"
        case other:
            model = model_words(other) or other.kind
    training = config.training
    objective, drawn = f"{training.objective} objective", "samples"
    if training.objective == "population":
        objective, drawn = f"{objective} (exact in `X` only)", "subsets"
    batch = "every subset" if training.batch_size == "all" else f"{training.batch_size} {drawn}"
    optimizer = {"adam": "Adam", "gd": "gradient descent"}.get(config.optimizer.kind, config.optimizer.kind)
    return f"{', '.join(letters)} · {model} · {objective} · {optimizer}, {training.steps:,} steps of {batch}"
