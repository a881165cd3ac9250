"""The fields of a trial by their dotted names (`task.T`, `model.positions.d_e`): which exist, and how to set one."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

from stsq_core.trial import TrialConfig
from sweeps.errors import listed, models_in, suggestion

WIDTH_SEED_RATE = ("model.width", "model.positions.d_e", "optimizer.lr", "seed")
"""The fields in which the trials of one cell may differ."""


@cache
def known_fields() -> tuple[str, ...]:
    """Every dotted name that a sweep may set, branches (`model.positions`) included; `seed` belongs to `seeds`."""
    return tuple(name for name in _fields_of(TrialConfig, "") if name != "seed")


def unknown_field(name: str) -> str | None:
    """Why `name` cannot be set, with the close matches; None where it can."""
    if name == "seed":
        return "seed is not an axis: give `seeds: 4` (derived for each cell) or `seeds: [0, 1, 2]`"
    if name in known_fields():
        return None
    return f"there is no field {name!r}{suggestion(name, known_leaves())}; {allowed_beside(name)}"


def allowed_beside(name: str) -> str:
    """The fields that could have been meant by an unknown one: those of the same branch, or all."""
    branch = name.partition(".")[0]
    beside = [leaf for leaf in known_leaves() if leaf.startswith(f"{branch}.")]
    return f"{branch} has {listed(beside)}" if beside else f"the fields are {listed(known_leaves())}"


@cache
def known_leaves() -> tuple[str, ...]:
    """The dotted names that hold a single value."""
    names = known_fields()
    return tuple(name for name in names if not any(other.startswith(f"{name}.") for other in names))


def with_field(data: Mapping[str, Any], name: str, value: object) -> dict[str, Any]:
    """A copy of nested data with the dotted field `name` set; what stands beside it is kept."""
    head, _, rest = name.partition(".")
    if not rest:
        return {**data, head: value}
    inner = data.get(head)
    return {**data, head: with_field(inner if isinstance(inner, Mapping) else {}, rest, value)}


def without_field(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A copy of nested data without the dotted field `name`."""
    head, _, rest = name.partition(".")
    inner = data.get(head)
    if rest and isinstance(inner, Mapping):
        return {**data, head: without_field(inner, rest)}
    return {key: value for key, value in data.items() if key != head or rest}


def flattened(data: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested data as one level of dotted names."""
    flat: dict[str, Any] = {}
    for key, value in data.items():
        if isinstance(value, Mapping):
            flat |= flattened(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _fields_of(model: type[BaseModel], prefix: str) -> list[str]:
    names: list[str] = []
    for name, field in model.model_fields.items():
        names.append(prefix + name)
        for inner in models_in(field.annotation):
            names += _fields_of(inner, f"{prefix}{name}.")
    return list(dict.fromkeys(names))
