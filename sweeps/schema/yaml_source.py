"""YAML read as plain data that remembers its lines, so that every error can say `sweep.yaml:12: trials.0.base.task.q: ...`.

Numbers are read as in YAML 1.2 (`1e-3` is a number, `yes` is a word), `<<: *anchor` merges a mapping, a key given twice is an
error, and nothing but plain data is built: no tag can name a Python object.
"""

# On PyYAML's nodes, with resolvers of ours: ruamel.yaml reads `1_000` as a number and `2026-01-02` as a date also in version
# 1.2, loses U+0085 when it writes, and takes 2.3 times as long for the catalogue.

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from stsq_core.configs import UserError, shown
from sweeps.schema.errors import Path, dotted

SETTING = "--set "
"""What the place of a value that the command line gave begins with."""

TAG = "tag:yaml.org,2002:"
MAX_NODES = 200_000
"""More values than any sweep file needs; anchors repeated inside anchors can ask for billions."""

_RESOLVERS = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+0123456789."),
    ),
    ("merge", r"<<", ["<"]),
)


class _Loader(yaml.SafeLoader):
    """PyYAML's parser with the scalars of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


class _Dumper(yaml.SafeDumper):
    """PyYAML's writer, which quotes whatever YAML 1.1 or 1.2 would take for something else than a word."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    # PyYAML folds these line ends away unless they are escaped, and it escapes them between double quotes only.
    style = '"' if re.search("[\x85\u2028\u2029]", text) else None
    return dumper.represent_scalar(TAG + "str", text, style=style)


_Dumper.add_representer(str, _represent_text)
for _tag, _pattern, _first in _RESOLVERS:
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(TAG + _tag, re.compile(f"^(?:{_pattern})$"), _first)


@dataclass(frozen=True)
class YamlDocument:
    """Plain data, the name of its source, and where each path of it was written."""

    data: Any
    source: str
    origins: dict[Path, str] = field(default_factory=dict)

    def place(self, path: Path) -> str:
        """Where a path stands, as `file:line: dotted.path`; a missing field stands where its parent does."""
        known = [path[:length] for length in range(len(path), -1, -1) if path[:length] in self.origins]
        origin = self.origins[known[0]] if known else self.source
        if path and (under := {setting for setting in self._settings_under(path) if setting not in origin}):
            origin = f"{origin} with {', '.join(sorted(under))}"
        return ": ".join(part for part in (origin, dotted(path)) if part)

    def blaming(self, settings: str) -> "YamlDocument":
        """The document whose errors name these settings in place of a line of the file, which is right without them."""
        own = {path: origin for path, origin in self.origins.items() if origin.startswith(SETTING)}
        return YamlDocument(self.data, self.source, {**own, (): settings})

    @property
    def has_settings(self) -> bool:
        """Whether `--set` changed something in it."""
        return bool(self._settings_under(()))

    def is_set(self, path: Path) -> bool:
        """Whether `--set` gave what stands at `path`."""
        return self.origins.get(path, "").startswith(SETTING)

    def _settings_under(self, path: Path) -> set[str]:
        """The settings that changed something inside what stands at `path`, and so may be to blame for it."""
        return {origin for place, origin in self.origins.items() if place[: len(path)] == path and origin.startswith(SETTING)}

    def error(self, path: Path, problem: str) -> UserError:
        """A `UserError` that begins with the place of the problem."""
        return UserError(f"{self.place(path)}: {problem}")


def parse(text: str, source: str) -> YamlDocument:
    """Read one YAML document.

    Raises:
        UserError: malformed YAML, a key given twice, a tag, or more than one document; the message gives `source:line`.
    """
    origins: dict[Path, str] = {}
    try:
        root = yaml.compose(text, Loader=_Loader)
        data = None if root is None else _Builder(source, origins).build(root, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"{source}:{mark.line + 1}" if mark else source
        raise UserError(f"{place}: this is not valid YAML: {error.problem or error.context}; mend the text near here") from None
    except yaml.YAMLError as error:
        raise UserError(f"{source}: this is not valid YAML: {error}") from None
    except RecursionError:
        raise UserError(f"{source}: this is nested too deeply for a sweep file") from None
    return YamlDocument(data, source, origins)


def dump(data: Mapping[str, Any]) -> str:
    """Plain data as YAML that `parse` reads back to equal data."""
    return str(yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120))


@dataclass
class _Builder:
    """Builds plain data from YAML nodes and notes the line of every path."""

    source: str
    origins: dict[Path, str]
    num_nodes: int = 0

    def build(self, node: yaml.Node, path: Path) -> Any:
        self._count()
        self.origins.setdefault(path, f"{self.source}:{node.start_mark.line + 1}")
        match node:
            case yaml.MappingNode(tag="tag:yaml.org,2002:map"):
                return self._mapping(node, path)
            case yaml.SequenceNode(tag="tag:yaml.org,2002:seq"):
                return [self.build(child, (*path, place)) for place, child in enumerate(node.value)]
            case yaml.ScalarNode() if node.tag in _SCALARS:
                return self._scalar(node)
        raise UserError(f"{self.origins[path]}: the tag {shown(node.tag)} is not allowed: a sweep file holds plain data only")

    def _mapping(self, node: yaml.MappingNode, path: Path) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key, (line, value) in self._entries(node, path).items():
            self.origins[(*path, key)] = line
            data[key] = self.build(value, (*path, key))
        return data

    def _entries(self, node: yaml.MappingNode, path: Path) -> dict[str, tuple[str, yaml.Node]]:
        """The values of a mapping by key, each with its line: those merged in, the first of several, and over them its own."""
        self._count()
        own: dict[str, tuple[str, yaml.Node]] = {}
        merged: dict[str, tuple[str, yaml.Node]] = {}
        has_merge = False
        for key_node, value in node.value:
            line = f"{self.source}:{key_node.start_mark.line + 1}"
            if not isinstance(key_node, yaml.ScalarNode):
                raise UserError(f"{line}: a key must be a word, not a list or a mapping")
            key, is_merge = str(key_node.value), key_node.tag == TAG + "merge"
            if has_merge if is_merge else key in own:
                also = " with a list: <<: [*one, *other]" if is_merge else ""
                raise UserError(f"{line}: {dotted((*path, key))}: the key {shown(key)} is given twice; keep one{also}")
            if not is_merge:
                own[key] = line, value
                continue
            has_merge = True
            for source in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                if not isinstance(source, yaml.MappingNode):
                    got = "a list" if isinstance(source, yaml.SequenceNode) else shown(source.value)
                    problem = f"'<<' merges a mapping (<<: *anchor) or a list of mappings; got {got}"
                    raise UserError(f"{line}: {dotted((*path, key))}: {problem}: give the anchor of a mapping, or leave it out")
                merged = self._entries(source, path) | merged
        return merged | own

    def _count(self) -> None:
        self.num_nodes += 1
        if self.num_nodes > MAX_NODES:
            raise UserError(
                f"{self.source}: more than {MAX_NODES} values, counting repeated anchors; write axes as geom or linear"
            )

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        try:
            return _SCALARS[node.tag](node.value)
        except ValueError:
            line = node.start_mark.line + 1
            raise UserError(f"{self.source}:{line}: {shown(node.value)} is not a {node.tag.removeprefix(TAG)}") from None


_SCALARS: Mapping[str, Any] = {
    TAG + "null": lambda text: None,
    TAG + "bool": lambda text: text.lower() == "true",
    TAG + "int": lambda text: int(text, 0) if "x" in text or "o" in text else int(text),
    TAG + "float": lambda text: float(text.replace(".", "") if text[-1].isalpha() else text),  # .inf, .nan
    TAG + "str": str,
    TAG + "merge": str,  # a word, unless it is a key
}
