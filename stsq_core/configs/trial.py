"""A trial: one `TrialConfig` trained once, and what came of it.

`trial_id` hashes exactly what affects a trial's numbers. Fields at their default do not enter the hash, so a new field with a
default leaves old identities alone; a change of a default, or of the arithmetic, must raise `NUMERICS`.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, Field, model_validator

from stsq_core.configs import compatibility
from stsq_core.configs.architecture import Architecture, Fcn, Transformer
from stsq_core.configs.open_union import plugin_of
from stsq_core.configs.optimizer import OPTIMIZERS, Optimizer
from stsq_core.configs.record import Record
from stsq_core.configs.task import TokenTask
from stsq_core.configs.training import Evaluation, Training
from stsq_core.configs.unions import MODELS, TASKS

NUMERICS = 3
"""Raised whenever a change makes the same config give other numbers; old ledger lines are then trained again."""

PLUGIN = "plugin sha256"
"""Under this name, which no field can have, the digest of a plugin enters the hash of a trial of its kind."""


class TrialConfig(Record):
    """Everything that decides a trial's numbers, and nothing else."""

    task: Annotated[TokenTask, TASKS]
    """What is learned."""
    model: Annotated[Architecture, MODELS]
    """What learns it."""
    optimizer: Annotated[Optimizer, OPTIMIZERS]
    """How its parameters follow their gradients."""
    training: Training
    """How long and on what it trains."""
    evaluation: Evaluation = Evaluation()
    """What is measured of it."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Names the trial's random numbers."""

    @model_validator(mode="before")
    @classmethod
    def _sizes_follow_the_task(cls, data: Any) -> Any:
        """Let the model fill in what follows from the task where it is left out."""
        match data:
            case {"task": {"T": _} as task, "model": {"kind": str(kind)} as model} if kind in MODELS:
                record = MODELS[kind]
                assert issubclass(record, Architecture)
                return {**data, "model": record.completed(model, task)}
        return data

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        compatibility.check_training(self.task, self.model, self.training)
        compatibility.check_evaluation(self.task, self.model, self.evaluation)
        compatibility.check_target(self.task, self.model, self.training, self.evaluation)
        return self

    def __copy__(self) -> Self:
        """A copy, which is then changed, without the name of this config."""
        copied = super().__copy__()
        copied.__dict__.pop("trial_id", None)
        return copied

    @cached_property
    def trial_id(self) -> str:
        """Sixteen hex digits that name this config under this version of the arithmetic."""
        text = json.dumps([NUMERICS, deviations(self)], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def width(self) -> int:
        """The width m that a threshold is about: `d + d_e` for the transformer, the first layer's width for the FCN."""
        return self.model.width_on(self.task)

    @property
    def derived_model(self) -> Transformer | Fcn | None:
        """The model, if a program with gradients derived by hand trains it on this task; else autograd finds the gradient."""
        return compatibility.derived_model(self.task, self.model, self.training)

    @property
    def one_stands_for_all(self) -> bool:
        """Whether a step on every subset is taken on one."""
        return compatibility.one_stands_for_all(self.task, self.model, self.training)

    @property
    def batch(self) -> int:
        """Samples in one step."""
        if self.one_stands_for_all:
            return 1
        if self.training.batch_size == "all":
            return math.comb(self.task.T, self.task.q)
        return self.training.batch_size


def deviations(record: BaseModel) -> dict[str, Any]:
    """The fields of a record that differ from their defaults, its kind, and a plugin's digest: what identifies it."""
    found: dict[str, Any] = {}
    if (plugin := plugin_of(type(record))) is not None:
        found[PLUGIN] = plugin[1]
    for name, default in _defaults(type(record)):
        value = getattr(record, name)
        if name == "kind" or value != default:
            found[name] = deviations(value) if isinstance(value, BaseModel) else value
    return found


def plugins_of(config: TrialConfig) -> dict[str, str]:
    """The plugins that a trial uses: name to digest."""
    codes = getattr(config.model, "positions", None)
    records = (config.task, config.model, codes, config.optimizer)
    return dict(plugin for record in records if isinstance(record, Record) and (plugin := plugin_of(type(record))) is not None)


@cache
def _defaults(record: type[BaseModel]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, field.default) for name, field in record.model_fields.items())


@dataclass(frozen=True)
class TrialResult:
    """How one trial ended.

    `relative_loss` is `E ||f - target||^2 / (d/q)` on fresh data after the last step (1 = learned nothing) and
    `relative_loss_stderr` its standard error; both are None for a diverged trial, whose `steps` is the reported step at which
    the loss was first seen not to be finite. `seconds` is the trial's share of its pack's wall time, without the compiling of
    loops. `weights` are kept on request: the trained arrays without padding, of a trial that took all its steps. `metrics` are
    those of `stsq_core.training.evaluation` after the last step, empty unless the config's evaluation asks for more than the
    relative loss; with a target `samples_to_target` (inf: never reached), which is all that a diverged trial has.
    """

    config: TrialConfig
    status: Literal["finished", "diverged"]
    relative_loss: float | None
    relative_loss_stderr: float | None
    steps: int
    seconds: float
    weights: Mapping[str, np.ndarray] | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Measurement:
    """What a stack of trials reports at one step: `relative_loss[i]` of the training batch belongs to `trial_ids[i]`.

    A trial that diverges reports its non-finite loss once and is absent from then on. `metrics` are those of
    `stsq_core.training.evaluation`, one value a trial: at steps at which the trials are evaluated, else empty.
    """

    step: int
    trial_ids: tuple[str, ...]
    relative_loss: tuple[float, ...]
    metrics: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
