"""From a declared group to its trials: every combination of axis values, checked as a `TrialConfig` of its own."""

import hashlib
import math
from collections.abc import Iterator
from functools import reduce
from itertools import product
from typing import Any

from pydantic import ValidationError

from stsq_core.architecture import Fcn, Transformer
from stsq_core.positions import OneHot
from stsq_core.trial import TrialConfig
from sweeps.axes import is_axis, values_of
from sweeps.errors import Path, PlacedError, first_problem
from sweeps.fields import with_field
from sweeps.spec import SweepSpec, TrialGroup

MAX_TRIALS = 1_000_000
SEED_BITS = 48
"""Derived seeds stay exact as JSON numbers, and two of a million meet with a probability under 1%."""


def cell_of(config: TrialConfig) -> str:
    """Twelve hex digits that name a trial's cell: equal for configs that differ only in width, seed and learning rate.

    The width of one-hot codes is not free (`d_e = T`), so there it stays part of the cell.
    """
    match config.model:
        case Transformer(positions=OneHot()):
            model: Transformer | Fcn = config.model
        case Transformer(positions=positions):
            model = config.model.model_copy(update={"positions": positions.model_copy(update={"d_e": 1})})
        case Fcn():
            model = config.model.model_copy(update={"width": 1})
    optimizer = config.optimizer.model_copy(update={"lr": 1.0})
    first = config.model_copy(update={"model": model, "optimizer": optimizer, "seed": 0})
    return hashlib.sha256(f"cell {first.trial_id}".encode()).hexdigest()[:12]


def derived_seed(cell_id: str, index: int) -> int:
    """The `index`-th seed of a cell: another for every cell, and the same however many are asked for."""
    digest = hashlib.sha256(f"seed {cell_id} {index}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - SEED_BITS)


def configs_of(group: TrialGroup, path: Path) -> Iterator[TrialConfig]:
    """The trials of a group, in the order of its axes; `path` is the group's own, for errors.

    Raises:
        PlacedError: a combination that is no valid trial, with the path of the offending field.
    """
    for assignment in _assignments(group):
        # A branch (`model.positions`) is set before the leaves under it.
        ordered = sorted(assignment.items(), key=lambda item: item[0].count("."))
        data = reduce(lambda base, item: with_field(base, *item), ordered, group.base)
        try:
            config = TrialConfig.model_validate(data)
        except ValidationError as error:
            where, problem = first_problem(error, TrialConfig, data)
            raise PlacedError((*path, *_standing(group, assignment, where, problem)), problem) from None
        for seed in seeds_of(group, config):
            yield config.model_copy(update={"seed": seed})


def seeds_of(group: TrialGroup, config: TrialConfig) -> tuple[int, ...]:
    """The seeds that a group gives to the cell of `config`."""
    if isinstance(group.seeds, tuple):
        return group.seeds
    cell_id = cell_of(config)
    return tuple(derived_seed(cell_id, index) for index in range(group.seeds))


def all_configs(spec: SweepSpec) -> Iterator[tuple[TrialGroup, TrialConfig]]:
    """Every trial of a sweep with the group that declares it; a trial declared twice comes twice.

    Raises:
        PlacedError: as `configs_of`, or a sweep too large to be meant.
    """
    total = sum(num_trials(group) for group in spec.trials)
    if total > MAX_TRIALS:
        raise PlacedError(
            ("trials",), f"this sweep has {total} trials; at most {MAX_TRIALS} are allowed: use fewer values or seeds"
        )
    for place, group in enumerate(spec.trials):
        for config in configs_of(group, ("trials", place)):
            yield group, config


def num_trials(group: TrialGroup) -> int:
    """How many trials a group declares."""
    crossed = math.prod(len(values_of(axis)) for axis in group.grid.values())
    cases = sum(math.prod(len(values) for values in case.values()) for case in _cases(group))
    return crossed * cases * (len(group.seeds) if isinstance(group.seeds, tuple) else group.seeds)


def _assignments(group: TrialGroup) -> Iterator[dict[str, Any]]:
    """Every combination of axis values: dotted field to value."""
    for case in _cases(group):
        axes = {**{name: values_of(axis) for name, axis in group.grid.items()}, **case}
        for values in product(*axes.values()):
            yield dict(zip(axes, values, strict=True))


def _cases(group: TrialGroup) -> list[dict[str, tuple[Any, ...]]]:
    """The zipped cases; each gives every zipped field the values that it takes within the case."""
    if not group.zip:
        return [{}]
    rows = zip(*group.zip.values(), strict=True)
    return [{name: values_of(v) if is_axis(v) else (v,) for name, v in zip(group.zip, row, strict=True)} for row in rows]


def _standing(group: TrialGroup, assignment: dict[str, Any], where: Path, problem: str) -> Path:
    """Where in the group the field `where` of a config got its value: on an axis, or in the base.

    A relation between fields (`q <= T`) stands at an axis that it names, if it names one.
    """
    name = ".".join(str(part) for part in where)
    for axis in sorted(assignment, key=len, reverse=True):
        named = axis.startswith(f"{name}." if where else "") and f"{axis.rpartition('.')[2]}=" in problem
        # An axis over a branch is to blame for all that lies under it.
        if name == axis or name.startswith(f"{axis}.") or named:
            return ("grid" if axis in group.grid else "zip", axis)
    return ("base", *where)
