"""Samples of weighted means of tokens of any law, with noise on the targets."""

import math

import torch

from stsq_core.configs import SelectedMean
from stsq_core.oracles import floors
from stsq_core.tasks.examples import Batch, Examples, Source
from stsq_core.tasks.selection import selected
from stsq_core.tasks.token_draws import tokens


class SelectedMeanExamples(Examples[SelectedMean]):
    """`(1/q) sum_{t in y} w_t x_t + xi`."""

    def __init__(self, task: SelectedMean) -> None:
        super().__init__(task)
        self._clean = task.d * floors.target_variance(task)
        self._weights = floors.weights(task)

    @property
    def output_size(self) -> int:
        return self.task.d

    @property
    def zero_loss(self) -> float:
        """`(1 + noise^2) E ||(1/q) sum w_t x_t||^2`."""
        return self._clean * (1 + self.task.noise**2)

    def batch(self, source: Source, count: int) -> Batch:
        T, q, d = self.task.T, self.task.q, self.task.d
        X = tokens(source, self.task.tokens, count, T=T, d=d)
        y = source.subsets("subsets", count, T=T, q=q)
        members = selected(X, y)
        if self.task.decay:
            w = torch.from_numpy(self._weights).to(X.dtype).to(X.device)
            members = members * w[y].unsqueeze(-1)
        target = members.sum(2, keepdim=True) / q
        if self.task.noise:
            deviation = self.task.noise * math.sqrt(self._clean / d)
            target = target + source.normals("label noise", count, d).unsqueeze(2) * deviation
        return Batch(X, y.unsqueeze(2), target)
