"""The JSON Schema and the reference page of the sweep file: whole, and as fresh as the records."""

from pathlib import Path

import jsonschema
import pytest

from stsq_core.configs import Record, field_docs
from sweeps.cells import catalog_names, read_catalog, schema_text, spec_json_schema, sweep_reference
from sweeps.schema import parse

ROOT = Path(__file__).parents[3]
SCHEMA = spec_json_schema()


@pytest.mark.parametrize("part", ["", *SCHEMA["$defs"]])
def test_every_field_is_described(part: str) -> None:
    fields = (SCHEMA["$defs"][part] if part else SCHEMA).get("properties", {})
    assert [name for name, field in fields.items() if not field.get("description", "").strip()] == []


def test_a_field_is_described_by_the_docstring_beneath_or_by_its_description() -> None:
    class Own(Record):
        """A record. With more.

        And a second paragraph.
        """

        kind: str = "own"
        size: int = 1
        """Of the
        thing."""

    class More(Own):
        """Another."""

        size: int = 2
        rest: int = 0

    assert field_docs(Own) == {"kind": "A record. With more.", "size": "Of the thing."}
    assert field_docs(More) == {"kind": "Another.", "size": "Of the thing."}


def test_the_schema_is_valid_and_takes_the_catalogue() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$id"].startswith("urn:")
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for name in catalog_names():
        text = read_catalog(name)
        assert text.startswith("# yaml-language-server: $schema=sweep.schema.json\n")
        assert [error.message for error in validator.iter_errors(parse(text, name).data)] == []


def test_what_is_made_from_the_records_is_fresh() -> None:
    assert (ROOT / "sweeps/catalog/sweep.schema.json").read_text() == schema_text(), "make reference"
    assert (ROOT / "docs/sweep_reference.md").read_text() == sweep_reference(), "make reference"
