"""Affine layers of a stack: the bias is a column of the weights, fed by a one beside the inputs, so products alone train it.

A layer's array is (k, units, columns): its inputs, the bias, then zeros up to an aligned size, which the zeros that feed them
keep zero.
"""

import math

import torch

from stsq_core.numerics import aligned, product
from stsq_core.tasks import Source


def initial_layer(
    start: Source, name: str, *, units: int, inputs: int, bound: float | None = None, zero_bias: bool = False
) -> torch.Tensor:
    """Weights uniform on +-`bound`, by default 1/sqrt(inputs), and biases on +-1/sqrt(inputs) (`torch.nn.Linear`), or zero."""
    least = 1 / math.sqrt(inputs)
    weights = start.uniforms(f"start {name}", units, inputs) * (least if bound is None else bound)
    biases = start.uniforms(f"start bias of {name}", units, 1) * (0.0 if zero_bias else least)
    rest = weights.new_zeros((*weights.shape[:2], columns(inputs, weights.dtype) - inputs - 1))
    return torch.cat([weights, biases, rest], -1)


def columns(inputs: int, dtype: torch.dtype) -> int:
    """How many columns hold so many inputs and a bias."""
    return aligned(inputs + 1, dtype)


def with_one(values: torch.Tensor) -> torch.Tensor:
    """What a layer reads: values, (k, rows, inputs), a one, and zeros."""
    inputs = values.shape[-1]
    read = values.new_zeros((*values.shape[:-1], columns(inputs, values.dtype)))
    read[..., inputs] = 1
    read[..., :inputs] = values
    return read


def affine(read: torch.Tensor, layer: torch.Tensor) -> torch.Tensor:
    """The outputs of a layer, (k, rows, units)."""
    return product(read, layer.mT)


def relu_net(values: torch.Tensor, layers: list[torch.Tensor]) -> torch.Tensor:
    """Layers one after another, (k, rows, inputs) to (k, rows, units), rectified between two of them."""
    for layer in layers[:-1]:
        values = affine(with_one(values), layer).relu()
    return affine(with_one(values), layers[-1])
