"""Recurrent nets over a prompt: bidirectional, as in arXiv:2503.11272 (a GRU in the authors' code), or forwards only.

States along a sequence have hand-derived gradients: the weights' products of all steps are one product at the end. States are
(k, rows, units): the net's own, then a one, which feeds the bias, then zeros up to a whole number of vectors. Weights `W` are
(k, gates x units, units), zero in the rows and all but one of the columns beyond the net's own units; so those stay zero.

Weights and biases start uniform on +-1/sqrt(units), as in `torch.nn.GRU`, of the readout on +-1/sqrt(its inputs).

Source: the GRU is `torch.nn.GRU`'s (Cho et al. 2014, arXiv:1406.1078, the reset gate after the product), the others Elman's.
"""

import math
from typing import Any, assert_never

import numpy as np
import torch

from stsq_core.configs import Cell, Rnn
from stsq_core.networks.layers import affine, initial_layer, with_one
from stsq_core.networks.network import Network
from stsq_core.numerics import product
from stsq_core.programs import Tensors
from stsq_core.tasks import Batch, Source

VECTORS = 32
"""Units are filled up to a multiple of this: elementwise loops then leave nothing over (see `stsq_core.numerics.activations`).
"""

DIRECTIONS = ("forward", "backward")


class RecurrentNetwork(Network):
    """Arrays `W_x forward, W_h forward` (gates x units, inputs or units; then the bias), the same backward, and `W_out`."""

    @property
    def model(self) -> Rnn:
        model = self.configs[0].model
        assert isinstance(model, Rnn)
        return model

    @property
    def directions(self) -> tuple[str, ...]:
        return DIRECTIONS[: self.model.num_directions]

    def initial(self) -> Tensors:
        start, units, gates = self.start(), self.model.width, self.model.num_gates
        parameters: Tensors = {}
        for way in self.directions:
            W_x = initial_layer(
                start, f"W_x {way}", units=gates * units, inputs=self.task.prompt_size, bound=1 / math.sqrt(units)
            )
            biases = start.uniforms(f"start input bias {way}", gates * units, 1)[..., 0] / math.sqrt(units)
            W_x[..., self.task.prompt_size] = biases
            parameters[f"W_x {way}"] = self._by_gate(W_x)
            W_h = start.uniforms(f"start W_h {way}", gates * units, units + 1) / math.sqrt(units)
            parameters[f"W_h {way}"] = self._by_gate(torch.nn.functional.pad(W_h, (0, padded_units(units) - units - 1)))
        size = self.examples.output_size
        parameters["W_out"] = initial_layer(start, "W_out", units=size, inputs=units * len(self.directions))
        return parameters

    def outputs(self, parameters: Tensors, batch: Batch, source: Source) -> torch.Tensor:
        Z = self.examples.prompt(batch, source).transpose(1, 2)
        k, T, count, _ = Z.shape
        read = with_one(Z.reshape(k, T * count, -1))
        everywhere = self.examples.num_outputs == self.task.T
        states = []
        for way in self.directions:
            x = affine(read, parameters[f"W_x {way}"]).view(k, T, count, -1)
            units, backwards = self.model.width, way == "backward"
            found = scan(x, parameters[f"W_h {way}"], units=units, cell=self.model.cell, reverse=backwards)
            states.append(found[..., :units] if everywhere else found[:, [0 if backwards else T - 1], :, :units])
        seen = torch.cat(states, -1)
        answers = affine(with_one(seen.flatten(1, 2)), parameters["W_out"])
        return answers.reshape(k, seen.shape[1], count, -1).transpose(1, 2)

    def weights(self, parameters: Tensors, trial: int) -> dict[str, np.ndarray]:
        """The arrays without padding, biases last."""
        units, gates = self.model.width, self.model.num_gates
        inputs = {"W_x": self.task.prompt_size, "W_h": units, "W_out": units * len(self.directions)}
        arrays = {}
        for name, array in super().weights(parameters, trial).items():
            size = inputs[name.split()[0]] + 1
            rows = (
                array
                if name == "W_out"
                else array.reshape(gates, padded_units(units), -1)[:, :units].reshape(gates * units, -1)
            )
            arrays[name] = rows[:, :size]
        return arrays

    def _by_gate(self, layer: torch.Tensor) -> torch.Tensor:
        """Rows of zeros below each gate's units."""
        units = self.model.width
        blocks = layer.view(len(layer), self.model.num_gates, units, -1)
        filled = torch.nn.functional.pad(blocks, (0, 0, 0, padded_units(units) - units))
        return filled.flatten(1, 2).contiguous()


def padded_units(units: int) -> int:
    """Units with the one beside them."""
    return -(-(units + 1) // VECTORS) * VECTORS


def scan(x: torch.Tensor, W: torch.Tensor, *, units: int, cell: Cell, reverse: bool) -> torch.Tensor:
    """The states after each step, (k, T, rows, units padded), from zero.

    Args:
        x: what the inputs add at the gates, (k, T, rows, gates x units padded).
        W: (k, gates x units padded, units padded); the column `units` is the bias.
        units: the net's own.
        cell: gru, whose gates are reset, update and candidate; or relu or tanh, with one.
        reverse: from the last position to the first.
    """
    match cell:
        case "gru":
            found = _Gru.apply(x, W, units, reverse)  # type: ignore[no-untyped-call]
        case "relu" | "tanh":
            found = _Elman.apply(x, W, units, reverse, cell)  # type: ignore[no-untyped-call]
        case _:
            assert_never(cell)
    assert isinstance(found, torch.Tensor)
    return found


def _start(x: torch.Tensor, size: int, units: int) -> torch.Tensor:
    state = x.new_zeros((len(x), x.shape[2], size))
    state[..., units] = 1
    return state


def _order(T: int, reverse: bool) -> range:
    return range(T)[::-1] if reverse else range(T)


def _befores(states: torch.Tensor, units: int, reverse: bool) -> torch.Tensor:
    """The state before each step."""
    before = torch.empty_like(states)
    first = _start(states, states.shape[-1], units)
    if reverse:
        before[:, :-1], before[:, -1] = states[:, 1:], first
    else:
        before[:, 1:], before[:, 0] = states[:, :-1], first
    return before


def _weight_gradient(slopes: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
    """`sum slope before^T` over steps and rows, (k, gates x units, units)."""
    return product(slopes.flatten(1, 2).mT, before.flatten(1, 2))


class _Gru(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, W: torch.Tensor, units: int, reverse: bool) -> torch.Tensor:
        k, T, rows, _ = x.shape
        H = W.shape[2]
        states = x.new_empty((k, T, rows, H))
        gates, fed = x.new_empty((3, k, T, rows, H)), x.new_empty((k, T, rows, H))
        h = _start(x, H, units)
        for t in _order(T, reverse):
            fed_r, fed_z, fed_n = product(h, W.mT).chunk(3, -1)
            x_r, x_z, x_n = x[:, t].chunk(3, -1)
            r, z = (x_r + fed_r).sigmoid_(), (x_z + fed_z).sigmoid_()
            fed_n = fed_n.contiguous()
            n = (x_n + r * fed_n).tanh_()
            h = n + z * (h - n)
            h[..., units] = 1  # feeds the bias of the next step
            for store, value in zip((states, *gates, fed), (h, r, z, n, fed_n), strict=True):
                store[:, t] = value
        ctx.save_for_backward(W, states, gates, fed)
        ctx.units, ctx.reverse = units, reverse
        return states

    @staticmethod
    def backward(ctx: Any, *outer: Any) -> Any:
        (slope,) = outer
        W, states, gates, fed = ctx.saved_tensors
        before = _befores(states, ctx.units, ctx.reverse)
        at_x, at_fed = (slope.new_empty((*fed.shape[:3], W.shape[1])) for _ in range(2))
        carried = torch.zeros_like(fed[:, 0])
        for t in reversed(_order(fed.shape[1], ctx.reverse)):
            r, z, n = gates[:, :, t]
            at_h = slope[:, t] + carried
            at_h[..., ctx.units] = 0  # a constant
            at_n = at_h * (1 - z) * (1 - n * n)
            at_r = at_n * fed[:, t] * r * (1 - r)
            at_z = at_h * (before[:, t] - n) * z * (1 - z)
            at_x[:, t] = torch.cat([at_r, at_z, at_n], -1)
            here = torch.cat([at_r, at_z, at_n * r], -1)
            at_fed[:, t] = here
            carried = at_h * z + product(here, W)
        return at_x, _weight_gradient(at_fed, before), None, None


class _Elman(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, W: torch.Tensor, units: int, reverse: bool, cell: str) -> torch.Tensor:
        k, T, rows, H = x.shape
        states = x.new_empty((k, T, rows, H))
        h = _start(x, H, units)
        for t in _order(T, reverse):
            h = x[:, t] + product(h, W.mT)
            h = h.tanh_() if cell == "tanh" else h.relu_()
            h[..., units] = 1
            states[:, t] = h
        ctx.save_for_backward(W, states)
        ctx.units, ctx.reverse, ctx.cell = units, reverse, cell
        return states

    @staticmethod
    def backward(ctx: Any, *outer: Any) -> Any:
        (slope,) = outer
        W, states = ctx.saved_tensors
        at_x = torch.empty_like(states)
        carried = torch.zeros_like(states[:, 0])
        for t in reversed(_order(states.shape[1], ctx.reverse)):
            h, at_h = states[:, t], slope[:, t] + carried
            at_h[..., ctx.units] = 0
            here = at_h * (1 - h * h) if ctx.cell == "tanh" else at_h * (h > 0)
            at_x[:, t] = here
            carried = product(here, W)
        return at_x, _weight_gradient(at_x, _befores(states, ctx.units, ctx.reverse)), None, None, None
