"""The one-layer transformer on STS_q: its two objectives as programs with hand-derived gradients.

`f(X, y) = V Z softmax(Z^T W z_query)`, `Z = [X; E]`, `z_query = [0; e_y]`. As the query's X part is zero, the X columns of `W`
get no gradient and keep their initial zeros; only `W_x` (rows that read tokens) and `W_e` (rows that read codes) are stored.

A batch that shares one code book needs no queries: with `N = E W_e^T E^T`, the scores of a subset are `sum_j c_j N[y_j]`, and
what samples add to the gradient is gathered over tokens before it is taken back to codes. Codes of a sample's own are in
`stsq_core.programs.sample_codes`.

Source: arXiv:2406.06893. That X integrates out in `population` is derived in docs/theory.md and tested against `minibatch`.
"""

from typing import Any, ClassVar

import numpy as np
import torch

from stsq_core.configs import CHUNK, OneHot, RandomSign, Transformer, TrialConfig, padded_width
from stsq_core.kernels import AttentionStreams, NetStep, PopulationStep, RateTable, StreamKeys, TokenStep
from stsq_core.numerics import Purpose, Step
from stsq_core.programs.codebook import BookSource, CodeBook, DenseBook
from stsq_core.programs.codes import codes_for
from stsq_core.programs.program import FusedProgram, Program, Runner, Tensors, pairs_of


class TransformerProgram(Program):
    """What both objectives share: the length of the codes, and how blocks become the papers' matrices."""

    def __init__(self, configs: tuple[TrialConfig, ...], device: torch.device) -> None:
        super().__init__(configs, device)
        self.length = padded_width(configs[0])
        self.positions = tuple(config.model.positions for config in configs if isinstance(config.model, Transformer))
        self.codes = codes_for(self.positions, length=self.length, dtype=self.dtype, kernels=self.kernels)

    def zeros(self, *shape: int) -> torch.Tensor:
        return torch.zeros((len(self.configs), *shape), dtype=self.dtype, device=self.device)

    def shared_books(self) -> BookSource:
        """Where the books come from that a batch shares."""
        return BookSource(self.codes, self.positions[0], T=self.task.T, streams=self.streams, kernels=self.kernels)

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


class SharedBookProgram(TransformerProgram, FusedProgram):
    """Either objective where a batch shares one code book.

    On a core everything behind the draws is one compiled loop over the trials, but for one-hot codes, whose book costs nothing.
    """

    samples_tokens: ClassVar[bool]

    def __init__(self, configs: tuple[TrialConfig, ...], device: torch.device) -> None:
        super().__init__(configs, device)
        self.books = BookSource(self.codes, self.positions[0], T=self.task.T, streams=self.streams, kernels=self.kernels)
        self.fused = self.kernels.fuses and not isinstance(self.positions[0], OneHot)

    def runner(self, parameters: Tensors, moments: Tensors, rates: RateTable) -> Runner:
        """Several steps in one call where codes are random signs or stay as they are, and subsets are drawn."""
        positions, book = self.positions[0], self.books.training(0)
        redrawn = positions.redraw != "never"
        if self.takes_every_subset or (redrawn and type(positions) is not RandomSign):
            return super().runner(parameters, moments, rates)
        assert isinstance(book, DenseBook)
        bases = {purpose: self.streams.bases(purpose) for purpose in (Purpose.TOKENS, Purpose.SUBSETS, Purpose.CODES)}
        streams = AttentionStreams(
            tokens=bases[Purpose.TOKENS][0] if self.samples_tokens else None,
            subsets=bases[Purpose.SUBSETS][0],
            codes=bases[Purpose.CODES][0] if redrawn else None,
            owner=bases[Purpose.SUBSETS][1],
            book=book.codes,
            scale=self.codes.scale,
        )
        steps = self.kernels.attention_steps(
            streams, list(parameters.values()), rows=self.batch, T=self.task.T, q=self.task.q, d=self.task.d,
            is_dual=positions.query == "dual", moments=pairs_of(parameters, moments), rates=rates,
        )  # fmt: skip
        return lambda step, count: self.loss_of(steps(step, count))

    def learn_from(self, draws: StreamKeys | None, parameters: Tensors, step: Step, **moving: Any) -> NetStep:
        """`learn`, with the draws of the tokens where they are sampled."""
        book, y = self.books.training(step), self.subsets(step)
        assert isinstance(book, DenseBook)
        weights, c = list(parameters.values()), book.coefficients(y)
        return self.kernels.learn_attention(draws, book.codes, weights, y, c, T=self.task.T, d=self.task.d, **moving)


class PopulationProgram(TransformerProgram):
    """Training with X integrated out: `L = d/2 E ||v p - 1_y / q||^2` over subsets and codes, which are sampled; p are the
    attention weights.

    From zero initialisation the blocks `W_x` and `V_e` stay zero and `V_x = v I`; the gradient of v is that of each diagonal
    entry of V, hence without the factor d.

    Evaluation takes the same form, so tokens add no sampling error to it: what is left is that of subsets and codes.
    """

    def initial(self) -> Tensors:
        return {"W_e": self.zeros(self.length, self.length), "v": self.zeros()}

    def weights(self, parameters: Tensors, trial: int) -> dict[str, np.ndarray]:
        d = self.task.d
        V_x = parameters["v"][trial] * torch.eye(d, dtype=self.dtype, device=self.device)
        W_x, V_e = torch.zeros((2, d, self.length), dtype=self.dtype).unbind(0)
        return self.full_weights(W_x, parameters["W_e"][trial], V_x, V_e, trial)


class PopulationTransformer(PopulationProgram, SharedBookProgram):
    """The population objective where a batch shares one code book."""

    samples_tokens = False

    def __init__(self, configs: tuple[TrialConfig, ...], device: torch.device) -> None:
        super().__init__(configs, device)
        self._one_for_all = self._mean_of_orders() if configs[0].one_stands_for_all else None

    def learn(self, parameters: Tensors, step: Step, **moving: Any) -> NetStep:
        return self.learn_from(None, parameters, step, **moving)

    def loss_of(self, squares: torch.Tensor) -> torch.Tensor:
        return squares.sum(-1) * (self.task.q / self.batch)

    def gradients(self, parameters: Tensors, step: Step) -> tuple[torch.Tensor, Tensors]:
        if self.fused:
            return self.fused_gradients(parameters, step)
        book = self.books.training(step)
        found = self._attend(parameters, book, self.subsets(step), gradient=True)
        loss = self.loss_of(found.squares)
        scale = (parameters["v"] * self.task.d).view(-1, 1, 1)
        G = book.gradient(found.G) if self._one_for_all is None else found.G[:, :1, :1] * self._one_for_all
        return loss, {"W_e": G * scale, "v": found.shares}

    def _mean_of_orders(self) -> torch.Tensor:
        """`q/(T-1) (I - J/T)`: times the gradient at a member's score, the mean over all orders of the tokens of one subset's
        gradient, as the gradients at the scores of a subset sum to zero.
        """
        T = self.task.T
        ones = torch.eye(T, dtype=self.dtype, device=self.device) - 1 / T
        return ones * (self.task.q / (T - 1))

    def fresh_losses(self, parameters: Tensors, chunk: int, *, T: int | None = None, q: int | None = None) -> torch.Tensor:
        """`q ||v p - 1_y / q||^2`: X is integrated out."""
        y = self.fresh_subsets(chunk, T=T, q=q)
        return self._attend(parameters, self.books.fresh(chunk, T), y, T=T, gradient=False).squares * y.shape[-1]

    def fresh_attention_mass(self, parameters: Tensors, chunk: int) -> torch.Tensor:
        book, y = self.books.fresh(chunk), self.fresh_subsets(chunk)
        return mass_on(y, query_scores(book.scores(parameters["W_e"]), y, book.coefficients(y))[..., : self.task.T])

    def _attend(
        self, parameters: Tensors, book: CodeBook, y: torch.Tensor, *, T: int | None = None, gradient: bool
    ) -> PopulationStep:
        N, c = book.scores(parameters["W_e"]), book.coefficients(y)
        return self.kernels.attend_population(N, parameters["v"], y, c, T=T or self.task.T, gradient=gradient)


class MinibatchProgram(TransformerProgram):
    """Training on sampled tokens, with all of W and V trained.

    Where W reads tokens X does not integrate out, so evaluation samples tokens as well as subsets and codes, and its standard
    error holds the sampling error of all three.
    """

    def initial(self) -> Tensors:
        d, D = self.task.d, self.length
        return {"W_x": self.zeros(d, D), "W_e": self.zeros(D, D), "V_x": self.zeros(d, d), "V_e": self.zeros(d, D)}

    def weights(self, parameters: Tensors, trial: int) -> dict[str, np.ndarray]:
        W_x, W_e, V_x, V_e = (parameters[name][trial] for name in ("W_x", "W_e", "V_x", "V_e"))
        return self.full_weights(W_x, W_e, V_x, V_e, trial)


class MinibatchTransformer(MinibatchProgram, SharedBookProgram):
    """The minibatch objective where a batch shares one code book."""

    samples_tokens = True

    def learn(self, parameters: Tensors, step: Step, **moving: Any) -> NetStep:
        return self.learn_from(self.streams.draws(Purpose.TOKENS, step), parameters, step, **moving)

    def loss_of(self, squares: torch.Tensor) -> torch.Tensor:
        return squares.sum(-1) * (self.task.q / (self.task.d * self.batch))

    def gradients(self, parameters: Tensors, step: Step) -> tuple[torch.Tensor, Tensors]:
        if self.fused:
            return self.fused_gradients(parameters, step)
        book, d = self.books.training(step), self.task.d
        found = self._attend(parameters, book, self.subsets(step), (Purpose.TOKENS, step), gradient=True)
        loss = self.loss_of(found.squares)
        rows = book.push(torch.cat([found.R, found.H], 1))
        return loss, {"W_x": rows[:, d:], "W_e": book.gradient(found.G), "V_x": found.grad_V_x, "V_e": rows[:, :d]}

    def fresh_losses(self, parameters: Tensors, chunk: int, *, T: int | None = None, q: int | None = None) -> torch.Tensor:
        """`||f - target||^2 / (d/q)` on sampled tokens."""
        book, y = self.books.fresh(chunk, T), self.fresh_subsets(chunk, T=T, q=q)
        found = self._attend(parameters, book, y, (Purpose.FRESH_TOKENS, chunk), T=T, gradient=False)
        return found.squares * (y.shape[-1] / self.task.d)

    def fresh_attention_mass(self, parameters: Tensors, chunk: int) -> torch.Tensor:
        book, y = self.books.fresh(chunk), self.fresh_subsets(chunk)
        c, T, d = book.coefficients(y), self.task.T, self.task.d
        draws = self.streams.draws(Purpose.FRESH_TOKENS, chunk)
        X = self.kernels.normals(draws, rows=1, numbers=CHUNK * d * T, dtype=self.dtype).view(*y.shape[:2], d, T)
        scores = query_scores(book.scores(parameters["W_e"]), y, c)[..., :T]
        u = query_scores(book.pull(parameters["W_x"]).mT, y, c)
        return mass_on(y, scores + scores_of_tokens(X, u))

    def _attend(
        self,
        parameters: Tensors,
        book: CodeBook,
        y: torch.Tensor,
        tokens: tuple[Purpose, Step],
        *,
        T: int | None = None,
        gradient: bool,
    ) -> TokenStep:
        d = self.task.d
        rows = book.pull(torch.cat([parameters["V_e"], parameters["W_x"]], 1))
        N, K, Q = book.scores(parameters["W_e"]), rows[:, :d], rows[:, d:]
        return self.kernels.attend_tokens(
            self.streams.draws(*tokens),
            N, K, Q, parameters["V_x"], y, book.coefficients(y),
            T=T or self.task.T, gradient=gradient,
        )  # fmt: skip


def query_scores(rows: torch.Tensor, y: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    """`sum_j c_j rows[y_j]` for one row a token, (k, Tp, n), and subsets and coefficients (k, batch, q): (k, batch, n)."""
    k, batch, q = y.shape
    members = rows.gather(1, y.view(k, batch * q, 1).expand(-1, -1, rows.shape[-1])).view(k, batch, q, -1)
    return (members * c.unsqueeze(-1)).sum(2)


def scores_of_tokens(X: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
    """`<x_t, u>` for X of shape (k, batch, d, T) and u of shape (k, batch, d): (k, batch, T)."""
    # Coordinate by coordinate: d is small, and a product of (k batch) tiny matrices would be slower than these vector loops.
    scores = X[:, :, 0] * u[:, :, :1]
    for coordinate in range(1, X.shape[2]):
        scores.addcmul_(X[:, :, coordinate], u[:, :, coordinate : coordinate + 1])
    return scores


def mass_on(y: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
    """`sum_{t in y} p_t` of the softmax p of scores (k, batch, T): (k, batch)."""
    return scores.softmax(-1).gather(2, y).sum(-1)
