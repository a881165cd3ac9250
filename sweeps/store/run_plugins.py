"""The plugins of a run: a copy in its directory, which is loaded again only where the user has allowed that very text.

Code runs because somebody named it on the command line, never because it lies in a directory that came from elsewhere. Naming
a file with `--plugin` allows its text by digest, for the user and this machine; a copy with that digest is then loaded without
being named. A copy of any other text is refused in one line that says where to read it and how to allow it.
"""

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from stsq_core.configs import UserError
from stsq_core.plugins import Plugin, kinds_of, load, loaded_plugins, read_plugin
from sweeps.store.files import disk_errors, write_atomically

INDEX = "index.json"
ALLOWED = "STSQ_ALLOWED_PLUGINS"
"""Environment variable by which the processes that a command starts know what its user allowed: digests with commas between."""


@dataclass(frozen=True)
class _Kept:
    """A copy in a run directory: its file, the digest of its text, and the kinds that it defines."""

    name: str
    digest: str
    kinds: tuple[str, ...]


def name_plugins(paths: Iterable[Path]) -> None:
    """Load the plugins that the user names, and allow their text from now on.

    Raises:
        UserError: a file that is no plugin (`stsq_core.plugins`).
    """
    for path in paths:
        plugin = read_plugin(path)
        load(plugin)
        _allow(plugin)


def keep_plugins(folder: Path, plugins: Iterable[Plugin]) -> None:
    """Copy the plugins of a run whose lock is held; an older text under the same name, or of the same kinds, is put aside.

    Raises:
        UserError: the folder cannot be written.
    """
    new = {_file_name(plugin): plugin for plugin in plugins}
    if not new:
        return
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    kinds = {kind for plugin in new.values() for kind in kinds_of(plugin)}
    old = _index(folder)
    stay = [one for one in old if one.name not in new and not kinds.intersection(one.kinds)]
    for one in old:
        if one not in stay and (one.name not in new or new[one.name].digest != one.digest):
            write_atomically(_aside(folder, one.name), (folder / one.name).read_bytes())
            (folder / one.name).unlink()
    for name, plugin in new.items():
        write_atomically(folder / name, plugin.text.encode())
    index = [*stay, *(_Kept(name, plugin.digest, kinds_of(plugin)) for name, plugin in new.items())]
    write_atomically(folder / INDEX, json.dumps([asdict(one) for one in index], indent=1).encode())


def load_kept(folder: Path) -> None:
    """Load the plugins of a run, except those whose kinds are loaded already: what the user names goes before what is kept.

    Raises:
        UserError: a copy that the user has not allowed, or that is not what was kept.
    """
    for one in _index(folder):
        if any(one.digest == plugin.digest or set(one.kinds) & set(kinds_of(plugin)) for plugin in loaded_plugins()):
            continue
        path = folder / one.name
        text = path.read_bytes() if path.is_file() else b""
        if hashlib.sha256(text).hexdigest() != one.digest:
            raise UserError(f"{path} is not the plugin that the run was made with: give that file with --plugin")
        if one.digest not in _allowed():
            raise UserError(
                f"this run uses the plugin {one.name} (sha256 {one.digest[:12]}...), whose code you have not allowed to run "
                f"here: read {path}, and give --plugin {path} once"
            )
        load(Plugin(one.name, text.decode(), str(path)))


def _index(folder: Path) -> list[_Kept]:
    """What is kept; nothing where there is no index."""
    path = folder / INDEX
    try:
        found = [_Kept(one["name"], one["digest"], tuple(one["kinds"])) for one in json.loads(path.read_bytes())]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path} cannot be read: {error}: run the sweep again with --plugin") from None
    if strange := [one.name for one in found if Path(one.name).name != one.name]:
        raise UserError(f"{path} names {strange[0]!r}, which is not a file beside it: run the sweep again with --plugin")
    return found


def _file_name(plugin: Plugin) -> str:
    return plugin.name if plugin.name.endswith(".py") else f"{plugin.name}.py"


def _aside(folder: Path, name: str) -> Path:
    stem, number = Path(name).stem, 1
    while (old := folder / f"{stem}.{number}.py").exists():
        number += 1
    return old


def _allow(plugin: Plugin) -> None:
    if plugin.digest in _allowed():
        return
    os.environ[ALLOWED] = ",".join(filter(None, [os.environ.get(ALLOWED), plugin.digest]))
    with suppress(OSError, RuntimeError):  # where nothing can be remembered, the file is to be named again
        path = _memory()
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(f"{plugin.digest} {plugin.name}\n")


def _allowed() -> set[str]:
    """The digests of all texts that the user has named."""
    digests = set(os.environ.get(ALLOWED, "").split(","))
    with suppress(OSError, RuntimeError, UnicodeDecodeError):
        digests |= {line.partition(" ")[0] for line in _memory().read_text(encoding="utf-8").splitlines()}
    return digests


def _memory() -> Path:
    """The user's own file of allowed texts."""
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "stsq" / "plugins"
