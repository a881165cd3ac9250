"""Samples of moments of the tokens of y."""

from typing import Literal, assert_never

import torch

from stsq_core.configs import Moment
from stsq_core.oracles import moment_variance
from stsq_core.tasks.examples import Batch, Examples, Source
from stsq_core.tasks.selection import selected


class MomentExamples(Examples[Moment]):
    """The mean over y of a Hermite polynomial of the tokens, or a central moment of them."""

    @property
    def output_size(self) -> int:
        return self.task.d

    @property
    def zero_loss(self) -> float:
        return self.task.d * moment_variance(self.task)

    def batch(self, source: Source, count: int) -> Batch:
        T, q, d = self.task.T, self.task.q, self.task.d
        X = source.normals("tokens", 1, count * T * d).view(-1, count, T, d)
        y = source.subsets("subsets", count, T=T, q=q)
        members = selected(X, y)
        if self.task.about == "mean":
            members = members - members.sum(2, keepdim=True) / q
            target = (members**self.task.order).sum(2, keepdim=True) / q - (self.task.order == 2) * (q - 1) / q
        else:
            target = _hermite(members, self.task.order).sum(2, keepdim=True) / q
        return Batch(X, y.unsqueeze(2), target)


def _hermite(x: torch.Tensor, order: Literal[1, 2, 3]) -> torch.Tensor:
    """`He_order(x)`, of variance `order!` under the standard normal law."""
    match order:
        case 1:
            return x
        case 2:
            return x * x - 1
        case 3:
            return x * (x * x - 3)
        case _:
            assert_never(order)
