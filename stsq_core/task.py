"""Sparse token selection: average a random q-subset of T tokens in R^d.

Tokens `x_1..x_T ~ N(0, I_d)` iid; `y` a uniform q-subset of `[T]`; the target is `(1/q) sum_{t in y} x_t`.

Source: Wang, Wei, Hsu, Lee 2024, arXiv:2406.06893, section 2.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from stsq_core.records import Record

PositiveInt = Annotated[int, Field(ge=1)]


class Stsq(Record):
    """The task STS_q on T tokens in R^d."""

    kind: Literal["stsq"] = "stsq"
    T: PositiveInt
    q: PositiveInt
    d: PositiveInt

    @model_validator(mode="after")
    def _subset_fits(self) -> Self:
        if self.q > self.T:
            raise ValueError(f"q must be at most T; got q={self.q}, T={self.T}")
        return self
