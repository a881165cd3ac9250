"""The fields of a trial by their dotted names (`task.T`, `model.positions.d_e`): which exist, and how to set one."""

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel

from stsq_core.configs import MODELS, SAMPLES, UNIONS, WIDTH, Architecture, Size, TrialConfig, records_of, shown
from sweeps.schema.errors import listed, nearest, suggestion


def free_fields(size: Size = WIDTH) -> tuple[str, ...]:
    """The fields in which the trials of one cell may differ, for thresholds of a size."""
    own = width_fields() if size == WIDTH else () if size == SAMPLES else (size.name,)
    return (*own, "optimizer.lr", "seed")


def width_fields() -> tuple[str, ...]:
    """The fields that set a trial's width m, one a kind of model."""
    return _width_fields(MODELS.records)


@cache
def _width_fields(models: tuple[type[BaseModel], ...]) -> tuple[str, ...]:
    sizes = (model.size_field for model in models if issubclass(model, Architecture))
    return tuple(dict.fromkeys(f"model.{size}" for size in sizes))


def known_fields() -> tuple[str, ...]:
    """Every dotted name that a sweep may set, branches (`model.positions`) included; `seed` belongs to `seeds`."""
    return _known(*_kinds())


def _kinds() -> tuple[tuple[type[BaseModel], ...], ...]:
    """The records of every kind, which plugins add to."""
    return tuple(union.records for union in UNIONS.values())


@cache
def _known(*kinds: tuple[type[BaseModel], ...]) -> tuple[str, ...]:
    """The names while these are the kinds."""
    return tuple(name for name in _fields_of(TrialConfig, "") if name != "seed")


def unknown_field(name: str) -> str | None:
    """Why `name` cannot be set, with the close matches; None where it can."""
    if name == "seed":
        return "seed is not an axis: give `seeds: 4` (derived for each cell) or `seeds: [0, 1, 2]`"
    if name in known_fields():
        return None
    return f"there is no field {shown(name)}{suggestion(name, known_leaves())}; {allowed_beside(name)}"


def not_a_size(name: str) -> str | None:
    """Why a threshold cannot be one of `name`; None where it is a whole number of a trial."""
    if name in integer_fields():
        return None
    allowed = ["width", "samples", *integer_fields()]
    return (
        f"a threshold is of the width, of the samples drawn, or of a whole number of the trials; got {shown(name)}"
        f"{suggestion(name, allowed)} (allowed here: {listed(allowed)})"
    )


def integer_fields() -> tuple[str, ...]:
    """The dotted names that hold a whole number, of which a threshold can be; those of an evaluation change no trial."""
    return _integers(*_kinds())


def is_whole(name: str) -> bool:
    """Whether a field may hold a whole number as such; where it may not, one that is written stands for a real number."""
    return name in _whole(*_kinds())


@cache
def _whole(*kinds: tuple[type[BaseModel], ...]) -> frozenset[str]:
    """The names while these are the kinds."""
    return frozenset(_integers_of(TrialConfig, ""))


@cache
def _integers(*kinds: tuple[type[BaseModel], ...]) -> tuple[str, ...]:
    """The names while these are the kinds."""
    found = _integers_of(TrialConfig, "")
    return tuple(name for name in dict.fromkeys(found) if name != "seed" and not name.startswith("evaluation."))


def _integers_of(model: type[BaseModel], prefix: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if int in _plain_types(field.annotation):
            yield prefix + name
        for inner in records_of(model, name):
            yield from _integers_of(inner, f"{prefix}{name}.")


def _plain_types(annotation: object) -> tuple[object, ...]:
    """The types that an annotation allows, without what stands about them; nothing of the inside of tuples."""
    if get_origin(annotation) is Annotated:
        return _plain_types(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return tuple(one for part in get_args(annotation) for one in _plain_types(part))
    return (annotation,)


def allowed_beside(name: str) -> str:
    """The fields nearest to an unknown one: of the same branch, or of all."""
    branch = name.partition(".")[0]
    beside = [leaf for leaf in known_leaves() if leaf.startswith(f"{branch}.")]
    return f"{branch} has {nearest(name, beside)}" if beside else f"the fields are {nearest(name, known_leaves())}"


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
        if isinstance(value, dict):  # much quicker than to ask for a Mapping
            flat |= flattened(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


@lru_cache(maxsize=2**16)  # the same configs (one a cell) are asked for by whoever shows, compares or labels cells
def fields_of(config: TrialConfig) -> Mapping[str, Any]:
    """The fields of a trial by their dotted names, as JSON has them."""
    return MappingProxyType(flattened(config.model_dump(mode="json")))


def _fields_of(model: type[BaseModel], prefix: str) -> list[str]:
    names: list[str] = []
    for name in model.model_fields:
        names.append(prefix + name)
        for inner in records_of(model, name):
            names += _fields_of(inner, f"{prefix}{name}.")
    return list(dict.fromkeys(names))
