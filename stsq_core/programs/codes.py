"""The rows of the positional codes of a stack of trials: one class a kind of code.

A row depends on its trial, its stream and its own place only, so a longer draw begins with the shorter one. Coordinates beyond
a trial's d_e are zero, up to the length that the stack shares.
"""

import math
from abc import ABC, abstractmethod
from typing import Protocol, cast, runtime_checkable

import torch

from stsq_core.configs import (
    Gaussian,
    Learned,
    OneHot,
    PositionalCode,
    Positions,
    RandomSign,
    Sinusoidal,
    missing_case,
)
from stsq_core.kernels import Kernels, StreamKeys
from stsq_core.numerics import dot


class Codes(ABC):
    """The codes of k trials of one kind, `positions`.

    `own` is one at the coordinates that a trial has, and `scale` is `1 / sqrt(d_e)` there, zero beyond: (k, 1, length).
    """

    def __init__(self, positions: tuple[PositionalCode, ...], *, length: int, dtype: torch.dtype, kernels: Kernels) -> None:
        self.positions = positions
        self.widths = tuple(code.d_e for code in positions)
        self.length = length
        self.dtype = dtype
        self.kernels = kernels
        self.own = self._per_coordinate([1.0] * len(positions))
        self.scale = self._per_coordinate([1 / math.sqrt(width) for width in self.widths])

    @abstractmethod
    def rows(self, draws: StreamKeys, count: int) -> torch.Tensor:
        """Codes of rows 0 to count - 1, (k, count, length); codes that are not drawn make nothing of the draws."""

    def _per_coordinate(self, sizes: list[float]) -> torch.Tensor:
        rows = torch.zeros((len(sizes), 1, self.length), dtype=torch.float64)
        for row, size, width in zip(rows, sizes, self.widths, strict=True):
            row[:, :width] = size
        return rows.to(self.dtype).to(self.kernels.device)


class UnitCodes(Codes):
    """Row t is the t-th unit vector, and zero where there is none."""

    def rows(self, draws: StreamKeys, count: int) -> torch.Tensor:
        unit = torch.eye(count, self.length, dtype=self.dtype, device=self.kernels.device)
        return unit.expand(len(self.widths), -1, -1).contiguous()


class SignCodes(Codes):
    """Uniform signs over the root of d_e."""

    def rows(self, draws: StreamKeys, count: int) -> torch.Tensor:
        return self.kernels.signs(draws, tokens=count, length=self.length, dtype=self.dtype).mul_(self.scale)


class SphereCodes(Codes):
    """Standard normals over the norm of a trial's own coordinates."""

    def rows(self, draws: StreamKeys, count: int) -> torch.Tensor:
        codes = self.kernels.normals(draws, rows=count, numbers=self.length, dtype=self.dtype).mul_(self.own)
        # A row of exact zeros, which one in ten million is at d_e = 1, stays one.
        return codes.div_(dot(codes, codes).sqrt_().clamp_min_(torch.finfo(self.dtype).tiny).unsqueeze(-1))


class SinusoidalCodes(Codes):
    """Sines and cosines of the place, which are not drawn."""

    def rows(self, draws: StreamKeys, count: int) -> torch.Tensor:
        codes = torch.zeros((len(self.widths), count, self.length), dtype=torch.float64)
        for own, code in zip(codes, self.positions, strict=True):
            assert isinstance(code, Sinusoidal)
            own[:, : code.d_e] = sinusoids(count, code.d_e, base=code.base)
        return codes.to(self.dtype).to(self.kernels.device)


def sinusoids(count: int, d_e: int, *, base: float) -> torch.Tensor:
    """Unit-norm sinusoidal codes of places 0 to count - 1, float64, (count, d_e).

    At d_e = 1 the first is zero, as `sin(0)` is.
    """
    rates = base ** (-torch.arange(0, d_e, 2, dtype=torch.float64) / d_e)
    angles = torch.arange(count, dtype=torch.float64).unsqueeze(-1) * rates
    waves = torch.stack([angles.sin(), angles.cos()], -1).view(count, -1)[:, :d_e]
    return waves / dot(waves, waves).sqrt().clamp_min(torch.finfo(torch.float64).tiny).unsqueeze(-1)


def codes_for(positions: tuple[PositionalCode, ...], *, length: int, dtype: torch.dtype, kernels: Kernels) -> Codes:
    """What makes the codes of trials of one kind; learned ones start as random signs."""
    return _made(positions[0])(positions, length=length, dtype=dtype, kernels=kernels)


@runtime_checkable
class PluginCode(Protocol):
    """A plugin's code names what makes its rows in a method."""

    def codes(self) -> type[Codes]: ...


def _made(positions: PositionalCode) -> type[Codes]:
    if isinstance(positions, PluginCode):
        return positions.codes()
    own = cast(Positions, positions)
    match own:
        case OneHot():
            return UnitCodes
        case RandomSign() | Learned():
            return SignCodes
        case Gaussian():
            return SphereCodes
        case Sinusoidal():
            return SinusoidalCodes
        case _:
            raise missing_case(own, "stsq_core/programs/codes.py: codes_for")
