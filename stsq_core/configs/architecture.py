"""The two architectures whose widths are compared (the configs).

Source: arXiv:2406.06893. Theorem 1 gives the transformer width `m = d + d_e`; the lower bound for a fully connected net is on
the width of its first layer.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from stsq_core.configs.optimizer import PositiveFloat
from stsq_core.configs.positions import POSITIONS, Learned, OneHot, PositionalCode
from stsq_core.configs.record import Record, with_number
from stsq_core.configs.task import PositiveInt, TokenTask

MAX_DEPTH = 1000
"""Layers of a net: costs are sums over them."""


class Architecture(Record):
    """A model on a task; `size_field` is the number in it that the width m follows, as a dotted name.

    `free_sizes` are those of T and q of which a trained model reads other numbers than it was made for (`T_test`, `q_test`).
    One that `needs_y` asks with the codes of y, so the task must show it.

    Without an override a model's width is that number, and its costs are those of dense layers of that width on all tokens.
    """

    kind: str
    size_field: ClassVar[str] = "width"
    free_sizes: ClassVar[tuple[Literal["T", "q"], ...]] = ()
    needs_y: ClassVar[bool] = False
    width_law: ClassVar[Literal["attention", "td_power"] | None] = None
    """How theory says that the width threshold grows: as `d + b q ln T`, or as a power of T d; None where it says nothing."""

    @classmethod
    def completed(cls, model: Mapping[str, Any], task: Mapping[str, Any]) -> Mapping[str, Any]:
        """The data of a model with what follows from that of the task, where it is left out: `d_e = T` of one-hot codes."""
        match model:
            case {"positions": {"kind": "one_hot", **rest}} if rest.get("d_e") is None:
                return {**model, "positions": {"kind": "one_hot", **rest, "d_e": task["T"]}}
        return model

    def width_on(self, task: TokenTask) -> int:
        """The width m that a threshold is about."""
        return self.size + self.offset(task)

    @property
    def size(self) -> int:
        """The number at `size_field`."""
        value: object = self
        for name in self.size_field.split("."):
            value = getattr(value, name)
        assert isinstance(value, int)
        return value

    @property
    def is_sized_by_task(self) -> bool:
        """Whether the task leaves the model one size only, so that there is no width to choose."""
        return False

    @classmethod
    def is_sized_in(cls, model: Mapping[str, Any]) -> bool:
        """`is_sized_by_task` for the data of a model, before it is validated."""
        return False

    @classmethod
    def offset_in(cls, task: Mapping[str, Any]) -> int:
        """`offset` for the data of a task, before it is validated; 0 where the data are wrong."""
        return 0

    def of_size(self, size: int) -> Self:
        """The same model with another number at `size_field`; the number is that of a valid model."""
        return with_number(self, self.size_field, size)

    def offset(self, task: TokenTask) -> int:
        """The width m less `size`."""
        return 0

    def block_edges(self, task: TokenTask, array: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Before which rows, and before which columns, a new block of a kept array begins, for drawings."""
        return (), ()

    def num_parameters(self, task: TokenTask) -> int:
        """Trained numbers."""
        return self.size * (task.T * task.d + task.d)

    def multiplications(self, task: TokenTask) -> float:
        """Multiplications of matrix products in the forward pass of one sample."""
        return float(self.num_parameters(task))

    def activations(self, task: TokenTask) -> float:
        """Numbers that a step holds for one sample beside its tokens."""
        return float(task.T * self.size)


def check_scale(model: Architecture, init: str, init_scale: float) -> None:
    """Refuse an initial scale that a start from zero does not use.

    Raises:
        ValueError: with what to do.
    """
    if init == "zero" and init_scale != (default := type(model).model_fields["init_scale"].default):
        raise ValueError(
            f"init_scale is that of init: gaussian; got init_scale={init_scale}, init=zero: "
            f"use init: gaussian, or leave init_scale out (at {default})"
        )


class CodedModel(Architecture):
    """A model of width `m = d + d_e` that asks for the tokens of y by their positional codes of length d_e."""

    needs_y: ClassVar[bool] = True
    size_field: ClassVar[str] = "positions.d_e"
    free_sizes: ClassVar[tuple[Literal["T", "q"], ...]] = ("T", "q")
    positions: Annotated[PositionalCode, POSITIONS]
    """The positional codes and the query."""

    @field_validator("positions", mode="before")
    @classmethod
    def _rotary_is_sinusoidal(cls, positions: Any) -> Any:
        if isinstance(positions, Mapping) and positions.get("kind") == "rotary" and "rotary" not in POSITIONS:
            raise ValueError(
                "rotary codes R_t e_0 are sinusoidal ones in another order of coordinates, and train alike (docs/theory.md); "
                "got kind=rotary: use kind: sinusoidal, whose wavelengths are set by base"
            )
        return positions

    @property
    def is_sized_by_task(self) -> bool:
        """One-hot codes have `d_e = T`."""
        return isinstance(self.positions, OneHot)

    @classmethod
    def is_sized_in(cls, model: Mapping[str, Any]) -> bool:
        match model:
            case {"positions": {"kind": "one_hot"}}:
                return True
        return False

    def offset(self, task: TokenTask) -> int:
        return task.d

    @classmethod
    def offset_in(cls, task: Mapping[str, Any]) -> int:
        match task:
            case {"d": int(d)} if d >= 1:
                return d
        return 0


class Transformer(CodedModel):
    """One layer, one head: `f(X, y) = V Z softmax(Z^T W z_query)` with `Z = [X; E]` and `z_query = [x_query; e_y]`.

    `W` is (d+d_e) x (d+d_e) and `V` is d x (d+d_e), both zero at the start, or with entries `N(0, init_scale^2)`. `x_query` is
    zero (Theorem 1), or `N(0, I_d)` anew for every sample. With `attend_query` Z has z_query as one more column.
    """

    kind: Literal["transformer"] = "transformer"
    width_law: ClassVar[Literal["attention", "td_power"] | None] = "attention"
    init: Literal["zero", "gaussian"] = "zero"
    """Start of W and V: zero, or normal."""
    init_scale: PositiveFloat = 0.02
    """Standard deviation of a normal start."""
    x_query: Literal["zero", "gaussian"] = "zero"
    """The query's token: zero, or normal and anew for every sample."""
    attend_query: bool = False
    """Whether the query is attended to, as one more token."""

    @model_validator(mode="after")
    def _scale_is_used(self) -> Self:
        check_scale(self, self.init, self.init_scale)
        return self

    def block_edges(self, task: TokenTask, array: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return ((task.d,) if array == "W" else ()), (task.d,)

    def num_parameters(self, task: TokenTask) -> int:
        m = self.width_on(task)
        return m * m + task.d * m + task.T * self.size * isinstance(self.positions, Learned)

    def multiplications(self, task: TokenTask) -> float:
        return float(self.num_parameters(task) + 2 * task.T * self.width_on(task))

    def activations(self, task: TokenTask) -> float:
        return float(4 * task.T + 5 * self.width_on(task))

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


class Fcn(Architecture):
    """A fully connected net: `width` units on vec(X), then `depth - 1` layers of `tail_width`, then a linear map to R^d.

    The subset enters as a multi-hot vector of length T: at the first layer, at the second, or at both. However it enters, the
    net sees X through a linear map of rank `width` only, so the exact floor of `theory.fcn_floor` holds.
    """

    kind: Literal["fcn"] = "fcn"
    width_law: ClassVar[Literal["attention", "td_power"] | None] = "td_power"
    free_sizes: ClassVar[tuple[Literal["T", "q"], ...]] = ("q",)
    width: PositiveInt
    """Units of the first layer."""
    depth: Annotated[int, Field(ge=2, le=MAX_DEPTH)] = 2
    """Number of hidden layers."""
    tail_width: PositiveInt = 128
    """Units of each hidden layer after the first."""
    y_enters: Literal["first", "second", "both"] = "both"
    """The layers at which the subset enters."""
    activation: Activation = "relu"
    """Function of the units."""

    def num_parameters(self, task: TokenTask) -> int:
        units = (task.T * (task.d + 1), self.width, *[self.tail_width] * (self.depth - 1), task.d)
        return sum((inputs + 1) * outputs for inputs, outputs in pairwise(units))

    def activations(self, task: TokenTask) -> float:
        return float(3 * (self.width + self.tail_width * (self.depth - 1)) + 2 * task.T * (task.d + 1))
