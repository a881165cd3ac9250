"""Axes: the values that one field of a trial takes in a sweep."""

from typing import Annotated, Any, Self

import numpy as np
from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from stsq_core.configs import Record, as_tuple, shown

MAX_POINTS = 10_000


ENDS = ("geom", "linear")
"""The fields of an axis that hold its ends."""

LARGEST = 2**53
"""Of whole numbers that are exact as floating-point ones."""

Number = Annotated[int, Field(ge=-LARGEST, le=LARGEST)] | float
Ends = Annotated[tuple[Number, Number], BeforeValidator(as_tuple)]
Points = Annotated[int, Field(ge=1, le=MAX_POINTS)]


class Geometric(Record):
    """`num` values from `low` to `high` in equal ratios; distinct integers where both ends are integers."""

    geom: Ends
    """Least and greatest value."""
    num: Points
    """Number of values, in equal ratios."""

    @model_validator(mode="after")
    def _ends_in_order(self) -> Self:
        low, high = self.geom
        if not 0 < low <= high:
            raise ValueError(f"geom needs 0 < low <= high; got low={low}, high={high}")
        return self

    @property
    def values(self) -> tuple[Number, ...]:
        return _rounded(np.geomspace(*self.geom, self.num), self.geom)


class Linear(Record):
    """`num` values from `low` to `high` in equal steps; distinct integers where both ends are integers."""

    linear: Ends
    """Least and greatest value."""
    num: Points
    """Number of values, in equal steps."""

    @model_validator(mode="after")
    def _ends_in_order(self) -> Self:
        low, high = self.linear
        if not low <= high:
            raise ValueError(f"linear needs low <= high; got low={low}, high={high}")
        return self

    @property
    def values(self) -> tuple[Number, ...]:
        return _rounded(np.linspace(*self.linear, self.num), self.linear)


def _rounded(values: np.ndarray, ends: tuple[Number, Number]) -> tuple[Number, ...]:
    """Integers between integer ends; else six digits, so that a value, and with it a trial id, is the same everywhere."""
    if all(isinstance(end, int) for end in ends):
        return tuple(dict.fromkeys(round(value) for value in values.tolist()))
    low, high = (float(end) for end in ends)
    inner = [min(max(float(f"{value:.6g}"), low), high) for value in values.tolist()[1:-1]]
    return tuple(dict.fromkeys([low, *inner, high][: len(values)]))


def _axis_kind(value: object) -> str:
    if isinstance(value, Geometric) or (isinstance(value, dict) and "geom" in value):
        return "a geom axis"
    if isinstance(value, Linear) or (isinstance(value, dict) and "linear" in value):
        return "a linear axis"
    return "a list"


def _listed_values(value: object) -> object:
    if not isinstance(value, list | tuple):
        raise ValueError(
            "an axis is a list of values, or {geom: [low, high], num: n}, or {linear: [low, high], num: n}; "
            f"got {shown(value)}"
        )
    return tuple(value)


Values = Annotated[tuple[Any, ...], BeforeValidator(_listed_values)]
Axis = Annotated[
    Annotated[Values, Tag("a list")] | Annotated[Geometric, Tag("a geom axis")] | Annotated[Linear, Tag("a linear axis")],
    Discriminator(_axis_kind),
]


def values_of(axis: tuple[Any, ...] | Geometric | Linear) -> tuple[Any, ...]:
    """The values along an axis, in order."""
    return axis.values if isinstance(axis, Geometric | Linear) else axis


def thinned(axis: object) -> str | None:
    """What became of an axis of which whole numbers leave fewer values than it asks for, in words."""
    if not isinstance(axis, Geometric | Linear) or len(axis.values) == axis.num:
        return None
    return f"{len(axis.values)} values and not {axis.num}, because only so many whole numbers lie there"


def with_real_ends(axis: object) -> object:
    """An axis as a sweep file has it, of a field that holds real numbers: whole ends do not make its values whole."""
    if isinstance(axis, list | tuple):
        return [with_real_ends(entry) for entry in axis]
    if not isinstance(axis, dict):
        return axis
    ends = {key: axis[key] for key in ENDS if isinstance(axis.get(key), list | tuple)}
    return axis | {key: [_real(end) for end in pair] for key, pair in ends.items()}


def _real(end: object) -> object:
    return float(end) if type(end) is int and abs(end) <= LARGEST else end


def is_axis(value: object) -> bool:
    """Whether a value inside a zipped axis is itself an axis, to be crossed within its case."""
    return isinstance(value, list | tuple | Geometric | Linear) or (isinstance(value, dict) and _axis_kind(value) != "a list")
