"""The one-layer transformer on STS_q: its two objectives as programs with hand-derived gradients.

`f(X, y) = V Z softmax(Z^T W z_query)`, `Z = [X; E]`, `z_query = [0; e_y]`. As the query's X part is zero, the X columns of `W`
get no gradient and keep their initial zeros; only `W_x` (rows that read tokens) and `W_e` (rows that read codes) are stored.

Source: arXiv:2406.06893. That X integrates out in `population` is derived in docs/theory.md and tested against `minibatch`.
"""

import numpy as np
import torch

from stsq_core.products import dot, product
from stsq_core.program import CHUNK, Program, Tensors
from stsq_core.questions import Question, QuestionSource
from stsq_core.stacking import padded_width
from stsq_core.streams import Purpose
from stsq_core.trial import TrialConfig


class _TransformerProgram(Program):
    """What both objectives share: the codes and the query's name for a subset."""

    def __init__(self, configs: tuple[TrialConfig, ...], device: torch.device) -> None:
        super().__init__(configs, device)
        self.length = padded_width(configs[0])
        self.questions = QuestionSource(self, length=self.length)

    def zeros(self, *shape: int) -> torch.Tensor:
        return torch.zeros((len(self.configs), *shape), dtype=self.dtype, device=self.device)

    def full_weights(
        self, W_x: torch.Tensor, W_e: torch.Tensor, V_x: torch.Tensor, V_e: torch.Tensor, trial: int
    ) -> dict[str, np.ndarray]:
        """`W`, (d+d_e) x (d+d_e), and `V`, d x (d+d_e), of one trial from its blocks."""
        d, m = self.task.d, self.configs[trial].width
        W = np.zeros((m, m), dtype=W_e.cpu().numpy().dtype)
        W[:d, d:] = W_x.cpu().numpy()[:, : m - d]
        W[d:, d:] = W_e.cpu().numpy()[: m - d, : m - d]
        V = np.concatenate([V_x.cpu().numpy(), V_e.cpu().numpy()[:, : m - d]], axis=1)
        return {"W": W, "V": V}


class PopulationTransformer(_TransformerProgram):
    """Training with X integrated out: `L = d/2 E ||v p - 1_y / q||^2` over subsets and codes, p the attention weights.

    From zero initialisation the blocks `W_x` and `V_e` stay zero and `V_x = v I`; the gradient of v is that of each diagonal
    entry of V, hence without the factor d.
    """

    def initial(self) -> Tensors:
        return {"W_e": self.zeros(self.length, self.length), "v": self.zeros()}

    def gradients(self, parameters: Tensors, step: int) -> tuple[torch.Tensor, Tensors]:
        question = self.questions.training.at(step)
        p, residual = self._attend(parameters, question)
        loss = dot(residual, residual).sum(-1) * (self.task.q / self.batch)
        # With grad_p = (d v / batch) residual, the scores' gradient and v's share the products p * residual.
        shares = p * residual
        totals = shares.sum(-1)
        grad_s = shares.addcmul_(p, totals.unsqueeze(-1), value=-1)
        scale = parameters["v"] * (self.task.d / self.batch)
        grad_u = question.book.mixture(grad_s).mul_(scale.view(-1, 1, 1))
        return loss, {"W_e": product(grad_u.mT, question.z), "v": totals.sum(-1) / self.batch}

    def fresh_losses(self, parameters: Tensors, chunk: int) -> torch.Tensor:
        _, residual = self._attend(parameters, self.questions.fresh.at(chunk))
        return dot(residual, residual) * self.task.q

    def weights(self, parameters: Tensors, trial: int) -> dict[str, np.ndarray]:
        d = self.task.d
        V_x = parameters["v"][trial] * torch.eye(d, dtype=self.dtype, device=self.device)
        W_x, V_e = torch.zeros((2, d, self.length), dtype=self.dtype).unbind(0)
        return self.full_weights(W_x, parameters["W_e"][trial], V_x, V_e, trial)

    def _attend(self, parameters: Tensors, question: Question) -> tuple[torch.Tensor, torch.Tensor]:
        """Attention weights p and the residual `v p - 1_y / q`, each (k, batch, T)."""
        p = question.book.scores(product(question.z, parameters["W_e"].mT)).softmax(-1)
        residual = p * parameters["v"].view(-1, 1, 1)
        residual.scatter_add_(2, question.y, torch.full_like(question.y, -1 / self.task.q, dtype=self.dtype))
        return p, residual


class MinibatchTransformer(_TransformerProgram):
    """Training on sampled tokens, with all of W and V trained.

    Tokens lie as (k, d, batch, T): one coordinate of all tokens is contiguous, so products with X are d fused passes.
    """

    def initial(self) -> Tensors:
        d, D = self.task.d, self.length
        return {"W_x": self.zeros(d, D), "W_e": self.zeros(D, D), "V_x": self.zeros(d, d), "V_e": self.zeros(d, D)}

    def gradients(self, parameters: Tensors, step: int) -> tuple[torch.Tensor, Tensors]:
        question = self.questions.training.at(step)
        X = self.streams.normals((self.task.d, self.batch, self.task.T), Purpose.TOKENS, step, self.dtype)
        book, z = question.book, question.z
        p, c_x, c_e, residual = self._attend(parameters, question, X)
        loss = dot(residual, residual).sum(-1) * (self.task.q / (self.task.d * self.batch))
        r = residual / self.batch
        grad_p = book.scores(product(r.mT, parameters["V_e"]))
        _add_products(grad_p, X, product(parameters["V_x"].mT, r))
        grad_s = _softmax_gradient(p, grad_p)
        return loss, {
            "W_x": product(_mix_tokens(X, grad_s), z),
            "W_e": product(book.mixture(grad_s).mT, z),
            "V_x": product(r, c_x.mT),
            "V_e": product(r, c_e),
        }

    def fresh_losses(self, parameters: Tensors, chunk: int) -> torch.Tensor:
        X = self.streams.normals((self.task.d, CHUNK, self.task.T), Purpose.FRESH_TOKENS, chunk, self.dtype)
        *_, residual = self._attend(parameters, self.questions.fresh.at(chunk), X)
        return (residual * residual).sum(1) * (self.task.q / self.task.d)

    def weights(self, parameters: Tensors, trial: int) -> dict[str, np.ndarray]:
        W_x, W_e, V_x, V_e = (parameters[name][trial] for name in ("W_x", "W_e", "V_x", "V_e"))
        return self.full_weights(W_x, W_e, V_x, V_e, trial)

    def _attend(
        self, parameters: Tensors, question: Question, X: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Weights p, contexts c_x (k, d, batch) and c_e (k, batch, d_e), and the residual f - target (k, d, batch)."""
        book, z = question.book, question.z
        scores = book.scores(product(z, parameters["W_e"].mT))
        _add_products(scores, X, product(parameters["W_x"], z.mT))
        p = scores.softmax(-1)
        c_x = _mix_tokens(X, p)
        c_e = book.mixture(p)
        output = product(parameters["V_x"], c_x) + product(parameters["V_e"], c_e.mT)
        index = question.y.unsqueeze(1).expand(-1, self.task.d, -1, -1)
        target = X.gather(3, index).sum(-1) / self.task.q
        return p, c_x, c_e, output - target


def _softmax_gradient(p: torch.Tensor, grad_p: torch.Tensor) -> torch.Tensor:
    """The gradient at the scores from the gradient at `p = softmax(scores)`, whose storage it takes."""
    total = dot(p, grad_p).unsqueeze(-1)
    return grad_p.sub_(total).mul_(p)


def _add_products(scores: torch.Tensor, X: torch.Tensor, u: torch.Tensor) -> None:
    """`scores += <x_t, u>` in place, for X of shape (k, d, batch, T) and u of shape (k, d, batch)."""
    for coordinate in range(X.shape[1]):
        scores.addcmul_(X[:, coordinate], u[:, coordinate].unsqueeze(-1))


def _mix_tokens(X: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """`sum_t weights_t x_t`, shape (k, d, batch)."""
    return torch.stack([dot(X[:, coordinate], weights) for coordinate in range(X.shape[1])], 1)
