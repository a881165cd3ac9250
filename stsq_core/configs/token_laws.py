"""How tokens are distributed (the configs). Every coordinate of every token has mean 0 and variance 1 under each law."""

from typing import Annotated, Literal

from pydantic import Field

from stsq_core.configs.record import Record


class GaussianTokens(Record):
    """`x_t ~ N(0, I_d)`, independent: the law of sparse token selection."""

    kind: Literal["gaussian"] = "gaussian"


class StudentTokens(Record):
    """Independent coordinates of Student's t with `freedom` degrees of freedom, put to variance 1.

    More than 4, so that a squared error has a variance and its mean a standard error.
    """

    kind: Literal["student_t"] = "student_t"
    freedom: Annotated[float, Field(gt=4)]
    """Degrees of freedom, more than 4."""


class LaplaceTokens(Record):
    """Independent coordinates with density `e^{-sqrt(2) |x|} / sqrt(2)`."""

    kind: Literal["laplace"] = "laplace"


class CorrelatedTokens(Record):
    """Gaussian tokens that share a part: `x_t = sqrt(rho) g_0 + sqrt(1 - rho) g_t`, so that any two have correlation rho."""

    kind: Literal["correlated"] = "correlated"
    rho: Annotated[float, Field(gt=0, lt=1)]
    """Correlation of any two tokens, coordinate by coordinate."""


TokenLaw = Annotated[GaussianTokens | StudentTokens | LaplaceTokens | CorrelatedTokens, Field(discriminator="kind")]
