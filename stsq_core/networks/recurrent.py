"""Recurrent nets over a prompt: bidirectional, as in arXiv:2503.11272 (a GRU in the authors' code), or forwards only.

States along a sequence have hand-derived gradients: what inputs add is one product for all steps, and so is the gradient of the
weights; a step is a product and one loop over all gates (`Kernels.gru`, `Kernels.elman`). States are
(k, rows, units): the net's own, then a one, which feeds the bias, then zeros up to a whole number of vectors. Weights `W` are
(k, gates x units, units), zero in the rows and all but one of the columns beyond the net's own units; so those stay zero.

Weights and biases start uniform on +-1/sqrt(units), as in `torch.nn.GRU`, of the readout on +-1/sqrt(its inputs).

Source: the GRU is `torch.nn.GRU`'s (Cho et al. 2014, arXiv:1406.1078, the reset gate after the product), the others Elman's.
"""

import math
from typing import Any

import numpy as np
import torch

from stsq_core.configs import Rnn
from stsq_core.kernels import Kernels
from stsq_core.networks.layers import affine, initial_layer, with_one
from stsq_core.networks.network import Network
from stsq_core.numerics import aligned, product
from stsq_core.programs import Tensors
from stsq_core.tasks import Batch, Source

VECTORS = 16
"""Units are filled up to a multiple of this: states are then whole cache lines, as products of stacks ask for."""

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
        answers: list[torch.Tensor] = []
        for way, readout in zip(self.directions, self._readouts(parameters["W_out"]), strict=True):
            x = affine(read, parameters[f"W_x {way}"]).view(k, T, count, -1)
            backwards = way == "backward"
            found = _Scan.apply(x, parameters[f"W_h {way}"], self.model, backwards, self.kernels)  # type: ignore[no-untyped-call]
            seen = found if everywhere else found[:, [0 if backwards else T - 1]]
            answers.append(affine(seen.flatten(1, 2), readout))
        size = self.examples.output_size
        total = answers[0] if len(answers) == 1 else answers[0] + answers[1]
        return total[..., :size].view(k, -1, count, size).transpose(1, 2)

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

    def _readouts(self, W_out: torch.Tensor) -> list[torch.Tensor]:
        """Each direction's part of the readout, (k, size, units), filled up as states are, and rows to whole cache lines."""
        units, size = self.model.width, self.examples.output_size
        rows, rest = aligned(size, self.dtype) - size, padded_units(units) - units
        parts = [W_out[..., n * units : (n + 1) * units] for n in range(len(self.directions))]
        bias = W_out[..., len(parts) * units, None]
        parts[0] = torch.cat([parts[0], bias], -1)
        return [torch.nn.functional.pad(part, (0, units + rest - part.shape[-1], 0, rows)) for part in parts]

    def _by_gate(self, layer: torch.Tensor) -> torch.Tensor:
        """Rows of zeros below each gate's units."""
        units = self.model.width
        blocks = layer.view(len(layer), self.model.num_gates, units, -1)
        filled = torch.nn.functional.pad(blocks, (0, 0, 0, padded_units(units) - units))
        return filled.flatten(1, 2).contiguous()


def padded_units(units: int) -> int:
    """Units with the one beside them."""
    return -(-(units + 1) // VECTORS) * VECTORS


class _Scan(torch.autograd.Function):
    """The states after each step, (k, T, rows, units padded), from zero, for what the inputs add at the gates, (k, T, rows,
    gates x units padded), and weights (k, gates x units padded, units padded), whose column `units` is the bias; the gates of a
    gru are reset, update and candidate.
    """

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, W: torch.Tensor, model: Rnn, reverse: bool, kernels: Kernels) -> torch.Tensor:
        k, T, rows, width = x.shape
        H, units, steps = W.shape[2], model.width, _steps(T, reverse)
        states, fed = x.new_empty((k, T + 1, rows, H)), x.new_empty((k, rows, width))
        first = states[:, steps[0][1]]
        first.zero_()
        first[..., units] = 1
        kept = x.new_empty((k, T, rows, 4 * H)) if model.cell == "gru" else None
        for t, before in steps:
            torch.bmm(states[:, before], W.mT, out=fed)
            if kept is None:
                kernels.elman(x, fed, states, t=t, before=before, units=units, is_tanh=model.cell == "tanh")
            else:
                kernels.gru(x, fed, states, kept, t=t, before=before, units=units)
        ctx.save_for_backward(W, states, kept)
        ctx.model, ctx.steps, ctx.reverse, ctx.kernels = model, steps, reverse, kernels
        return states[:, :T] if reverse else states[:, 1:]

    @staticmethod
    def backward(ctx: Any, *outer: Any) -> Any:
        W, states, kept = ctx.saved_tensors
        slope, kernels, units, T = outer[0].contiguous(), ctx.kernels, ctx.model.width, len(ctx.steps)
        at_x = slope.new_empty((*slope.shape[:3], W.shape[1]))
        at_fed = at_x if kept is None else torch.empty_like(at_x)
        carried, fed_back = torch.zeros_like(slope[:, 0]), torch.zeros_like(slope[:, 0])
        for t, before in reversed(ctx.steps):
            if kept is None:
                is_tanh = ctx.model.cell == "tanh"
                kernels.elman_back(slope, fed_back, states, at_x, t=t, before=before, units=units, is_tanh=is_tanh)
            else:
                kernels.gru_back(slope, fed_back, carried, states, kept, at_x, at_fed, t=t, before=before, units=units)
            if (t, before) != ctx.steps[0]:
                torch.bmm(at_fed[:, t], W, out=fed_back)
        before_all = states[:, 1:] if ctx.reverse else states[:, :T]
        return at_x, product(at_fed.flatten(1, 2).mT, before_all.flatten(1, 2)), None, None, None


def _steps(T: int, reverse: bool) -> list[tuple[int, int]]:
    """The steps in order, each with the place of the state before it: that after it has the other of places t and t + 1."""
    return [(t, t + 1) for t in range(T)][::-1] if reverse else [(t, t) for t in range(T)]
