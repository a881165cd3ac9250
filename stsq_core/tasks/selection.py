"""Samples of sparse token selection, drawn as in `stsq_core.programs.fcn`: a net sees the same ones in both programs."""

import torch

from stsq_core.configs import Stsq
from stsq_core.numerics import sum_of_few
from stsq_core.tasks.examples import Batch, Examples, Source


class StsqExamples(Examples[Stsq]):
    """`x_t ~ N(0, I_d)`, y a uniform q-subset, the target the mean of the tokens in y."""

    @property
    def output_size(self) -> int:
        return self.task.d

    @property
    def zero_loss(self) -> float:
        return self.task.d / self.task.q

    def batch(self, source: Source, count: int) -> Batch:
        T, q, d = self.task.T, self.task.q, self.task.d
        X = source.normals("tokens", 1, count * T * d).view(-1, count, T, d)
        y = source.subsets("subsets", count, T=T, q=q)
        target = sum_of_few(selected(X, y), 2).unsqueeze(2) / q
        return Batch(X, y.unsqueeze(2), target)


def selected(X: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The tokens `x_{y_j}` of X, (k, batch, T, d), for subsets y, (k, batch, q): (k, batch, q, d)."""
    k, count, T, d = X.shape
    first = torch.arange(0, k * count * T, T, device=y.device).view(k, count, 1)
    return X.view(-1, d).index_select(0, (y + first).flatten()).view(*y.shape, d)  # whole rows, which `gather` does not copy
