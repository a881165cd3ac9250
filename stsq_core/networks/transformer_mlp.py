"""One layer of softmax attention over a prompt and a ReLU net on what it returns, as in the authors' code of arXiv:2503.11272.

Head h of position i returns `W_V^h Z softmax(Z^T W_K^h^T (W_Q^h z_i + b) / sqrt(D))`, D the prompt's size; the heads' outputs
side by side go through a square projection `W_O` and the net. Weights of queries, keys and values start uniform on
`+-sqrt(6 / (4 D))` with zero biases (`torch.nn.MultiheadAttention`), of the projection and the net as `torch.nn.Linear`. A head
of ours has all D coordinates; with one head, as there, the two agree. Where a task asks for one output, the answers at all
positions are averaged.
"""

import math

import numpy as np
import torch

from stsq_core.configs import TransformerMlp
from stsq_core.networks.layers import affine, columns, initial_layer, relu_net, with_one
from stsq_core.networks.network import Network
from stsq_core.numerics import aligned, product
from stsq_core.programs import Tensors
from stsq_core.tasks import Batch, Source

PROJECTIONS = ("W_Q", "W_K", "W_V")


class TransformerMlpNetwork(Network):
    """Arrays `W_Q, W_K, W_V` of (heads x rows, columns), a head's D rows filled up with zeros, `W_O`, `W1` and `W2`."""

    @property
    def model(self) -> TransformerMlp:
        model = self.configs[0].model
        assert isinstance(model, TransformerMlp)
        return model

    def initial(self) -> Tensors:
        start, D, heads, width = self.start(), self.task.prompt_size, self.model.heads, self.model.width
        bound = math.sqrt(6 / (4 * D))
        parameters = {
            name: self._per_head(initial_layer(start, name, units=heads * D, inputs=D, bound=bound, zero_bias=True))
            for name in PROJECTIONS
        }
        parameters["W_O"] = initial_layer(start, "W_O", units=heads * D, inputs=heads * D)
        parameters["W_O"][..., heads * D] = 0  # its bias
        parameters["W1"] = initial_layer(start, "W1", units=width, inputs=heads * D)
        parameters["W2"] = initial_layer(start, "W2", units=self.examples.output_size, inputs=width)
        return parameters

    def outputs(self, parameters: Tensors, batch: Batch, source: Source) -> torch.Tensor:
        Z = self.examples.prompt(batch, source)
        k, count, T, D = Z.shape
        p, V = self._attend(parameters, Z)
        mixed = product(p, V).view(k, count, -1, T, V.shape[-1]).transpose(2, 3).reshape(k, count * T, -1)
        W_O, bias = self._spread(parameters["W_O"])
        layers = [parameters["W1"], parameters["W2"]]
        seen = product(mixed, W_O.mT) + bias
        answers = relu_net(seen, layers, kernels=self.kernels, inputs=self.model.heads * D).reshape(k, count, T, -1)
        return answers if self.examples.num_outputs == self.task.T else answers.sum(2, keepdim=True) / T

    def attention_mass(self, parameters: Tensors, batch: Batch, source: Source) -> torch.Tensor | None:
        """`sum_{t in t_i} p_it` averaged over positions i and heads, (k, batch)."""
        if batch.y is None:
            return None
        k, count, T = batch.X.shape[:3]
        p, _ = self._attend(parameters, self.examples.prompt(batch, source))
        asked = batch.X.new_zeros((k, count, T, T)).scatter_(3, batch.y.expand(-1, -1, T, -1), 1).unsqueeze(2)
        return (p.view(k, count, -1, T, T) * asked).flatten(2).sum(-1) / (self.model.heads * T)

    def weights(self, parameters: Tensors, trial: int) -> dict[str, np.ndarray]:
        """`W_QK1, W_QK2, ..`: each head's `W_K^T W_Q`, (D, D), without biases; and the other arrays without padding."""
        D, heads = self.task.prompt_size, self.model.heads
        arrays = super().weights(parameters, trial)
        rows = arrays["W_Q"].shape[0] // heads
        blocks = {name: arrays.pop(name).reshape(heads, rows, -1)[:, :D, : D + 1] for name in PROJECTIONS}
        merged = {f"W_QK{h + 1}": blocks["W_K"][h, :, :D].T @ blocks["W_Q"][h, :, :D] for h in range(heads)}
        inputs = {"W_O": heads * D, "W1": heads * D, "W2": self.model.width}
        return merged | blocks | {name: arrays[name][:, : size + 1] for name, size in inputs.items()}

    def _attend(self, parameters: Tensors, Z: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Attention weights, (k batch heads, T, T), and values, (k batch heads, T, rows)."""
        k, count, T, D = Z.shape
        read = with_one(Z.reshape(k, count * T, D))
        Q, K, V = (self._by_head(affine(read, parameters[name]), count, T) for name in PROJECTIONS)
        return (product(Q, K.mT) / math.sqrt(D)).softmax(-1), V

    def _spread(self, W_O: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The projection of what heads return with the zeros behind each head's D, and its bias, rows filled up with zeros."""
        D, heads, units = self.task.prompt_size, self.model.heads, W_O.shape[1]
        wide, rows = aligned(D, self.dtype), aligned(units, self.dtype)
        own = W_O[..., : heads * D].reshape(len(W_O), units, heads, D)
        spread = torch.nn.functional.pad(own, (0, wide - D, 0, 0, 0, rows - units)).flatten(2)
        return spread, torch.nn.functional.pad(W_O[..., heads * D], (0, rows - units)).unsqueeze(1)

    def _by_head(self, values: torch.Tensor, count: int, T: int) -> torch.Tensor:
        rows = values.shape[-1] // self.model.heads
        return values.reshape(-1, T, self.model.heads, rows).transpose(1, 2).reshape(-1, T, rows)

    def _per_head(self, layer: torch.Tensor) -> torch.Tensor:
        """Rows of zeros below each head's D, to an aligned size: nothing feeds them, and they stay zero."""
        D, heads = self.task.prompt_size, self.model.heads
        blocks = layer.view(len(layer), heads, D, -1)
        filled = torch.nn.functional.pad(blocks, (0, 0, 0, aligned(D, self.dtype) - D))
        return filled.view(len(layer), -1, columns(D, self.dtype)).contiguous()
