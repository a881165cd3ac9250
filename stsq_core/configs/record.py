"""The base of every frozen record: pydantic, frozen, strict, no unknown field; how lists in files become its tuples."""

from typing import TypeVar

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """An immutable value with checked fields; an unknown field is an error, and "12" is not 12."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def as_tuple(value: object) -> object:
    """A YAML or JSON list as the tuple that a frozen record holds."""
    return tuple(value) if isinstance(value, list) else value


RecordT = TypeVar("RecordT", bound=Record)


def with_number(record: RecordT, name: str, number: int) -> RecordT:
    """A copy of a record with the number at a dotted name changed; it is that of a valid record."""
    head, _, rest = name.partition(".")
    return record.model_copy(update={head: with_number(getattr(record, head), rest, number) if rest else number})
