"""Draws of tokens of each law.

Source of Student's t, `sqrt(nu (U^{-2/nu} - 1)) cos(2 pi V)`: Bailey 1994, Polar generation of random variates with the
t-distribution.
"""

import math

import torch

from stsq_core.configs import CorrelatedTokens, GaussianTokens, LaplaceTokens, StudentTokens, TokenLaw, missing_case
from stsq_core.numerics import placeless
from stsq_core.tasks.examples import Source


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
            raise missing_case(law, "stsq_core/tasks/token_draws.py: tokens")
    return numbers.view(-1, count, T, d)
