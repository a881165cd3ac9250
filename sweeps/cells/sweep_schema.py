"""The fields of a sweep file for editors (a JSON Schema) and for people (a page of tables), both made from the records."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from stsq_core.configs import TrialConfig, field_docs, records_of
from sweeps.schema import SweepSpec, known_fields

SCHEMA_ID = "urn:stsq:sweep"
BLANK_LINE = "\n\n"
LEFT_OUT = "left out"
"""What the words of a required field say that is made from others where a file lacks it."""


def spec_json_schema() -> dict[str, Any]:
    """The JSON Schema of a sweep file, for editors: `base` is a trial with nothing required, axes carry its fields' names."""
    schema = SweepSpec.model_json_schema()
    trial = _without_required(TrialConfig.model_json_schema(ref_template="#/$defs/{model}"))
    schema["$defs"] |= trial.pop("$defs")
    schema["$defs"]["TrialConfig"] = trial
    group = schema["$defs"]["TrialGroup"]["properties"]
    group["base"] = {"$ref": "#/$defs/TrialConfig", "default": {}}
    for axes in ("grid", "zip"):
        group[axes]["propertyNames"] = {"enum": list(known_fields())}
    for record in _records(SweepSpec) | _records(TrialConfig):
        properties = schema if record is SweepSpec else schema["$defs"].get(record.__name__, {})
        for name, text in field_docs(record).items():
            properties.get("properties", {}).get(name, {})["description"] = text
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, **schema}


def schema_text() -> str:
    """The JSON Schema as a file holds it."""
    return json.dumps(spec_json_schema(), indent=1, ensure_ascii=False) + "\n"


def sweep_reference() -> str:
    """A page in Markdown with a table of the fields of every part of a sweep file."""
    schema = spec_json_schema()
    parts = {"A sweep": schema} | {name: schema["$defs"][name] for name in _ordered(schema)}
    records = {record.__name__: record for record in _records(SweepSpec) | _records(TrialConfig)} | {"A sweep": SweepSpec}
    sections = [
        line
        for title, part in parts.items()
        if title in records
        for line in _section(title, part, records[title], schema["$defs"])
    ]
    head = (
        "# Reference of the sweep file\n\n"
        "All fields, made from the program by `make reference`; [sweep_file.md](sweep_file.md) explains them.\n"
        "`--set` takes dotted names, such as `task.T` or `criterion.target_loss`. Where widths are searched,\n"
        "their field is left out.\n"
    )
    return "\n".join([head, *sections])


def _records(root: type[BaseModel]) -> set[type[BaseModel]]:
    """A record and all records that its fields hold, at any depth."""
    found, left = set[type[BaseModel]](), [root]
    while left:
        record = left.pop()
        if record not in found:
            found.add(record)
            left += [inner for name in record.model_fields for inner in records_of(record, name)]
    return found


def _ordered(schema: Mapping[str, Any]) -> list[str]:
    """The names of the parts in the order in which the fields of a sweep lead to them."""
    found: list[str] = []

    def visit(part: object) -> None:
        for name in list(_references(part)):
            if name not in found:
                found.append(name)
                visit(schema["$defs"][name])

    visit(schema["properties"])
    return found


def _references(part: object) -> Iterator[str]:
    """The names of the parts that a piece of the schema mentions, in order."""
    if isinstance(part, Mapping):
        if isinstance(reference := part.get("$ref"), str):
            yield reference.rpartition("/")[2]
        for key, value in part.items():
            if key != "discriminator":
                yield from _references(value)
    elif isinstance(part, list):
        for value in part:
            yield from _references(value)


def _section(title: str, part: Mapping[str, Any], record: type[BaseModel], parts: Mapping[str, Any]) -> Iterator[str]:
    properties = part.get("properties", {})
    yield f"## {_heading(title, parts)}\n"
    if text := part.get("description"):
        yield f"{_cell(text.partition(BLANK_LINE)[0])}\n"
    rows = [
        (f"`{name}`", _type_words(field, parts), _default(record, name, field), _cell(field["description"]))
        for name, field in properties.items()
        if "const" not in field or name != "kind"
    ]
    if rows:
        yield "| field | value | default | meaning |\n|---|---|---|---|"
        yield from (f"| {' | '.join(row)} |" for row in rows)
        yield ""


def _heading(name: str, parts: Mapping[str, Any]) -> str:
    kind = parts.get(name, {}).get("properties", {}).get("kind", {}).get("const")
    return f"{name}: `kind: {kind}`" if kind else name


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _default(record: type[BaseModel], name: str, field: Mapping[str, Any]) -> str:
    if record.model_fields[name].is_required():
        return "" if LEFT_OUT in field["description"] else "required"
    default = field.get("default")
    return "" if default is None or isinstance(default, dict) else f"`{json.dumps(default, ensure_ascii=False)}`"


def _type_words(field: Mapping[str, Any], parts: Mapping[str, Any]) -> str:
    """What may stand at a field, in words."""
    if name := str(field.get("$ref", "")).rpartition("/")[2]:
        heading = _heading(name, parts)
        anchor = "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c in "-_")
        return f"[{name}](#{anchor})"
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{value}`" for value in field["enum"])
    if choices := field.get("anyOf", field.get("oneOf")):
        words = [_type_words(one, parts) for one in choices if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(words))
    match field.get("type"):
        case "array":
            items = field.get("items", {})
            return f"a list of {_type_words(items, parts)}" if items else "a list"
        case "integer" | "number" as kind:
            return f"{'a whole number' if kind == 'integer' else 'a number'}{_bounds(field)}"
        case "boolean":
            return "`true`, `false`"
        case "string":
            return "a text"
        case "object":
            return "a mapping"
    return "any value"


def _bounds(field: Mapping[str, Any]) -> str:
    words = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "up to", "exclusiveMaximum": "below"}
    found = [f"{word} {field[name]:g}" if abs(field[name]) < 1e6 else "" for name, word in words.items() if name in field]
    return f" {' '.join(filter(None, found))}" if any(found) else ""


def _without_required(schema: dict[str, Any]) -> dict[str, Any]:
    """A copy of a JSON Schema in which every field may be left out, except the `kind` that chooses between records."""

    def relax(item: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in item.items() if key != "required"}

    relaxed: dict[str, Any] = json.loads(json.dumps(schema), object_hook=relax)
    return relaxed
