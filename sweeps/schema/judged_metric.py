"""The number that a criterion judges trials by: the relative loss, that at another T or q, or one that grows in training."""

import math
import re
from collections.abc import Mapping

from stsq_core.configs import shown
from sweeps.schema.errors import listed, suggestion

LOSS = "loss"

GROWING: Mapping[str, str] = {
    "attention_mass": "attention off the subset",
    "cosine_W": "1 - cosine of W",
    "cosine_W_centred": "1 - cosine of W, centred",
    "cosine_V": "1 - cosine of V",
}
"""Metrics that grow to 1, judged as 1 minus themselves, and what that is in words."""

_AT = re.compile(r"loss@(?:([Tq])=([1-9]\d{0,7})|([2-9]|[1-9]\d)T)")
_ALLOWED = (LOSS, "loss@T=400", "loss@2T", "loss@q=6", *GROWING)


def unknown_metric(name: str) -> str | None:
    """Why a criterion cannot judge by this metric; None where it can."""
    if name == LOSS or name in GROWING or _AT.fullmatch(name):
        return None
    near = suggestion(name, (LOSS, *GROWING))
    return f"a criterion does not judge by {shown(name)}{near} (allowed: {listed(_ALLOWED)}, with other numbers for these)"


def is_relative(name: str) -> bool:
    """Whether the metric is at a multiple of each task's own T: `loss@2T`."""
    return bool((at := _AT.fullmatch(name)) and at[3])


def metric_at(name: str, T: int) -> str:
    """The name that an evaluation of a task of T tokens gives the metric: `loss@T=64` for `loss@2T` at T = 32."""
    return f"loss@T={int(at[3]) * T}" if (at := _AT.fullmatch(name)) and at[3] else name


def metric_words(name: str) -> str:
    """What is judged, in words: "relative loss at T = 400", "attention off the subset"."""
    if name in GROWING:
        return GROWING[name]
    if at := _AT.fullmatch(name):
        return "relative loss at " + (f"{at[3]}T" if at[3] else f"{at[1]} = {at[2]}")
    return "relative loss"


def judged_number(name: str, metrics: Mapping[str, float] | None, T: int) -> tuple[float, float]:
    """The number by which a finished trial is judged, the less the better, and its standard error; nan where it has none.

    A metric that was measured and is nan is no better than any other: inf.
    """
    measured, given = metrics or {}, metric_at(name, T)
    value = measured.get(given, math.nan)
    if given in measured and math.isnan(value):
        return math.inf, math.nan
    if given in GROWING:
        return 1 - value, math.nan
    return value, measured.get(given.replace(LOSS, "loss_stderr"), math.nan)
