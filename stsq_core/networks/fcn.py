"""The fully connected net on any task: vec(X) and, for each output, a multi-hot vector of its positions, to all outputs.

Layers, starts and draws are those of `stsq_core.programs.fcn`, which trains the same net on sparse token selection with
gradients derived by hand. On a task that shows no positions the net reads the tokens alone.
"""

import math

import numpy as np
import torch

from stsq_core.configs import Fcn, TrialConfig
from stsq_core.kernels import Kernels
from stsq_core.networks.layers import with_one
from stsq_core.networks.network import Network
from stsq_core.numerics import Purpose, Streams, activate, product
from stsq_core.programs import Tensors, uniform_layers
from stsq_core.tasks import Batch, Source


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
        values, hot = batch.X.flatten(2), _multi_hot(batch)
        for layer in range(len(self.shapes)):
            if layer:
                values = values.relu() if self.model.activation == "relu" else activate(values, self.model.activation)
            read = self._read(values, hot if layer in self.hot_at else None)
            values = product(read, parameters[f"W{layer + 1}"].mT)
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


def _multi_hot(batch: Batch) -> torch.Tensor | None:
    """One at the positions of every output, (k, batch, R T); None where they are not shown."""
    if batch.y is None:
        return None
    hot = batch.X.new_zeros((*batch.y.shape[:3], batch.X.shape[2]))
    return hot.scatter_(3, batch.y, 1.0).flatten(2)
