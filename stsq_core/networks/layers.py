"""Affine layers of a stack: the bias is a column of the weights, fed by a one beside the inputs, so products alone train it.

A layer's array is (k, units, columns): its inputs, the bias, then zeros up to an aligned size, which the zeros that feed them
keep zero.
"""

import math
from typing import Any

import torch

from stsq_core.kernels import Kernels
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


def relu_net(
    values: torch.Tensor,
    layers: list[torch.Tensor],
    *,
    kernels: Kernels,
    inputs: int | None = None,
    y: torch.Tensor | None = None,
    hot: dict[int, int] | None = None,
) -> torch.Tensor:
    """Layers one after another, (k, rows, inputs) to (k, rows, units), rectified between two of them.

    Args:
        values: what the first layer reads.
        layers: their weights.
        kernels: of the device.
        inputs: how many of the values are read, all by default; zeros follow.
        y: places of the ones of a multi-hot vector that some layers read, too, (k, rows, q), each once.
        hot: the length of that vector by the place of each layer that reads it.
    """
    hot, inputs = hot or {}, values.shape[-1] if inputs is None else inputs
    layout = [(read, hot.get(n, 0)) for n, read in enumerate([inputs, *(layer.shape[1] for layer in layers[:-1])])]
    if kernels.fuses and len(layers) > 1:
        if values.requires_grad and (rest := aligned(values.shape[-1], values.dtype) - values.shape[-1]):
            values = torch.nn.functional.pad(values, (0, rest))
        members = torch.empty((*values.shape[:2], 0), dtype=torch.int64) if y is None else y
        outputs = _Net.apply(values, members, tuple(layout), kernels, *layers)  # type: ignore[no-untyped-call]
        assert isinstance(outputs, torch.Tensor)
        return outputs
    values = values[..., :inputs]
    for n, layer in enumerate(layers):
        if n in hot:
            assert y is not None
            values = torch.cat([values, values.new_zeros((*values.shape[:2], hot[n])).scatter_(2, y, 1.0)], -1)
        values = affine(with_one(values), layer)
        values = values.relu() if n < len(layers) - 1 else values
    return values


class _Net(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, X: torch.Tensor, y: torch.Tensor, layout: tuple[tuple[int, int], ...], kernels: Kernels, *layers: torch.Tensor
    ) -> torch.Tensor:
        held = [layer.detach().contiguous() for layer in layers]
        h, outputs = kernels.net(X.detach(), y, held, layout)
        ctx.save_for_backward(X, y, *held, *h)
        ctx.layout, ctx.kernels = layout, kernels
        return outputs

    @staticmethod
    def backward(ctx: Any, *outer: Any) -> Any:
        X, y, *rest = ctx.saved_tensors
        weights, h = rest[: len(ctx.layout)], rest[len(ctx.layout) :]
        at_inputs = ctx.needs_input_grad[0]
        at_X, gradients = ctx.kernels.net_back(X.detach(), y, weights, ctx.layout, h, outer[0], at_inputs=at_inputs)
        return at_X, None, None, None, *gradients
