"""The pictures in the documentation that `make pictures` draws are those of today's sweeps, random numbers and drawing."""

import json
import runpy
from pathlib import Path

import pytest

IMAGES = Path(__file__).parent.parent / "docs" / "images"
DRAW = runpy.run_path(str(IMAGES / "draw.py"))


@pytest.mark.parametrize("name", DRAW["PICTURES"])
def test_a_picture_is_not_stale(name: str) -> None:
    drawn = json.loads((IMAGES / "drawn.json").read_text())
    assert DRAW["hashes"](name) == drawn[name], (
        f"{name} is older than what it shows: `make pictures` draws it again (five minutes)"
    )
