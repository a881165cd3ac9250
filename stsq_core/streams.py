"""Random streams that are functions of (seed, purpose, step): none is shared, so nobody's draws depend on anybody else's.

A trial that is interrupted needs no saved generator, and trials of one seed see the same draws (common random numbers).
"""

from collections.abc import Sequence
from enum import IntEnum

import torch

_MASK = (1 << 64) - 1


class Purpose(IntEnum):
    """What a stream is for. The numbers are part of the arithmetic: never reuse one."""

    INIT = 1
    CODES = 2
    SUBSETS = 3
    TOKENS = 4
    FRESH_CODES = 5
    FRESH_SUBSETS = 6
    FRESH_TOKENS = 7


def stream_key(seed: int, purpose: Purpose, step: int) -> int:
    """A 64-bit key for the triple, by two rounds of the SplitMix64 finaliser (Steele, Lea, Flood 2014)."""
    return _mix(_mix(_mix(seed) + purpose) + step)


def _mix(x: int) -> int:
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


class Streams:
    """The streams of a stack of trials on one device: one draw for each distinct seed, handed to every trial that has it."""

    def __init__(self, seeds: tuple[int, ...], device: torch.device) -> None:
        self.distinct = tuple(dict.fromkeys(seeds))
        self.device = device
        self._generator = torch.Generator(device)
        place = {seed: i for i, seed in enumerate(self.distinct)}
        self._owner = None
        if self.distinct != seeds:
            self._owner = torch.tensor([place[seed] for seed in seeds], device=device)

    def at(self, seed: int, purpose: Purpose, step: int) -> torch.Generator:
        """The stream of one triple, from its start. A CPU generator keeps 32 of the key's 64 bits."""
        return self._generator.manual_seed(stream_key(seed, purpose, step))

    def normals(self, shape: tuple[int, ...], purpose: Purpose, step: int, dtype: torch.dtype) -> torch.Tensor:
        """Standard normals, shape (k, *shape)."""
        draws = torch.empty((len(self.distinct), *shape), dtype=dtype, device=self.device)
        for seed, draw in zip(self.distinct, draws, strict=True):
            draw.normal_(generator=self.at(seed, purpose, step))
        return self._spread(draws)

    def uniforms(self, shape: tuple[int, ...], purpose: Purpose, step: int, dtype: torch.dtype) -> torch.Tensor:
        """Uniform on [-1, 1), shape (k, *shape)."""
        draws = torch.empty((len(self.distinct), *shape), dtype=dtype, device=self.device)
        for seed, draw in zip(self.distinct, draws, strict=True):
            draw.uniform_(-1.0, 1.0, generator=self.at(seed, purpose, step))
        return self._spread(draws)

    def subsets(self, *, T: int, q: int, count: int, purpose: Purpose, steps: Sequence[int]) -> torch.Tensor:
        """Uniform q-subsets of [T], (steps, k, count, q), by Floyd's algorithm (Bentley, Floyd 1987): exact in q draws each."""
        draws = self._integers((count, q), 2**63 - 1, purpose, steps)
        chosen: list[torch.Tensor] = []
        for i, draw in enumerate(draws.unbind(-1)):
            last = T - q + i
            candidate = draw % (last + 1)
            if chosen:
                taken = torch.stack([candidate == earlier for earlier in chosen]).any(0)
                candidate = torch.where(taken, last, candidate)
            chosen.append(candidate)
        return self._spread(torch.stack(chosen, -1), axis=1)

    def signs(
        self, *, length: int, tokens: tuple[int, ...], purpose: Purpose, steps: Sequence[int], dtype: torch.dtype
    ) -> torch.Tensor:
        """Uniform signs, shape (steps, k, *tokens, length); the first coordinates of a longer draw are those of a shorter one.

        Bits come from 32-bit words drawn with the word's place in the code outermost, hence the prefix.
        """
        words = self._integers((-(-length // 32), *tokens), 2**32, purpose, steps).movedim(2, -1).unsqueeze(-1)
        bits = (words >> torch.arange(32, device=self.device)).bitwise_and_(1).flatten(-2)[..., :length]
        return self._spread(bits.to(dtype).mul_(-2).add_(1), axis=1)

    def _integers(self, shape: tuple[int, ...], bound: int, purpose: Purpose, steps: Sequence[int]) -> torch.Tensor:
        """Uniform integers below `bound`, shape (steps, distinct seeds, *shape)."""
        draws = torch.empty((len(steps), len(self.distinct), *shape), dtype=torch.int64, device=self.device)
        for step, row in zip(steps, draws, strict=True):
            for seed, draw in zip(self.distinct, row, strict=True):
                draw.random_(0, bound, generator=self.at(seed, purpose, step))
        return draws

    def _spread(self, draws: torch.Tensor, *, axis: int = 0) -> torch.Tensor:
        """From one draw a distinct seed to one a trial."""
        return draws if self._owner is None else draws.index_select(axis, self._owner)
