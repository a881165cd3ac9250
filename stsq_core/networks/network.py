"""A model's arithmetic on any task: how k models of one kind start, and what they make of a batch.

A `Network` keeps the law of the pack by what it computes with: `stsq_core.numerics.product` for products of stacks, elementwise
functions, and sums along axes that lie behind the stack's and are not followed by a longer one.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import torch

from stsq_core.configs import TokenTask, TrialConfig
from stsq_core.kernels import Kernels
from stsq_core.numerics import Streams
from stsq_core.programs import Tensors
from stsq_core.tasks import Batch, Source, examples_of


class Network(ABC):
    """k models of one kind on one task: how they start, and what they make of a batch.

    `configs` differ in seed, optimizer and rate, and in the model's width where `stack_key` lets them.
    """

    def __init__(self, configs: tuple[TrialConfig, ...], *, kernels: Kernels, streams: Streams, dtype: torch.dtype) -> None:
        self.configs = configs
        self.task: TokenTask = configs[0].task
        self.examples = examples_of(self.task)
        self.kernels = kernels
        self.streams = streams
        self.dtype = dtype

    @abstractmethod
    def initial(self) -> Tensors:
        """The parameters before the first step, the k trials along the leading axis of each."""

    @abstractmethod
    def outputs(self, parameters: Tensors, batch: Batch, source: Source) -> torch.Tensor:
        """What the models answer, (k, batch, R, size); `source` draws what the models themselves need, as codes are."""

    def learned(self, parameters: Tensors, batch: Batch, source: Source) -> tuple[torch.Tensor, Tensors]:
        """What the models answer, (k, batch, R, size), and the gradients of the mean objective of a batch: by autograd."""
        return self.differentiated(lambda leaves: self.outputs(leaves, batch, source), parameters, batch)

    def differentiated(
        self, answer: Callable[[Tensors], torch.Tensor], parameters: Tensors, batch: Batch
    ) -> tuple[torch.Tensor, Tensors]:
        """As `learned`, of the answers of a function of the parameters."""
        leaves = {name: value.detach().requires_grad_() for name, value in parameters.items()}
        with torch.enable_grad():
            outputs = answer(leaves)
        slope = self.examples.slope(outputs.detach(), batch)
        found = torch.autograd.grad(outputs, list(leaves.values()), slope, allow_unused=True)
        return outputs.detach(), {
            name: torch.zeros_like(value) if gradient is None else gradient
            for (name, value), gradient in zip(parameters.items(), found, strict=True)
        }

    def attention_mass(self, parameters: Tensors, batch: Batch, source: Source) -> torch.Tensor | None:
        """The share of attention on the positions asked for, (k, batch); None for a model without attention."""
        return None

    def weights(self, parameters: Tensors, trial: int) -> dict[str, np.ndarray]:
        """The arrays of one trial, by the names of `initial`."""
        return {name: value[trial].cpu().numpy() for name, value in parameters.items()}

    def start(self, step: int = 0) -> Source:
        """Draws for `initial`: give every array a name of its own, as in `start().normals("start W", ...)`."""
        return Source(self.streams, self.kernels, step, fresh=False, dtype=self.dtype)
