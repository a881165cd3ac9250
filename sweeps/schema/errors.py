"""Errors of sweep files: what was wrong, the value, what is allowed, what to do, and the place.

A `PlacedError` carries the path of the offending field; whoever knows the file it came from turns the path into `file:line`.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from stsq_core.configs import SHOWN, UNIONS, UserError, kind_of, records_of, shown

Path = tuple[str | int, ...]

NEAREST = 5
"""The most names that a message lists where a wrong one was given."""


class PlacedError(UserError):
    """A problem with one field: `path` leads to the field from the top of the sweep, `problem` says what is wrong with it."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(f"{dotted(path)}: {problem}" if path else problem)
        self.path = path
        self.problem = problem


class FieldError(ValueError):
    """What a record's validator raises about one of its fields: the path of the field within the record, and the problem."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(problem)
        self.path = path


def dotted(path: Path) -> str:
    """`("trials", 0, "base")` as `trials.0.base`."""
    return ".".join(text if len(text := str(part)) <= SHOWN else f"{text[: SHOWN - 3]}..." for part in path)


def listed(names: Iterable[object]) -> str:
    """Allowed values, as a message lists them."""
    return ", ".join(str(name) for name in names) or "(nothing)"


def nearest(name: str, names: Sequence[str]) -> str:
    """The names nearest to one, in the order in which they stand, and how many more there are."""
    if len(names) <= NEAREST:
        return listed(names)
    by_ratio = sorted(names, key=lambda other: -difflib.SequenceMatcher(None, name[:SHOWN], other).ratio())[:NEAREST]
    return f"{listed(other for other in names if other in by_ratio)} and {len(names) - NEAREST} more"


def suggestion(name: str, allowed: Iterable[str]) -> str:
    """`; did you mean T?` where something close is allowed, else nothing."""
    known = list(allowed) if len(name) <= SHOWN else []
    same = [other for other in known if other.lower() == name.lower()]
    by_leaf = [other for other in known if other.rpartition(".")[2].lower() == name.rpartition(".")[2].lower()]
    by_leaf.sort(key=lambda other: other.partition(".")[0] != name.partition(".")[0])  # those of its own branch first
    scores = {other: difflib.SequenceMatcher(None, name, other).ratio() for other in known}
    least = max(0.6, max(scores.values(), default=0.0) - 0.08)
    near = sorted((other for other in known if scores[other] >= least), key=lambda other: -scores[other])
    close = same or list(dict.fromkeys([*by_leaf, *near]))[:3]
    return f"; did you mean {' or '.join(close)}?" if close else ""


def first_problem(error: ValidationError, root: type[BaseModel], data: object) -> tuple[Path, str]:
    """The main problem of a refused record: its path in `data`, and a sentence with the value and the allowed ones.

    An unknown field comes first, because a misspelt name also makes a field missing.
    """
    details = error.errors(include_url=False)
    detail = next((one for one in details if one["type"] == "extra_forbidden"), details[0])
    path = _path_in(detail["loc"], data, names_a_field=detail["type"] in ("missing", "extra_forbidden"))
    match detail["type"]:
        case "extra_forbidden":
            allowed = allowed_names(root, data, path[:-1])
            name = str(path[-1])
            return path, f"unknown field {shown(name)}{suggestion(name, allowed)} (allowed here: {listed(allowed)})"
        case "missing":
            return path, "this field is required and missing: add it"
        case "union_tag_not_found":
            return path, f"a 'kind' is required here and missing; got {shown(detail['input'])}"
        case "union_tag_invalid":
            expected = detail["ctx"]["expected_tags"].replace("'", "")
            return (*path, "kind"), f"unknown kind {shown(detail['ctx']['tag'])}; allowed: {expected}{_plugin_hint(path)}"
        case "literal_error" if path[-1:] == ("kind",) and path[-2:-1] and path[-2] in UNIONS:
            return path, f"unknown kind {shown(detail['input'])}; allowed: {detail['ctx']['expected']}{_plugin_hint(path[:-1])}"
        case "value_error":
            error_raised = detail["ctx"]["error"]
            within = error_raised.path if isinstance(error_raised, FieldError) else ()
            return (*path, *within), str(error_raised)
        case "model_type" | "model_attributes_type" | "dict_type":
            return path, f"must be a mapping of fields{_with_kind(path, detail['input'])}; got {shown(detail['input'])}"
        case _:
            return path, f"{detail['msg'].replace('Input should', 'must', 1)}; got {shown(detail['input'])}"


def _with_kind(path: Path, value: object) -> str:
    """How a record that is chosen by its kind is written."""
    name = str(path[-1]) if path else ""
    if name not in UNIONS:
        return ""
    kinds = [kind_of(record) for record in UNIONS[name].records]
    kind = value if value in kinds else kinds[0]
    field = ".".join(str(part) for part in path[path.index("base") + 1 if "base" in path else 0 :])
    return f" with its kind: write {{kind: {kind}, ...}}, or --set {field}.kind={kind}; kinds are {listed(kinds)}"


def _plugin_hint(path: Path) -> str:
    """How kinds are added to those of a field, where they can be."""
    return "; a plugin adds kinds of its own: --plugin FILE" if path[-1:] and path[-1] in UNIONS else ""


def allowed_names(root: type[BaseModel], data: object, path: Path) -> tuple[str, ...]:
    """The names of the fields that may stand at `path` of a record of type `root`; `data` has the kind of each union."""
    models: list[type[BaseModel]] = [root]
    value = data
    for part in path:
        if isinstance(part, int):
            value = value[part] if isinstance(value, Sequence) and part < len(value) else None
        else:
            models = [inner for model in models if part in model.model_fields for inner in records_of(model, part)]
            value = value.get(part) if isinstance(value, Mapping) else None
        models = _of_kind(models, value)
    return tuple(dict.fromkeys(name for model in models for name in model.model_fields))


def _of_kind(models: list[type[BaseModel]], value: object) -> list[type[BaseModel]]:
    """The models whose `kind` is the one that the data names; all of them where it names none."""
    kind = value.get("kind") if isinstance(value, Mapping) else None
    of_kind = [m for m in models if "kind" in m.model_fields and kind in get_args(m.model_fields["kind"].annotation)]
    return of_kind or models


def _path_in(loc: Path, data: object, *, names_a_field: bool) -> Path:
    """A pydantic location as a path in the data: without the names of union members that pydantic puts in between.

    The last part may name a field that the data does not hold (a missing one).
    """
    path: list[str | int] = []
    value: Any = data
    for place, part in enumerate(loc):
        last = place == len(loc) - 1
        if (isinstance(value, Mapping) and part in value) or (_is_list(value) and isinstance(part, int) and part < len(value)):
            value = value[part]
        elif not (last and names_a_field):
            continue
        path.append(part)
    return tuple(path)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
