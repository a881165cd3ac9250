"""Settings of claims and lines of drawings in words: which fields, which number, which interval."""

from collections.abc import Iterable
from typing import Any

from dashboards.words.columns import field_name, value_words
from sweeps.findings import Setting

SPOKEN = {
    ("model.positions.redraw", "never"): "fixed codes",
    ("model.positions.redraw", "per_step"): "stochastic codes",
    ("model.positions.redraw", "per_sample"): "codes redrawn for every sample",
    ("model.positions.kind", "one_hot"): "one-hot codes",
    ("model.positions.kind", "random_sign"): "random signs",
    ("model.positions.kind", "gaussian"): "Gaussian codes",
    ("model.positions.kind", "sinusoidal"): "sinusoidal codes",
    ("model.positions.kind", "learned"): "learned codes",
    ("model.positions.query", "sum"): "sum query",
    ("model.positions.query", "dual"): "dual query",
    ("optimizer.kind", "gd"): "gradient descent",
    ("optimizer.kind", "adam"): "Adam",
}
"""Values of fields as the papers speak of them."""

TOLD_BY_KIND = ("model.positions.redraw", "model.positions.d_e", "model.positions.query")
"""What one-hot codes leave no choice of."""


def setting_words(fields: Iterable[tuple[str, Any]]) -> str:
    """Fields with their values as a legend tells them: `d_e = 48, stochastic codes`."""
    told = dict(fields)
    if told.get("model.positions.kind") == "one_hot":
        told = {name: value for name, value in told.items() if name not in TOLD_BY_KIND}
    return ", ".join(SPOKEN.get((name, value), f"{field_name(name)} = {value_words(value)}") for name, value in told.items())


def number_words(value: float | None) -> str:
    """A number of a claim; nothing where there is none."""
    return "" if value is None else f"{value:.4g}"


def setting_interval(setting: Setting) -> str:
    """The interval of a setting, its open end spelled out."""
    match setting.low, setting.high:
        case None, None:
            return ""
        case low, None:
            return f"above {low:.4g}"
        case None, high:
            return f"below {high:.4g}"
        case low, high:
            return f"{low:.4g} to {high:.4g}"
