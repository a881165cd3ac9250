"""What a sweep file says of its laws: which cells are held out of the fits, to be predicted by them."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from stsq_core.configs import Record, TrialConfig, shown
from sweeps.schema.errors import FieldError, Path, PlacedError, listed
from sweeps.schema.fields import fields_of, free_fields, known_leaves, unknown_field

Condition = dict[str, Any]
"""Dotted fields with a value, or a list of values, each."""

_CONDITION_SCHEMA: dict[str, Any] = {"type": "object", "minProperties": 1}


def _as_conditions(value: object) -> object:
    """One condition, a list of them, or nothing."""
    if value is None:
        return ()
    return (value,) if isinstance(value, Mapping) else tuple(value) if isinstance(value, list) else value


class LawSettings(Record):
    """Cells that meet one of the conditions are measured like all others, left out of every fit of a law, and predicted by it.

    `held_out: {task.T: 256}` is one condition; a list of conditions holds out the cells that meet any of them.
    """

    held_out: Annotated[
        tuple[Condition, ...],
        BeforeValidator(_as_conditions),
        WithJsonSchema({"anyOf": [_CONDITION_SCHEMA, {"type": "array", "items": _CONDITION_SCHEMA}, {"type": "null"}]}),
        Field(description="Dotted fields and their values: {task.T: 256}, or a list of such conditions."),
    ] = ()

    @model_validator(mode="after")
    def _fields_distinguish_cells(self) -> Self:
        for place, condition in enumerate(self.held_out):
            where = ("held_out", place) if len(self.held_out) > 1 else ("held_out",)
            if not condition:
                raise FieldError(where, "a condition is empty and would hold out every cell; give a field, as in {task.T: 256}")
            for name in condition:
                if reason := _no_field_of_cells(name):
                    raise FieldError((*where, name), reason)
        return self

    def holds_out(self, config: TrialConfig) -> bool:
        """Whether the cell of this trial is held out."""
        if not self.held_out:
            return False
        fields = fields_of(config)
        return any(all(_meets(fields.get(k), v) for k, v in condition.items()) for condition in self.held_out)

    def check(self, cells: Sequence[TrialConfig]) -> None:
        """Refuse conditions that no cell meets, and such that leave no cell to fit a law to.

        Args:
            cells: a trial of each cell of the sweep.

        Raises:
            PlacedError: the path leads from the top of the sweep.
        """
        for place, condition in enumerate(self.held_out):
            where: Path = ("laws", "held_out", place) if len(self.held_out) > 1 else ("laws", "held_out")
            if not any(LawSettings(held_out=(condition,)).holds_out(config) for config in cells):
                name = next((name for name in condition if not _values(name, condition[name], cells)), next(iter(condition)))
                raise PlacedError((*where, name), _unmet(name, condition, cells))
        if self.held_out and all(self.holds_out(config) for config in cells):
            raise PlacedError(("laws", "held_out"), "every cell is held out, so no law can be fitted: leave some cells in")

    def met_by(self, cells: Sequence[TrialConfig]) -> "LawSettings":
        """The settings without conditions that no cell meets; none at all where they would leave no cell."""
        met = tuple(c for c in self.held_out if any(LawSettings(held_out=(c,)).holds_out(config) for config in cells))
        kept = LawSettings(held_out=met)
        return LawSettings() if met and all(kept.holds_out(config) for config in cells) else kept


def _no_field_of_cells(name: str) -> str | None:
    """Why a field cannot distinguish cells; None where it can."""
    if name in free_fields() or name == "m":
        return f"{name} does not tell cells apart: a cell has all its widths, rates and seeds; hold out by task.T, say"
    if reason := unknown_field(name):
        return reason
    return None if name in known_leaves() else f"{name} holds several fields; name one of them, as in task.T"


def _meets(value: object, wanted: object) -> bool:
    return value in wanted if isinstance(wanted, list | tuple) else value == wanted


def _values(name: str, wanted: object, cells: Sequence[TrialConfig]) -> list[TrialConfig]:
    return [config for config in cells if _meets(fields_of(config).get(name), wanted)]


def _unmet(name: str, condition: Condition, cells: Sequence[TrialConfig]) -> str:
    present = dict.fromkeys(fields_of(config).get(name) for config in cells)
    problem = f"no cell of this sweep has {name} = {shown(condition[name])}"
    if _values(name, condition[name], cells):
        problem = f"no cell of this sweep meets {shown(condition)} as a whole"
    values = listed(value for value in present if value is not None)
    return f"{problem}; {name} is {values}: hold out one of those, or add the cell"
