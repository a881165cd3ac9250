"""Code books: the positional codes of a stack of trials, and the queries that name a subset in them.

A book answers three questions: the scores of given key directions against every token's code, the mixture of codes under
attention weights, and the query `e_y` of a subset y. Codes narrower than the stack's rung are padded with zeros, which changes
no score, mixture or query.
"""

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from stsq_core.positions import Positions, Query
from stsq_core.products import dot, product

DUAL_TOLERANCE = 1e-7
"""Relative size of the least-squares gradient at which the dual query is taken as solved. What is left then is rounding, and
following it would divide by the zero singular values of dependent codes."""


class CodeBook(ABC):
    """The codes e_1..e_T of k trials."""

    @abstractmethod
    def scores(self, directions: torch.Tensor) -> torch.Tensor:
        """`<e_t, u>` for directions u of shape (k, batch, d_e): shape (k, batch, T)."""

    @abstractmethod
    def mixture(self, weights: torch.Tensor) -> torch.Tensor:
        """`sum_t p_t e_t` for weights p of shape (k, batch, T): shape (k, batch, d_e)."""

    @abstractmethod
    def queries(self, subsets: torch.Tensor, query: Query) -> torch.Tensor:
        """`e_y` for subsets y of shape (k, batch, q): shape (k, batch, d_e)."""


class OneHotBook(CodeBook):
    """Unit vectors: every product with the book is the identity, and sum and dual queries agree."""

    def __init__(self, T: int, dtype: torch.dtype) -> None:
        self._T = T
        self._dtype = dtype

    def scores(self, directions: torch.Tensor) -> torch.Tensor:
        return directions

    def mixture(self, weights: torch.Tensor) -> torch.Tensor:
        return weights

    def queries(self, subsets: torch.Tensor, query: Query) -> torch.Tensor:
        z = torch.zeros((*subsets.shape[:2], self._T), dtype=self._dtype, device=subsets.device)
        return z.scatter_(2, subsets, 1.0)


class DenseBook(CodeBook):
    """One book a trial, shape (k, T, d_e), shared by its batch."""

    def __init__(self, codes: torch.Tensor) -> None:
        self._codes = codes

    def scores(self, directions: torch.Tensor) -> torch.Tensor:
        return product(directions, self._codes.mT)

    def mixture(self, weights: torch.Tensor) -> torch.Tensor:
        return product(weights, self._codes)

    def queries(self, subsets: torch.Tensor, query: Query) -> torch.Tensor:
        k, T, d_e = self._codes.shape
        flat = self._codes.reshape(k * T, d_e)
        first = (torch.arange(k, device=subsets.device) * T).view(k, 1)
        members = [flat.index_select(0, (y + first).flatten()).view(k, -1, d_e) for y in subsets.unbind(-1)]
        return _query(members, query)


class SampleBook(CodeBook):
    """One book a sample, shape (k, batch, T, d_e)."""

    def __init__(self, codes: torch.Tensor) -> None:
        self._codes = codes

    def scores(self, directions: torch.Tensor) -> torch.Tensor:
        return dot(self._codes, directions.unsqueeze(-2))

    def mixture(self, weights: torch.Tensor) -> torch.Tensor:
        return (self._codes * weights.unsqueeze(-1)).sum(-2)

    def queries(self, subsets: torch.Tensor, query: Query) -> torch.Tensor:
        index = subsets.unsqueeze(-1).expand(*subsets.shape, self._codes.shape[-1])
        return _query(list(self._codes.gather(2, index).unbind(2)), query)


def _query(members: list[torch.Tensor], query: Query) -> torch.Tensor:
    """`e_y` from the q member codes, each of shape (k, batch, d_e)."""
    if query == "sum":
        return _total(members)
    coefficients = dual_coefficients(_gram(members)).to(members[0].dtype).unsqueeze(-1)
    z = members[0] * coefficients[0]
    for member, coefficient in zip(members[1:], coefficients[1:], strict=True):
        z.addcmul_(member, coefficient)
    return z


def _gram(members: list[torch.Tensor]) -> torch.Tensor:
    """Inner products of the members, (q, q, k, batch), in float64: float32 sums would make dependent codes independent."""
    q = len(members)
    members = [member.double() for member in members]
    gram = torch.empty((q, q, *members[0].shape[:2]), dtype=torch.float64, device=members[0].device)
    for i in range(q):
        for j in range(i + 1):
            gram[i, j] = gram[j, i] = dot(members[i], members[j])
    return gram


def dual_coefficients(gram: torch.Tensor) -> torch.Tensor:
    """Coefficients c of the dual query `w = sum_j c_j e_{y_j}`: the least-squares `<e_j, w> = 1` for all j, of minimum norm.

    Conjugate gradients on the normal equations, written in the q coefficients: from zero they stay in the span of the members
    and end after at most q steps, so no inverse of a singular matrix is ever formed.

    Args:
        gram: inner products of the member codes, float64, shape (q, q, ...): the members lead, so that every pass is long.

    Returns:
        Coefficients, shape (q, ...), float64.
    """

    def times(c: torch.Tensor) -> torch.Tensor:
        image = gram[:, 0] * c[0]
        for column, coefficient in zip(gram.unbind(1)[1:], c[1:], strict=True):
            image.addcmul_(column, coefficient)
        return image

    residual = torch.ones_like(gram[0])
    coefficients = torch.zeros_like(residual)
    direction = residual
    slope = _total((residual * times(residual)).unbind(0))
    enough = DUAL_TOLERANCE**2 * slope
    for _ in range(len(gram)):
        direction_image = times(direction)
        curvature = _total((direction_image * direction_image).unbind(0))
        going = (slope > enough) & (curvature > 0)
        step = torch.where(going, slope / curvature, 0.0)
        coefficients = torch.addcmul(coefficients, step, direction)
        residual = torch.addcmul(residual, step, direction_image, value=-1)
        new_slope = _total((residual * times(residual)).unbind(0))
        direction = torch.addcmul(residual, torch.where(going, new_slope / slope, 0.0), direction)
        slope = torch.where(going, new_slope, 0.0)
    return coefficients


def _total(terms: Sequence[torch.Tensor]) -> torch.Tensor:
    """The sum of tensors, one after another: a reduction over a leading axis would round by how many trials lie behind it."""
    return functools.reduce(torch.add, terms)


def code_scales(positions: tuple[Positions, ...], *, length: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """The size of each code coordinate, zero where a trial's code is shorter than `length`: shape (k, length)."""
    rows = []
    for code in positions:
        row = torch.zeros(length, dtype=torch.float64)
        row[: code.d_e] = 1 / math.sqrt(code.d_e)
        rows.append(row)
    return torch.stack(rows).to(dtype).to(device)
