"""Samples of the tasks on the tokens of y beside sparse token selection: weighted means with noise, and moments.

Source of Student's t, `sqrt(nu (U^{-2/nu} - 1)) cos(2 pi V)`: Bailey 1994, Polar generation of random variates with the
t-distribution.
"""

import math
from typing import Literal, assert_never

import numpy as np
import torch

from stsq_core.configs import (
    CorrelatedTokens,
    GaussianTokens,
    LaplaceTokens,
    Moment,
    SelectedMean,
    StudentTokens,
    TokenLaw,
    missing_case,
)
from stsq_core.numerics import placeless
from stsq_core.tasks.examples import Batch, Examples, Source
from stsq_core.tasks.selection import selected


class SelectedMeanExamples(Examples[SelectedMean]):
    """`(1/q) sum_{t in y} w_t x_t + xi`."""

    def __init__(self, task: SelectedMean) -> None:
        super().__init__(task)
        self._clean = task.d * target_variance(task)
        self._weights = weights_of(task)

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


def tokens(source: Source, law: TokenLaw, count: int, *, T: int, d: int) -> torch.Tensor:
    """`count` samples of T tokens in R^d, (k, count, T, d)."""
    match law:
        case GaussianTokens():
            numbers = source.normals("tokens", 1, count * T * d)
        case LaplaceTokens():
            u = source.uniforms("tokens", 1, count * T * d)
            numbers = u.sign() * placeless(torch.log1p, -u.abs()) * -math.sqrt(0.5)
        case StudentTokens(freedom=freedom):
            u, v = (source.uniforms(name, 1, count * T * d) for name in ("tokens", "angles of tokens"))
            squares = placeless(torch.expm1, placeless(torch.log, (u + 1) / 2) * (-2 / freedom)) * (freedom - 2)
            numbers = squares.sqrt() * placeless(torch.cos, v * math.pi)
        case CorrelatedTokens(rho=rho):
            own = source.normals("tokens", 1, count * T * d).view(-1, count, T, d)
            common = source.normals("common token", 1, count * d).view(-1, count, 1, d)
            return own * math.sqrt(1 - rho) + common * math.sqrt(rho)
        case _:
            raise missing_case(law, "stsq_core/tasks/selected_tokens.py: tokens")
    return numbers.view(-1, count, T, d)


def weights_of(task: SelectedMean) -> np.ndarray:
    """The weights w_t of the tokens, of mean square 1, shape (T,)."""
    w = np.exp(-task.decay * np.arange(task.T) / max(1, task.T - 1))
    return np.asarray(w / math.sqrt(np.mean(w * w)))


def covariance(task: SelectedMean) -> np.ndarray:
    """`E x_ti x_si` over tokens t and s, (T, T), the same for every coordinate i."""
    rho = task.tokens.rho if isinstance(task.tokens, CorrelatedTokens) else 0.0
    return np.asarray(np.full((task.T, task.T), rho) + (1 - rho) * np.eye(task.T))


def target_variance(task: SelectedMean) -> float:
    """The variance of one coordinate of `(1/q) sum_{t in y} w_t x_t`: `tr(C S)`, S the second moment."""
    return float(np.sum(covariance(task) * second_moment(task)))


def second_moment(task: SelectedMean) -> np.ndarray:
    """`E_y a a^T` for `a_t = w_t 1[t in y] / q`, (T, T)."""
    T, q, w = task.T, task.q, weights_of(task)
    pair = q * (q - 1) / (T * (T - 1)) if T > 1 else 1.0
    together = np.full((T, T), pair) + (q / T - pair) * np.eye(T)
    return np.asarray(np.outer(w, w) * together / q**2)


def moment_variance(task: Moment) -> float:
    """The variance of one coordinate of the target: `order! / q`; about the mean `2(q-1)/q^2` or `6(q-1)(q-2)/q^3`."""
    q = task.q
    if task.about == "zero":
        return math.factorial(task.order) / q
    return 2 * (q - 1) / q**2 if task.order == 2 else 6 * (q - 1) * (q - 2) / q**3
