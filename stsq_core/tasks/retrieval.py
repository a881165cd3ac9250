"""Samples of qSTR and simple-qSTR, and the prompts that models read of them."""

import math
from typing import assert_never

import torch

from stsq_core.configs import Retrieval
from stsq_core.numerics import dot, product
from stsq_core.tasks.examples import Batch, Examples, Source


class RetrievalExamples(Examples[Retrieval]):
    """Tokens of R^d, q positions asked for at each of T, and a link of the tokens there; each output is about one position."""

    def __init__(self, task: Retrieval) -> None:
        super().__init__(task)
        self.num_outputs = task.T

    @property
    def output_size(self) -> int:
        return self.task.d if self.task.link == "mean" else 1

    @property
    def zero_loss(self) -> float:
        """T times the variance of a target: 1, or of a mean of q tokens `d/q`, and more for those that come twice."""
        T, q, d = self.task.T, self.task.q, self.task.d
        return T * (d / q * (1 + (q - 1) / T) if self.task.link == "mean" else 1.0)

    def batch(self, source: Source, count: int) -> Batch:
        T, q, d = self.task.T, self.task.q, self.task.d
        X = source.normals("tokens", 1, count * T * d).view(-1, count, T, d)
        once = self.task.tests_once if source.fresh else self.task.asks_once
        asked = source.integers("asked positions", count, (1 if once else T) * q, below=T)
        y = asked.view(-1, count, 1 if once else T, q).expand(-1, -1, T, -1)
        return Batch(X, y, self._link(_tokens_at(X, y), source))

    def prompt(self, batch: Batch, source: Source) -> torch.Tensor:
        """`(x_i, w_i, w_{t_i1}, .., w_{t_iq})` at each position i, (k, batch, T, prompt_size)."""
        assert batch.y is not None
        k, count, T, q = batch.y.shape
        scale = math.sqrt(self.task.d / q) if self.task.codes == "scaled" else 1.0
        signs = source.of_trial().signs("prompt codes", T, self.task.d_e)
        codes = (signs * (scale / math.sqrt(self.task.d_e))).unsqueeze(1)
        places = batch.y.reshape(k, 1, -1, 1).expand(-1, -1, -1, self.task.d_e)
        asked = codes.expand(-1, 1, -1, -1).gather(2, places).view(k, count, T, -1)
        return torch.cat([batch.X, codes.expand(-1, count, -1, -1), asked], -1)

    def _link(self, tokens: torch.Tensor, source: Source) -> torch.Tensor:
        """The targets, (k, batch, T, size), of the tokens asked for, (k, batch, T, q, d)."""
        if self.task.link == "mean":
            return tokens.sum(3) / self.task.q
        k, count, T = tokens.shape[:3]
        directions = hidden_directions(self.task, source).reshape(k, -1, 1)
        s = product(tokens.reshape(k, count * T, -1), directions).reshape(k, count, T, 1)
        match self.task.link:
            case "linear":
                return s
            case "hermite2":
                return (s * s - 1) / math.sqrt(2)
            case _:
                assert_never(self.task.link)


def hidden_directions(task: Retrieval, source: Source) -> torch.Tensor:
    """The trial's `v_j / sqrt(q)`, (k, q, d): Gaussian vectors made orthonormal one after another, in float64."""
    drawn = source.of_trial().normals("hidden directions", task.q, task.d).double()
    found: list[torch.Tensor] = []
    for j in range(task.q):
        v = drawn[:, j]
        for _ in range(2):  # the second round removes what rounding left of the first
            for u in found:
                v = v - dot(v, u).unsqueeze(-1) * u
        found.append(v / dot(v, v).sqrt().unsqueeze(-1))
    return (torch.stack(found, 1) / math.sqrt(task.q)).to(source.dtype)


def _tokens_at(X: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The tokens of X, (k, batch, T, d), at the places y, (k, batch, T, q): (k, batch, T, q, d)."""
    k, count, T, q = y.shape
    places = y.reshape(k, count, T * q, 1).expand(-1, -1, -1, X.shape[3])
    return X.gather(2, places).view(k, count, T, q, -1)
