"""Drawings (the configs): the figures by which a sweep is shown instead of its width thresholds.

Each has `panels` side by side, one a value of that field, and a line for the values of the fields in `by`: the mean over seeds
with its interval.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from stsq_core.configs import as_tuple
from sweeps.schema.claims import Selection, Slug, Texts, Words
from sweeps.schema.errors import FieldError
from sweeps.schema.fields import unknown_field

WIDTH = "m"
"""The one axis that is not a field: the width."""


class _Drawing(Selection):
    name: Slug
    """A name for the figure's files."""
    title: Words
    """The figure's title."""
    by: Annotated[tuple[str, ...], BeforeValidator(as_tuple)] = ()
    """Fields whose values have a line each."""
    panels: str | None = None
    """The field whose values have a panel each."""

    @model_validator(mode="after")
    def _axes_exist(self) -> Self:
        for where, name in [("by", name) for name in self.by] + [("panels", self.panels)]:
            if name is not None and (reason := unknown_field(name)):
                raise FieldError((where,), reason)
        return self


class Curves(_Drawing):
    """Metrics against the step; `inverse` draws one over the relative loss. `theory` overlays the exact recursion for one-hot
    codes, or the attention reference."""

    kind: Literal["curves"] = "curves"
    metrics: Texts
    """The metrics to draw."""
    inverse: bool = False
    """Whether one over the relative loss is drawn."""
    log: bool = False
    """Whether the axis of the metric is logarithmic."""
    theory: Annotated[tuple[Literal["one_hot_descent", "attention_reference"], ...], BeforeValidator(as_tuple)] = ()
    """Exact curves to overlay."""


class Profile(_Drawing):
    """A final metric against `T_test`, `q_test`, the width `m` or a field; `theory` overlays the exact floor and 2Td."""

    kind: Literal["profile"] = "profile"
    metric: str = "loss"
    """The final metric to draw."""
    against: str
    """What it is drawn against: T_test, q_test, m or a field."""
    log: bool = True
    """Whether the axes of the metric and of a width are logarithmic."""
    theory: Annotated[tuple[Literal["fcn_floor"], ...], BeforeValidator(as_tuple)] = ()
    """Exact lines to overlay."""

    @model_validator(mode="after")
    def _against_something(self) -> Self:
        if self.against not in ("T_test", "q_test", WIDTH) and (reason := unknown_field(self.against)):
            raise FieldError(("against",), f"{reason}; or T_test, q_test, m")
        return self


class Matrices(_Drawing):
    """Heat maps of kept arrays of one seed of each selected cell, at initialisation and after training."""

    kind: Literal["matrices"] = "matrices"
    arrays: Texts = ("W", "V")
    """The kept arrays to draw."""


Drawing = Annotated[Curves | Profile | Matrices, Field(discriminator="kind")]


def keeps_weights(drawings: tuple[Any, ...]) -> bool:
    """Whether a drawing needs the trained arrays."""
    return any(isinstance(drawing, Matrices) for drawing in drawings)
