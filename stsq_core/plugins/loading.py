"""Loading plugins into this process: their code runs, and our unions take their kinds from then on."""

import importlib
import linecache
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from types import ModuleType
from typing import Any

from stsq_core.configs import MODELS, TASKS, TrialConfig, UserError, kind_of, plugins_of
from stsq_core.plugins.checks import Records, records_of_plugin
from stsq_core.plugins.text import Plugin, described, installed_plugin

GROUP = "stsq.plugins"
"""The entry points that are plugins: each names a module."""


@dataclass(frozen=True)
class _Loaded:
    plugin: Plugin
    module: ModuleType
    records: Records


_LOADED: dict[str, _Loaded] = {}
"""The plugins of this process by digest: loading one runs its code, so there is one set of them for all."""


def load(plugin: Plugin) -> Records:
    """Run a plugin and open our unions to its kinds; the same text again changes nothing.

    Raises:
        UserError: the plugin does not run, defines no task and no model or one that cannot work, or a kind that is taken; the
            message begins with its file and line.
    """
    if plugin.digest in _LOADED:
        return _LOADED[plugin.digest].records
    module = _imported(plugin, plugin.module) if plugin.module else _run(plugin)
    records = records_of_plugin(module, place=plugin.place, lines=plugin.lines)
    for record in records.all:
        _check_free(plugin, record)
    for union, own in ((TASKS, records.tasks), (MODELS, records.models)):
        for record in own:
            union.add(record, plugin.name, plugin.digest)
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
    for union, own in ((TASKS, loaded.records.tasks), (MODELS, loaded.records.models)):
        for record in own:
            union.remove(kind_of(record))
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
    return tuple(map(kind_of, _LOADED[plugin.digest].records.all))


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
        exec(compile(plugin.text, plugin.place, "exec", dont_inherit=True), vars(module))
    except (Exception, SystemExit) as error:
        del sys.modules[module.__name__]
        if isinstance(error, SyntaxError) and error.filename == plugin.place:
            raise UserError(f"{plugin.place}:{error.lineno}: this is not valid Python: {error.msg}") from None
        raise _cannot_load(plugin, error) from None
    return module


def _imported(plugin: Plugin, name: str) -> ModuleType:
    if installed_plugin(name, source="as the run names it").digest != plugin.digest:
        raise UserError(
            f"the plugin {name} is installed here in another version than where the run was started: install the same version "
            "on every node"
        )
    try:
        return importlib.import_module(name)
    except (Exception, SystemExit) as error:
        raise _cannot_load(plugin, error) from None


def _cannot_load(plugin: Plugin, error: BaseException) -> UserError:
    return UserError(f"{plugin.line_of(error)}: the plugin cannot be loaded: {described(error)}")


def _check_free(plugin: Plugin, record: type[Any]) -> None:
    """Refuse a kind that is ours, or that of another plugin."""
    kind = kind_of(record)
    begin = f"{plugin.place}:{plugin.lines.get(record.__name__, 1)}: the kind {kind!r} of {record.__name__} is"
    if kind in (*TASKS.own, *MODELS.own):
        raise UserError(f"{begin} one of stsq's own: give it a kind of its own")
    for other in _LOADED.values():
        if kind in map(kind_of, other.records.all):
            raise UserError(
                f"{begin} that of the plugin {other.plugin.place} too: load one of the two, or give one another kind"
            )
