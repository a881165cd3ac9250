"""The tasks and models that a plugin's module defines, refused with file and line where they cannot work.

What can be seen without a sample is checked here; `stsq_core.plugin_trial` tries them.
"""

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, get_args

from stsq_core.configs import MODELS, TASKS, Architecture, TokenTask, UserError, kind_of, records_of

WORD = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True)
class Records:
    """What a plugin defines."""

    tasks: tuple[type[TokenTask], ...]
    models: tuple[type[Architecture], ...]

    @property
    def all(self) -> tuple[type[TokenTask] | type[Architecture], ...]:
        """Its tasks, then its models."""
        return (*self.tasks, *self.models)


def records_of_plugin(module: ModuleType, *, place: str, lines: Mapping[str, int]) -> Records:
    """The tasks and models that a module defines itself; `place` and `lines` say where its classes stand.

    Raises:
        UserError: it defines none, or one that cannot work.
    """
    own = [value for value in vars(module).values() if _is_own(value, module)]
    bases = {base for value in own for base in value.__mro__[1:]}
    found = [value for value in dict.fromkeys(own) if value not in bases or _kinds(value)]
    if not found:
        raise UserError(
            f"{place}: this plugin defines no task and no model: write a subclass of stsq_core.configs.task.TokenTask or of "
            'stsq_core.configs.architecture.Architecture with a kind of its own, `kind: Literal["name"] = "name"`'
        )
    for record in found:
        if (problem := problem_of(record)) is not None:
            raise UserError(f"{place}:{lines.get(record.__name__, 1)}: {record.__name__}: {problem}")
    kinds = [kind_of(record) for record in found]
    if twice := [record for record in found if kinds.count(kind_of(record)) > 1]:
        raise UserError(
            f"{place}:{lines.get(twice[1].__name__, 1)}: the kind {kind_of(twice[0])!r} is that of {twice[0].__name__} and of "
            f"{twice[1].__name__}: give each its own"
        )
    tasks = tuple(record for record in found if issubclass(record, TokenTask))
    return Records(tasks, tuple(record for record in found if issubclass(record, Architecture)))


def _is_own(value: object, module: ModuleType) -> bool:
    return isinstance(value, type) and issubclass(value, TokenTask | Architecture) and value.__module__ == module.__name__


def _kinds(record: type[Any]) -> tuple[Any, ...]:
    return get_args(record.model_fields["kind"].annotation)


def problem_of(record: type[Any]) -> str | None:
    """Why a task or model cannot work; None where nothing is seen."""
    kinds = _kinds(record)
    if len(kinds) != 1 or not isinstance(kinds[0], str) or not WORD.fullmatch(kinds[0]):
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", record.__name__).lower()
        got = f"; got {', '.join(map(repr, kinds))}" if kinds else ""
        return f'it needs a kind of its own in small letters{got}: write `kind: Literal["{name}"] = "{name}"`'
    if missing := sorted(getattr(record, "__abstractmethods__", ())):
        return f"the method {missing[0]}() is missing: write it"
    if issubclass(record, TokenTask):
        return _method_problem(record, "examples", "an stsq_core.plugins.Examples")
    return _method_problem(record, "network", "a subclass of stsq_core.plugins.Network") or _size_problem(record)


def _method_problem(record: type[Any], name: str, returned: str) -> str | None:
    """A method that is missing, unless the record has one of ours as its base, or that cannot be called without arguments."""
    method = getattr(record, name, None)
    if method is None:
        is_ours = issubclass(record, tuple(TASKS[kind] for kind in TASKS.own) + tuple(MODELS[kind] for kind in MODELS.own))
        return None if is_ours else f"the method {name}() is missing: return {returned}"
    signature = inspect.signature(method)
    try:
        signature.bind(None)
    except TypeError as error:
        return f"{name}{signature} is called without arguments, as {name}(self): {error}"
    return None


def _size_problem(record: type[Architecture]) -> str | None:
    """A `size_field` that names no number, or one that has a default: trials are told apart by it."""
    *branch, leaf = record.size_field.split(".")
    holders: list[type[Any]] = [record]
    for name in branch:
        holders = [inner for holder in holders if name in holder.model_fields for inner in records_of(holder, name)]
    held = [holder.model_fields[leaf] for holder in holders if leaf in holder.model_fields]
    if not held or len(held) < len(holders):
        return f"it has no field {record.size_field!r}: add it, or name another whole number with `size_field: ClassVar[str]`"
    if not all(field.is_required() for field in held):
        return f"its size, the field {record.size_field!r}, must have no default: every sweep says which sizes it tries"
    if any(field.annotation is not int for field in held):
        return f"its size, the field {record.size_field!r}, must be a whole number: write `{leaf}: PositiveInt`"
    return None
