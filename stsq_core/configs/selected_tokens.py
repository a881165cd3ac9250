"""Tasks beside sparse token selection (the configs): another statistic of the tokens of y, or tokens of another law.

Both show y, a uniform q-subset of [T], and ask for one vector in R^d. With their fields at their defaults, and `order: 1`, they
are sparse token selection.
"""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from stsq_core.configs.task import TokenTask
from stsq_core.configs.token_laws import GaussianTokens, TokenLaw

NonNegative = Annotated[float, Field(ge=0)]


class _SubsetTask(TokenTask):
    @model_validator(mode="after")
    def _subset_fits(self) -> Self:
        if self.q > self.T:
            raise ValueError(f"q must be at most T; got q={self.q}, T={self.T}")
        return self


class SelectedMean(_SubsetTask):
    """A weighted mean of the tokens of y, with noise on it: `(1/q) sum_{t in y} w_t x_t + xi`, w and the tokens' law known.

    The weights fall with the place as `w_t ~ e^{-decay (t-1)/(T-1)}`, with mean square 1: `decay: 0` is the plain mean. xi is
    Gaussian, `noise` times the standard deviation of what it is added to, anew for each sample, in training and evaluation
    alike. The relative loss is over that of the zero predictor, the best constant, noise included.
    """

    kind: Literal["selected_mean"] = "selected_mean"
    free_sizes: ClassVar[tuple[Literal["T", "q"], ...]] = ("T", "q")
    tokens: TokenLaw = GaussianTokens()
    """How the tokens are distributed."""
    decay: NonNegative = 0.0
    """How fast the weights of tokens fall with the place; 0 is the plain mean."""
    noise: NonNegative = 0.0
    """Noise on what is asked for, in its standard deviations."""


class Moment(_SubsetTask):
    """A moment of the Gaussian tokens of y, coordinate by coordinate, less its mean over all data.

    About `zero` it is the mean over y of the Hermite polynomial `He_order`: x, `x^2 - 1`, `x^3 - 3 x`. About the `mean` of the
    tokens of y it is their central moment, `(1/q) sum (x - mean)^order`: variance and third moment. The relative loss is over
    that of the zero predictor, which is the best constant.
    """

    kind: Literal["moment"] = "moment"
    free_sizes: ClassVar[tuple[Literal["T", "q"], ...]] = ("T",)
    order: Literal[1, 2, 3]
    """Which moment: 1, 2 or 3."""
    about: Literal["zero", "mean"] = "zero"
    """What the moment is about: zero (Hermite polynomials), or the mean of the tokens of y."""

    @model_validator(mode="after")
    def _varies(self) -> Self:
        if self.about == "mean" and not 2 <= self.order <= self.q:
            raise ValueError(
                f"the moment of order {self.order} about the mean of q={self.q} tokens is always zero; got order={self.order}, "
                f"about=mean, q={self.q}: use an order from 2 to q, or about: zero"
            )
        return self
