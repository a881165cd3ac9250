"""What the training loop needs of a model: the parameters, gradients and fresh losses of a stack of k trials.

A program holds no state of training: it is rebuilt from the configs of the trials that are left whenever one leaves the stack.
Between two reports a step neither waits for the device nor depends on values that it computed, so that a GPU can replay it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import combinations, islice
from typing import Any

import numpy as np
import torch

from stsq_core.configs import CHUNK, TrialConfig
from stsq_core.kernels import NetStep, Rates, RateTable, kernels_for
from stsq_core.numerics import Purpose, Step, Streams

__all__ = ["CHUNK", "Program", "Tensors"]

Tensors = dict[str, torch.Tensor]
Runner = Callable[[int, int], torch.Tensor]
"""Takes so many steps from a step on, and hands back the losses before the last."""


class Program(ABC):
    """The forward pass and the hand-derived gradient of k models of one static shape.

    Every tensor of `initial` and of the gradients has the k trials along its leading axis.
    """

    def __init__(self, configs: tuple[TrialConfig, ...], device: torch.device) -> None:
        first = configs[0]
        self.configs = configs
        self.device = device
        self.dtype = torch.float64 if first.training.dtype == "float64" else torch.float32
        self.task = first.task
        self.batch = first.batch
        self.kernels = kernels_for(device)
        self.streams = Streams(tuple(config.seed for config in configs), self.kernels)
        self._every_subset = self._enumerate() if first.training.batch_size == "all" else None

    @abstractmethod
    def initial(self) -> Tensors:
        """The parameters before the first step."""

    @abstractmethod
    def gradients(self, parameters: Tensors, step: Step) -> tuple[torch.Tensor, Tensors]:
        """The relative loss of one step's batch, shape (k,), and the gradient of the objective `1/2 E ||f - target||^2`."""

    @abstractmethod
    def fresh_losses(self, parameters: Tensors, chunk: int, *, T: int | None = None, q: int | None = None) -> torch.Tensor:
        """Relative losses `||f - target||^2 / (d/q)` of `CHUNK` samples that training never sees, shape (k, CHUNK).

        Args:
            parameters: those of `initial`, trained.
            chunk: equal numbers give equal samples.
            T: how many tokens there are, the task's number by default.
            q: the subsets' size, the task's by default.
        """

    def fresh_attention_mass(self, parameters: Tensors, chunk: int) -> torch.Tensor | None:
        """`sum_{t in y} p_t` of the samples of `fresh_losses`, shape (k, CHUNK); None for a model without attention."""
        return None

    @abstractmethod
    def weights(self, parameters: Tensors, trial: int) -> dict[str, np.ndarray]:
        """The arrays of one trial in the papers' names, without padding."""

    @property
    def takes_every_subset(self) -> bool:
        """Whether each step takes all subsets, and draws none."""
        return self._every_subset is not None

    def subsets(self, step: Step) -> torch.Tensor:
        """The subsets y of one training step, shape (k, batch, q)."""
        return self._drawn_subsets(self.batch, Purpose.SUBSETS, step) if self._every_subset is None else self._every_subset

    def fresh_subsets(self, chunk: int, *, T: int | None = None, q: int | None = None) -> torch.Tensor:
        """The subsets of one evaluation chunk, shape (k, CHUNK, q)."""
        return self._drawn_subsets(CHUNK, Purpose.FRESH_SUBSETS, chunk, T=T, q=q)

    def _drawn_subsets(
        self, count: int, purpose: Purpose, step: Step, *, T: int | None = None, q: int | None = None
    ) -> torch.Tensor:
        draws = self.streams.draws(purpose, step)
        return self.kernels.subsets(draws, rows=count, T=T or self.task.T, q=q or self.task.q)

    def _enumerate(self) -> torch.Tensor:
        """All q-subsets of [T] in lexicographic order, or the first where it stands for all: shape (k, batch, q)."""
        rows = torch.tensor(list(islice(combinations(range(self.task.T), self.task.q), self.batch)), device=self.device)
        return rows.expand(len(self.configs), -1, -1).contiguous()


class FusedProgram(Program):
    """A program whose gradients, and where an optimizer allows it whose updates, may take one compiled loop over the trials."""

    fused: bool
    """Whether they do."""

    @abstractmethod
    def learn(self, parameters: Tensors, step: Step, **moving: Any) -> NetStep:
        """Squares, and gradients or, with moments and rates, a step: see `Kernels.connect`."""

    @abstractmethod
    def loss_of(self, squares: torch.Tensor) -> torch.Tensor:
        """Relative losses, (k,), from the squares of a training batch."""

    def advance(self, parameters: Tensors, moments: Tensors, rates: Rates, step: int) -> torch.Tensor:
        """Take a step, each trial's update right behind its gradient; the losses before it. Only where `fused`."""
        return self.loss_of(self.learn(parameters, step, moments=pairs_of(parameters, moments), rates=rates).squares)

    def runner(self, parameters: Tensors, moments: Tensors, rates: RateTable) -> Runner:
        """What takes so many steps from a step on, as `advance` takes them, and hands back the losses before the last."""

        def run(step: int, count: int) -> torch.Tensor:
            for place in range(step, step + count):
                losses = self.advance(parameters, moments, rates.at(place), place)
            return losses

        return run

    def fused_gradients(self, parameters: Tensors, step: Step) -> tuple[torch.Tensor, Tensors]:
        """`gradients` where the program is `fused`."""
        found = self.learn(parameters, step)
        return self.loss_of(found.squares), dict(zip(parameters, found.gradients, strict=True))


def pairs_of(parameters: Tensors, moments: Tensors) -> list[tuple[torch.Tensor, torch.Tensor]] | None:
    """First and second moments of each parameter, where there are any."""
    return [(moments[f"{name}.m"], moments[f"{name}.v"]) for name in parameters] if moments else None
