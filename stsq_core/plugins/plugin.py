"""The text of a plugin, where it stands, and the digest that names this version of it."""

import ast
import hashlib
import importlib.util
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from stsq_core.configs import UserError

MAX_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Plugin:
    """A plugin's text.

    `name` is that of its file, `my_task.py`, or of its module. `place` is what errors call it: the path as it was given.
    `module` is the module of an installed plugin, which is imported; the text of a file runs in a module of its own.
    """

    name: str
    text: str
    place: str
    module: str | None = None

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of its text, 64 hex digits."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @cached_property
    def lines(self) -> Mapping[str, int]:
        """The line at which each of its classes begins."""
        return {node.name: node.lineno for node in ast.parse(self.text).body if isinstance(node, ast.ClassDef)}

    def plain(self) -> dict[str, Any]:
        """Its fields, as JSON carries them to a worker."""
        return asdict(self)

    def line_of(self, error: BaseException) -> str:
        """`my_task.py:12`: the last line of the plugin that an exception came through, or the plugin alone."""
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == self.place]
        return f"{self.place}:{frames[-1].lineno}" if frames else self.place


def read_plugin(path: Path) -> Plugin:
    """The plugin in a file.

    Raises:
        UserError: a file that is missing, too large or no Python file.
    """
    if path.suffix != ".py":
        raise UserError(f"--plugin {path}: a plugin is a Python file; got {path.name!r}: give a file that ends in .py")
    try:
        data = path.read_bytes()
        text = data.decode()
    except UnicodeDecodeError:
        raise UserError(f"--plugin {path}: this is not UTF-8 text: give a Python file") from None
    except OSError as error:
        raise UserError(f"--plugin {path}: the file cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise UserError(f"--plugin {path}: the file holds {len(data)} bytes; at most {MAX_BYTES} are read")
    return Plugin(path.name, text, str(path))


def installed_plugin(module: str, *, source: str) -> Plugin:
    """The plugin in an installed module; `source` says who names it.

    Raises:
        UserError: there is no such module, or it has no text.
    """
    try:
        spec = importlib.util.find_spec(module)
        path = Path(spec.origin) if spec is not None and spec.origin is not None else None
        text = None if path is None else path.read_text(encoding="utf-8")
    except (ImportError, OSError, ValueError) as error:
        raise UserError(f"the plugin {module} ({source}) cannot be read: {error}: install it again, or uninstall it") from None
    if path is None or text is None:
        raise UserError(f"the plugin {module} ({source}) is not installed here: install it on every node, or uninstall it")
    return Plugin(module, text, str(path), module)


def described(error: BaseException) -> str:
    """An exception in one line."""
    first = next(iter(str(error).strip().splitlines()), "no message")
    return f"{type(error).__name__}: {first}"
