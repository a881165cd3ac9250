"""Fields that take a record of one of several kinds: ours, and those that plugins add while the process runs.

A record says which kind it is by its `kind`. Ours stand in a union; a plugin's are added when it is loaded
(`stsq_core.plugins`), and every field of that union takes them from then on, in Python, in sweep files and in the JSON schema.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Union, get_args

from pydantic import BaseModel, Field, TypeAdapter
from pydantic.annotated_handlers import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

_PLUGINS: dict[type[BaseModel], tuple[str, str]] = {}
"""The plugin that each added record comes from: its name and the digest of its text."""


class OpenUnion:
    """The kinds of record that a field takes, by their names.

    Stands in the annotation of the field: `task: Annotated[TokenTask, TASKS]`. With a `default` a mapping that names no kind
    is of that one.
    """

    def __init__(self, own: Any, *, default: str | None = None) -> None:
        self._own = {kind_of(record): record for record in records_in(own)}
        self._added: dict[str, type[BaseModel]] = {}
        self._default = default

    def __getitem__(self, kind: str) -> type[BaseModel]:
        """The record of a kind.

        Raises:
            KeyError: there is none.
        """
        return (self._own | self._added)[kind]

    def __contains__(self, kind: object) -> bool:
        return isinstance(kind, str) and (kind in self._own or kind in self._added)

    @property
    def records(self) -> tuple[type[BaseModel], ...]:
        """The record of every kind, ours first."""
        return (*self._own.values(), *self._added.values())

    @property
    def own(self) -> tuple[str, ...]:
        """Our kinds."""
        return tuple(self._own)

    @property
    def added(self) -> tuple[str, ...]:
        """The kinds of plugins."""
        return tuple(self._added)

    def add(self, record: type[BaseModel], plugin: str, digest: str) -> None:
        """Take a record of a new kind from a plugin; `stsq_core.plugins` checks that it is new."""
        self._added[kind_of(record)] = record
        _PLUGINS[record] = plugin, digest
        vars(self).pop("_adapter", None)

    def remove(self, kind: str) -> None:
        """Forget a kind that was added."""
        del _PLUGINS[self._added.pop(kind)]
        vars(self).pop("_adapter", None)

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        records = self.records
        if len(records) == 1:
            return TypeAdapter(records[0])
        union: Any = Annotated[Union[records], Field(discriminator="kind")]  # noqa: UP007  (made at run time)
        return TypeAdapter(union)

    def _validated(self, value: object) -> object:
        if self._default is not None and isinstance(value, Mapping) and "kind" not in value:
            value = {"kind": self._default, **value}
        return self._adapter.validate_python(value)

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._validated, serialization=core_schema.simple_ser_schema("any"))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(self._adapter.core_schema)


def plugin_of(record: type[BaseModel]) -> tuple[str, str] | None:
    """The name and the digest of the plugin that a record comes from; None for ours."""
    return _PLUGINS.get(record)


def kind_of(record: type[BaseModel]) -> str:
    """The kind of a record, the one word of its literal `kind`."""
    (kind,) = get_args(record.model_fields["kind"].annotation)
    return str(kind)


def records_in(annotation: Any) -> list[type[BaseModel]]:
    """The records that an annotation mentions: those of a union, of a tuple's items, of an `Annotated`."""
    if isinstance(annotation, type) and not get_args(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [record for argument in get_args(annotation) for record in records_in(argument)]


def records_of(record: type[BaseModel], name: str) -> list[type[BaseModel]]:
    """The records that a field takes."""
    field = record.model_fields[name]
    for mark in field.metadata:
        if isinstance(mark, OpenUnion):
            return list(mark.records)
    return records_in(field.annotation)
