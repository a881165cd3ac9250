"""Attention of other kinds than the transformer of sparse token selection (the configs): its scores, rank, heads and layers."""

from typing import Literal, Self

from pydantic import model_validator

from stsq_core.configs.architecture import CodedModel, check_scale
from stsq_core.configs.optimizer import PositiveFloat
from stsq_core.configs.positions import Learned
from stsq_core.configs.task import PositiveInt, TokenTask

Scores = Literal["softmax", "linear", "sigmoid", "top_q"]
"""How scores s become weights p. `softmax`: `e^s` over its sum. `linear`: s itself. `sigmoid`: `1 / (1 + e^-(s + b))` with a
trained b that starts at `-ln T` (Ramapuram et al. 2024, arXiv:2409.04431). `top_q`: the softmax of the q greatest, ties kept,
zero elsewhere; its gradient is that of the kept entries (what is kept is not differentiated)."""


class Attention(CodedModel):
    """Attention of other kinds: `f = sum_h V_h Z p_h`, the weights p_h from the scores `Z^T W_h z_query` as `scores` says.

    With `rank` r, `W_h = A_h B_h^T` for A and B of shape (d+d_e) x r. Of two `layers` the first updates all columns, those of Z
    and the query, `z <- z + sum_h U_h Z p_h(z)`, with keys Z, and the second answers. With the fields at their defaults it is
    `Transformer`.

    A start from zero never moves where the gradient of every array carries another as a factor (`linear`, `rank`), and leaves
    heads equal for ever: these need `init: gaussian`.
    """

    kind: Literal["attention"] = "attention"
    scores: Scores = "softmax"
    """How scores become weights."""
    rank: PositiveInt | None = None
    """Rank of each W; full where it is left out."""
    heads: PositiveInt = 1
    """Number of heads."""
    layers: Literal[1, 2] = 1
    """Number of layers."""
    init: Literal["zero", "gaussian"] = "zero"
    """Start of the trained arrays: zero, or normal."""
    init_scale: PositiveFloat = 0.02
    """Standard deviation of a normal start."""

    @model_validator(mode="after")
    def _start_moves(self) -> Self:
        stuck = {
            f"scores={self.scores}": self.scores == "linear",
            f"rank={self.rank}": self.rank is not None,
            f"heads={self.heads}": self.heads > 1,
        }
        if self.init == "zero" and (found := [name for name, is_stuck in stuck.items() if is_stuck]):
            raise ValueError(f"from zero {found[0]} never learns, or keeps its heads equal; got init=zero: use init: gaussian")
        check_scale(self, self.init, self.init_scale)
        return self

    def num_parameters(self, task: TokenTask) -> int:
        m = self.width_on(task)
        W = m * m if self.rank is None else 2 * m * self.rank
        learned = task.T * self.size * isinstance(self.positions, Learned)
        return self.heads * (self.layers * W + (self.layers - 1) * m * m + task.d * m) + (self.scores == "sigmoid") + learned

    def multiplications(self, task: TokenTask) -> float:
        columns = 1 + (task.T + 1) * (self.layers - 1)
        return float(columns * (self.num_parameters(task) + 2 * self.heads * task.T * self.width_on(task)))

    def activations(self, task: TokenTask) -> float:
        m, T, columns = self.width_on(task), task.T, 1 + (task.T + 1) * (self.layers - 1)
        return float(columns * self.heads * (4 * T + 3 * m) + (self.layers - 1) * 2 * m * T)
