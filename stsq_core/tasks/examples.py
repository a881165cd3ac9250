"""What a task gives to a program: batches of tokens, indices and targets, drawn from named streams; and how outputs are judged.

A task's arithmetic is one `Examples`, in a module of `stsq_core.tasks`, and knows no model; a model's is one `Network`
(`stsq_core.networks.network`) and knows no task. `stsq_core.networks.NetworkProgram` trains the two together.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import torch

from stsq_core.configs import TokenTask
from stsq_core.kernels import Kernels, StreamKeys
from stsq_core.numerics import Step, Streams, sum_of_few


@dataclass(frozen=True)
class Source:
    """The draws of one batch of k trials: functions of (seed, name, step), those of an evaluation never those of training.

    A name is one stream: two draws under one name begin alike, so give every quantity a name of its own. The names `tokens`,
    `subsets`, `codes` and `queries` are the streams of the transformer and the fully connected net on sparse token selection.
    """

    streams: Streams
    kernels: Kernels
    step: Step
    fresh: bool
    dtype: torch.dtype

    def of_trial(self) -> "Source":
        """What is drawn once for the whole trial, in training and for fresh samples alike: a hidden direction, fixed codes."""
        return replace(self, step=0, fresh=False)

    def draws(self, name: str) -> StreamKeys:
        """Where the draws under a name come from."""
        return self.streams.named(name, self.step, fresh=self.fresh)

    def normals(self, name: str, rows: int, numbers: int) -> torch.Tensor:
        """Standard normals, (k, rows, numbers)."""
        return self.kernels.normals(self.draws(name), rows=rows, numbers=numbers, dtype=self.dtype)

    def uniforms(self, name: str, rows: int, numbers: int) -> torch.Tensor:
        """Uniform on (-1, 1), (k, rows, numbers)."""
        drawn = self.kernels.uniforms(self.draws(name), numbers=rows * numbers, dtype=self.dtype)
        return drawn.view(-1, rows, numbers)

    def integers(self, name: str, rows: int, numbers: int, *, below: int) -> torch.Tensor:
        """Uniform on 0 to `below` - 1, int64, (k, rows, numbers); `below` is at most 2^20, as float32 tells apart."""
        return self.uniforms(name, rows, numbers).add_(1).mul_(below / 2).long().clamp_(0, below - 1)

    def signs(self, name: str, rows: int, length: int) -> torch.Tensor:
        """Uniform signs, (k, rows, length)."""
        return self.kernels.signs(self.draws(name), tokens=rows, length=length, dtype=self.dtype)

    def subsets(self, name: str, rows: int, *, T: int, q: int) -> torch.Tensor:
        """Uniform q-subsets of [T], int64, (k, rows, q)."""
        return self.kernels.subsets(self.draws(name), rows=rows, T=T, q=q)


@dataclass(frozen=True)
class Batch:
    """Samples of k trials.

    `X` are the tokens, (k, batch, T, d). `y` are the positions that each of the R outputs depends on, int64,
    (k, batch, R, q), or None where they are not shown. `target` is (k, batch, R, size).
    """

    X: torch.Tensor
    y: torch.Tensor | None
    target: torch.Tensor

    def taken(self, rows: torch.Tensor) -> "Batch":
        """Some samples, by their places, int64, (k, rows)."""
        return Batch(_rows(self.X, rows), None if self.y is None else _rows(self.y, rows), _rows(self.target, rows))


def _rows(values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
    return values.gather(1, rows.view(*rows.shape, *[1] * (values.dim() - 2)).expand(-1, -1, *values.shape[2:]))


TaskT = TypeVar("TaskT", bound=TokenTask)


class Examples(ABC, Generic[TaskT]):
    """The samples of a task, and the loss of what a model makes of them."""

    num_outputs = 1
    """R: outputs of one sample, each about positions of its own."""

    def __init__(self, task: TaskT) -> None:
        self.task = task

    @property
    @abstractmethod
    def output_size(self) -> int:
        """Coordinates of one output."""

    @property
    @abstractmethod
    def zero_loss(self) -> float:
        """`E ||target||^2`, summed over outputs and coordinates: what a model that answers zero loses."""

    @abstractmethod
    def batch(self, source: Source, count: int) -> Batch:
        """`count` samples of every trial."""

    def prompt(self, batch: Batch, source: Source) -> torch.Tensor:
        """What a model of prompts reads at each position, (k, batch, T, prompt_size): a token, and 1 where it is asked for."""
        if batch.y is None:
            return batch.X
        if self.num_outputs != 1:
            raise NotImplementedError(
                f"{self.task.kind} asks {self.num_outputs} questions at a time and says no prompt for them"
            )
        asked = batch.X.new_zeros(batch.X.shape[:3]).scatter_(2, batch.y[:, :, 0], 1)
        return torch.cat([batch.X, asked.unsqueeze(-1)], -1)

    def objective(self, outputs: torch.Tensor, batch: Batch) -> torch.Tensor:
        """What training descends for each sample, (k, batch): half the squared error."""
        return _squared_errors(outputs, batch) / 2

    @property
    def descends_squares(self) -> bool:
        """Whether `objective` is half the squared error."""
        return type(self).objective is Examples.objective

    def slope(self, outputs: torch.Tensor, batch: Batch) -> torch.Tensor:
        """The gradient at the outputs of the batch mean of `objective`, summed over trials, in their shape."""
        residual = outputs - batch.target
        if self.descends_squares and residual.shape == outputs.shape:
            return residual * (1 / outputs.shape[1])
        with torch.enable_grad():
            leaf = outputs.detach().requires_grad_()
            objective = self.objective(leaf, batch).mean(-1).sum()
        return torch.autograd.grad(objective, leaf)[0]

    def relative_losses(self, outputs: torch.Tensor, batch: Batch) -> torch.Tensor:
        """What is reported of each sample, (k, batch): 0 is exact, and 1 on average has learned nothing."""
        return _squared_errors(outputs, batch) / self.zero_loss


def _squared_errors(outputs: torch.Tensor, batch: Batch) -> torch.Tensor:
    return sum_of_few((outputs - batch.target).square().flatten(2), -1)
