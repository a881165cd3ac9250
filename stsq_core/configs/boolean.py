"""Sparse Boolean functions (the config): the value of s hidden bits of T, s being `q` here as in every task.

A bit is +1 (true) or -1; the hidden positions are a uniform s-subset of [T], drawn once a trial. The label is +1 or -1.

Source: Edelman, Goel, Kakade, Zhang 2022, arXiv:2110.10090: AND and parity of s hidden bits, with finite training sets. The
distribution of the bits there is not known to us; both below are ours.
"""

from typing import ClassVar, Literal, Self, assert_never

from pydantic import model_validator

from stsq_core.configs.task import TokenTask

COPIED = 0.5
"""With structured inputs, the probability that a bit repeats the one before it."""


class SparseBoolean(TokenTask):
    """AND, OR, majority or parity of q hidden bits of T.

    `inputs: iid` draws bits independently; `structured` lets each bit repeat its left neighbour with probability 1/2 and draws
    it anew otherwise: neighbours are correlated, and hidden bits must be found among them. With `balanced` a new
    bit is true with the probability at which the function of independent bits is true half of the time: `2^(-1/q)` for AND,
    `1 - 2^(-1/q)` for OR. Without it, and for majority and parity, it is 1/2.
    """

    letters: ClassVar[dict[str, str]] = {"q": "s"}
    shows_y: ClassVar[bool] = False
    kind: Literal["sparse_boolean"] = "sparse_boolean"
    d: Literal[1] = 1
    """Numbers in a token: one, the bit."""
    function: Literal["and", "or", "majority", "parity"]
    """The function of the hidden bits."""
    inputs: Literal["iid", "structured"] = "iid"
    """Whether bits are independent, or each repeats its left neighbour with probability 1/2."""
    balanced: bool = True
    """Whether AND and OR of independent bits are true half of the time."""

    @model_validator(mode="after")
    def _function_is_defined(self) -> Self:
        if self.q > self.T:
            raise ValueError(f"q must be at most T; got q={self.q}, T={self.T}")
        if self.function == "majority" and self.q % 2 == 0:
            raise ValueError(f"a majority of an even number of bits may be a tie; got q={self.q}: use an odd q")
        return self

    @property
    def prompt_size(self) -> int:
        return 1

    @property
    def truth_probability(self) -> float:
        """The probability that a newly drawn bit is +1."""
        match self.function:
            case "and" if self.balanced:
                return float(0.5 ** (1 / self.q))
            case "or" if self.balanced:
                return float(1 - 0.5 ** (1 / self.q))
            case "and" | "or" | "majority" | "parity":
                return 0.5
            case _:
                assert_never(self.function)
