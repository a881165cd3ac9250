"""The activations of the fully connected net and their derivatives, with bits that do not depend on a unit's place.

torch's vector loops leave what is short of two vectors to scalar code, which rounds tanh and erf otherwise; so rows are padded
with zeros until nothing is left over. ReLU, which rounds nothing, is taken in place by `Kernels.layer`.
"""

from collections.abc import Callable
from typing import Literal, assert_never

import torch

Smooth = Literal["tanh", "gelu"]

VECTORS_BYTES = 128
"""The longest pair of vectors that a core takes at a time."""


def activate(z: torch.Tensor, activation: Smooth) -> torch.Tensor:
    """`tanh(z)`, or `z Phi(z)` with Phi the normal distribution function."""
    units, z = z.shape[-1], _padded(z)
    match activation:
        case "tanh":
            return z.tanh()[..., :units]
        case "gelu":
            return torch.nn.functional.gelu(z)[..., :units]
        case _:
            assert_never(activation)


def backward(gradient: torch.Tensor, z: torch.Tensor, activation: Smooth) -> torch.Tensor:
    """The gradient at z of what has `gradient` at `activate(z)`."""
    units, gradient, z = z.shape[-1], _padded(gradient), _padded(z)
    slope: torch.Tensor
    match activation:
        case "tanh":
            slope = torch.ops.aten.tanh_backward(gradient, z.tanh())
        case "gelu":
            slope = torch.ops.aten.gelu_backward(gradient, z)
        case _:
            assert_never(activation)
    return slope[..., :units]


def placeless(function: Callable[[torch.Tensor], torch.Tensor], values: torch.Tensor) -> torch.Tensor:
    """An elementwise function of a stack's values, (k, ..), with bits that do not depend on a trial's place in it."""
    flat = values.reshape(len(values), -1)
    return function(_padded(flat))[:, : flat.shape[1]].reshape(values.shape)


def _padded(values: torch.Tensor) -> torch.Tensor:
    rest = -values.shape[-1] % (VECTORS_BYTES // values.dtype.itemsize)
    return torch.nn.functional.pad(values, (0, rest)).contiguous()
