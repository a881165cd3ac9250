"""What a sweep will do, before it does it: cells, trials, packs, and what they cost."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stsq_core.configs import PLUGIN, WIDTH, Architecture, Fcn, Size, Transformer, TrialConfig, deviations
from sweeps.cells.expansion import Block, blocks_of
from sweeps.cells.packs import ANYWHERE, Pack, Room, make_packs
from sweeps.cells.trials import Trials, cell_of
from sweeps.schema import SweepSpec, flattened, free_fields

__all__ = ["Cell", "Plan", "cell_of", "describe", "distinct_labels", "expand", "make_plan"]


@dataclass(frozen=True)
class Cell:
    """All trials of a sweep that differ only in width, seed and learning rate: they have one width threshold."""

    cell_id: str
    group: str
    label: str
    trials: Trials

    @cached_property
    def configs(self) -> tuple[TrialConfig, ...]:
        return tuple(self.trials)

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths m, in order."""
        return tuple(np.unique(self.trials.widths).tolist())

    @property
    def rates(self) -> tuple[float, ...]:
        """The learning rates, in order."""
        return tuple(np.unique(self.trials.rates).tolist())

    @property
    def num_seeds(self) -> int:
        return len(np.unique(self.trials.seeds))


def expand(spec: SweepSpec) -> tuple[Cell, ...]:
    """The cells of a sweep in the order they are declared, each trial once.

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


def describe(config: TrialConfig, size: Size = WIDTH) -> str:
    """A cell of a size in a few words: `transformer T=32 q=3 d=4 random_sign/per_step/dual adam population`.

    Sizes go by the letters of the task's paper.
    """
    task = config.task
    sizes = " ".join(f"{task.letters.get(letter, letter)}={getattr(task, letter)}" for letter in ("T", "q", "d"))
    parts = [config.model.kind, sizes, model_words(config.model, size), config.optimizer.kind, config.training.objective]
    if task.kind != "stsq":
        parts.insert(1, task.kind)
    return " ".join(filter(None, parts))


def model_words(model: Architecture, size: Size = WIDTH) -> str:
    """What else there is to a model; what has a default is told where it is not at it."""
    match model:
        case Fcn(depth=depth, tail_width=tail):
            return f"depth={depth} tail={tail}"
        case Transformer(positions=codes):
            return f"{codes.kind}/{codes.redraw}/{codes.query}"
    free = (model.size_field, size.name.removeprefix("model."))
    told = flattened({name: value for name, value in deviations(model).items() if name not in ("kind", PLUGIN)})
    return " ".join(f"{name.rpartition('.')[2]}={value}" for name, value in told.items() if name not in free)


def distinct_labels(configs: Sequence[TrialConfig], size: Size = WIDTH) -> tuple[str, ...]:
    """A label for each config of another cell: `describe`, and, where that is not enough, the fields in which they differ."""
    free = free_fields(size)
    labels = [describe(config, size) for config in configs]
    places: dict[str, list[int]] = {label: [] for label, count in Counter(labels).items() if count > 1}
    for place, label in enumerate(labels):
        if label in places:
            places[label].append(place)
    for label, alike in places.items():
        fields = [flattened(configs[place].model_dump(mode="json")) for place in alike]
        differing = [
            name
            for name in dict.fromkeys(name for flat in fields for name in flat)
            if name not in free and len({repr(flat.get(name)) for flat in fields}) > 1
        ]
        for place, flat in zip(alike, fields, strict=True):
            labels[place] = " ".join([label, *(f"{name.rpartition('.')[2]}={flat.get(name)}" for name in differing)])
    return tuple(labels)


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


def make_plan(spec: SweepSpec, *, room: Room = ANYWHERE, slots: int = 1, done: Collection[str] = ()) -> Plan:
    """The plan of a sweep; trials whose ids are in `done` are counted and not run again."""
    cells = expand(spec)
    trials = Trials.joined([cell.trials for cell in cells])
    waiting = trials.take(np.array([trial_id not in done for trial_id in trials.trial_ids], dtype=bool)) if done else trials
    packs = make_packs(waiting, room=room, slots=slots)
    return Plan(cells, packs, len(trials) - len(waiting))
