"""Cells: all trials of a sweep that share one threshold, and the labels that distinguish them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stsq_core.configs import PLUGIN, WIDTH, Architecture, Fcn, Size, Transformer, TrialConfig, deviations
from sweeps.cells.trials import Trials
from sweeps.schema import fields_of, flattened, free_fields


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
    def sample(self) -> TrialConfig:
        """A config of its family. The trials of a cell may be taken from those of many families, which they then still name."""
        place = int(self.trials.family[0]) if len(self.trials) else 0
        return self.trials.families[place].sample

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
    """The settings of a model beyond its sizes; those with a default only where they differ from it."""
    match model:
        case Fcn(depth=depth, tail_width=tail):
            return f"depth={depth} tail={tail}"
        case Transformer(positions=codes):
            return f"{codes.kind}/{codes.redraw}/{codes.query}"
    free = (model.size_field, size.name.removeprefix("model."))
    fields = flattened({name: value for name, value in deviations(model).items() if name not in ("kind", PLUGIN)})
    return " ".join(f"{name.rpartition('.')[2]}={value}" for name, value in fields.items() if name not in free)


def distinct_labels(configs: Sequence[TrialConfig], size: Size = WIDTH) -> tuple[str, ...]:
    """A label for each config of another cell: `describe`, and, where that is not enough, the fields in which they differ."""
    free = free_fields(size)
    labels = [describe(config, size) for config in configs]
    places: dict[str, list[int]] = {label: [] for label, count in Counter(labels).items() if count > 1}
    for place, label in enumerate(labels):
        if label in places:
            places[label].append(place)
    for label, alike in places.items():
        fields = [fields_of(configs[place]) for place in alike]
        differing = [
            name
            for name in dict.fromkeys(name for flat in fields for name in flat)
            if name not in free and len({repr(flat.get(name)) for flat in fields}) > 1
        ]
        for place, flat in zip(alike, fields, strict=True):
            labels[place] = " ".join([label, *(f"{name.rpartition('.')[2]}={flat.get(name)}" for name in differing)])
    return tuple(labels)
