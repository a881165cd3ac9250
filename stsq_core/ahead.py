"""Draws that do not depend on training, made a block of steps at a time: many steps in one pass cost little more than one.

What is drawn for a step is a function of that step alone, so the size of a block changes no number.
"""

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Drawn = TypeVar("Drawn")

MOST_STEPS = 16
MOST_NUMBERS = 4_000_000
"""A block holds at most about this many numbers."""


class Ahead(Generic[Drawn]):
    """Hands out what belongs to a step, drawing the next block when it is not at hand."""

    def __init__(self, draw: Callable[[range], Sequence[Drawn]], *, numbers_per_step: int) -> None:
        self._draw = draw
        self._size = max(1, min(MOST_STEPS, MOST_NUMBERS // max(1, numbers_per_step)))
        self._start = 0
        self._block: Sequence[Drawn] = ()

    def at(self, step: int) -> Drawn:
        if not self._start <= step < self._start + len(self._block):
            self._start, self._block = step, self._draw(range(step, step + self._size))
        return self._block[step - self._start]
