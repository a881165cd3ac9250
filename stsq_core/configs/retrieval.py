"""Retrieval of q tokens at every position (the configs): qSTR, and simple-qSTR, whose positions all ask for the same tokens.

`x_1..x_N ~ N(0, I_d)` iid, `t_i` uniform in `[N]^q`, and the target at position i is `g(x_{t_i1}, .., x_{t_iq})`. The paper's N
is T here, so that one letter is the number of tokens of every task. A model reads at position i the token and the codes
`(w_i, w_{t_i1}, .., w_{t_iq})` of the positions, w uniform on the hypercube `{+-1/sqrt(d_e)}^{d_e}` and fixed for a trial.

Source: Mousavi-Hosseini, Sanford, Wu, Erdogdu 2025, arXiv:2503.11272: the model, the codes and `d_e = floor(5 ln N)`. That the
codes are fixed, and `codes: unit`, follow the authors' code; the directions of a link for q > 1 are ours.
"""

import math
from typing import Any, ClassVar, Literal, Self

from pydantic import model_validator

from stsq_core.configs.task import PositiveInt, TokenTask

Link = Literal["linear", "mean", "hermite2"]
"""With `s = (1/sqrt(q)) sum_j <v_j, x_{t_ij}>`, v_j orthonormal and drawn once a trial, so that `s ~ N(0, 1)` even where a
position is asked for twice: `linear` is s, `hermite2` is `(s^2 - 1) / sqrt(2)`. `mean` is the mean of the tokens, in R^d, as in
sparse token selection."""


class Retrieval(TokenTask):
    """What qSTR and simple-qSTR share. `codes: scaled` gives every code the norm `sqrt(d/q)`, `unit` the norm 1."""

    letters: ClassVar[dict[str, str]] = {"T": "N"}
    free_sizes: ClassVar[tuple[Literal["T", "q"], ...]] = ("T",)
    d_e: PositiveInt
    """Length of the codes of positions; floor(5 ln T) where it is left out."""
    link: Link = "linear"
    """What is asked of the q tokens: their sum along fixed directions, its second Hermite polynomial, or their mean."""
    codes: Literal["scaled", "unit"] = "scaled"
    """Norm of a code: sqrt(d/q) for scaled, 1 for unit."""

    @model_validator(mode="before")
    @classmethod
    def _codes_have_their_length(cls, data: Any) -> Any:
        """Fill in `d_e = floor(5 ln T)` where it is left out."""
        match data:
            case {"T": int(T)} if T > 1 and data.get("d_e") is None:
                return {**data, "d_e": math.floor(5 * math.log(T))}
        return data

    @model_validator(mode="after")
    def _directions_fit(self) -> Self:
        if self.link != "mean" and self.q > self.d:
            raise ValueError(
                f"link: {self.link} needs q orthonormal directions of R^d, so q at most d; got q={self.q}, d={self.d}: "
                "use link: mean, or a larger d"
            )
        return self

    @property
    def prompt_size(self) -> int:
        return self.d + (1 + self.q) * self.d_e

    @property
    def prompt_edges(self) -> tuple[int, ...]:
        return tuple(self.d + part * self.d_e for part in range(1 + self.q))

    @property
    def asks_once(self) -> bool:
        """Whether all positions ask for the same tokens."""
        return False

    @property
    def tests_once(self) -> bool:
        """Whether they do so in fresh data."""
        return self.asks_once


class Qstr(Retrieval):
    """qSTR: every position asks for q tokens of its own.

    `tested_on: simple` draws fresh data as simple-qSTR does while training stays as it is: what the published curves show.
    """

    kind: Literal["qstr"] = "qstr"
    tested_on: Literal["qstr", "simple"] = "qstr"
    """Whether fresh data ask at every position for tokens of its own, or at all for the same."""

    @property
    def tests_once(self) -> bool:
        return self.tested_on == "simple"


class SimpleQstr(Retrieval):
    """simple-qSTR: all positions ask for the same q tokens."""

    kind: Literal["simple_qstr"] = "simple_qstr"

    @property
    def asks_once(self) -> bool:
        return True
