"""The base of every frozen record: pydantic, frozen, strict, no unknown field; and how lists in files become its tuples."""

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """An immutable value with checked fields; an unknown field is an error, and "12" is not 12."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def as_tuple(value: object) -> object:
    """A YAML or JSON list as the tuple that a frozen record holds."""
    return tuple(value) if isinstance(value, list) else value
