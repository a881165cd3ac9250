"""Settings of claims and lines of drawings in words: which fields, which number, which interval."""

from collections.abc import Iterable
from typing import Any

from dashboards.columns import field_name, value_words
from sweeps.verdicts import Setting


def setting_words(fields: Iterable[tuple[str, Any]]) -> str:
    """Fields with their values as a legend tells them: `d_e = 48, redraw = never`."""
    return ", ".join(f"{field_name(name)} = {value_words(value)}" for name, value in fields)


def number_words(value: float | None) -> str:
    """A number of a claim; nothing where there is none."""
    return "" if value is None else f"{value:.4g}"


def interval_words(setting: Setting) -> str:
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
