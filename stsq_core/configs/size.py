"""The number of a trial that a threshold is about: its width m, another whole number of its config, or the samples it draws.

A size is a value that is handed on, from a sweep's criterion to whatever tells its cells apart; no config knows of it.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from stsq_core.configs.architecture import Architecture
from stsq_core.configs.errors import UserError, shown
from stsq_core.configs.record import with_number
from stsq_core.configs.trial import TrialConfig

LETTERS = {
    "rank": "r", "heads": "H", "num_heads": "H", "num_samples": "n", "layers": "L", "hidden": "h", "steps": "s", "T": "T"
}  # fmt: skip
"""The papers' letters of fields; a field that has none is called by its name."""


@dataclass(frozen=True)
class Size(ABC):
    """What a threshold is about.

    `name` is its spelling in a criterion, `letter` that of formulas and axes (m, r, H, n), and `quantity` what there is more or
    less of: `width`, `rank`, `heads`, `samples`.
    """

    name: str
    letter: str
    quantity: str

    @property
    def noun(self) -> str:
        """One of its values in a sentence: `width`, `rank`, `number of heads`."""
        return f"number of {self.quantity}" if self.quantity.endswith("s") else self.quantity

    @property
    def nouns(self) -> str:
        """Several of its values: `widths`, `numbers of heads`."""
        return f"numbers of {self.quantity}" if self.quantity.endswith("s") else f"{self.quantity}s"

    @property
    def axis(self) -> str:
        """The words of an axis, before its letter: `width`; nothing where the letter is the word."""
        return "" if self.quantity == self.letter else self.quantity

    @property
    def threshold_words(self) -> str:
        """The name of the threshold: `width threshold`."""
        return f"{self.quantity} threshold"

    @abstractmethod
    def of(self, config: TrialConfig) -> int:
        """The size of a trial."""

    def applies_to(self, config: TrialConfig) -> bool:
        """Whether the trial has such a size."""
        return True

    @abstractmethod
    def is_free(self, config: TrialConfig) -> bool:
        """Whether trials of one cell differ in it."""

    @abstractmethod
    def changed(self, config: TrialConfig, value: int) -> dict[str, Any]:
        """The parts of the config, by name, that another size gives it; the value is that of a valid config."""

    @abstractmethod
    def fields(self, config: TrialConfig) -> tuple[str, ...]:
        """The dotted fields that set the size of such a trial."""


@dataclass(frozen=True)
class _Width(Size):
    """The width m of the model."""

    def of(self, config: TrialConfig) -> int:
        return config.width

    def is_free(self, config: TrialConfig) -> bool:
        return not config.model.is_sized_by_task

    def changed(self, config: TrialConfig, value: int) -> dict[str, Any]:
        return {"model": _model_of_size(config.model, value - config.model.offset(config.task))}

    def fields(self, config: TrialConfig) -> tuple[str, ...]:
        return (f"model.{config.model.size_field}",) if self.is_free(config) else ()


@dataclass(frozen=True)
class _Field(Size):
    """A whole number at a dotted name of the config."""

    def of(self, config: TrialConfig) -> int:
        value = self._value(config)
        if not isinstance(value, int):
            raise UserError(f"criterion.of: {self.name} is no whole number of this trial; got {shown(value)}: use another `of`")
        return value

    def applies_to(self, config: TrialConfig) -> bool:
        return isinstance(self._value(config), int)

    def is_free(self, config: TrialConfig) -> bool:
        return True

    def changed(self, config: TrialConfig, value: int) -> dict[str, Any]:
        head, _, rest = self.name.partition(".")
        return {head: with_number(getattr(config, head), rest, value)}

    def fields(self, config: TrialConfig) -> tuple[str, ...]:
        return (self.name,)

    def _value(self, config: TrialConfig) -> object:
        value: object = config
        for part in self.name.split("."):
            value = getattr(value, part, None)
        return value


@dataclass(frozen=True)
class _SamplesDrawn(Size):
    """The samples that a trial draws in training, each once: they are counted, and no field of it is chosen.

    A trial's size is its budget, the most that it may draw.
    """

    @property
    def threshold_words(self) -> str:
        return "samples to the target"

    def of(self, config: TrialConfig) -> int:
        return config.training.steps * config.batch

    def is_free(self, config: TrialConfig) -> bool:
        return False

    def changed(self, config: TrialConfig, value: int) -> dict[str, Any]:
        return {}

    def fields(self, config: TrialConfig) -> tuple[str, ...]:
        return ()


WIDTH: Final[Size] = _Width("width", "m", "width")
SAMPLES: Final[Size] = _SamplesDrawn("samples", "n", "samples")


def size_named(name: str) -> Size:
    """The size that a criterion's `of` names: `width`, `samples`, or a dotted field."""
    leaf = name.rpartition(".")[2]
    field = _Field(name, LETTERS.get(leaf, leaf), leaf.removeprefix("num_").replace("_", " "))
    return {size.name: size for size in (WIDTH, SAMPLES)}.get(name, field)


@lru_cache(maxsize=10_000)
def _model_of_size(model: Architecture, number: int) -> Architecture:
    return model.of_size(number)
