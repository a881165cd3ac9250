"""Settings in words, and the axes that set a sweep's cells apart beside T, q and d: a column for each.

Axes are named as a sweep file names them, by the shortest end of the dotted field that no other field shares: `query` for
`model.positions.query`, `optimizer.kind` for itself.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any, Protocol

from dashboards.words.style import architecture_name
from stsq_core.configs import WIDTH, Size, TrialConfig
from sweeps.findings import ClaimSetting, Regime
from sweeps.laws import ScalingLaw
from sweeps.schema import TARGET, fields_of, free_fields, known_leaves
from sweeps.thresholds import WidthThreshold

COLUMNS_OF_THEIR_OWN = frozenset({"model.kind", "task.T", "task.q", "task.d"})


MAX_SETTINGS = 60
"""Characters of a name in which every setting is named, also the usual ones."""


class OfCell(Protocol):
    """Anything that belongs to one cell: its threshold, or its progress."""

    @property
    def kind(self) -> str: ...
    @property
    def label(self) -> str: ...
    @property
    def config_sample(self) -> TrialConfig: ...


@dataclass(frozen=True)
class Axes:
    """The dotted fields in which the cells of each architecture differ, without those that have columns of their own."""

    by_kind: Mapping[str, tuple[str, ...]]
    usual: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """The commonest value of each field, for an architecture of many settings whose cells are few of their combinations."""
    following: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """The fields of an architecture that one before them settles, as steps may follow the optimizer."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of all architectures, each once."""
        return tuple(dict.fromkeys(field for fields in self.by_kind.values() for field in fields))

    def values(self, cell: OfCell) -> dict[str, Any]:
        """A cell's values of all fields; None of one that it does not have."""
        own = _fields_of(cell)
        return {field: own.get(field) for field in self.fields}

    def family_settings(self, *cells: OfCell) -> tuple[str, ...]:
        """The settings that these cells share and others of their architecture do not: `query=sum`.

        Where all are too long for a name and few are crossed, those that are unusual. A setting that follows T (the length of a
        code) is left out, and so is one that follows another.
        """
        (own, *others), kind = [_fields_of(cell) for cell in cells], cells[0].kind
        fields = [
            name for name in self.by_kind.get(kind, ()) if name in own and all(other.get(name) == own[name] for other in others)
        ]
        usual = self.usual.get(kind)
        apart = [name for name in fields if name not in self.following.get(kind, ())]
        if usual is not None:
            apart = [name for name in fields if own[name] != usual[name]] or apart[:1]
        return _settings(own, apart)


def axes_of(thresholds: Iterable[OfCell]) -> Axes:
    """The axes of the cells of these thresholds, or of anything else that belongs to a cell."""
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for threshold in thresholds:
        by_kind.setdefault(threshold.kind, []).append(_fields_of(threshold))
    fields = {kind: _differing(cells) for kind, cells in by_kind.items()}
    following = {kind: frozenset(_following(by_kind[kind], own)) for kind, own in fields.items()}
    usual = {kind: _usual(by_kind[kind], own, following[kind]) for kind, own in fields.items()}
    return Axes(fields, {kind: own for kind, own in usual.items() if own is not None}, following)


def axes_of_configs(samples: Sequence[TrialConfig], size: Size) -> tuple[str, ...]:
    """The axes of cells that are known by a config of each, as `axes_of` has those of thresholds of a size."""
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for sample in samples:
        by_kind.setdefault(sample.model.kind, []).append(_flat(sample, size))
    return Axes({kind: _differing(cells) for kind, cells in by_kind.items()}).fields


def _settings(fields: Mapping[str, Any], names: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{field_name(name)}={value_words(fields[name]) or 'null'}" for name in names)


def _following(cells: Sequence[Mapping[str, Any]], fields: Sequence[str]) -> Iterable[str]:
    """Fields of the training whose value one field before them settles in all cells."""
    for place, name in enumerate(fields):
        for other in fields[:place] if name.startswith("training.") else ():
            pairs = {(repr(cell.get(other)), repr(cell.get(name))) for cell in cells}
            if len(pairs) == len({first for first, _ in pairs}):
                yield name
                break


def _usual(cells: Sequence[Mapping[str, Any]], fields: Sequence[str], following: Collection[str]) -> dict[str, Any] | None:
    """The commonest value of each field; None where all fit into a name, or cells are more than half of the combinations."""
    rows = {tuple(repr(cell.get(name)) for name in fields) for cell in cells}
    columns = [set(column) for name, column in zip(fields, zip(*rows, strict=True), strict=True) if name not in following]
    named = [name for name in fields if name not in following]
    longest = max(len(", ".join(_settings(cell, [name for name in named if name in cell]))) for cell in cells)
    if longest <= MAX_SETTINGS or 2 * len(rows) > math.prod(map(len, columns)):
        return None
    commonest = [Counter(column).most_common(1)[0][0] for column in zip(*sorted(rows), strict=True)]
    of_repr = {repr(cell.get(name)): cell.get(name) for cell in cells for name in fields}
    return {name: of_repr[value] for name, value in zip(fields, commonest, strict=True)}


def _fields_of(cell: OfCell) -> Mapping[str, Any]:
    """The fields of a cell but its size, and of several thresholds the target of each."""
    if not isinstance(cell, WidthThreshold):
        return _flat(cell.config_sample)
    fields = _flat(cell.config_sample, cell.size)
    return fields if cell.num_targets == 1 else {**fields, TARGET: cell.target_loss}


def family_title(regime: Regime, axes: Axes) -> str:
    """The family of a regime of cells: its architecture, with what sets it apart from others of it: `Transformer query=sum`."""
    return " ".join([architecture_name(regime.kind), *axes.family_settings(*regime.thresholds)])


def family_names(laws: Sequence[ScalingLaw], thresholds: Sequence[WidthThreshold]) -> tuple[str, ...]:
    """The family of each law fitted to these thresholds; nothing where all cells are of one family."""
    axes = axes_of(thresholds)
    families = [law.fit.cells.thresholds for law in laws]
    names = [" ".join([cells[0].kind, *axes.family_settings(*cells)]) for cells in families]
    several = len(set(names)) > 1 or len({axes.family_settings(one) for one in thresholds}) > 1
    return tuple(name if several else "" for name in names)


def field_name(field: str) -> str:
    """The shortest unambiguous end of a dotted field; a model's field takes precedence over a task's of the same name."""
    leaves = known_leaves()
    if not field.startswith("task."):
        leaves = tuple(leaf for leaf in leaves if not leaf.startswith("task."))
    return _shortest(field, leaves)


@cache
def _shortest(field: str, leaves: tuple[str, ...]) -> str:
    parts = field.split(".")
    ends = [".".join(parts[-count:]) for count in range(1, len(parts) + 1)]
    return next((end for end in ends if sum(f".{leaf}".endswith(f".{end}") for leaf in leaves) == 1), field)


def value_words(value: object) -> str:
    """A value as a sweep file would have it; nothing for a field that is not there."""
    match value:
        case None:
            return ""
        case float():
            return f"{value:g}"
        case _:
            return str(value)


@lru_cache(maxsize=2**16)  # one config a cell, for whatever tells cells apart
def _flat(config: TrialConfig, size: Size = WIDTH) -> Mapping[str, Any]:
    flat = fields_of(config)
    own = COLUMNS_OF_THEIR_OWN.union(free_fields(size))
    return {field: value for field, value in flat.items() if field not in own}


def _differing(cells: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Fields with several values. A field with one value that only some cells have follows from another field."""
    fields = dict.fromkeys(field for cell in cells for field in cell)
    return tuple(field for field in fields if len({repr(cell[field]) for cell in cells if field in cell}) > 1)


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
"""Values of fields in the words of the papers."""

FIXED_BY_ONE_HOT = ("model.positions.redraw", "model.positions.d_e", "model.positions.query")
"""Fields without a choice where codes are one-hot."""


def setting_words(fields: Iterable[tuple[str, Any]]) -> str:
    """Fields with their values, for a legend: `d_e = 48, stochastic codes`."""
    shown = dict(fields)
    if shown.get("model.positions.kind") == "one_hot":
        shown = {name: value for name, value in shown.items() if name not in FIXED_BY_ONE_HOT}
    return joined_words(
        SPOKEN.get((name, value), f"{field_name(name)} = {value_words(value)}") for name, value in shown.items()
    )


def joined_words(parts: Iterable[str]) -> str:
    """Settings in words, one after another; learned codes are not redrawn, and not fixed either."""
    told = list(parts)
    is_learned = SPOKEN["model.positions.kind", "learned"] in told
    return ", ".join(one for one in told if not (is_learned and one == SPOKEN["model.positions.redraw", "never"]))


def number_words(value: float | None) -> str:
    """A number of a claim; nothing where there is none."""
    return "" if value is None else f"{value:.4g}"


def setting_interval(setting: ClaimSetting, *, number: Callable[[Any], str] = "{:.4g}".format) -> str:
    """The interval of a setting, its open end spelled out; `number` writes an end."""
    match setting.low, setting.high:
        case None, None:
            return ""
        case low, None:
            return f"above {number(low)}"
        case None, high:
            return f"below {number(high)}"
        case low, high:
            return f"{number(low)} to {number(high)}"
