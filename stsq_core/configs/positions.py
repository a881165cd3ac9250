"""Positional codes (the configs): which code `e_t` marks token t, how often it is redrawn, and how a query names a subset.

`query: sum` asks with `e_y = sum_{t in y} e_t`. `query: dual` asks with the minimum-norm least-squares solution `w` of
`<e_t, w> = 1` for all `t in y`, the dual certificate of Sanford, Hsu, Telgarsky 2023 (arXiv:2306.02896). Only `dual` has a
sharp width threshold for q >= 3; for one-hot codes the two agree.

A code is one class here, a `Codes` in `stsq_core.programs.codes` that makes its rows, and a line in `Positions`; one of a
plugin names its `Codes` in a method `codes()`.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field

from stsq_core.configs.open_union import OpenUnion
from stsq_core.configs.record import Record
from stsq_core.configs.task import PositiveInt

Query = Literal["sum", "dual"]
Redraw = Literal["never", "per_step", "per_sample"]


def _given(redraw: object) -> object:
    if redraw in ("per_step", "per_sample"):
        raise ValueError(
            f"these codes are given or trained, so there is nothing to redraw; got redraw={redraw}: use redraw: never, "
            "or random_sign or gaussian codes"
        )
    return redraw


Given = Annotated[Literal["never"], BeforeValidator(_given)]
"""Of codes that are not drawn."""


class PositionalCode(Record):
    """Codes `e_1, e_2, ...` in R^d_e, and the query that they make up for a subset.

    With `is_bound_to_T` there are none beyond the T of the task, so that no longer sequence can be measured.
    """

    kind: str
    d_e: PositiveInt
    """Length of the codes."""
    redraw: Redraw = "per_step"
    """How often the codes are drawn anew."""
    query: Query = "dual"
    """How a subset is asked for: by the sum of its codes, or by the dual certificate."""
    is_bound_to_T: ClassVar[bool] = False


class OneHot(PositionalCode):
    """`e_t` is the t-th unit vector; `d_e = T` (Theorem 1 of arXiv:2406.06893), and may be left out."""

    kind: Literal["one_hot"] = "one_hot"
    redraw: Given = "never"
    """Nothing is drawn."""
    is_bound_to_T: ClassVar[bool] = True


class RandomSign(PositionalCode):
    """`e_t` uniform on `{-1/sqrt(d_e), +1/sqrt(d_e)}^d_e`: near-orthogonal codes."""

    kind: Literal["random_sign"] = "random_sign"


class Gaussian(PositionalCode):
    """`e_t` uniform on the unit sphere in R^d_e: a standard normal vector over its norm."""

    kind: Literal["gaussian"] = "gaussian"


class Sinusoidal(PositionalCode):
    """Sines and cosines of t at wavelengths from 2 pi to base * 2 pi (Vaswani et al. 2017, section 3.5), over their norm.

    Coordinate 2i is `sin(t / base^(2i/d_e))` and 2i + 1 its cosine, for t from 0; where d_e is odd the last one is a sine.
    Rotary codes are these (docs/theory.md).
    """

    kind: Literal["sinusoidal"] = "sinusoidal"
    redraw: Given = "never"
    """Nothing is drawn."""
    base: Annotated[float, Field(gt=1)] = 10_000.0
    """Ratio of the longest wavelength to the shortest."""


class Learned(PositionalCode):
    """E is trained with W and V, from the random-sign codes of the trial's seed; `objective: minibatch` only.

    With a `dual` query the gradient goes through the certificate, too (`stsq_core.programs.certificate`), which is steep where
    members are nearly dependent. There is no code beyond the T that were trained.
    """

    kind: Literal["learned"] = "learned"
    redraw: Given = "never"
    """Nothing is drawn anew: the codes are trained."""
    query: Query = "sum"
    """How a subset is asked for: by the sum of its codes, or by the dual certificate."""
    is_bound_to_T: ClassVar[bool] = True


Positions = Annotated[OneHot | RandomSign | Gaussian | Sinusoidal | Learned, Field(discriminator="kind")]
POSITIONS = OpenUnion(Positions)
