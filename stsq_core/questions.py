"""What a batch is asked: a code book, the subsets y, and the queries e_y that name them. Nothing of it depends on training."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from stsq_core.ahead import Ahead
from stsq_core.architecture import Transformer
from stsq_core.codebook import CodeBook, DenseBook, OneHotBook, SampleBook, code_scales
from stsq_core.positions import OneHot
from stsq_core.program import CHUNK, Program
from stsq_core.streams import Purpose


@dataclass(frozen=True)
class Question:
    """One batch's book, subsets y of shape (k, batch, q) and queries z of shape (k, batch, d_e)."""

    book: CodeBook
    y: torch.Tensor
    z: torch.Tensor


class QuestionSource:
    """Draws the questions of a stack of transformers: those of training steps, and fresh ones for evaluation."""

    def __init__(self, program: Program, *, length: int) -> None:
        models = [config.model for config in program.configs if isinstance(config.model, Transformer)]
        positions = tuple(model.positions for model in models)
        self._program = program
        self._positions = positions[0]
        self._length = length
        self._scales = code_scales(positions, length=length, dtype=program.dtype, device=program.device)
        self._fixed = self._fixed_book()
        self.training = Ahead(self._draw_training, numbers_per_step=self._numbers(program.batch))
        self.fresh = Ahead(self._draw_fresh, numbers_per_step=self._numbers(CHUNK))

    def _numbers(self, count: int) -> int:
        """Numbers that one step's question holds."""
        T, q = self._program.task.T, self._program.task.q
        books = count if self._positions.redraw == "per_sample" else 1
        return len(self._scales) * (count * (2 * q * self._length + q * q) + 2 * books * T * self._length)

    def _draw_training(self, steps: range) -> Sequence[Question]:
        return self._draw(torch.stack([self._program.subsets(step) for step in steps]), Purpose.CODES, steps)

    def _draw_fresh(self, chunks: range) -> Sequence[Question]:
        return self._draw(torch.stack([self._program.fresh_subsets(chunk) for chunk in chunks]), Purpose.FRESH_CODES, chunks)

    def _draw(self, y: torch.Tensor, purpose: Purpose, steps: range) -> Sequence[Question]:
        """The questions of a block of steps, for subsets y of shape (steps, k, batch, q)."""
        S, k, count, q = y.shape
        query = self._positions.query
        if self._fixed is not None:
            flat = y.transpose(0, 1).reshape(k, S * count, q)
            z = self._fixed.queries(flat, query).view(k, S, count, -1).transpose(0, 1).contiguous()
            return [Question(self._fixed, *parts) for parts in zip(y, z, strict=True)]
        codes = self._codes(count, purpose, steps)
        kind = SampleBook if self._positions.redraw == "per_sample" else DenseBook
        z = kind(codes.flatten(0, 1)).queries(y.flatten(0, 1), query).view(S, k, count, -1)
        return [Question(kind(book), *parts) for book, *parts in zip(codes, y, z, strict=True)]

    def _fixed_book(self) -> CodeBook | None:
        """The book that is never redrawn, where there is one."""
        if isinstance(self._positions, OneHot):
            return OneHotBook(self._program.task.T, self._program.dtype)
        if self._positions.redraw == "never":
            return DenseBook(self._codes(1, Purpose.CODES, range(1))[0])
        return None

    def _codes(self, count: int, purpose: Purpose, steps: range) -> torch.Tensor:
        """Random-sign codes padded with zeros to the rung: (steps, k, T, d_e), or (steps, k, count, T, d_e), one a sample."""
        T, dtype = self._program.task.T, self._program.dtype
        tokens = (count, T) if self._positions.redraw == "per_sample" else (T,)
        signs = self._program.streams.signs(length=self._length, tokens=tokens, purpose=purpose, steps=steps, dtype=dtype)
        return signs.mul_(self._scales.view(len(self._scales), *(1 for _ in tokens), self._length))
