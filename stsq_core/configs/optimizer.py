"""Optimizers (the configs): gradient descent, Adam and AdamW, each with a rate and its schedule.

An optimizer of a plugin names its `UpdateRule` (`stsq_core.training.descent`) in a method `rule()`.
"""

from typing import Annotated, Literal

from pydantic import Field

from stsq_core.configs.open_union import OpenUnion
from stsq_core.configs.record import Record

PositiveFloat = Annotated[float, Field(gt=0)]
Fraction = Annotated[float, Field(ge=0, lt=1)]


class Schedule(Record):
    """The factor on the rate: linear warm-up over `warmup` steps, then constant, or down to `floor` at the last step.

    `linear` decays along a line, `cosine` along half a cosine.
    """

    kind: Literal["constant", "linear", "cosine"] = "constant"
    """How the factor falls after the warm-up: not at all, along a line, or along half a cosine."""
    warmup: Annotated[int, Field(ge=0, le=10**12)] = 0
    """Steps over which the factor rises from 0 to 1."""
    floor: Annotated[float, Field(ge=0, le=1)] = 0.0
    """The factor at the last step, for kinds that fall."""


class Optimizer(Record):
    """How parameters follow their gradients, at the rate `lr` times the factor of the `schedule`."""

    kind: str
    lr: PositiveFloat
    """The rate: the step's length per gradient, before the factor of the schedule."""
    schedule: Schedule = Schedule()
    """The factor on the rate, step by step."""


class GradientDescent(Optimizer):
    """`theta <- theta - lr * gradient`."""

    kind: Literal["gd"] = "gd"


class Adam(Optimizer):
    """Adam with bias correction (Kingma, Ba 2015, arXiv:1412.6980, algorithm 1)."""

    kind: Literal["adam"] = "adam"
    beta1: Fraction = 0.9
    """Decay of the mean of gradients."""
    beta2: Fraction = 0.999
    """Decay of the mean of squared gradients."""
    eps: PositiveFloat = 1e-8
    """Added to the root of the mean square."""


class AdamW(Optimizer):
    """Adam with decoupled weight decay: `theta <- (1 - lr * weight_decay) theta` before each step of Adam, biases included.

    Source: Loshchilov, Hutter 2019, arXiv:1711.05101, algorithm 2; the schedule is on both, as in `torch.optim.AdamW`.
    """

    kind: Literal["adamw"] = "adamw"
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Shrinks every parameter by lr times this in each step."""
    beta1: Fraction = 0.9
    """Decay of the mean of gradients."""
    beta2: Fraction = 0.999
    """Decay of the mean of squared gradients."""
    eps: PositiveFloat = 1e-8
    """Added to the root of the mean square."""


OwnOptimizer = Annotated[GradientDescent | Adam | AdamW, Field(discriminator="kind")]

OPTIMIZERS = OpenUnion(OwnOptimizer)
