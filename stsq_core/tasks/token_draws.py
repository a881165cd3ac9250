"""Draws of tokens of each law.

Source of Student's t, `sqrt(nu (U^{-2/nu} - 1)) cos(2 pi V)`: Bailey 1994, Polar generation of random variates with the
t-distribution.
"""

import math

import torch

from stsq_core.examples import Source
from stsq_core.token_laws import CorrelatedTokens, GaussianTokens, LaplaceTokens, StudentTokens, TokenLaw

LINE = 64
"""Numbers a row are drawn in multiples of this, so that no vector loop leaves a rest to scalar code, which rounds otherwise."""


def tokens(source: Source, law: TokenLaw, count: int, *, T: int, d: int) -> torch.Tensor:
    """`count` samples of T tokens in R^d, (k, count, T, d)."""
    match law:
        case GaussianTokens():
            numbers = source.normals("tokens", 1, count * T * d)
        case LaplaceTokens():
            u = _uniforms(source, "tokens", count * T * d)
            numbers = u.sign() * torch.log1p(-u.abs()) * -math.sqrt(0.5)
        case StudentTokens(freedom=freedom):
            u, v = (_uniforms(source, name, count * T * d) for name in ("tokens", "angles of tokens"))
            squares = torch.expm1(((u + 1) / 2).log() * (-2 / freedom)) * (freedom - 2)
            numbers = squares.sqrt() * (v * math.pi).cos()
        case CorrelatedTokens(rho=rho):
            own = source.normals("tokens", 1, count * T * d).view(-1, count, T, d)
            return own * math.sqrt(1 - rho) + source.normals("common token", 1, count * d).view(-1, count, 1, d) * math.sqrt(
                rho
            )
    return numbers[..., : count * T * d].reshape(-1, count, T, d)


def _uniforms(source: Source, name: str, numbers: int) -> torch.Tensor:
    """At least so many numbers a trial, uniform on (-1, 1)."""
    return source.uniforms(name, 1, -(-numbers // LINE) * LINE)
