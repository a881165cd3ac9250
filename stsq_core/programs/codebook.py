"""Code books: the positional codes of a stack of trials that a whole batch shares, and the queries that name a subset in them.

With E the codes as rows, `pull` takes directions among codes to tokens, `u E^T`, and `push` takes weights over tokens to
codes, `p E`. Token axes are padded with zeros to Tp, and codes narrower than the stack's rung to the rung.
"""

from abc import ABC, abstractmethod
from typing import assert_never

import torch

from stsq_core.configs import OneHot, PositionalCode, Query, UserError, padded_tokens
from stsq_core.kernels import Kernels
from stsq_core.numerics import Purpose, Step, Streams, product
from stsq_core.programs.certificate import DualQuery, dual_coefficients
from stsq_core.programs.codes import Codes


class CodeBook(ABC):
    """The codes e_1..e_T of k trials."""

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    @abstractmethod
    def pull(self, directions: torch.Tensor) -> torch.Tensor:
        """`<e_t, u>` for rows u, (k, M, d_e): (k, M, Tp)."""

    @abstractmethod
    def push(self, weights: torch.Tensor) -> torch.Tensor:
        """`sum_t p_t e_t` for rows p, (k, M, Tp): (k, M, d_e)."""

    def coefficients(self, y: torch.Tensor) -> torch.Tensor:
        """c of the queries `e_y = sum_j c_j e_{y_j}` for subsets y of shape (k, batch, q): (k, batch, q), ones for `sum`."""
        return torch.ones(y.shape, dtype=self.dtype, device=y.device)

    def asked(self, named: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The queries of subsets whose coefficients are spread over the tokens, (k, batch, Tp): (k, batch, d_e)."""
        return self.push(named)

    def scores(self, W_e: torch.Tensor) -> torch.Tensor:
        """`E W_e^T E^T`, the scores of all tokens (columns) for a query of each single token (rows): (k, Tp, Tp)."""
        return self.pull(self.pull(W_e).mT)

    def gradient(self, G: torch.Tensor) -> torch.Tensor:
        """The gradient of `W_e` from that of `scores(W_e)`: (k, d_e, d_e)."""
        return self.push(self.push(G).mT)


class OneHotBook(CodeBook):
    """Unit vectors: every product with the book is the identity, and sum and dual queries agree.

    Of T = d_e codes the first `tokens` mark tokens: all in training, fewer where fewer tokens are evaluated.
    """

    def __init__(self, T: int, dtype: torch.dtype, tokens: int | None = None) -> None:
        super().__init__(dtype)
        self._T = T
        self._tokens = T if tokens is None else tokens
        self._rest = padded_tokens(self._tokens) - self._tokens

    def pull(self, directions: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.pad(directions[..., : self._tokens], (0, self._rest))

    def push(self, weights: torch.Tensor) -> torch.Tensor:
        own = weights[..., : self._tokens]
        return own if self._tokens == self._T else torch.nn.functional.pad(own, (0, self._T - self._tokens))

    def scores(self, W_e: torch.Tensor) -> torch.Tensor:
        own = W_e.mT[:, : self._tokens, : self._tokens]
        return torch.nn.functional.pad(own, (0, self._rest, 0, self._rest))


class DenseBook(CodeBook):
    """One book a trial, shape (k, Tp, d_e), with zeros beyond the T tokens."""

    def __init__(self, codes: torch.Tensor, query: Query, kernels: Kernels) -> None:
        super().__init__(codes.dtype)
        self.codes = codes
        self._query = query
        self._kernels = kernels

    def pull(self, directions: torch.Tensor) -> torch.Tensor:
        return product(directions, self.codes.mT)

    def push(self, weights: torch.Tensor) -> torch.Tensor:
        return product(weights, self.codes)

    def coefficients(self, y: torch.Tensor) -> torch.Tensor:
        match self._query:
            case "sum":
                return super().coefficients(y)
            case "dual":
                return self._dual(y)
            case _:
                assert_never(self._query)

    def _dual(self, y: torch.Tensor) -> torch.Tensor:
        return self._kernels.dual(self.codes, y)


class LearnedBook(DenseBook):
    """The first T of the codes that each trial has trained, (k, trained, d_e).

    Raises:
        UserError: if there are no codes for so many tokens.
    """

    def __init__(self, E: torch.Tensor, T: int, query: Query, kernels: Kernels) -> None:
        if (trained := E.shape[1]) < T:
            raise UserError(f"learned codes end at the T of the task; got T={T} beyond T={trained}: use other codes")
        super().__init__(torch.nn.functional.pad(E[:, :T], (0, 0, 0, padded_tokens(T) - T)), query, kernels)

    def asked(self, named: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if self._query == "sum":
            return self.push(named)
        return DualQuery.apply(self.codes, named, y)  # type: ignore[no-untyped-call, no-any-return]

    def _dual(self, y: torch.Tensor) -> torch.Tensor:
        return dual_coefficients(self.codes.detach(), y)


class BookSource:
    """The books of a stack whose batches share one: a book for each step, or one for all."""

    def __init__(self, codes: Codes, positions: PositionalCode, *, T: int, streams: Streams, kernels: Kernels) -> None:
        self._codes, self._positions = codes, positions
        self._T, self._streams, self._kernels = T, streams, kernels
        self._kept: dict[int, CodeBook] = {}
        if positions.redraw == "never":
            self._fixed(T)

    def training(self, step: Step) -> CodeBook:
        """The book of a training step."""
        return self._book(Purpose.CODES, step, self._T)

    def fresh(self, chunk: int, T: int | None = None) -> CodeBook:
        """The book of a chunk of the evaluation, of T tokens, or of as many as in training.

        Raises:
            UserError: if there are no codes for so many tokens.
        """
        return self._book(Purpose.FRESH_CODES, chunk, self._T if T is None else T)

    def _book(self, purpose: Purpose, step: Step, T: int) -> CodeBook:
        match self._positions.redraw:
            case "never":
                return self._fixed(T)
            case "per_step" | "per_sample":
                return self._drawn(purpose, step, T)
            case _:
                assert_never(self._positions.redraw)

    def _fixed(self, T: int) -> CodeBook:
        """The trials' only book: longer ones begin with the shorter ones."""
        if T not in self._kept:
            own = isinstance(self._positions, OneHot) and self._T >= T
            self._kept[T] = OneHotBook(self._T, self._codes.dtype, T) if own else self._drawn(Purpose.CODES, 0, T)
        return self._kept[T]

    def _drawn(self, purpose: Purpose, step: Step, T: int) -> CodeBook:
        if self._positions.is_bound_to_T and T > self._T:
            raise UserError(
                f"{self._positions.kind} codes end at the T of the task; got T={T} beyond T={self._T}: use other codes"
            )
        rows = self._codes.rows(self._streams.draws(purpose, step), padded_tokens(T))
        rows[:, T:].zero_()  # they were drawn, because a draw has whole rows, but mark no token
        return DenseBook(rows, self._positions.query, self._kernels)
