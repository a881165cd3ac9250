"""The base of every frozen record: pydantic, frozen, strict, no unknown field."""

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """An immutable value with checked fields; an unknown field is an error, and "12" is not 12."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
