"""A sweep with its cells, expanded once and handed on, and the plan of what is left to train: packs and their cost.

Some fields vary though nobody varies them, a kind of code has a query and a redraw of its own by default: they are named.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from stsq_core.configs import Size, TrialConfig, UserError
from stsq_core.oracles import theorem_lines
from sweeps.cells.cell import Cell
from sweeps.cells.expansion import declared_cells
from sweeps.cells.packs import ANYWHERE, Pack, Room, make_packs
from sweeps.cells.searched import SearchedCell, searched_cells_of
from sweeps.cells.shard import Shard
from sweeps.cells.trials import Trials
from sweeps.schema import LOSS, SweepSpec, TrialGroup, fields_of, flattened, free_fields, values_of


@dataclass(frozen=True)
class ExpandedSweep:
    """A sweep, its `cells` with the trials that it declares, and its `searched` cells, whose trials a search chooses.

    `notes` says what was left out of a sweep that another version kept.
    """

    spec: SweepSpec
    cells: tuple[Cell, ...]
    searched: tuple[SearchedCell, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, sweep: "SweepSpec | ExpandedSweep") -> "ExpandedSweep":
        """Expand a sweep; an expanded one is handed back as it is.

        Raises:
            PlacedError: a combination of values that is no valid trial, too many of them, or a cell that is declared twice.
        """
        if isinstance(sweep, ExpandedSweep):
            return sweep
        cells = declared_cells(sweep)
        of_one_width, searched = searched_cells_of(sweep, cells)
        return cls(sweep, (*cells, *of_one_width), searched)

    def of_shard(self, shard: Shard) -> "ExpandedSweep":
        """With the cells of a shard alone; their labels stay those among all cells.

        Raises:
            UserError: laws decide which cell is next.
        """
        if shard.count == 1:
            return self
        if self.spec.search.decide is not None:
            raise UserError(
                f"--shard {shard}: with search.decide the next cell follows from all others, so one process asks for them: run "
                "without --shard, with more workers"
            )
        cells = tuple(cell for cell in self.cells if shard.owns(cell.cell_id))
        return replace(self, cells=cells, searched=tuple(cell for cell in self.searched if shard.owns(cell.cell_id)))

    @cached_property
    def labels(self) -> dict[str, str]:
        """The label of each cell by its id."""
        return {cell.cell_id: cell.label for cell in self.cells} | {cell.cell_id: cell.label for cell in self.searched}

    @cached_property
    def several_rates(self) -> bool:
        """Whether some cell is tried at more than one learning rate, so that one is chosen for each size."""
        return any(len(cell.rates) > 1 for cell in self.searched) or any(len(cell.rates) > 1 for cell in self.cells)

    @cached_property
    def default_lines(self) -> list[str]:
        """The fields that an axis varies along with its own by their defaults, in words."""
        samples: dict[str, list[TrialConfig]] = {}
        for group, sample in [(cell.group, cell.trials[0]) for cell in self.cells] + [
            (cell.group, cell.family.sample) for cell in self.searched
        ]:
            samples.setdefault(group, []).append(sample)
        size = self.spec.criterion.size
        lines = [line for group in self.spec.trials for line in default_lines(group, samples.get(group.name, []), size)]
        return list(dict.fromkeys(lines))

    @cached_property
    def theorem_lines(self) -> list[str]:
        """Which of the paper's conditions cells do not meet, in words; without thresholds of the loss none is asked for."""
        cells = [(cell.trials[0], max(cell.rates)) for cell in self.cells]
        cells += [(cell.family.sample, max(cell.rates)) for cell in self.searched]
        criterion = self.spec.criterion
        is_asked = self.spec.has_thresholds and criterion.metric == LOSS
        return theorem_lines(cells, target_loss=criterion.target if is_asked else None)


def expand(sweep: SweepSpec | ExpandedSweep) -> tuple[Cell, ...]:
    """The cells of a sweep in the order they are declared, each trial once.

    Raises:
        PlacedError: as `ExpandedSweep.of`.
    """
    return ExpandedSweep.of(sweep).cells


def searched_cells(sweep: SweepSpec | ExpandedSweep) -> tuple[SearchedCell, ...]:
    """The searched cells of a sweep in the order they are declared.

    Raises:
        PlacedError: as `ExpandedSweep.of`.
    """
    return ExpandedSweep.of(sweep).searched


@dataclass(frozen=True)
class Plan:
    """The trials of a sweep that are still to run, in packs, and their cost."""

    cells: tuple[Cell, ...]
    packs: tuple[Pack, ...]
    num_done: int

    @cached_property
    def num_trials(self) -> int:
        """All trials of the sweep, done ones included."""
        return sum(len(cell.trials) for cell in self.cells)

    @cached_property
    def num_steps(self) -> int:
        """Model-steps to run: a step of a pack of 32 counts 32."""
        return sum(pack.num_steps * len(pack.trials) for pack in self.packs)

    @cached_property
    def operations(self) -> float:
        """Multiply-adds to run."""
        return sum(pack.operations for pack in self.packs)

    @cached_property
    def memory_bytes(self) -> float:
        """Working memory of the largest pack."""
        return max((pack.memory_bytes for pack in self.packs), default=0.0)

    def seconds(self, operations_per_s: float, *, slots: int = 1) -> float:
        """Wall time at a rate per slot: the work shared by all slots, but never less than the longest pack."""
        longest = max((pack.operations for pack in self.packs), default=0.0)
        return max(self.operations / slots, longest) / operations_per_s

    def device_hours(self, operations_per_s: float) -> float:
        """Hours of one device (GPU-hours where the device is a GPU) at a rate."""
        return self.operations / operations_per_s / 3600


def make_plan(sweep: SweepSpec | ExpandedSweep, *, room: Room = ANYWHERE, slots: int = 1, done: Collection[str] = ()) -> Plan:
    """The plan of a sweep; trials whose ids are in `done` are counted and not run again."""
    cells = ExpandedSweep.of(sweep).cells
    trials = Trials.joined([cell.trials for cell in cells])
    waiting = trials.take(np.array([trial_id not in done for trial_id in trials.trial_ids], dtype=bool)) if done else trials
    packs = make_packs(waiting, room=room, slots=slots)
    return Plan(cells, packs, len(trials) - len(waiting))


def default_lines(group: TrialGroup, samples: Sequence[TrialConfig], size: Size) -> list[str]:
    """`positions.kind also varies positions.query by default (sum for learned; dual for others)`, a line an axis.

    Args:
        group: whose axes they are.
        samples: a trial of each of its cells.
    """
    if not samples:
        return []
    fields = [fields_of(sample) for sample in samples]
    axes = {name: values_of(axis) for name, axis in group.grid.items()} | group.zip
    given = _given(group.base, axes)
    names = [name for name in fields[0] if name not in given | set(free_fields(size)) and all(name in own for own in fields)]
    brought: dict[str, list[str]] = {}
    for name in names:
        if len({repr(own[name]) for own in fields}) > 1 and (axis := _axis_behind(name, list(axes), fields)):
            brought.setdefault(axis, []).append(f"{_short(name)} by default ({_values(name, axis, fields)})")
    return [f"{_short(axis)} also varies {' and '.join(words)}" for axis, words in brought.items()]


def _given(base: Mapping[str, Any], axes: Mapping[str, Sequence[Any]]) -> set[str]:
    """The fields whose values the file writes for every trial; an axis over a branch gives what all of its values do."""
    given = set(flattened(dict(base))) | set(axes)
    for axis, values in axes.items():
        own = [set(flattened(value)) if isinstance(value, dict) else set() for value in values]
        given |= {f"{axis}.{name}" for name in set.intersection(*own)} if own else set()
    return given


def _axis_behind(name: str, axes: Sequence[str], fields: Sequence[Mapping[str, Any]]) -> str | None:
    """The kind, on an axis or within a branch that is one, which decides another field; that of its branch before others."""
    kinds = [axis if axis.endswith("kind") else f"{axis}.kind" for axis in axes]
    deciding = [
        kind
        for kind in kinds
        if all(kind in own for own in fields)
        and len({(own[kind], repr(own[name])) for own in fields}) == len({own[kind] for own in fields})
    ]
    return max(deciding, key=lambda kind: name.startswith(kind.removesuffix("kind")), default=None)


def _values(name: str, axis: str, fields: Sequence[Mapping[str, Any]]) -> str:
    """`sum for learned; dual for random_sign, gaussian`."""
    keys: dict[object, list[str]] = {}
    for own in fields:
        keys.setdefault(own[name], []).append(str(own[axis]))
    return "; ".join(f"{value} for {', '.join(dict.fromkeys(own))}" for value, own in keys.items())


def _short(name: str) -> str:
    return name.removeprefix("model.")
