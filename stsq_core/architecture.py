"""The two architectures whose widths are compared (the configs).

Source: arXiv:2406.06893. Theorem 1 gives the transformer width `m = d + d_e`; the lower bound for a fully connected net is on
the width of its first layer.
"""

from typing import Annotated, Literal

from pydantic import Field

from stsq_core.positions import Positions
from stsq_core.records import Record
from stsq_core.task import PositiveInt


class Transformer(Record):
    """One layer, one head: `f(X, y) = V Z softmax(Z^T W z_query)` with `Z = [X; E]` and `z_query = [0; e_y]`.

    `W` is (d+d_e) x (d+d_e) and `V` is d x (d+d_e), both zero at the start.
    """

    kind: Literal["transformer"] = "transformer"
    positions: Positions
    init: Literal["zero"] = "zero"


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
