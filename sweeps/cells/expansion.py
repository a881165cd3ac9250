"""From a declared sweep to its trials: every combination of axis values, checked.

`configs_of` makes them one by one. `blocks_of` gives the same trials as columns, for sweeps of a million: width, learning rate
and seed stand in no relation to other fields, so their values are checked once each, and every other combination once.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
from pydantic import ValidationError

from stsq_core.configs import WIDTH, Size, TrialConfig, TrialFamily
from sweeps.cells.cell import Cell, distinct_labels
from sweeps.cells.trials import Trials, cell_of, cell_of_family
from sweeps.schema import Path, PlacedError, SweepSpec, TrialGroup, first_problem, is_axis, values_of, with_field

RATE_AXIS = "optimizer.lr"
"""With the axis of a model's size, the axes whose values are valid or not whatever the rest of a trial is."""

MAX_TRIALS = 1_000_000
SEED_BITS = 48
"""Derived seeds stay exact as JSON numbers, and two of a million meet with a probability under 1%."""


def derived_seed(cell_id: str, index: int) -> int:
    """The `index`-th seed of a cell: another for every cell, and the same however many are asked for."""
    digest = hashlib.sha256(f"seed {cell_id} {index}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - SEED_BITS)


@dataclass(frozen=True)
class Block:
    """Trials of one family that a group declares, as columns; `places` orders the trials of the whole sweep."""

    group: str
    cell_id: str
    family: TrialFamily
    widths: np.ndarray
    rates: np.ndarray
    seeds: np.ndarray
    places: np.ndarray


class _NotFreeError(Exception):
    """A group whose sizes must be checked together with the rest."""


def configs_of(group: TrialGroup, path: Path, size: Size = WIDTH) -> Iterator[TrialConfig]:
    """The trials of a group, in the order of its axes; `path` is the group's own, for errors.

    Raises:
        PlacedError: a combination that is no valid trial, with the path of the offending field.
    """
    for config in _checked(group, path, size):
        for seed in _seeds(group, cell_of(config, size)):
            yield config.model_copy(update={"seed": seed})


def _checked(group: TrialGroup, path: Path, size: Size) -> Iterator[TrialConfig]:
    """Every combination of axis values as a config that has no seed yet."""
    for assignment in assignments(group):
        data = data_of(group, assignment)
        try:
            config = TrialConfig.model_validate(data)
        except ValidationError as error:
            where, problem = first_problem(error, TrialConfig, data)
            raise PlacedError((*path, *path_in_group(group, assignment, where, problem)), problem) from None
        if not size.applies_to(config):
            problem = f"thresholds are of {size.name}, and trials of group {group.name!r} have no whole number there"
            raise PlacedError(("criterion", "of"), f"{problem}: give it one in every group, or use another `of`")
        yield config


def _seeds(group: TrialGroup, cell_id: str) -> tuple[int, ...]:
    if isinstance(group.seeds, tuple):
        return group.seeds
    return tuple(derived_seed(cell_id, index) for index in range(group.seeds or 0))


def blocks_of(spec: SweepSpec) -> Iterator[Block]:
    """Every trial of a sweep's grids as columns; one that is declared twice comes twice, and `places` gives their order.

    Raises:
        PlacedError: as `configs_of`, or a sweep too large to be meant.
    """
    _check_size(spec)
    start = 0
    for place, group in _grids(spec):
        path: Path = ("trials", place)
        try:
            yield from list(_blocks(group, start, spec.criterion.size))
        except (ValidationError, _NotFreeError):
            for _ in _checked(group, path, spec.criterion.size):
                pass
            yield from _blocks_one_by_one(group, path, start, spec.criterion.size)
        start += num_trials(group)


def declared_cells(spec: SweepSpec) -> tuple[Cell, ...]:
    """The cells whose trials a sweep declares beforehand, in the order of declaration, each trial once.

    Raises:
        PlacedError: a combination of values that is no valid trial.
    """
    blocks: dict[str, list[Block]] = {}
    for block in blocks_of(spec):
        blocks.setdefault(block.cell_id, []).append(block)
    cells = sorted(blocks.values(), key=lambda own: min(int(block.places.min()) for block in own))
    labels = distinct_labels([own[0].family.sample for own in cells], spec.criterion.size)
    return tuple(Cell(own[0].cell_id, own[0].group, label, _trials(own)) for own, label in zip(cells, labels, strict=True))


def _trials(blocks: Sequence[Block]) -> Trials:
    """The trials of one cell in the order in which they are declared, each once."""
    columns = [np.concatenate([getattr(block, name) for block in blocks]) for name in ("seeds", "rates", "widths", "places")]
    order = np.lexsort(columns[::-1])
    seeds, rates, widths, _ = (column[order] for column in columns)
    again = (np.diff(seeds) == 0) & (np.diff(rates) == 0) & (np.diff(widths) == 0)
    first = order[np.concatenate([[True], ~again])]
    seeds, rates, widths, places = (column[first] for column in columns)
    declared = np.argsort(places)
    family = np.zeros(len(declared), dtype=np.int64)
    return Trials([blocks[0].family], family, widths[declared], rates[declared], seeds[declared])


def _grids(spec: SweepSpec) -> Iterator[tuple[int, TrialGroup]]:
    """The groups that declare their trials beforehand, each with its place; those of the others are searched."""
    return ((place, group) for place, group in enumerate(spec.trials) if group.search is None)


def _check_size(spec: SweepSpec) -> None:
    total = sum(num_trials(group) for _, group in _grids(spec))
    if total > MAX_TRIALS:
        raise PlacedError(
            ("trials",),
            f"this sweep has {total} trials; at most {MAX_TRIALS} are allowed: use fewer values or seeds, or divide it "
            "into runs, a value of an axis each (--set task.T=16 --out runs/T16)",
        )


def _blocks(group: TrialGroup, start: int, size: Size) -> Iterator[Block]:
    num_seeds = _num_seeds(group)
    for axes in _crossed(group):
        free = {name: values for name, values in axes.items() if name in (RATE_AXIS, _size_axis(group, axes, size))}
        other = {name: values for name, values in axes.items() if name not in free}
        strides = _strides(axes)
        columns = _free_columns(group, free, {name: values[0] for name, values in other.items()})
        offsets = sum((strides[name] * index for name, index in columns.index.items()), np.zeros(columns.size, dtype=np.int64))
        for indices in product(*(range(len(values)) for values in other.values())):
            chosen = {name: values[index] for (name, values), index in zip(other.items(), indices, strict=True)}
            config = TrialConfig.model_validate(data_of(group, chosen | {name: values[0] for name, values in free.items()}))
            if columns.size_axis is not None and columns.size_axis != _free_size_axis(config):
                raise _NotFreeError
            if not size.applies_to(config):
                raise _NotFreeError
            family = TrialFamily(config, size)
            cell_id = cell_of_family(family)
            seeds = np.array(_seeds(group, cell_id), dtype=np.int64)
            first = sum(strides[name] * index for name, index in zip(other, indices, strict=True))
            yield Block(
                group.name,
                cell_id,
                family,
                np.repeat(columns.widths(config, size), num_seeds),
                np.repeat(columns.rates(config), num_seeds),
                np.tile(seeds, columns.size),
                np.add.outer(start + (first + offsets) * num_seeds, np.arange(num_seeds)).ravel(),
            )
        start += math.prod(len(values) for values in axes.values()) * num_seeds


@dataclass(frozen=True)
class _FreeColumns:
    """Every combination of the values of the free axes: `index` into each axis, and the checked values."""

    size: int
    index: dict[str, np.ndarray]
    values: dict[str, np.ndarray]

    @property
    def size_axis(self) -> str | None:
        """The axis of the model's size, if there is one."""
        return next((name for name in self.values if name != RATE_AXIS), None)

    def rates(self, config: TrialConfig) -> np.ndarray:
        rates = self.values.get(RATE_AXIS)
        return np.full(self.size, config.optimizer.lr) if rates is None else rates[self.index[RATE_AXIS]]

    def widths(self, config: TrialConfig, size: Size) -> np.ndarray:
        """The sizes that thresholds are about."""
        if (axis := self.size_axis) is None:
            return np.full(self.size, size.of(config))
        return np.asarray(self.values[axis][self.index[axis]] + config.model.offset(config.task))


def _free_columns(group: TrialGroup, free: Mapping[str, tuple[Any, ...]], other: dict[str, Any]) -> _FreeColumns:
    """The free axes crossed, their values checked beside the first of all other values."""
    first = {name: values[0] for name, values in free.items()}
    checked: dict[str, np.ndarray] = {}
    for name, values in free.items():
        configs = [TrialConfig.model_validate(data_of(group, other | first | {name: value})) for value in values]
        if name == RATE_AXIS:
            checked[name] = np.array([config.optimizer.lr for config in configs], dtype=np.float64)
        else:
            checked[name] = np.array([config.model.size for config in configs], dtype=np.int64)
    size = math.prod(len(values) for values in free.values())
    index = np.indices([len(values) for values in free.values()]).reshape(len(free), size)
    return _FreeColumns(size, dict(zip(free, index, strict=True)), checked)


def _size_axis(group: TrialGroup, axes: Mapping[str, tuple[Any, ...]], size: Size) -> str | None:
    """The axis of the model's size in the trial of the first values; None where the task fixes the size.

    Where the threshold is of another field than the width, its values are checked together with the rest.
    """
    if size != WIDTH:
        return None
    return _free_size_axis(TrialConfig.model_validate(data_of(group, {name: values[0] for name, values in axes.items()})))


def _free_size_axis(config: TrialConfig) -> str | None:
    return None if config.model.is_sized_by_task else f"model.{config.model.size_field}"


def _blocks_one_by_one(group: TrialGroup, path: Path, start: int, size: Size) -> Iterator[Block]:
    for place, config in enumerate(configs_of(group, path, size), start=start):
        columns = ([size.of(config)], [config.optimizer.lr], [config.seed], [place])
        yield Block(group.name, cell_of(config, size), TrialFamily(config, size), *map(np.array, columns))


def _strides(axes: Mapping[str, tuple[Any, ...]]) -> dict[str, int]:
    """By how many combinations one value of an axis is ahead of the next: the last axis runs fastest."""
    strides, stride = {}, 1
    for name, values in reversed(list(axes.items())):
        strides[name] = stride
        stride *= len(values)
    return strides


def num_trials(group: TrialGroup) -> int:
    """How many trials a group declares beforehand."""
    return num_combinations(group) * _num_seeds(group)


def num_combinations(group: TrialGroup) -> int:
    """How many combinations of axis values a group has."""
    crossed = math.prod(len(values_of(axis)) for axis in group.grid.values())
    return crossed * sum(math.prod(len(values) for values in case.values()) for case in _cases(group))


def _num_seeds(group: TrialGroup) -> int:
    return len(group.seeds) if isinstance(group.seeds, tuple) else group.seeds or 0


def assignments(group: TrialGroup) -> Iterator[dict[str, Any]]:
    """Every combination of axis values: dotted field to value."""
    for axes in _crossed(group):
        for values in product(*axes.values()):
            yield dict(zip(axes, values, strict=True))


def data_of(group: TrialGroup, assignment: Mapping[str, Any]) -> Mapping[str, Any]:
    """The base with axis values set: a branch (`model.positions`) before the leaves under it."""
    ordered = sorted(assignment.items(), key=lambda item: item[0].count("."))
    return reduce(lambda base, item: with_field(base, *item), ordered, group.base)


def _crossed(group: TrialGroup) -> Iterator[dict[str, tuple[Any, ...]]]:
    """The axes of each zipped case: all combinations of their values are trials."""
    for case in _cases(group):
        yield {**{name: values_of(axis) for name, axis in group.grid.items()}, **case}


def _cases(group: TrialGroup) -> list[dict[str, tuple[Any, ...]]]:
    """The zipped cases; each gives every zipped field the values that it takes within the case."""
    if not group.zip:
        return [{}]
    rows = zip(*group.zip.values(), strict=True)
    return [{name: values_of(v) if is_axis(v) else (v,) for name, v in zip(group.zip, row, strict=True)} for row in rows]


def path_in_group(group: TrialGroup, assignment: dict[str, Any], where: Path, problem: str) -> Path:
    """The path in the group at which the field `where` of a config got its value: an axis, or the base.

    A relation between fields (`q <= T`) belongs to an axis that it names, if it names one.
    """
    name = ".".join(str(part) for part in where)
    for axis in sorted(assignment, key=len, reverse=True):
        named = axis.startswith(f"{name}." if where else "") and f"{axis.rpartition('.')[2]}=" in problem
        # An axis over a branch is to blame for all that lies under it.
        if name == axis or name.startswith(f"{axis}.") or named:
            return ("grid" if axis in group.grid else "zip", axis)
    return ("base", *where)
