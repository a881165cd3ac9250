"""The transformer whose codes are redrawn for every sample: both objectives in the form that never gathers over tokens.

A book of a sample's own, (k, batch, T, d_e), would make `N = E W_e^T E^T` dearer than the direct products with the query.
"""

from typing import assert_never

import torch

from stsq_core.configs import CHUNK, Query
from stsq_core.kernels import StreamKeys
from stsq_core.numerics import Purpose, Step, dot, product
from stsq_core.programs.codes import Codes
from stsq_core.programs.program import Tensors
from stsq_core.programs.theorem_transformer import (
    MinibatchProgram,
    PopulationProgram,
    TransformerProgram,
    scores_of_tokens,
)


class SampleBook:
    """The codes of every sample and the query e_y in them, (k, batch, d_e)."""

    def __init__(self, codes: Codes, query: Query, draws: StreamKeys, y: torch.Tensor, *, T: int) -> None:
        k, batch, q = y.shape
        self.codes = codes.rows(draws, batch * T).view(k, batch, T, codes.length)
        members = self.codes.gather(2, y.unsqueeze(-1).expand(k, batch, q, codes.length))
        match query:
            case "sum":
                self.z = members.sum(2)
            case "dual":
                c = codes.kernels.dual(self.codes.view(k * batch, T, codes.length), y.view(k * batch, 1, q))
                self.z = (members * c.view(k, batch, q, 1)).sum(2)
            case _:
                assert_never(query)

    def scores(self, directions: torch.Tensor) -> torch.Tensor:
        """`<e_t, u>` for one direction a sample, (k, batch, d_e): (k, batch, T)."""
        return dot(self.codes, directions.unsqueeze(-2))

    def mixture(self, weights: torch.Tensor) -> torch.Tensor:
        """`sum_t p_t e_t` for weights (k, batch, T): (k, batch, d_e)."""
        return (self.codes * weights.unsqueeze(-1)).sum(-2)


def sample_book(program: TransformerProgram, y: torch.Tensor, purpose: Purpose, step: Step, T: int | None = None) -> SampleBook:
    """The codes of a program's batch."""
    draws = program.streams.draws(purpose, step)
    return SampleBook(program.codes, program.positions[0].query, draws, y, T=T or program.task.T)


class PopulationSampleCodes(PopulationProgram):
    """The population objective with codes redrawn for every sample."""

    def gradients(self, parameters: Tensors, step: Step) -> tuple[torch.Tensor, Tensors]:
        y = self.subsets(step)
        book = sample_book(self, y, Purpose.CODES, step)
        p, residual = self._attend(parameters, book, y)
        loss = dot(residual, residual).sum(-1) * (self.task.q / self.batch)
        totals = dot(p, residual)
        grad_s = p * (residual - totals.unsqueeze(-1))
        scale = (parameters["v"] * (self.task.d / self.batch)).view(-1, 1, 1)
        return loss, {"W_e": product(book.mixture(grad_s).mT, book.z) * scale, "v": totals.sum(-1) / self.batch}

    def fresh_losses(self, parameters: Tensors, chunk: int, *, T: int | None = None, q: int | None = None) -> torch.Tensor:
        """`q ||v p - 1_y / q||^2`: X is integrated out."""
        y = self.fresh_subsets(chunk, T=T, q=q)
        _, residual = self._attend(parameters, sample_book(self, y, Purpose.FRESH_CODES, chunk, T), y)
        return dot(residual, residual) * y.shape[-1]

    def fresh_attention_mass(self, parameters: Tensors, chunk: int) -> torch.Tensor:
        y = self.fresh_subsets(chunk)
        p, _ = self._attend(parameters, sample_book(self, y, Purpose.FRESH_CODES, chunk), y)
        return p.gather(2, y).sum(-1)

    def _attend(self, parameters: Tensors, book: SampleBook, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Attention weights p and the residual `v p - 1_y / q`, each (k, batch, T)."""
        p = book.scores(product(book.z, parameters["W_e"].mT)).softmax(-1)
        residual = p * parameters["v"].view(-1, 1, 1)
        residual.scatter_add_(2, y, torch.full_like(y, -1 / y.shape[-1], dtype=self.dtype))
        return p, residual


class MinibatchSampleCodes(MinibatchProgram):
    """The minibatch objective with codes redrawn for every sample; tokens X are (k, batch, d, T)."""

    def gradients(self, parameters: Tensors, step: Step) -> tuple[torch.Tensor, Tensors]:
        y = self.subsets(step)
        book = sample_book(self, y, Purpose.CODES, step)
        X = self._tokens(self.batch, Purpose.TOKENS, step)
        p, c_x, c_e, residual = self._attend(parameters, book, y, X)
        loss = dot(residual, residual).sum(-1) * (self.task.q / (self.task.d * self.batch))
        r = residual / self.batch
        grad_p = book.scores(product(r, parameters["V_e"])) + scores_of_tokens(X, product(r, parameters["V_x"]))
        grad_s = p * (grad_p - dot(p, grad_p).unsqueeze(-1))
        return loss, {
            "W_x": product(mixed_tokens(X, grad_s).mT, book.z),
            "W_e": product(book.mixture(grad_s).mT, book.z),
            "V_x": product(r.mT, c_x),
            "V_e": product(r.mT, c_e),
        }

    def fresh_losses(self, parameters: Tensors, chunk: int, *, T: int | None = None, q: int | None = None) -> torch.Tensor:
        """`||f - target||^2 / (d/q)` on sampled tokens."""
        y = self.fresh_subsets(chunk, T=T, q=q)
        book = sample_book(self, y, Purpose.FRESH_CODES, chunk, T)
        *_, residual = self._attend(parameters, book, y, self._tokens(CHUNK, Purpose.FRESH_TOKENS, chunk, T))
        return dot(residual, residual) * (y.shape[-1] / self.task.d)

    def fresh_attention_mass(self, parameters: Tensors, chunk: int) -> torch.Tensor:
        y = self.fresh_subsets(chunk)
        book = sample_book(self, y, Purpose.FRESH_CODES, chunk)
        p, *_ = self._attend(parameters, book, y, self._tokens(CHUNK, Purpose.FRESH_TOKENS, chunk))
        return p.gather(2, y).sum(-1)

    def _tokens(self, count: int, purpose: Purpose, step: Step, T: int | None = None) -> torch.Tensor:
        T, d = T or self.task.T, self.task.d
        X = self.kernels.normals(self.streams.draws(purpose, step), rows=1, numbers=count * d * T, dtype=self.dtype)
        return X.view(len(X), count, d, T)

    def _attend(
        self, parameters: Tensors, book: SampleBook, y: torch.Tensor, X: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Weights p, contexts c_x (k, batch, d) and c_e (k, batch, d_e), and the residual f - target (k, batch, d)."""
        scores = book.scores(product(book.z, parameters["W_e"].mT))
        p = (scores + scores_of_tokens(X, product(book.z, parameters["W_x"].mT))).softmax(-1)
        c_x, c_e = mixed_tokens(X, p), book.mixture(p)
        output = product(c_x, parameters["V_x"].mT) + product(c_e, parameters["V_e"].mT)
        target = X.gather(3, y.unsqueeze(2).expand(-1, -1, self.task.d, -1)).sum(-1) / y.shape[-1]
        return p, c_x, c_e, output - target


def mixed_tokens(X: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """`sum_t weights_t x_t`, (k, batch, d)."""
    return dot(X, weights.unsqueeze(2))
