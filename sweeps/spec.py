"""A sweep as one frozen record: the trials it declares, what counts as solved, and what it may cost.

One YAML file holds one sweep. What decides a trial's numbers stands under `trials`; everything else here changes no number.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, TypeAdapter, model_validator

from stsq_core.records import Record, as_tuple
from sweeps import document
from sweeps.axes import Axis, is_axis, values_of
from sweeps.claims import Claim
from sweeps.drawings import Drawing
from sweeps.errors import FieldError, Path
from sweeps.fields import unknown_field
from sweeps.texts import Slug, Words

MAX_SEED = 2**63


Seed = Annotated[int, Field(ge=0, lt=MAX_SEED)]
Seeds = Annotated[int, Field(ge=0, le=100_000)] | Annotated[tuple[Seed, ...], BeforeValidator(as_tuple)]

_AXIS: TypeAdapter[Any] = TypeAdapter(Axis)


class Criterion(Record):
    """When a trial is solved, and where its cell's threshold lies.

    A trial is solved when its final `relative_loss <= target_loss`. The width threshold is where a fraction `success_rate` of
    the seeds is solved; its interval has the given `level`.
    """

    target_loss: Annotated[float, Field(gt=0, lt=1)] = 0.1
    success_rate: Annotated[float, Field(gt=0, lt=1)] = 0.5
    level: Annotated[float, Field(gt=0, lt=1)] = 0.9


class Budget(Record):
    """What a sweep may cost: wall `minutes` over all of its sessions, and `retries` of a pack whose worker was lost."""

    minutes: Annotated[float, Field(gt=0)] | None = None
    retries: Annotated[int, Field(ge=0, le=100)] = 2


class WandbSettings(Record):
    """Where the runs of a sweep appear in Weights & Biases; `auto` is online with a key and a server, else offline.

    A sweep of more trials than `max_trial_runs` has one run a cell instead of one a trial.
    """

    project: str | None = None
    entity: str | None = None
    tags: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    mode: Literal["auto", "offline", "online", "disabled"] = "auto"
    max_trial_runs: Annotated[int, Field(ge=0)] = 1000


def _case(value: object) -> object:
    """One entry of a zipped axis, which may be an axis of its own."""
    return _AXIS.validate_python(value) if is_axis(value) else value


ZipAxis = Annotated[tuple[Annotated[Any, BeforeValidator(_case)], ...], BeforeValidator(as_tuple)]


class TrialGroup(Record):
    """Trials that share a `base` and differ along axes.

    `grid` axes are crossed. `zip` axes advance together, case by case; an entry of a zipped axis that is itself an axis is
    crossed within its case. `seeds` is a number (seeds derived for each cell, so that no two cells share one and a larger
    number extends a smaller) or a list.
    """

    name: Slug
    base: dict[str, Any] = Field(default_factory=dict)
    grid: dict[str, Axis] = Field(default_factory=dict)
    zip: dict[str, ZipAxis] = Field(default_factory=dict)
    seeds: Seeds = 3

    @model_validator(mode="after")
    def _fields_exist(self) -> Self:
        for where, axes in (("grid", self.grid), ("zip", self.zip)):
            for name in axes:
                if reason := unknown_field(name):
                    raise FieldError((where, name), reason)
        if both := sorted(self.grid.keys() & self.zip.keys()):
            raise FieldError(("zip", both[0]), f"{both[0]} stands in grid and in zip: keep one of the two")
        if "seed" in self.base:
            raise FieldError(("base", "seed"), str(unknown_field("seed")))
        return self

    @model_validator(mode="after")
    def _zipped_alike(self) -> Self:
        lengths = {name: len(axis) for name, axis in self.zip.items()}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise FieldError(("zip",), f"zipped axes need equally many entries; {told}: make them equal, or move one to grid")
        return self

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if self.seeds in (0, ()):
            raise FieldError(("seeds",), "a sweep of no trials: seeds is empty; give at least one seed")
        axes: dict[Path, Any] = {("grid", name): axis for name, axis in self.grid.items()}
        for name, axis in self.zip.items():
            axes[("zip", name)] = axis
            axes |= {("zip", name, place): entry for place, entry in enumerate(axis) if is_axis(entry)}
        for path, axis in axes.items():
            if not values_of(axis):
                raise FieldError(path, f"a sweep of no trials: the axis {path[1]} is empty; give it at least one value")
        if isinstance(self.seeds, tuple) and len(set(self.seeds)) < len(self.seeds):
            raise FieldError(("seeds",), f"seeds holds a seed twice; got {list(self.seeds)}: make them distinct")
        return self


def _some_trials(value: object) -> object:
    if isinstance(value, list | tuple) and not value:
        raise ValueError("a sweep of no trials: trials is empty; give at least one group")
    return as_tuple(value)


class SweepSpec(Record):
    """A declared set of cells with their criterion and budget, what is claimed of them, and the figures that show it.

    A sweep with `drawings` is shown by them; one without by its width thresholds.
    """

    name: Slug
    title: str = ""
    hypothesis: Words
    trials: Annotated[tuple[TrialGroup, ...], BeforeValidator(_some_trials)]
    criterion: Criterion = Criterion()
    budget: Budget = Budget()
    wandb: WandbSettings = WandbSettings()
    claims: Annotated[tuple[Claim, ...], BeforeValidator(as_tuple)] = ()
    drawings: Annotated[tuple[Drawing, ...], BeforeValidator(as_tuple)] = ()

    @model_validator(mode="after")
    def _names_tell_apart(self) -> Self:
        for what, named in (("groups of trials", self.trials), ("claims", self.claims), ("drawings", self.drawings)):
            names = [one.name for one in named]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise ValueError(f"two {what} are named {twice[0]!r}: give each a name of its own")
        return self

    @property
    def heading(self) -> str:
        """The title, or the name where there is none."""
        return self.title or self.name

    def as_yaml(self) -> str:
        """The sweep as YAML, every default written out; `load_sweep` reads it back to an equal sweep."""
        return document.dump(self.model_dump(mode="json"))
