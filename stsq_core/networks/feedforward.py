"""Fully connected nets on any task, which read all of a sample at once.

`FcnNetwork` maps vec(X) and, for each output, a multi-hot vector of its positions, to all outputs. Layers, starts
and draws are those of `stsq_core.programs.fcn`, which trains the same net on sparse token selection with gradients derived by
hand. On a task that shows no positions it reads the tokens alone. `FeedforwardNetwork` reads the whole prompt, as in the
authors' code of arXiv:2503.11272, and starts as `torch.nn.Linear` does.
"""

import math
from itertools import pairwise

import numpy as np
import torch

from stsq_core.configs import Fcn, Ffn, Moment, SelectedMean, Stsq, TrialConfig
from stsq_core.kernels import Kernels
from stsq_core.networks.layers import affine, initial_layer, relu_net, with_one
from stsq_core.networks.network import Network
from stsq_core.numerics import Purpose, Streams, activate
from stsq_core.programs import Tensors, uniform_layers
from stsq_core.tasks import Batch, Source

DRAWN_ONCE = (Stsq, SelectedMean, Moment)
"""Tasks whose y holds no position twice."""


class FcnNetwork(Network):
    """k nets of one record."""

    def __init__(self, configs: tuple[TrialConfig, ...], *, kernels: Kernels, streams: Streams, dtype: torch.dtype) -> None:
        super().__init__(configs, kernels=kernels, streams=streams, dtype=dtype)
        if not isinstance(configs[0].model, Fcn):
            raise TypeError(f"not a fully connected net: {configs[0].model.kind}")
        model = self.model = configs[0].model
        R, T = self.examples.num_outputs, self.task.T
        hot = R * T * self.task.shows_y
        self.hot_at = tuple(layer for layer, name in enumerate(("first", "second")) if model.y_enters in (name, "both"))
        units = (model.width, *[model.tail_width] * (model.depth - 1), R * self.examples.output_size)
        below = (T * self.task.d, *units[:-1])
        self.shapes = tuple(
            (own, read + hot * (layer in self.hot_at)) for layer, (own, read) in enumerate(zip(units, below, strict=True))
        )

    def initial(self) -> Tensors:
        parameters = uniform_layers(self.shapes, self._uniforms, self.dtype)
        for name, (_, inputs) in zip(parameters, self.shapes, strict=True):
            parameters[name] *= 1 / math.sqrt(inputs)
        return parameters

    def outputs(self, parameters: Tensors, batch: Batch, source: Source) -> torch.Tensor:
        values, layers = batch.X.flatten(2), list(parameters.values())
        if self.model.activation == "relu" and (batch.y is None or isinstance(self.task, DRAWN_ONCE)):
            y, size = (None, 0) if batch.y is None else _places(batch, batch.y)
            hot = dict.fromkeys(self.hot_at, size) if size else {}
            return relu_net(values, layers, kernels=self.kernels, y=y, hot=hot).view(batch.target.shape)
        dense = _multi_hot(batch)
        for n, layer in enumerate(layers):
            if n:
                values = values.relu() if self.model.activation == "relu" else activate(values, self.model.activation)
            values = affine(self._read(values, dense if n in self.hot_at else None), layer)
        return values.view(batch.target.shape)

    def weights(self, parameters: Tensors, trial: int) -> dict[str, np.ndarray]:
        """Each `W1, W2, ...` of shape (units, inputs + 1), inputs ordered [units below, multi-hot y], bias last."""
        named = zip(super().weights(parameters, trial).items(), self.shapes, strict=True)
        return {name: array[:, : inputs + 1] for (name, array), (_, inputs) in named}

    def _read(self, values: torch.Tensor, hot: torch.Tensor | None) -> torch.Tensor:
        """The input of a layer: values, the subset where it enters, a one for the bias, and zeros up to an aligned size."""
        return with_one(values if hot is None else torch.cat([values, hot], -1))

    def _uniforms(self, shape: tuple[int, ...], stream: int) -> torch.Tensor:
        draws = self.streams.draws(Purpose.INIT, stream)
        return self.kernels.uniforms(draws, numbers=math.prod(shape), dtype=self.dtype).view(len(self.configs), *shape)


class FeedforwardNetwork(Network):
    """Layers `W1, W2, ..`, biases in the column after the inputs."""

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """(units, inputs) of each layer."""
        model = self.configs[0].model
        assert isinstance(model, Ffn)
        units = (*model.units(self.task), self.examples.num_outputs * self.examples.output_size)
        return [(outputs, inputs) for inputs, outputs in pairwise(units)]

    def initial(self) -> Tensors:
        start = self.start()
        return {
            f"W{layer}": initial_layer(start, f"W{layer}", units=units, inputs=inputs)
            for layer, (units, inputs) in enumerate(self.shapes, 1)
        }

    def outputs(self, parameters: Tensors, batch: Batch, source: Source) -> torch.Tensor:
        prompt = self.examples.prompt(batch, source).flatten(2)
        if prompt.shape[2] != (inputs := self.shapes[0][1]):
            raise ValueError(
                f"a feedforward net reads prompts of {inputs} numbers in all; got {prompt.shape[2]}: leave T_test out"
            )
        outputs = relu_net(prompt, list(parameters.values()), kernels=self.kernels)
        return outputs.view(*prompt.shape[:2], self.examples.num_outputs, -1)


def _places(batch: Batch, y: torch.Tensor) -> tuple[torch.Tensor, int]:
    """The places of the ones of `_multi_hot`, (k, batch, R q), and its length."""
    k, count, R, _ = y.shape
    T = batch.X.shape[2]
    first = T * torch.arange(R, device=y.device).unsqueeze(-1)
    return (y + first).view(k, count, -1), R * T


def _multi_hot(batch: Batch) -> torch.Tensor | None:
    """One at the positions of every output, (k, batch, R T); None where they are not shown."""
    if batch.y is None:
        return None
    hot = batch.X.new_zeros((*batch.y.shape[:3], batch.X.shape[2]))
    return hot.scatter_(3, batch.y, 1.0).flatten(2)
