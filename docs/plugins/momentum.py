"""Stochastic gradient descent with momentum: a plugin for stsq."""

from typing import Annotated, Literal

import torch
from pydantic import Field

from stsq_core.plugins import Optimizer, Tensors, UpdateRule


class Momentum(Optimizer):
    """Gradient descent with momentum (Polyak 1964): `m <- beta m + gradient`, `theta <- theta - lr m`."""

    kind: Literal["momentum"] = "momentum"
    beta: Annotated[float, Field(ge=0, lt=1)] = 0.9

    def rule(self) -> type[UpdateRule]:
        return MomentumRule


class MomentumRule(UpdateRule):
    """Keeps m of every parameter, and reads beta beside the rate."""

    states, fields = ("m",), ("beta",)

    def move(self, parameter: torch.Tensor, gradient: torch.Tensor, states: Tensors, numbers: Tensors) -> None:
        states["m"].mul_(numbers["beta"]).add_(gradient)
        parameter.sub_(states["m"] * numbers["lr"])
