"""Programs of any task and any model: a task's `Examples`, a model's `Network`, and the gradient by autograd.

The pairs that the papers are about have programs of their own with gradients derived by hand
(`stsq_core.programs.population_transformer`, `stsq_core.programs.fcn`), several times faster; those written here are held to
the same law of the pack. A `Network` keeps it by what it computes with: `stsq_core.numerics.products.product` for products of
stacks, elementwise functions, and sums along axes that lie behind the stack's and are not followed by a longer one.
"""

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
import torch

from stsq_core.configs import CHUNK, TokenTask, TrialConfig
from stsq_core.kernels import Kernels
from stsq_core.numerics import Step, Streams
from stsq_core.programs.program import Program, Tensors
from stsq_core.tasks import Batch, Source


class Network(ABC):
    """k models of one kind on one task: how they start, and what they make of a batch.

    `configs` differ in seed, optimizer and rate, and in the model's width where `stack_key` lets them.
    """

    def __init__(self, configs: tuple[TrialConfig, ...], *, kernels: Kernels, streams: Streams, dtype: torch.dtype) -> None:
        self.configs = configs
        self.task: TokenTask = configs[0].task
        self.examples = self.task.examples()
        self.kernels = kernels
        self.streams = streams
        self.dtype = dtype

    @abstractmethod
    def initial(self) -> Tensors:
        """The parameters before the first step, the k trials along the leading axis of each."""

    @abstractmethod
    def outputs(self, parameters: Tensors, batch: Batch, source: Source) -> torch.Tensor:
        """What the models answer, (k, batch, R, size); `source` draws what the models themselves need, as codes are."""

    def attention_mass(self, parameters: Tensors, batch: Batch, source: Source) -> torch.Tensor | None:
        """The share of attention on the positions asked for, (k, batch); None for a model without attention."""
        return None

    def weights(self, parameters: Tensors, trial: int) -> dict[str, np.ndarray]:
        """The arrays of one trial, by the names of `initial`."""
        return {name: value[trial].cpu().numpy() for name, value in parameters.items()}

    def start(self, step: int = 0) -> Source:
        """Draws for `initial`: give every array a name of its own, as in `start().normals("start W", ...)`."""
        return Source(self.streams, self.kernels, step, fresh=False, dtype=self.dtype)


class NetworkProgram(Program):
    """Trains k networks on a task's examples."""

    def __init__(self, configs: tuple[TrialConfig, ...], device: torch.device) -> None:
        super().__init__(configs, device)
        self.examples = self.task.examples()
        build = configs[0].model.network()
        self.network = build(configs, kernels=self.kernels, streams=self.streams, dtype=self.dtype)

    def initial(self) -> Tensors:
        return self.network.initial()

    def gradients(self, parameters: Tensors, step: Step) -> tuple[torch.Tensor, Tensors]:
        batch, source = self.training_batch(step), self.source(step, fresh=False)
        leaves = {name: value.detach().requires_grad_() for name, value in parameters.items()}
        with torch.enable_grad():
            outputs = self.network.outputs(leaves, batch, source)
            objective = self.examples.objective(outputs, batch).mean(-1).sum()
        found = torch.autograd.grad(objective, list(leaves.values()), allow_unused=True)
        gradients = {
            name: torch.zeros_like(value) if gradient is None else gradient
            for (name, value), gradient in zip(parameters.items(), found, strict=True)
        }
        return self.examples.relative_losses(outputs.detach(), batch).mean(-1), gradients

    def fresh_losses(self, parameters: Tensors, chunk: int, *, T: int | None = None, q: int | None = None) -> torch.Tensor:
        """Relative losses of fresh samples, also on another number of tokens or positions where task and model have it."""
        task = self.task.model_copy(update={"T": T or self.task.T, "q": q or self.task.q})
        examples, source = task.examples(), self.source(chunk, fresh=True)
        batch = examples.batch(source, CHUNK)
        return examples.relative_losses(self.network.outputs(parameters, batch, source), batch)

    def fresh_attention_mass(self, parameters: Tensors, chunk: int) -> torch.Tensor | None:
        source = self.source(chunk, fresh=True)
        return self.network.attention_mass(parameters, self.examples.batch(source, CHUNK), source)

    def weights(self, parameters: Tensors, trial: int) -> dict[str, np.ndarray]:
        return self.network.weights(parameters, trial)

    def source(self, step: Step, *, fresh: bool) -> Source:
        """The draws of a step of training, or of a chunk of fresh samples."""
        return Source(self.streams, self.kernels, step, fresh=fresh, dtype=self.dtype)

    def training_batch(self, step: Step) -> Batch:
        """A step's batch: new samples, or rows of the training set where it is finite, drawn with replacement."""
        num_samples = self.configs[0].training.num_samples
        if num_samples is None:
            return self.examples.batch(self.source(step, fresh=False), self.batch)
        rows = self.source(step, fresh=False).integers("rows of the training set", 1, self.batch, below=num_samples)
        return self._training_set.taken(rows[:, 0])

    @cached_property
    def _training_set(self) -> Batch:
        """All samples of a finite training set: a longer one begins with a shorter one only where the task draws by rows."""
        return self.examples.batch(self.source(0, fresh=False), self.configs[0].training.num_samples or 0)
