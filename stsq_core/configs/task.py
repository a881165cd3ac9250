"""What a trial learns (the configs): what all tasks have, and sparse token selection.

A task is one class here, an `Examples` in a module of `stsq_core.tasks`, a case in `stsq_core.tasks.examples_of`, and a name in
`stsq_core.configs.unions.Task`. A plugin's task has a method `examples()` instead of the case.

Sparse token selection: tokens `x_1..x_T ~ N(0, I_d)` iid; `y` a uniform q-subset of `[T]`; the target is their mean
`(1/q) sum_{t in y} x_t`.

Source: Wang, Wei, Hsu, Lee 2024, arXiv:2406.06893, section 2.
"""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from stsq_core.configs.record import Record

MAX_SIZE = 2**24
"""Of a whole number that sizes arrays: far beyond any machine, and small enough that products of several are exact."""

PositiveInt = Annotated[int, Field(ge=1, le=MAX_SIZE)]


class TokenTask(Record):
    """A task on T tokens in R^d whose every output depends on q of them.

    `free_sizes` are those of T and q that an evaluation may change (`T_test`, `q_test`), because samples of a trial are defined
    at other numbers too. Where a task does not show y, the q positions are to be found out.
    """

    letters: ClassVar[dict[str, str]] = {}
    """How the task's paper spells a field, where it is spelled otherwise here."""
    kind: str
    free_sizes: ClassVar[tuple[Literal["T", "q"], ...]] = ()
    shows_y: ClassVar[bool] = True
    T: PositiveInt
    """Number of tokens."""
    q: PositiveInt
    """Number of tokens that an output depends on."""
    d: PositiveInt
    """Length of a token's vector."""

    @property
    def prompt_size(self) -> int:
        """Numbers that a model of prompts reads at each position (`Examples.prompt`): a token, and whether it is asked for."""
        return self.d + 1

    @property
    def prompt_edges(self) -> tuple[int, ...]:
        """Where a new part of a prompt's vector begins."""
        return (self.d,)


class Stsq(TokenTask):
    """The task STS_q on T tokens in R^d."""

    kind: Literal["stsq"] = "stsq"
    free_sizes: ClassVar[tuple[Literal["T", "q"], ...]] = ("T", "q")

    @model_validator(mode="after")
    def _subset_fits(self) -> Self:
        if self.q > self.T:
            raise ValueError(f"q must be at most T; got q={self.q}, T={self.T}")
        return self
