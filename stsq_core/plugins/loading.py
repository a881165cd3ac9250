"""Loading plugins into this process: their code runs, and our unions take their kinds from then on.

What a plugin defines is checked as far as this is possible without a sample; `stsq_core.plugins.preflight` takes one.
"""

import importlib
import inspect
import linecache
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from types import ModuleType
from typing import Any, get_args

from stsq_core.configs import (
    UNIONS,
    Architecture,
    Optimizer,
    PositionalCode,
    Record,
    TokenTask,
    TrialConfig,
    UserError,
    kind_of,
    plugins_of,
    records_of,
)
from stsq_core.plugins.plugin import Plugin, described, installed_plugin

GROUP = "stsq.plugins"
"""The entry points that are plugins: each names a module."""

WORD = re.compile(r"[a-z][a-z0-9_]*")
"""A kind."""

FORMER_MODULES = {
    **{f"stsq_core.{name}": f"stsq_core.configs.{name}" for name in (
        "architecture", "attention", "boolean", "errors", "optimizer", "positions", "prompt_models", "retrieval",
        "selected_tokens", "task", "token_laws", "trial",
    )},
    "stsq_core.records": "stsq_core.configs.record",
    "stsq_core.kinds": "stsq_core.configs.unions",
    "stsq_core.activations": "stsq_core.numerics.activations",
    "stsq_core.products": "stsq_core.numerics.products",
    "stsq_core.streams": "stsq_core.numerics.streams",
    "stsq_core.examples": "stsq_core.tasks.examples",
    "stsq_core.tasks.token_draws": "stsq_core.tasks.selected_tokens",
    "stsq_core.codes": "stsq_core.programs.codes",
    "stsq_core.program": "stsq_core.programs.program",
    "stsq_core.network": "stsq_core.networks.network",
    "stsq_core.networks.scores": "stsq_core.networks.attention",
    "stsq_core.networks.fcn": "stsq_core.networks.feedforward",
}  # fmt: skip
"""Former names of modules, in plugins that older run directories keep: their digests, so their texts, are part of trial ids."""


BASES: dict[str, tuple[type[Record], str, str]] = {
    "task": (TokenTask, "examples", "an stsq_core.plugins.Examples"),
    "model": (Architecture, "network", "a subclass of stsq_core.plugins.Network"),
    "positions": (PositionalCode, "codes", "a subclass of stsq_core.plugins.Codes"),
    "optimizer": (Optimizer, "rule", "a subclass of stsq_core.plugins.UpdateRule"),
}
"""What a plugin may define, by the field that takes it: the base, and the method that names what computes it."""


@dataclass(frozen=True)
class _Loaded:
    plugin: Plugin
    module: ModuleType
    records: tuple[type[Record], ...]


_LOADED: dict[str, _Loaded] = {}
"""The plugins of this process by digest: loading one runs its code, so there is one set of them for all."""


def load(plugin: Plugin) -> tuple[type[Record], ...]:
    """Run a plugin and open our unions to its kinds, which are returned; the same text again changes nothing.

    Raises:
        UserError: the plugin does not run, defines no kind or one that cannot work, or one that is taken; the message begins
            with its file and line.
    """
    if plugin.digest in _LOADED:
        return _LOADED[plugin.digest].records
    module = _imported(plugin, plugin.module) if plugin.module else _run(plugin)
    records = records_of_plugin(module, place=plugin.place, lines=plugin.lines)
    for record in records:
        _check_free(plugin, record)
    for record in records:
        UNIONS[field_of(record)].add(record, plugin.name, plugin.digest)
    _LOADED[plugin.digest] = _Loaded(plugin, module, records)
    return records


def load_installed() -> None:
    """Load the plugins that are installed as entry points.

    Raises:
        UserError: as `load`.
    """
    for entry in metadata.entry_points(group=GROUP):
        load(installed_plugin(entry.module, source=f"entry point {entry.name!r}"))


def unload(plugin: Plugin) -> None:
    """Forget a plugin, so that an edited one can be loaded in its place."""
    loaded = _LOADED.pop(plugin.digest)
    for record in loaded.records:
        UNIONS[field_of(record)].remove(kind_of(record))
    sys.modules.pop(loaded.module.__name__, None)


def unload_all() -> None:
    """Make this process one that has loaded no plugin."""
    for plugin in loaded_plugins():
        unload(plugin)


def loaded_plugins() -> tuple[Plugin, ...]:
    """The plugins of this process, in the order in which they were loaded."""
    return tuple(loaded.plugin for loaded in _LOADED.values())


def kinds_of(plugin: Plugin) -> tuple[str, ...]:
    """The kinds that a loaded plugin defines."""
    return tuple(map(kind_of, _LOADED[plugin.digest].records))


def used_plugins(configs: Iterable[TrialConfig]) -> tuple[Plugin, ...]:
    """The plugins whose kinds some trials are of."""
    digests = dict.fromkeys(digest for config in configs for digest in plugins_of(config).values())
    return tuple(_LOADED[digest].plugin for digest in digests)


def _run(plugin: Plugin) -> ModuleType:
    module = ModuleType(f"stsq_plugin_{plugin.digest[:16]}")
    module.__file__ = plugin.place
    # Tracebacks show the text that runs, also where there is no such file.
    linecache.cache[plugin.place] = (len(plugin.text), None, plugin.text.splitlines(keepends=True), plugin.place)
    sys.modules[module.__name__] = module  # where pydantic looks for the types of annotations
    try:
        _offer_former_modules()
        exec(compile(plugin.text, plugin.place, "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        if isinstance(error, SyntaxError) and error.filename == plugin.place:
            raise UserError(f"{plugin.place}:{error.lineno}: this is not valid Python: {error.msg}") from None
        raise _cannot_load(plugin, error) from None
    return module


def _offer_former_modules() -> None:
    """Let plugins import our modules by their former names from now on: some import where a method needs them."""
    for former, name in FORMER_MODULES.items():
        sys.modules.setdefault(former, importlib.import_module(name))


def _imported(plugin: Plugin, name: str) -> ModuleType:
    if installed_plugin(name, source="as the run names it").digest != plugin.digest:
        raise UserError(
            f"the plugin {name} is installed here in another version than where the run was started: install the same version "
            "on every node"
        )
    try:
        _offer_former_modules()
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise _cannot_load(plugin, error) from None


def _cannot_load(plugin: Plugin, error: BaseException) -> UserError:
    return UserError(f"{plugin.line_of(error)}: the plugin cannot be loaded: {described(error)}")


def _check_free(plugin: Plugin, record: type[Any]) -> None:
    """Refuse a kind that is one of ours, or that of another plugin."""
    kind = kind_of(record)
    begin = f"{plugin.place}:{plugin.lines.get(record.__name__, 1)}: the kind {kind!r} of {record.__name__} is"
    if any(kind in union.own for union in UNIONS.values()):
        raise UserError(f"{begin} one of stsq's own: give it a kind of its own")
    for other in _LOADED.values():
        if kind in map(kind_of, other.records):
            raise UserError(
                f"{begin} that of the plugin {other.plugin.place} too: load one of the two, or give one another kind"
            )


def field_of(record: type[Any]) -> str:
    """The field that takes a record: `task`, `model`, `positions` or `optimizer`."""
    return next(field for field, (base, *_) in BASES.items() if issubclass(record, base))


def records_of_plugin(module: ModuleType, *, place: str, lines: Mapping[str, int]) -> tuple[type[Record], ...]:
    """What a module defines itself, tasks and models first; `place` and `lines` say where its classes stand.

    Raises:
        UserError: it defines none, or one that cannot work.
    """
    own = [value for value in vars(module).values() if _is_own(value, module)]
    if not any(issubclass(value, Architecture) for value in own):
        own += _modules_of(module)
    bases = {base for value in own for base in value.__mro__[1:]}
    found = [value for value in dict.fromkeys(own) if value not in bases or _kinds(value)]
    if not found:
        raise UserError(
            f"{place}: this plugin defines no task, model, positional code or optimizer: write a torch.nn.Module whose "
            "constructor takes width and task, or a subclass of "
            f"stsq_core.plugins.{', '.join(base.__name__ for base, *_ in BASES.values())} "
            'with a kind of its own, `kind: Literal["name"] = "name"`'
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
    return tuple(sorted(found, key=lambda record: list(BASES).index(field_of(record))))


def _is_own(value: object, module: ModuleType) -> bool:
    bases = tuple(base for base, *_ in BASES.values())
    return isinstance(value, type) and issubclass(value, bases) and value.__module__ == module.__name__


def _modules_of(module: ModuleType) -> list[type[Record]]:
    """Models of the `torch.nn.Module`s that a module defines itself and whose constructors take a width and a task."""
    if (torch := sys.modules.get("torch")) is None:
        return []
    from stsq_core.networks import is_model, model_of

    own = [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__]
    return [model_of(one, _word(one.__name__)) for one in own if issubclass(one, torch.nn.Module) and is_model(one)]


def _word(name: str) -> str:
    """A class's name as a kind."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def _kinds(record: type[Any]) -> tuple[Any, ...]:
    return get_args(record.model_fields["kind"].annotation)


def problem_of(record: type[Any]) -> str | None:
    """Why a record cannot work; None where nothing is seen."""
    kinds = _kinds(record)
    if len(kinds) != 1 or not isinstance(kinds[0], str) or not WORD.fullmatch(kinds[0]):
        name = _word(record.__name__)
        got = f"; got {', '.join(map(repr, kinds))}" if kinds else ""
        return f'it needs a kind of its own in small letters{got}: write `kind: Literal["{name}"] = "{name}"`'
    if missing := sorted(getattr(record, "__abstractmethods__", ())):
        return f"the method {missing[0]}() is missing: write it"
    field = field_of(record)
    ours = [base for base in record.__mro__[1:] if base in map(UNIONS[field].__getitem__, UNIONS[field].own)]
    if field == "positions" and ours:
        return f"a code is a subclass of stsq_core.plugins.PositionalCode; got one of {ours[0].__name__}: derive it from that"
    problem = _method_problem(record, *BASES[field][1:])
    return problem or (_size_problem(record) if issubclass(record, Architecture) else None)


def _method_problem(record: type[Any], name: str, returned: str) -> str | None:
    """A method that is missing, unless the record has one of ours as its base, or that cannot be called without arguments."""
    method = getattr(record, name, None)
    if method is None:
        union = UNIONS[field_of(record)]
        is_ours = issubclass(record, tuple(union[kind] for kind in union.own))
        return None if is_ours else f"the method {name}() is missing: return {returned}"
    signature = inspect.signature(method)
    try:
        signature.bind(None)
    except TypeError as error:
        return f"{name}{signature} is called without arguments, as {name}(self): {error}"
    return None


def _size_problem(record: type[Architecture]) -> str | None:
    """A `size_field` that names no number, or one that has a default: it identifies a trial."""
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
