"""A sweep as one frozen record: the trials it declares, what counts as solved, and what it may cost.

One YAML file holds one sweep. What decides a trial's numbers stands under `trials`; everything else here changes no number.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, model_validator

from stsq_core.configs import SAMPLES, WIDTH, Record, Size, as_tuple, shown, size_named
from sweeps.schema import yaml_source
from sweeps.schema.axes import Axis, is_axis, values_of, with_real_ends
from sweeps.schema.claims import Claim, Slug, ThresholdClaim, Words
from sweeps.schema.drawings import Drawing
from sweeps.schema.errors import FieldError, Path
from sweeps.schema.fields import is_whole, not_a_size, unknown_field, width_fields
from sweeps.schema.judged_metric import LOSS, is_relative, metric_words, unknown_metric
from sweeps.schema.law_settings import LawSettings
from sweeps.schema.search_spec import SearchSettings, WidthRange

MAX_SEED = 2**63
MANY = 10**9
"""More trials or workers than any sweep has."""


Seed = Annotated[int, Field(ge=0, lt=MAX_SEED)]
Seeds = Annotated[int, Field(ge=0, le=100_000)] | Annotated[tuple[Seed, ...], BeforeValidator(as_tuple)]

_AXIS: TypeAdapter[Any] = TypeAdapter(Axis)


Statistic = Literal["median", "mean", "solved"]


def _targets(value: object) -> object:
    """One target or several; one in a list is that one."""
    several = isinstance(value, list | tuple)
    targets: list[Any] = list(value) if isinstance(value, list | tuple) else [value]
    if not targets:
        raise ValueError("it lists no target: give a number between 0 and 1, or several")
    for place, target in enumerate(targets):
        if isinstance(target, bool) or not isinstance(target, int | float) or not 0 < target < 1:
            raise ValueError(f"a target is a share of the zero predictor's loss, between 0 and 1; got {shown(target)}")
        if any(f"{target:g}" == f"{other:g}" for other in targets[:place]):
            raise ValueError(f"every target stands once; {target:g}, as it is written in tables, stands there twice")
    return tuple(map(float, targets)) if several and len(targets) > 1 else float(targets[0])


class Criterion(Record):
    """When a trial is solved, and where its cell's threshold lies.

    With `statistic: mean` the threshold is another quantity, which a few seeds that learn nothing can move far. Of samples it
    is their median over seeds.
    """

    of: str = WIDTH.name
    """What the threshold is about: the width, the samples drawn until the target is met, or a whole number of the trials,
    such as model.rank or training.num_samples.
    """
    metric: str = LOSS
    """What is judged: the final relative loss; that at another number of tokens or subset size, such as loss@T=400, loss@2T
    or loss@q=6; or 1 minus attention_mass, cosine_W, cosine_W_centred or cosine_V. The trials' evaluation must ask for it.
    """
    target_loss: Annotated[float | tuple[float, ...], BeforeValidator(_targets)] = 0.1
    """A trial is solved when what is judged is at most this share of the zero predictor's loss; of several targets each has
    its thresholds, from the same trials.
    """
    success_rate: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """The share of seeds that is solved at the threshold."""
    level: Annotated[float, Field(gt=0, lt=1)] = 0.9
    """Probability that an interval is meant to cover."""
    statistic: Statistic = "median"
    """Where the threshold lies: by the median of losses, by their mean (a diverged one counts as 1), or by which trials are
    solved, as a loss that counts errors needs.
    """

    @model_validator(mode="after")
    def _a_mean_has_no_success_rate(self) -> Self:
        if self.statistic == "mean" and self.success_rate != 0.5:
            raise FieldError(
                ("success_rate",),
                f"a mean has no success rate; got success_rate={self.success_rate}, statistic=mean: leave success_rate out",
            )
        return self

    @model_validator(mode="after")
    def _of_a_size(self) -> Self:
        if self.of not in (WIDTH.name, SAMPLES.name) and (reason := not_a_size(self.of)):
            raise FieldError(("of",), reason)
        if self.of == SAMPLES.name and len(self.targets) > 1:
            raise FieldError(
                ("target_loss",),
                f"samples are counted up to one target; got {list(self.targets)}: give one, and evaluation.target",
            )
        if self.of == SAMPLES.name and (self.statistic, self.success_rate) != ("median", 0.5):
            raise FieldError(
                ("of",),
                "the samples to a target are judged by their median over seeds; got "
                f"statistic={self.statistic}, success_rate={self.success_rate}: leave both out",
            )
        return self

    @model_validator(mode="after")
    def _judges_by_a_metric(self) -> Self:
        if reason := unknown_metric(self.metric):
            raise FieldError(("metric",), reason)
        if self.of == SAMPLES.name and self.metric != LOSS:
            raise FieldError(
                ("metric",),
                f"samples are counted up to a relative loss; got metric={self.metric}, of=samples: leave metric out",
            )
        if self.of == "task.T" and is_relative(self.metric):
            raise FieldError(
                ("metric",),
                f"{self.metric} changes with T; got metric={self.metric}, of=task.T: give a number, as in loss@T=64",
            )
        return self

    @property
    def size(self) -> Size:
        """What the threshold is about."""
        return size_named(self.of)

    @property
    def targets(self) -> tuple[float, ...]:
        """All targets, in the order in which searches look for them."""
        return self.target_loss if isinstance(self.target_loss, tuple) else (self.target_loss,)

    @property
    def target(self) -> float:
        """The target of a criterion that has one, and of several the least: who reaches it reaches all."""
        return min(self.targets)

    @property
    def target_words(self) -> str:
        """The targets in words: `0.3, 0.1 or 0.03`."""
        *others, last = (f"{target:g}" for target in self.targets)
        return f"{', '.join(others)} or {last}" if others else last

    @property
    def each(self) -> tuple["Criterion", ...]:
        """The criterion with each of its targets alone."""
        return tuple(self.of_target(target) for target in self.targets)

    def of_target(self, target: float) -> "Criterion":
        """The criterion with this target alone."""
        return self if self.target_loss == target else self.model_copy(update={"target_loss": target})

    @property
    def measure(self) -> str:
        """What must be at most the target, in words."""
        return metric_words(self.metric)


class Budget(Record):
    """What a sweep may cost, over all of its sessions."""

    minutes: Annotated[float, Field(gt=0)] | None = None
    """Wall time over all sessions."""
    retries: Annotated[int, Field(ge=0, le=100)] = 2
    """How often a pack is tried again whose worker was lost."""
    failures: Annotated[int, Field(ge=1, le=MANY)] | Annotated[float, Field(gt=0, lt=1)] | None = None
    """Number of failed trials, or their share of all, at which the sweep stops."""
    max_workers: Annotated[int, Field(ge=1, le=MANY)] | None = None
    """The most packs that train at once."""


def _wandb_project(name: str) -> str:
    if not 1 <= len(name) <= 128 or set(name) & set("/\\#?%:"):
        raise ValueError(f"a W&B project has a name of 1 to 128 characters, none of them / \\ # ? % :; got {shown(name)}")
    return name


def _wandb_entity(name: str) -> str:
    if not 1 <= len(name) <= 128 or set(name) & set("/\\#?%: "):
        raise ValueError(
            f"a W&B entity has a name of 1 to 128 characters, none of them a blank or / \\ # ? % :; got {shown(name)}"
        )
    return name


def _wandb_tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    for place, tag in enumerate(tags):
        if not 1 <= len(tag) <= 64:
            raise ValueError(f"a W&B tag has 1 to 64 characters; got {shown(tag)}")
        if tag in tags[:place]:
            raise ValueError(f"every tag stands once; {shown(tag)} stands there twice")
    return tags


class WandbSettings(Record):
    """Where the runs of a sweep appear in Weights & Biases."""

    project: Annotated[str, AfterValidator(_wandb_project)] | None = None
    """The W&B project; stsq where none is named."""
    entity: Annotated[str, AfterValidator(_wandb_entity)] | None = None
    """The W&B entity; your own where none is named."""
    tags: Annotated[tuple[str, ...], BeforeValidator(as_tuple), AfterValidator(_wandb_tags)] = ()
    """Tags of every run."""
    mode: Literal["auto", "offline", "online", "disabled"] = "auto"
    """auto is online with a key and a server, else offline."""
    max_trial_runs: Annotated[int, Field(ge=0, le=MANY)] = 1000
    """A sweep whose plan has more trials has one run a cell instead of one a trial."""


def _case(value: object) -> object:
    """One entry of a zipped axis, which may be an axis of its own."""
    return _AXIS.validate_python(value) if is_axis(value) else value


ZipAxis = Annotated[tuple[Annotated[Any, BeforeValidator(_case)], ...], BeforeValidator(as_tuple)]


class TrialGroup(Record):
    """Trials that share a `base` and differ along axes.

    No two cells share a seed that is derived. With `search` the widths stand on no axis.
    """

    name: Slug
    """A name for the group."""
    base: dict[str, Any] = Field(default_factory=dict)
    """What its trials share."""
    grid: dict[str, Axis] = Field(default_factory=dict)
    """Axes that are crossed: a dotted field and its values."""
    zip: dict[str, ZipAxis] = Field(default_factory=dict)
    """Axes that advance together, case by case; an entry that is itself an axis is crossed within its case."""
    seeds: Seeds | None = 3
    """A number of seeds, derived for each cell so that a larger number extends a smaller, or a list."""
    search: WidthRange | None = None
    """The range in which the threshold of each cell is searched, with a fresh seed for every point."""

    @model_validator(mode="before")
    @classmethod
    def _a_search_takes_fresh_seeds(cls, data: Any) -> Any:
        """Without `seeds`, a group that is searched has none."""
        if isinstance(data, dict) and data.get("search") is not None and "seeds" not in data:
            return {**data, "seeds": None}
        return data

    @model_validator(mode="before")
    @classmethod
    def _ends_are_of_their_fields(cls, data: Any) -> Any:
        """Axes of fields that hold real numbers have real ends, however they are written."""
        if not isinstance(data, dict):
            return data
        axes = {key: data[key] for key in ("grid", "zip") if isinstance(data.get(key), dict)}
        return data | {
            key: {name: axis if is_whole(name) else with_real_ends(axis) for name, axis in named.items()}
            for key, named in axes.items()
        }

    @model_validator(mode="after")
    def _searched_or_seeded(self) -> Self:
        if self.search is not None and self.seeds is not None:
            raise FieldError(
                ("seeds",),
                f"a search takes a fresh seed for every point; got seeds={self.seeds} beside search: leave seeds out",
            )
        if self.search is None and self.seeds is None:
            raise FieldError(("seeds",), "seeds: null goes with a search only: give a number of seeds, or a list")
        return self

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
            got = ", ".join(f"{name} has {length}" for name, length in lengths.items())
            raise FieldError(("zip",), f"zipped axes need equally many entries; {got}: make them equal, or move one to grid")
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
    """A name for the sweep; its run directory is runs/NAME."""
    title: str = ""
    """A title in words."""
    hypothesis: Words
    """What is expected, in words."""
    trials: Annotated[tuple[TrialGroup, ...], BeforeValidator(_some_trials)]
    """Groups of trials."""
    criterion: Criterion = Criterion()
    """When a trial is solved, and where its cell's threshold lies."""
    budget: Budget = Budget()
    """What the sweep may cost."""
    search: SearchSettings = SearchSettings()
    """How thresholds are searched."""
    laws: LawSettings = LawSettings()
    """What is left out of the fits of laws."""
    wandb: WandbSettings = WandbSettings()
    """Where the runs appear in Weights & Biases."""
    claims: Annotated[tuple[Claim, ...], BeforeValidator(as_tuple)] = ()
    """Statements about the results, each with the rule by which it holds."""
    drawings: Annotated[tuple[Drawing, ...], BeforeValidator(as_tuple)] = ()
    """Figures that show the sweep in place of its thresholds."""

    @model_validator(mode="after")
    def _names_tell_apart(self) -> Self:
        for what, named in (("groups of trials", self.trials), ("claims", self.claims), ("drawings", self.drawings)):
            names = [one.name for one in named]
            if twice := sorted({name for name in names if names.count(name) > 1}):
                raise ValueError(f"two {what} are named {shown(twice[0])}: give each a name of its own")
        return self

    @model_validator(mode="after")
    def _searched_sizes_stand_on_no_axis(self) -> Self:
        size = self.criterion.size
        fields = width_fields() if size == WIDTH else (size.name,)
        for place, group in enumerate(self.trials):
            if group.search is not None and size == SAMPLES:
                raise FieldError(
                    ("trials", place, "search"), "the samples to a target are counted, not chosen: leave search out, give seeds"
                )
            for where, axes in (("grid", group.grid), ("zip", group.zip)):
                for name in fields:
                    if group.search is not None and name in axes:
                        raise FieldError(
                            ("trials", place, where, name),
                            f"{name} is the {size.noun}, and search says which are tried: remove one of the two",
                        )
        return self

    @model_validator(mode="after")
    def _searches_look_at_losses(self) -> Self:
        for place, group in enumerate(self.trials):
            if group.search is not None and self.criterion.statistic == "solved":
                raise FieldError(
                    ("trials", place, "search"),
                    "a search looks at losses; got statistic=solved: give a grid and seeds, or statistic=median",
                )
        return self

    @model_validator(mode="after")
    def _searches_of_several_targets_have_our_losses(self) -> Self:
        searched, sampler = any(group.search is not None for group in self.trials), self.search.sampler
        if len(self.criterion.targets) > 1 and searched and (sampler in ("tpe", "gp") or self.search.decide is not None):
            field = "decide" if self.search.decide is not None else "sampler"
            raise FieldError(
                ("search", field),
                f"it looks for one target; got target_loss={list(self.criterion.targets)} beside it: give one, or leave it out",
            )
        return self

    @model_validator(mode="after")
    def _laws_decide_about_searched_widths(self) -> Self:
        if self.search.decide is None:
            return self
        path = ("search", "decide")
        if self.criterion.size != WIDTH:
            raise FieldError(path, f"laws of the width are decided between; got criterion.of={self.criterion.of}: leave it out")
        if self.laws.held_out:
            raise FieldError(path, "no cell is held out where laws decide which cells are asked: leave laws.held_out out")
        if all(group.search is None for group in self.trials):
            raise FieldError(path, "no group of this sweep is searched: give a group search, or leave decide out")
        return self

    @property
    def heading(self) -> str:
        """The title, or the name where there is none."""
        return self.title or self.name

    @property
    def has_thresholds(self) -> bool:
        """Whether it is about thresholds: not where drawings show it, unless it claims something of them."""
        return not self.drawings or any(isinstance(claim, ThresholdClaim) for claim in self.claims)

    def as_yaml(self) -> str:
        """The sweep as YAML, every default written out; `load_sweep` reads it back to an equal sweep."""
        return yaml_source.dump(self.model_dump(mode="json"))
