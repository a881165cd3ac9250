"""The fields of a trial by their dotted names (`task.T`, `model.positions.d_e`): which exist, and how to set one."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import BaseModel

from stsq_core.kinds import MODELS, TASKS
from stsq_core.open_union import records_of
from stsq_core.trial import TrialConfig
from sweeps.errors import listed, suggestion

WIDTH_SEED_RATE = ("model.width", "model.positions.d_e", "optimizer.lr", "seed")
"""The fields in which the trials of one cell may differ."""


def known_fields() -> tuple[str, ...]:
    """Every dotted name that a sweep may set, branches (`model.positions`) included; `seed` belongs to `seeds`."""
    return _known(TASKS.records, MODELS.records)


@cache
def _known(*kinds: tuple[type[BaseModel], ...]) -> tuple[str, ...]:
    """The names while these are the tasks and models."""
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


def known_leaves() -> tuple[str, ...]:
    """The dotted names that hold a single value."""
    return _leaves(known_fields())


@cache
def _leaves(names: tuple[str, ...]) -> tuple[str, ...]:
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
    for name in model.model_fields:
        names.append(prefix + name)
        for inner in records_of(model, name):
            names += _fields_of(inner, f"{prefix}{name}.")
    return list(dict.fromkeys(names))
