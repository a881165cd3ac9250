"""Dual queries of trained codes, and the gradient of the codes through them.

With the codes of a subset's members as the rows of E and `+` the pseudo-inverse, the query is `w = E^+ 1`. From a gradient g at
w, with `c = (E^+)^T w`, `b = (E^+)^T g` and the misfit `r = 1 - E w`, that at E is

    c (g - E^T b)^T - b w^T + r (E^+ b)^T

wherever the rank of E does not change; r is zero where the members are independent.

Source: Golub, Pereyra 1973 (SIAM J. Numer. Anal. 10), the derivative of a pseudo-inverse.
"""

from typing import Any

import torch

from stsq_core.kernels import DUAL_TOLERANCE
from stsq_core.numerics import dot, product

NULL = 1e-13
"""Relative size of an eigenvalue of the members' inner products that is zero but for rounding: trained codes that are dependent
have such, where random signs have exact zeros.
"""


def dual_coefficients(codes: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """As `Kernels.dual`."""
    gram = _gram(_members(codes, y))
    return _least_squares(gram, torch.ones_like(gram[..., 0])).view(y.shape).to(codes.dtype)


def through_dual(codes: torch.Tensor, y: torch.Tensor, w: torch.Tensor, g: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Two factors A, (k, n, tokens), and B, (k, n, d_e), of what a batch adds to the gradient of its codes, `A^T B`.

    Args:
        codes: (k, tokens, d_e).
        y: subsets of the tokens, (k, batch, q).
        w: their dual queries, (k, batch, d_e).
        g: the gradient at w.
    """
    (k, batch, q), (tokens, length) = y.shape, codes.shape[1:]
    E = _members(codes, y)
    gram, rows, slope = _gram(E), w.reshape(k * batch, 1, length).double(), g.reshape(k * batch, 1, length).double()
    c, b = _least_squares(gram, dot(E, rows)), _least_squares(gram, dot(E, slope))
    left = torch.stack([c, -b, 1 - dot(E, rows)])
    across = slope - _mixed(E, b)
    right = torch.cat([across, rows, _mixed(E, _least_squares(gram, b))], 1).to(codes.dtype)
    spread = codes.new_zeros((3, k, batch, tokens))
    spread.scatter_(3, y.expand(3, -1, -1, -1), left.view(3, k, batch, q).to(codes.dtype))
    return spread.transpose(0, 1).reshape(k, 3 * batch, tokens), right.view(k, batch, 3, length).transpose(1, 2).flatten(1, 2)


def _members(codes: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """E of every subset: (k batch, q, d_e), float64."""
    (k, batch, q), length = y.shape, codes.shape[2]
    return codes.gather(1, y.reshape(k, batch * q, 1).expand(-1, -1, length)).view(k * batch, q, length).double()


def _gram(E: torch.Tensor) -> torch.Tensor:
    return product(E, E.mT).contiguous()


def _mixed(E: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """`E^T a` for rows a, (n, q): (n, 1, d_e)."""
    return (E * weights.unsqueeze(-1)).sum(1, keepdim=True)


def _least_squares(gram: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    """c of the least-squares `G c = a`, (n, q, q) and (n, q), by conjugate gradients; `G^+ a` for a in the range of G."""
    residual, c, direction = a, torch.zeros_like(a), a
    slope = dot(residual, dot(gram, residual.unsqueeze(1)))
    enough, null = DUAL_TOLERANCE**2 * slope, (NULL * gram.diagonal(dim1=1, dim2=2).sum(-1)) ** 2
    for _ in range(a.shape[1]):
        image = dot(gram, direction.unsqueeze(1))
        curvature = dot(image, image)
        going = (slope > enough) & (curvature > null * dot(direction, direction))
        step = torch.where(going, slope / curvature, 0.0).unsqueeze(-1)
        c, residual = c + step * direction, residual - step * image
        left = torch.where(going, dot(residual, dot(gram, residual.unsqueeze(1))), 0.0)
        direction = residual + torch.where(going, left / slope, 0.0).unsqueeze(-1) * direction
        slope = left
    return c


class DualQuery(torch.autograd.Function):
    """The queries w of a book, (k, tokens, d_e), whose coefficients are spread over the tokens, for subsets y."""

    @staticmethod
    def forward(ctx: Any, codes: torch.Tensor, spread: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        w = product(spread, codes)
        ctx.save_for_backward(codes, y, w)
        return w

    @staticmethod
    def backward(ctx: Any, *outer: Any) -> Any:
        codes, y, w = ctx.saved_tensors
        A, B = through_dual(codes, y, w, outer[0])
        return product(A.mT, B), None, None
