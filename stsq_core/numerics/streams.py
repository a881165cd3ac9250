"""Random streams that are functions of (seed, purpose, step): none is shared, so nobody's draws depend on anybody else's.

A trial that is interrupted needs no saved generator, and trials of one seed see the same draws (common random numbers). How a
stream becomes normals, signs and subsets is defined in `stsq_core.kernels.interface`.
"""

import hashlib
from enum import IntEnum
from functools import cache

import torch

from stsq_core.kernels import Kernels, StreamKeys

Step = int | torch.Tensor
"""A step's number: an int, or an int64 tensor of shape (1,) on the device, which a captured CUDA graph reads anew each time."""

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
    QUERIES = 8
    FRESH_QUERIES = 9


def mix(x: int) -> int:
    """The SplitMix64 finaliser (Steele, Lea, Flood 2014), a bijection; a key is `mix(mix(mix(seed) + purpose) + step)`."""
    x = (x + 0x9E3779B97F4A7C15) & _MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


class Streams:
    """The streams of a stack of trials: one draw for each distinct seed, handed to every trial that has it."""

    def __init__(self, seeds: tuple[int, ...], kernels: Kernels) -> None:
        distinct = tuple(dict.fromkeys(seeds))
        place = {seed: i for i, seed in enumerate(distinct)}
        self._kernels = kernels
        self._distinct = distinct
        self._named: dict[int, torch.Tensor] = {}
        self._owner = torch.tensor([place[seed] for seed in seeds], device=kernels.device)
        # Two of a key's three rounds do not depend on the step, and are made once.
        self._bases = {
            purpose: torch.tensor([_signed(mix(mix(seed) + purpose)) for seed in distinct], device=kernels.device)
            for purpose in Purpose
        }

    def draws(self, purpose: Purpose, step: Step) -> StreamKeys:
        """Where the trials' draws for a purpose at a step come from."""
        return StreamKeys(self._kernels.keys(self._bases[purpose], step), self._owner)

    def bases(self, purpose: Purpose) -> tuple[torch.Tensor, torch.Tensor]:
        """What the keys of each distinct seed are made of (`Kernels.keys`), and the place of each trial's seed among them."""
        return self._bases[purpose], self._owner

    def named(self, name: str, step: Step, *, fresh: bool) -> StreamKeys:
        """Where the trials' draws under a name come from, in training or for fresh samples; any name is a stream of its own."""
        number = _number_of(name, fresh)
        if number not in self._named:
            words = [_signed(mix(mix(seed) + number)) for seed in self._distinct]
            self._named[number] = torch.tensor(words, device=self._kernels.device)
        return StreamKeys(self._kernels.keys(self._named[number], step), self._owner)


_PURPOSES = {
    ("tokens", False): Purpose.TOKENS,
    ("tokens", True): Purpose.FRESH_TOKENS,
    ("subsets", False): Purpose.SUBSETS,
    ("subsets", True): Purpose.FRESH_SUBSETS,
    ("codes", False): Purpose.CODES,
    ("codes", True): Purpose.FRESH_CODES,
    ("queries", False): Purpose.QUERIES,
    ("queries", True): Purpose.FRESH_QUERIES,
}


@cache
def _number_of(name: str, fresh: bool) -> int:
    """The purpose's number of a name, far from those of `Purpose` for a name that has none there."""
    purpose = _PURPOSES.get((name, fresh))
    if purpose is not None:
        return int(purpose)
    digest = hashlib.sha256(f"{name} {'fresh' if fresh else 'training'}".encode()).digest()
    # The top bit keeps names away from the small numbers of `Purpose`, and half of all words are still theirs.
    return int.from_bytes(digest[:8], "big") | 1 << 63


def _signed(word: int) -> int:
    """The int64 of the same bits."""
    return word - (1 << 64) if word >> 63 else word
