"""The cells of a sweep whose widths are searched: what a point of theirs is, checked before anything runs.

An end of a range that is left out lies at a multiple of the width that theory leads one to expect on sparse token selection:
0.25 and 8 times the length `d_e = 2.5 q ln T` of the code of a transformer, 0.5 and 4 times the exact lower bound
`T d (1 - r (T-1)/(T-q))` of a fully connected net, r the target loss. The ranges are generous: a search finds a threshold in
a range far too wide.
"""

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import ValidationError

from stsq_core.configs import MODELS, WIDTH, Architecture, Size, Stsq, TrialConfig, TrialFamily, shown
from stsq_core.oracles import theory
from sweeps.cells.cell import Cell, describe, distinct_labels
from sweeps.cells.expansion import SEED_BITS, assignments, data_of, num_combinations, path_in_group
from sweeps.cells.trials import Trials, cell_of
from sweeps.schema import (
    Criterion,
    Path,
    PlacedError,
    SearchSettings,
    SweepSpec,
    TrialGroup,
    WidthRange,
    first_problem,
    with_field,
)

MAX_CELLS = 10_000

FACTOR = 2.5
"""Of `q ln T`, about the code length at which the relative loss reaches 0.1 (docs/thresholds.md)."""
TIMES = {"attention": (0.25, 8.0), "td_power": (0.5, 4.0)}
"""The ends of a derived range as multiples of the expected size."""


@dataclass(frozen=True)
class SearchedCell:
    """A cell whose threshold is searched among the sizes `low` to `high`, every point with all `rates`."""

    cell_id: str
    group: str
    label: str
    family: TrialFamily
    rates: tuple[float, ...]
    low: int
    high: int

    def trials(self, points: Sequence[tuple[int, int]]) -> Trials:
        """The trials of some points (width, seed): one a learning rate."""
        num = len(self.rates)
        widths, seeds = (np.repeat(np.array(column, dtype=np.int64), num) for column in zip(*points, strict=True))
        rates = np.tile(np.array(self.rates), len(points))
        return Trials([self.family], np.zeros(len(widths), dtype=np.int64), widths, rates, seeds)

    @property
    def offset(self) -> int:
        """The part of the width that is not searched: d of m = d + d_e."""
        sample = self.family.sample
        return sample.model.offset(sample.task) if self.family.size == WIDTH else 0

    def tolerance_offset(self, settings: SearchSettings) -> int:
        """What is taken off the width before the tolerance of a search is applied."""
        return self.offset if settings.tolerance_of == "d_e" else 0

    def even_widths(self, num: int) -> tuple[int, ...]:
        """At most `num` whole widths from low to high in equal ratios."""
        return tuple(dict.fromkeys(round(width) for width in np.geomspace(self.low, self.high, num).tolist()))


def point_seed(cell_id: str, number: int, *, seed: int = 0) -> int:
    """The seed of a cell's point by its number and the search's `seed`: no other point's, nor one that a grid derives."""
    digest = hashlib.sha256(f"point {cell_id} {number}{f' {seed}' if seed else ''}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - SEED_BITS)


def searched_cells_of(spec: SweepSpec, declared: Sequence[Cell]) -> tuple[tuple[Cell, ...], tuple[SearchedCell, ...]]:
    """The cells of a sweep's searches in the order they are declared; `declared` are the cells of its grids.

    Where the task leaves a model one width (one-hot codes have d_e = T) there is none to search: such cells come first, each
    with the seeds of one round at that width.

    Raises:
        PlacedError: a combination of values that is no valid trial, a width that is given as well, or a cell declared twice.
    """
    found: dict[str, tuple[int, TrialGroup, TrialConfig, list[float]]] = {}
    _check_size(spec)
    for place, group in enumerate(spec.trials):
        if group.search is None:
            continue
        for config in _configs(group, ("trials", place), spec.criterion.size):
            cell_id = cell_of(config, spec.criterion.size)
            first, _, _, rates = found.setdefault(cell_id, (place, group, config, []))
            if first != place:
                raise PlacedError(
                    ("trials", place, "search"),
                    f"the cell {cell_id} of group {group.name!r} is searched by group {spec.trials[first].name!r} too: "
                    "declare it in one group",
                )
            rates.append(config.optimizer.lr)
    _check_not_declared(declared, {cell_id: place for cell_id, (place, *_) in found.items()})
    labels = distinct_labels([config for *_, config, _ in found.values()], spec.criterion.size)
    of_one_width, searched = [], []
    for (cell_id, (place, group, config, rates)), label in zip(found.items(), labels, strict=True):
        is_fixed = spec.criterion.size == WIDTH and config.model.is_sized_by_task
        ends = (config.width, config.width) if is_fixed else _range(spec, place, config)
        cell = SearchedCell(cell_id, group.name, label, _family(spec, config), tuple(sorted(set(rates))), *ends)
        if is_fixed:
            seeds = [point_seed(cell_id, number, seed=spec.search.seed) for number in range(spec.search.batch)]
            of_one_width.append(Cell(cell_id, group.name, label, cell.trials([(config.width, seed) for seed in seeds])))
        else:
            searched.append(cell)
    return tuple(of_one_width), tuple(searched)


def _range(spec: SweepSpec, place: int, config: TrialConfig) -> tuple[int, int]:
    """The least and the largest size of the cell of `config` in the group at `place`, widths as widths m.

    Raises:
        PlacedError: an end is left out where no law gives it, or what the law gives does not go with the other end.
    """
    widths, criterion, path = spec.trials[place].search, spec.criterion, ("trials", place, "search")
    assert widths is not None
    offset = config.model.offset(config.task) if criterion.size == WIDTH else 0
    given = offset if widths.of == "d_e" else 0
    low, high = (None if end is None else end + given for end in (widths.low, widths.high))
    if low is not None and high is not None:
        return low, high
    least, most = _derived(widths, config, criterion, path)
    ends = least + offset if low is None else low, most + offset if high is None else high
    if ends[1] <= ends[0]:
        own, other, side = ("high", "low", "above") if low is not None else ("low", "high", "below")
        values = {"low": ends[0] - given, "high": ends[1] - given}
        raise PlacedError(
            (*path, own),
            f"the law of the threshold puts {own} at {values[own]} for {describe(config)}, and it must lie {side} {other}; "
            f"got {other}={values[other]}: give {own} as well, or leave {other} out",
        )
    return ends


def _derived(widths: WidthRange, config: TrialConfig, criterion: Criterion, path: Path) -> tuple[int, int]:
    """Both ends of the number that is searched: of d_e, or of the units of a net."""
    task, law = config.task, config.model.width_law
    if criterion.size != WIDTH or law is None or type(task) is not Stsq:
        raise PlacedError(
            (*path, "low" if widths.low is None else "high"),
            "a range is derived for the width of the transformer and of the fcn on the task stsq only; got the "
            f"{criterion.size.noun} of model.kind={config.model.kind} on task.kind={task.kind}: give low and high",
        )
    if law == "attention":
        expected = (FACTOR * task.q * math.log(task.T),) * 2
    else:
        ends = [theory.fcn_width_bound(target, T=task.T, d=task.d, q=task.q) for target in criterion.targets]
        expected = min(ends), max(ends)
    least, most = (times * end for times, end in zip(TIMES[law], expected, strict=True))
    low = max(1, math.floor(least))
    return low, max(low + 1, math.ceil(most))


def _family(spec: SweepSpec, config: TrialConfig) -> TrialFamily:
    return TrialFamily(config, spec.criterion.size)


def _check_size(spec: SweepSpec) -> None:
    num = sum(num_combinations(group) for group in spec.trials if group.search is not None)
    if num > MAX_CELLS:
        raise PlacedError(("trials",), f"this sweep searches {num} settings; at most {MAX_CELLS} are allowed: use fewer values")


def _check_not_declared(declared: Sequence[Cell], places: Mapping[str, int]) -> None:
    """Refuse a cell that is searched and has a grid of widths as well: its threshold would have two definitions."""
    for cell in declared:
        if cell.cell_id in places:
            raise PlacedError(
                ("trials", places[cell.cell_id], "search"),
                f"the cell {cell.label!r} is searched here and is a grid in group {cell.group!r}: declare it in one group "
                "(a search takes over what a ledger holds of the grid)",
            )


def _configs(group: TrialGroup, path: Path, size: Size) -> Iterator[TrialConfig]:
    """Every combination of axis values at the least size."""
    for assignment in assignments(group):
        data = _with_least_size(group, assignment, path, size)
        try:
            yield TrialConfig.model_validate(data)
        except ValidationError as error:
            where, problem = first_problem(error, TrialConfig, data)
            raise PlacedError((*path, *path_in_group(group, assignment, where, problem)), problem) from None


def _with_least_size(group: TrialGroup, assignment: dict[str, Any], path: Path, size: Size) -> Mapping[str, Any]:
    """The data of a trial with the least size put in, 1 where the range has yet to be derived; left as it is where validation
    finds other faults.
    """
    assert group.search is not None
    data, low, is_of_code = data_of(group, assignment), group.search.low or 1, group.search.of == "d_e"
    if size != WIDTH:
        if is_of_code:
            reason = f"thresholds are of the {size.noun}; got of=d_e: leave it out, low and high are of the {size.noun}"
            raise PlacedError((*path, "search", "of"), reason)
        return _with_searched(group, assignment, path, size, data, size.name, low)
    model, task = data.get("model"), data.get("task")
    if not isinstance(model, Mapping) or model.get("kind") not in MODELS:
        return data
    kind = model["kind"]
    record = MODELS[kind]
    assert issubclass(record, Architecture)
    branch, dot, _ = record.size_field.partition(".")
    if dot and not isinstance(model.get(branch), Mapping):
        return data
    if record.is_sized_in(model):
        return data
    offset = record.offset_in(task) if isinstance(task, Mapping) else 0
    if is_of_code and record.size_field.rpartition(".")[2] != "d_e":
        reason = f"the width of model.kind={kind} is its units, not d + d_e; got of=d_e: use of: m, or leave it out"
        raise PlacedError((*path, "search", "of"), reason)
    if is_of_code or group.search.low is None:
        low += offset
    if offset and low <= offset:
        raise PlacedError(
            (*path, "search", "low"),
            f"low must exceed d, because the width of model.kind={kind} is m = d + d_e with d_e >= 1; "
            f"got low={low}, d={offset}: use low: {offset + 1} or more",
        )
    return _with_searched(group, assignment, path, size, data, f"model.{record.size_field}", low - offset)


def _with_searched(
    group: TrialGroup, assignment: dict[str, Any], path: Path, size: Size, data: Mapping[str, Any], field: str, value: int
) -> Mapping[str, Any]:
    """The data with the searched field at a value, which it must not have of its own."""
    *branch, leaf = field.split(".")
    inner: Any = data
    for part in branch:
        inner = inner.get(part, {}) if isinstance(inner, Mapping) else {}
    if isinstance(inner, Mapping) and leaf in inner:
        where = path_in_group(group, assignment, (*branch, leaf), "")
        problem = f"the {size.noun} is searched; got {field}={shown(inner[leaf])} as well: leave {leaf} out"
        raise PlacedError((*path, *where), problem)
    return with_field(data, field, value)
