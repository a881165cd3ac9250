"""What a sweep will do, before it does it: cells, trials, packs, and what they cost."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from stsq_core.architecture import Fcn, Transformer
from stsq_core.cost import memory_bytes
from stsq_core.trial import TrialConfig
from sweeps.expansion import all_configs, cell_of
from sweeps.fields import flattened
from sweeps.packs import MAX_PACK, Pack, make_packs
from sweeps.spec import SweepSpec

__all__ = ["Cell", "Plan", "cell_of", "describe", "distinct_labels", "expand", "make_plan"]

WIDTH_SEED_RATE = ("model.width", "model.positions.d_e", "optimizer.lr", "seed")


@dataclass(frozen=True)
class Cell:
    """All trials of a sweep that differ only in width, seed and learning rate: they have one width threshold."""

    cell_id: str
    group: str
    label: str
    configs: tuple[TrialConfig, ...]

    @property
    def widths(self) -> tuple[int, ...]:
        """The widths m, in order."""
        return tuple(sorted({config.width for config in self.configs}))

    @property
    def rates(self) -> tuple[float, ...]:
        """The learning rates, in order."""
        return tuple(sorted({config.optimizer.lr for config in self.configs}))

    @property
    def num_seeds(self) -> int:
        return len({config.seed for config in self.configs})


def expand(spec: SweepSpec) -> tuple[Cell, ...]:
    """The cells of a sweep in the order they are declared, each trial once.

    Raises:
        PlacedError: a combination of values that is no valid trial.
    """
    groups: dict[str, str] = {}
    trials: dict[str, dict[str, TrialConfig]] = {}
    for group, config in all_configs(spec):
        cell_id = cell_of(config)
        groups.setdefault(cell_id, group.name)
        trials.setdefault(cell_id, {}).setdefault(config.trial_id, config)
    labels = distinct_labels([next(iter(configs.values())) for configs in trials.values()])
    return tuple(
        Cell(cell_id, groups[cell_id], label, tuple(configs.values()))
        for (cell_id, configs), label in zip(trials.items(), labels, strict=True)
    )


def describe(config: TrialConfig) -> str:
    """A cell in a few words: `transformer T=32 q=3 d=4 random_sign/per_step/dual adam population`."""
    task = config.task
    match config.model:
        case Transformer(positions=codes):
            model = f"{codes.kind}/{codes.redraw}/{codes.query}"
        case Fcn(depth=depth, tail_width=tail):
            model = f"depth={depth} tail={tail}"
    sizes = f"T={task.T} q={task.q} d={task.d}"
    return f"{config.model.kind} {sizes} {model} {config.optimizer.kind} {config.training.objective}"


def distinct_labels(configs: Sequence[TrialConfig]) -> tuple[str, ...]:
    """A label for each config of another cell: `describe`, and, where that is not enough, the fields in which they differ."""
    labels = [describe(config) for config in configs]
    for label in {label for label in labels if labels.count(label) > 1}:
        alike = [place for place, other in enumerate(labels) if other == label]
        fields = [flattened(configs[place].model_dump(mode="json")) for place in alike]
        differing = [
            name
            for name in dict.fromkeys(name for flat in fields for name in flat)
            if name not in WIDTH_SEED_RATE and len({repr(flat.get(name)) for flat in fields}) > 1
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
        return sum(len(cell.configs) for cell in self.cells)

    @cached_property
    def num_steps(self) -> int:
        """Model-steps to run: a step of a pack of 32 counts 32."""
        return sum(config.training.steps for pack in self.packs for config in pack.configs)

    @cached_property
    def operations(self) -> float:
        """Multiply-adds to run."""
        return sum(pack.operations for pack in self.packs)

    @cached_property
    def memory_bytes(self) -> float:
        """Working memory of the largest pack."""
        return max((sum(memory_bytes(config) for config in pack.configs) for pack in self.packs), default=0.0)

    def seconds(self, operations_per_s: float, *, slots: int = 1) -> float:
        """Wall time at a rate per slot: the work shared by all slots, but never less than the longest pack."""
        longest = max((pack.operations for pack in self.packs), default=0.0)
        return max(self.operations / slots, longest) / operations_per_s

    def device_hours(self, operations_per_s: float) -> float:
        """Hours of one device (GPU-hours where the device is a GPU) at a rate."""
        return self.operations / operations_per_s / 3600


def make_plan(spec: SweepSpec, *, max_size: int = MAX_PACK, slots: int = 1, done: Collection[str] = ()) -> Plan:
    """The plan of a sweep; trials whose ids are in `done` are counted and not run again."""
    cells = expand(spec)
    waiting = [config for config in _configs(cells) if config.trial_id not in done]
    packs = make_packs(waiting, max_size=max_size, slots=slots)
    return Plan(cells, packs, sum(len(cell.configs) for cell in cells) - len(waiting))


def _configs(cells: Iterable[Cell]) -> list[TrialConfig]:
    return [config for cell in cells for config in cell.configs]
