"""Sparse codes of three values: a plugin for stsq."""

from typing import Literal

import torch

from stsq_core.plugins import Codes, PositionalCode, StreamKeys

THIRD = 0.967422
"""A standard normal number is larger in size with probability 1/3."""


class Ternary(PositionalCode):
    """Coordinates are `+-sqrt(3 / d_e)` with probability 1/6 each, or zero (Achlioptas 2003): of unit norm on average."""

    kind: Literal["ternary"] = "ternary"

    def codes(self) -> type[Codes]:
        return TernaryCodes


class TernaryCodes(Codes):
    """`scale` is `1 / sqrt(d_e)` at a trial's own coordinates and zero beyond."""

    def rows(self, draws: StreamKeys, count: int) -> torch.Tensor:
        normals = self.kernels.normals(draws, rows=count, numbers=self.length, dtype=self.dtype)
        return normals.sign() * (normals.abs() > THIRD) * (3**0.5 * self.scale)
