"""The two architectures whose widths are compared (the configs).

Source: arXiv:2406.06893. Theorem 1 gives the transformer width `m = d + d_e`; the lower bound for a fully connected net is on
the width of its first layer.
"""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from stsq_core.optimizer import PositiveFloat
from stsq_core.positions import Learned, Positions
from stsq_core.records import Record
from stsq_core.task import PositiveInt


class Transformer(Record):
    """One layer, one head: `f(X, y) = V Z softmax(Z^T W z_query)` with `Z = [X; E]` and `z_query = [x_query; e_y]`.

    `W` is (d+d_e) x (d+d_e) and `V` is d x (d+d_e), both zero at the start, or with entries `N(0, init_scale^2)`. `x_query` is
    zero (Theorem 1), or `N(0, I_d)` anew for every sample. With `attend_query` Z has z_query as one more column.
    """

    kind: Literal["transformer"] = "transformer"
    positions: Positions
    init: Literal["zero", "gaussian"] = "zero"
    init_scale: PositiveFloat = 0.02
    x_query: Literal["zero", "gaussian"] = "zero"
    attend_query: bool = False

    @model_validator(mode="after")
    def _scale_is_used(self) -> Self:
        if self.init == "zero" and self.init_scale != (default := type(self).model_fields["init_scale"].default):
            raise ValueError(
                f"init_scale is that of init: gaussian; got init_scale={self.init_scale}, init=zero: "
                f"use init: gaussian, or leave init_scale out (at {default})"
            )
        return self

    @property
    def extensions(self) -> tuple[str, ...]:
        """What the model has beyond that of Theorem 1 (zero start, zero x_query, no attention to the query, given codes)."""
        found = {
            "init=gaussian": self.init == "gaussian",
            "x_query=gaussian": self.x_query == "gaussian",
            "attend_query=true": self.attend_query,
            "positions.kind=learned": isinstance(self.positions, Learned),
        }
        return tuple(name for name, has in found.items() if has)


Activation = Literal["relu", "tanh", "gelu"]
"""Of the units of a fully connected net; `gelu` is the exact `z Phi(z)`, Phi the normal distribution function."""


class Fcn(Record):
    """A fully connected net: `width` units on vec(X), then `depth - 1` layers of `tail_width`, then a linear map to R^d.

    The subset enters as a multi-hot vector of length T: at the first layer, at the second, or at both. However it enters, the
    net sees X through a linear map of rank `width` only, so the exact floor of `theory.fcn_floor` holds.
    """

    kind: Literal["fcn"] = "fcn"
    width: PositiveInt
    depth: Annotated[int, Field(ge=2)] = 2
    tail_width: PositiveInt = 128
    y_enters: Literal["first", "second", "both"] = "both"
    activation: Activation = "relu"


Model = Annotated[Transformer | Fcn, Field(discriminator="kind")]
