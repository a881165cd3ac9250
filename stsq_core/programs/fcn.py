"""The fully connected net on STS_q as a program with hand-derived gradients.

The first layer holds `width` units on vec(X); the subset enters as a multi-hot vector where `y_enters` says. The columns of
each weight matrix are its inputs, then the bias, fed by a column of ones, then zeros up to an aligned size. A unit beyond a
trial's width has zero weights on both sides: every activation is zero at zero, so its output and all its gradients are exactly
zero, and it never wakes.

Rectified units on a core take one compiled loop over blocks of samples (`Kernels.connect`); other activations and devices take
a product a layer.

Initial weights and biases are uniform on +-1/sqrt(fan-in), as in `torch.nn.Linear`, fan-in counting the trial's own units only.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from stsq_core.configs import CHUNK, Fcn, TrialConfig, padded_width
from stsq_core.kernels import NetStep, NetStreams, RateTable
from stsq_core.numerics import Purpose, Step, activate, aligned, backward, product
from stsq_core.programs.program import FusedProgram, Runner, Tensors, pairs_of


class FcnProgram(FusedProgram):
    """k nets of one depth, tail width and rung."""

    def __init__(self, configs: tuple[TrialConfig, ...], device: torch.device) -> None:
        super().__init__(configs, device)
        models = [config.model for config in configs if isinstance(config.model, Fcn)]
        T, d = self.task.T, self.task.d
        self.model = models[0]
        self.widths = [model.width for model in models]
        self.y_first = self.model.y_enters in ("first", "both")
        self.y_second = self.model.y_enters in ("second", "both")
        units = (padded_width(configs[0]), *[self.model.tail_width] * (self.model.depth - 1), d)
        inputs = (T * d + T * self.y_first, units[0] + T * self.y_second, *units[1:-1])
        self.shapes = tuple(zip(units, inputs, strict=True))
        self.fused = self.kernels.fuses and self.model.activation == "relu"

    def initial(self) -> Tensors:
        parameters = uniform_layers(self.shapes, self._uniforms, self.dtype)
        return self._fitted(parameters)

    def gradients(self, parameters: Tensors, step: Step) -> tuple[torch.Tensor, Tensors]:
        if self.fused:
            return self.fused_gradients(parameters, step)
        X = self._tokens(self.batch, Purpose.TOKENS, step)
        layers, hidden, residual = self._forward(parameters, X, self.subsets(step))
        loss = self.loss_of((residual * residual).sum(-1))
        gradient = residual / self.batch
        gradients: Tensors = {}
        for layer in range(len(self.shapes), 0, -1):
            name, below = f"W{layer}", layers[layer - 1]
            gradients[name] = product(gradient.mT, below)
            if layer > 1:
                units = self.shapes[layer - 2][0]
                gradient = product(gradient, parameters[name][..., :units])
                if self.model.activation == "relu":
                    gradient = torch.ops.aten.threshold_backward(gradient, below[..., :units], 0)
                else:
                    gradient = backward(gradient, hidden[layer - 2], self.model.activation)
        return loss, gradients

    def learn(self, parameters: Tensors, step: Step, **moving: Any) -> NetStep:
        return self._connect(parameters, self.subsets(step), (Purpose.TOKENS, step), gradient=True, **moving)

    def runner(self, parameters: Tensors, moments: Tensors, rates: RateTable) -> Runner:
        if self.takes_every_subset:
            return super().runner(parameters, moments, rates)
        tokens, owner = self.streams.bases(Purpose.TOKENS)
        subsets, _ = self.streams.bases(Purpose.SUBSETS)
        inputs, hot = self._inputs
        steps = self.kernels.net_steps(
            NetStreams(tokens, subsets, owner), list(parameters.values()), rows=self.batch, q=self.task.q, inputs=inputs,
            hot=hot, moments=pairs_of(parameters, moments), rates=rates,
        )  # fmt: skip
        return lambda step, count: self.loss_of(steps(step, count))

    def loss_of(self, squares: torch.Tensor) -> torch.Tensor:
        return squares.sum(-1) * (self.task.q / (self.task.d * self.batch))

    def fresh_losses(self, parameters: Tensors, chunk: int, *, T: int | None = None, q: int | None = None) -> torch.Tensor:
        """`||f - target||^2 / (d/q)` on sampled tokens; the net reads no other number of them than the task's."""
        if T not in (None, self.task.T):
            raise ValueError(f"a fully connected net reads the T={self.task.T} tokens it was made for; got T={T}: leave T out")
        y, share = self.fresh_subsets(chunk, q=q), (q or self.task.q) / self.task.d
        if self.fused:
            return self._connect(parameters, y, (Purpose.FRESH_TOKENS, chunk), gradient=False).squares * share
        X = self._tokens(CHUNK, Purpose.FRESH_TOKENS, chunk)
        *_, residual = self._forward(parameters, X, y)
        return (residual * residual).sum(-1) * share

    def weights(self, parameters: Tensors, trial: int) -> dict[str, np.ndarray]:
        """Each `W1, W2, ...` of shape (units, inputs + 1), inputs ordered [units below, multi-hot y], bias last."""
        width, rung = self.widths[trial], self.shapes[0][0]
        arrays = {
            f"W{layer}": parameters[f"W{layer}"][trial, :, : inputs + 1].cpu().numpy()
            for layer, (_, inputs) in enumerate(self.shapes, 1)
        }
        arrays["W1"] = arrays["W1"][:width]
        # The inputs of units beyond the width lie between those of its own units and those of the subset.
        arrays["W2"] = np.delete(arrays["W2"], np.s_[width:rung], axis=1)
        return arrays

    @property
    def _inputs(self) -> tuple[list[int], tuple[bool, ...]]:
        """Of each layer how many numbers it reads of the layer below, and whether it reads the subset, too."""
        hot = (self.y_first, self.y_second, *[False] * (len(self.shapes) - 2))
        return [inputs - self.task.T * is_hot for (_, inputs), is_hot in zip(self.shapes, hot, strict=True)], hot

    def _connect(self, parameters: Tensors, y: torch.Tensor, tokens: tuple[Purpose, Step], **step: Any) -> NetStep:
        inputs, hot = self._inputs
        return self.kernels.connect(self.streams.draws(*tokens), list(parameters.values()), y, inputs=inputs, hot=hot, **step)

    def _forward(
        self, parameters: Tensors, X: torch.Tensor, y: torch.Tensor
    ) -> tuple[list[torch.Tensor], list[torch.Tensor], torch.Tensor]:
        """The input of every layer, (k, batch, columns), of its units before a smooth activation, (k, batch, units), and the
        residual f - target, (k, batch, d).
        """
        k, count, T, d = X.shape[0], X.shape[1], self.task.T, self.task.d
        hot = torch.zeros((k, count, T), dtype=self.dtype, device=self.device).scatter_(2, y, 1.0)
        layers, hidden = [self._layer(0, X, hot if self.y_first else None)], list[torch.Tensor]()
        for layer in range(1, len(self.shapes)):
            values = product(layers[-1], parameters[f"W{layer}"].mT)
            if self.model.activation != "relu":
                hidden.append(values)
                values = activate(values, self.model.activation)
            layers.append(self._layer(layer, values, hot if layer == 1 and self.y_second else None))
        output = product(layers[-1], parameters[f"W{len(self.shapes)}"].mT)
        index = y.unsqueeze(-1).expand(-1, -1, -1, d)
        target = X.view(k, count, T, d).gather(2, index).sum(2) / y.shape[-1]
        return layers, hidden, output - target

    def _layer(self, layer: int, values: torch.Tensor, hot: torch.Tensor | None) -> torch.Tensor:
        """What a layer reads: tokens or active units, the subset where it enters, a one for the bias, and zeros."""
        columns = aligned(self.shapes[layer][1] + 1, self.dtype)
        return self.kernels.layer(values, hot, columns=columns, rectify=layer > 0 and self.model.activation == "relu")

    def _uniforms(self, shape: tuple[int, ...], stream: int) -> torch.Tensor:
        draws = self.streams.draws(Purpose.INIT, stream)
        return self.kernels.uniforms(draws, numbers=math.prod(shape), dtype=self.dtype).view(len(self.configs), *shape)

    def _tokens(self, count: int, purpose: Purpose, step: Step) -> torch.Tensor:
        """vec(X) of each sample, (k, count, T d)."""
        numbers = self.task.T * self.task.d
        X = self.kernels.normals(self.streams.draws(purpose, step), rows=1, numbers=count * numbers, dtype=self.dtype)
        return X.view(len(self.configs), count, numbers)

    def _fitted(self, parameters: Tensors) -> Tensors:
        """Scale each trial's draws by its own 1/sqrt(fan-in) and silence the units beyond its width."""
        rung = self.shapes[0][0]
        for layer, (_, inputs) in enumerate(self.shapes):
            fan_in = [inputs - (rung - width) * (layer == 1) for width in self.widths]
            scale = torch.tensor([1 / math.sqrt(fan) for fan in fan_in], dtype=self.dtype, device=self.device)
            parameters[f"W{layer + 1}"] *= scale.view(-1, 1, 1)
        for trial, width in enumerate(self.widths):
            parameters["W1"][trial, width:] = 0
            parameters["W2"][trial, :, width:rung] = 0
        return parameters


def uniform_layers(
    shapes: Sequence[tuple[int, int]], uniforms: Callable[[tuple[int, ...], int], torch.Tensor], dtype: torch.dtype
) -> Tensors:
    """Weights uniform on +-1 of layers given as (units, inputs): `W1, W2, ...`, the bias behind the inputs, then zeros.

    Args:
        shapes: of the layers, from the first.
        uniforms: draws of a shape from a stream, (k, *shape).
        dtype: of the weights.
    """
    parameters: Tensors = {}
    for layer, (units, inputs) in enumerate(shapes):
        # Three streams a layer: biases, weights of the units below, and weights of the subset where it has a stream of its own.
        blocks = [uniforms((units,), 3 * layer).unsqueeze(-1)]
        if layer == 1:
            # Each block is drawn with its inputs outermost, so that a narrow trial's weights are a prefix of a wide one's.
            below = shapes[0][0]
            blocks = [
                uniforms((size, units), 3 * layer + part).mT for part, size in ((1, below), (2, inputs - below)) if size
            ] + blocks
        else:
            blocks = [uniforms((units, inputs), 3 * layer + 1), *blocks]
        W = torch.cat(blocks, -1)
        parameters[f"W{layer + 1}"] = torch.nn.functional.pad(W, (0, aligned(inputs + 1, dtype) - inputs - 1))
    return parameters
