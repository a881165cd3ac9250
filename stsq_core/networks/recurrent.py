"""Recurrent nets over a prompt: bidirectional, as in arXiv:2503.11272 (a GRU in the authors' code), or forwards only.

Weights and biases start uniform on +-1/sqrt(units), as in `torch.nn.GRU`, of the readout on +-1/sqrt(its inputs).
"""

import math

import numpy as np
import torch

from stsq_core.configs import Rnn
from stsq_core.networks.layers import affine, initial_layer, with_one
from stsq_core.networks.network import Network
from stsq_core.networks.scans import padded_units, scan
from stsq_core.programs import Tensors
from stsq_core.tasks import Batch, Source

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
        told: Tensors = {}
        for way in self.directions:
            W_x = initial_layer(
                start, f"W_x {way}", units=gates * units, inputs=self.task.prompt_size, bound=1 / math.sqrt(units)
            )
            biases = start.uniforms(f"start input bias {way}", gates * units, 1)[..., 0] / math.sqrt(units)
            W_x[..., self.task.prompt_size] = biases
            told[f"W_x {way}"] = self._by_gate(W_x)
            W_h = start.uniforms(f"start W_h {way}", gates * units, units + 1) / math.sqrt(units)
            told[f"W_h {way}"] = self._by_gate(torch.nn.functional.pad(W_h, (0, padded_units(units) - units - 1)))
        size = self.examples.output_size
        told["W_out"] = initial_layer(start, "W_out", units=size, inputs=units * len(self.directions))
        return told

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
