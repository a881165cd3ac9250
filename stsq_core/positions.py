"""Positional codes (the configs): which code `e_t` marks token t, how often it is redrawn, and how a query names a subset.

`query: sum` asks with `e_y = sum_{t in y} e_t`. `query: dual` asks with the minimum-norm least-squares solution `w` of
`<e_t, w> = 1` for all `t in y`, the dual certificate of Sanford, Hsu, Telgarsky 2023 (arXiv:2306.02896). Only `dual` has a
sharp width threshold for q >= 3; for one-hot codes the two agree.
"""

from typing import Annotated, Literal

from pydantic import Field

from stsq_core.records import Record
from stsq_core.task import PositiveInt

Query = Literal["sum", "dual"]
Redraw = Literal["never", "per_step", "per_sample"]


class OneHot(Record):
    """`e_t` is the t-th unit vector; `d_e = T` (Theorem 1 of arXiv:2406.06893), and may be left out."""

    kind: Literal["one_hot"] = "one_hot"
    d_e: PositiveInt
    redraw: Literal["never"] = "never"
    query: Query = "dual"


class RandomSign(Record):
    """`e_t` uniform on `{-1/sqrt(d_e), +1/sqrt(d_e)}^d_e`: near-orthogonal codes."""

    kind: Literal["random_sign"] = "random_sign"
    d_e: PositiveInt
    redraw: Redraw = "per_step"
    query: Query = "dual"


Positions = Annotated[OneHot | RandomSign, Field(discriminator="kind")]
