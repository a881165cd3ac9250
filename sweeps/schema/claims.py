"""Claims (the configs): statements about a sweep's numbers with the rule by which they hold.

A claim looks at the trials that `where` selects (dotted fields and their values), cell by cell, and ends as `holds`,
`does not hold` or `not enough data` (sweeps.findings.claim_verdicts).
"""

import re
from typing import Annotated, Any, ClassVar, Literal, Self, Union

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from stsq_core.configs import Record, as_tuple, shown
from sweeps.schema.errors import FieldError
from sweeps.schema.fields import unknown_field


def _slug(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", name):
        raise ValueError(
            f"a name begins with a letter or digit and holds letters, digits, '_', '.' and '-' only; got {shown(name)}"
        )
    return name


def _words(text: str) -> str:
    if not text.strip():
        raise ValueError("this must say something in words; got nothing")
    return text


Slug = Annotated[str, Field(max_length=64), AfterValidator(_slug)]
Words = Annotated[str, AfterValidator(_words)]

Fraction = Annotated[float, Field(gt=0, lt=1)]
Positive = Annotated[float, Field(gt=0)]
Texts = Annotated[tuple[str, ...], BeforeValidator(as_tuple)]


TARGET = "target_loss"
"""What tells the thresholds of several targets apart, beside the fields of their cells."""


class Selection(Record):
    """Trials chosen by their fields: `where` maps a dotted field to a value, or to a list of values."""

    where: dict[str, Any] = Field(default_factory=dict)
    """Dotted fields and the value, or the values, that selected trials have."""
    further_fields: ClassVar[frozenset[str]] = frozenset()

    @model_validator(mode="after")
    def _fields_exist(self) -> Self:
        for name in self.where:
            if name not in self.further_fields and (reason := unknown_field(name)):
                raise FieldError(("where", name), reason)
        return self


class _Claim(Selection):
    name: Slug
    """A name for the claim."""
    says: Words
    """The claim in words."""


def _check_ignored(names: Texts) -> None:
    """Refuse a name that is no field, which would let nothing differ."""
    for place, name in enumerate(names):
        if name != TARGET and (reason := unknown_field(name)):
            raise FieldError(("ignoring", place), reason)


OneSided = Union["Bound", "Sharpness", "ThresholdGrowth", "ThresholdRatio"]


def _one_side(claim: OneSided) -> OneSided:
    if (claim.at_least is None) == (claim.at_most is None):
        raise ValueError(f"claim {claim.name}: give at_least or at_most, one of the two")
    return claim


class Bound(_Claim):
    """The mean over seeds of a final metric is at least, or at most, a number; `step0` divides by its value before training."""

    kind: Literal["bound"] = "bound"
    metric: str
    """The final metric."""
    at_least: float | None = None
    """The bound from below."""
    at_most: float | None = None
    """The bound from above."""
    over_step0: bool = False
    """Whether the metric is divided by its value before training."""

    _one_side = model_validator(mode="after")(_one_side)


class Compare(_Claim):
    """A final metric is smaller where `field` has the value `smaller` than where it has the value `than`, all else equal but
    the fields or branches in `ignoring`."""

    kind: Literal["compare"] = "compare"
    metrics: Texts
    """The final metrics, each of which must be smaller."""
    field: str
    """The field whose values are compared."""
    smaller: Any
    """Its value where the metrics are smaller."""
    than: Any
    """Its value where they are greater."""
    ignoring: Texts = ()
    """Fields or branches that may differ, too."""

    @model_validator(mode="after")
    def _field_exists(self) -> Self:
        if reason := unknown_field(self.field):
            raise FieldError(("field",), reason)
        _check_ignored(self.ignoring)
        return self


class Slope(_Claim):
    """1/L against step has the slope of the exact recursion for one-hot codes over the last half, within a fraction."""

    kind: Literal["slope"] = "slope"
    within: Fraction = 0.03
    """The largest relative deviation of the slope."""


class Exponent(_Claim):
    """L falls as `(t - t_0)^-p` with p at least, or at most, a number, while L lies between `below` and a multiple of the
    attention reference; 1/L is linear in the step t where p = 1."""

    kind: Literal["exponent"] = "exponent"
    below: Fraction = 0.5
    """The loss from which on the exponent is fitted."""
    above_reference: Positive = 2.0
    """It is fitted down to this multiple of the attention reference."""
    at_least: float | None = None
    """The bound on the exponent from below."""
    at_most: float | None = None
    """The bound on the exponent from above."""

    @model_validator(mode="after")
    def _a_rule(self) -> Self:
        low, high = self.at_least, self.at_most
        if (low is None and high is None) or (low is not None and high is not None and low >= high):
            raise ValueError(
                f"claim {self.name}: give at_least, at_most, or both with at_least below at_most; got {low} and {high}"
            )
        return self


class Floor(_Claim):
    """No net measures below the exact floor by more than 3 standard errors; up to a width it comes within a fraction of it."""

    kind: Literal["floor"] = "floor"
    near_up_to: int = 0
    """The width up to which nets come near the floor."""
    within: Fraction = 0.06
    """How near, as a share of the floor."""


class Sharpness(_Claim):
    """The width that reaches the loss `reaches`, over the width that reaches `begins`, is at least or at most a number."""

    kind: Literal["sharpness"] = "sharpness"
    begins: Fraction = 0.5
    """The loss that begins the transition."""
    reaches: Fraction = 0.05
    """The loss that ends it."""
    at_least: float | None = None
    """The bound on the ratio of widths from below."""
    at_most: float | None = None
    """The bound on the ratio of widths from above."""

    _one_side = model_validator(mode="after")(_one_side)

    @model_validator(mode="after")
    def _reaches_below_begins(self) -> Self:
        if self.reaches >= self.begins:
            raise ValueError(f"claim {self.name}: reaches must be below begins; got {self.reaches} and {self.begins}")
        return self


class _ThresholdClaim(_Claim):
    """`where` may name the targets of the thresholds, too."""

    further_fields = frozenset({TARGET})


class ThresholdOrder(_ThresholdClaim):
    """The thresholds of cells at the same T, q and d grow in the given order of the values of `by`, and no intervals meet."""

    kind: Literal["threshold_order"] = "threshold_order"
    by: str
    """The field that tells the thresholds apart."""
    order: Annotated[tuple[Any, ...], BeforeValidator(as_tuple)]
    """Its values, from the least threshold to the greatest."""

    @model_validator(mode="after")
    def _an_order_of_a_field(self) -> Self:
        if self.by != TARGET and (reason := unknown_field(self.by)):
            raise FieldError(("by",), reason)
        if len(self.order) < 2:
            raise FieldError(("order",), f"an order needs two values or more; got {list(self.order)}")
        return self


class ThresholdRatio(_ThresholdClaim):
    """The threshold where `by` has the value `of`, over that where it has the value `over`, is at most or at least a number.

    Compared are cells whose tasks, models and kinds of optimizer are equal but for `by` and the fields or branches in
    `ignoring`, whatever their rates and training.
    """

    kind: Literal["threshold_ratio"] = "threshold_ratio"
    by: str
    """The field that tells the thresholds apart."""
    of: Any
    """Its value above the line."""
    over: Any
    """Its value below the line."""
    ignoring: Texts = ()
    """Fields or branches that may differ, too."""
    at_least: float | None = None
    """The bound on the ratio from below."""
    at_most: float | None = None
    """The bound on the ratio from above."""

    _one_side = model_validator(mode="after")(_one_side)

    @model_validator(mode="after")
    def _field_exists(self) -> Self:
        if self.by != TARGET and (reason := unknown_field(self.by)):
            raise FieldError(("by",), reason)
        if self.of == self.over:
            raise FieldError(("over",), f"a ratio compares two values of {self.by}; got {shown(self.of)} twice")
        _check_ignored(self.ignoring)
        return self


class ThresholdNear(_ThresholdClaim):
    """Each threshold, with its whole interval, lies within a factor of a value; `source` says whose value it is."""

    kind: Literal["threshold_near"] = "threshold_near"
    value: Positive
    """What the thresholds are near."""
    source: Words
    """Whose value it is."""
    factor: Annotated[float, Field(gt=1)] = 2.0
    """How near, as a factor."""


class ThresholdGrowth(_ThresholdClaim):
    """The rate at which thresholds grow with a letter of the task, in a law fitted to them, is at most or at least a number.

    The laws: `log_power` is c (ln L)^gamma, `power` is c L^gamma, and `log` is a + b ln L; the rate is gamma, of `log` b.
    """

    kind: Literal["threshold_growth"] = "threshold_growth"
    letter: Literal["T", "q", "d"] = "T"
    """The letter with which thresholds grow."""
    law: Literal["log_power", "power", "log"] = "log_power"
    """The law that is fitted."""
    at_least: float | None = None
    """The bound on the rate from below."""
    at_most: float | None = None
    """The bound on the rate from above."""

    _one_side = model_validator(mode="after")(_one_side)


ThresholdClaim = ThresholdOrder | ThresholdRatio | ThresholdNear | ThresholdGrowth
"""Claims about thresholds, not about single trials."""

Claim = Annotated[
    Bound | Compare | Slope | Exponent | Floor | Sharpness | ThresholdClaim,
    Field(discriminator="kind"),
]
