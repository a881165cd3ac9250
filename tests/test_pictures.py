"""Pictures of the documentation are made by `make pictures`, and are those of today's sweeps, random numbers and drawing."""

import json
import re
import runpy
import tarfile
from pathlib import Path

import pytest
import yaml

from sweeps.cells.loading import load_sweep

DOCS = Path(__file__).parent.parent / "docs"
IMAGES = DOCS / "images"
DRAW = runpy.run_path(str(IMAGES / "draw.py"))
DRAWN = json.loads((IMAGES / "drawn.json").read_text())
NAMES = [*DRAW["PICTURES"], *DRAW["LONG"]]
REMEDY = {
    "picture": "`make pictures` draws it again, and writes down what it is",
    "drawing": "the code that draws it has changed: `make pictures`",
    "numbers": "its sweep or the random numbers have changed: `python docs/images/draw.py --train SWEEP`; a long one by hand",
}


@pytest.mark.parametrize("name", NAMES)
def test_a_picture_is_not_stale(name: str) -> None:
    now = DRAW["hashes"](name)
    for what, remedy in REMEDY.items():
        assert now.get(what) == DRAWN[name].get(what), f"{name} is older than what it shows: {remedy}"


def test_every_picture_is_made_by_one_command_and_shown() -> None:
    pages = [DOCS.parent / "README.md", *DOCS.rglob("*.md")]
    shown = {name for page in pages for name in re.findall(r"!\[[^\]]*\]\([^)]*images/([\w.]+)\)", page.read_text("utf-8"))}
    assert shown == set(NAMES) == {path.name for path in IMAGES.glob("*.png")} == set(DRAWN)


@pytest.mark.parametrize("sweep", DRAW["KEPT"])
def test_a_kept_run_is_one_of_todays_sweep_and_names_no_machine(sweep: str) -> None:
    with tarfile.open(DRAW["RUNS"] / f"{sweep}.tar.xz") as archive:
        texts = {one.name: archive.extractfile(one).read() for one in archive.getmembers() if one.isfile()}
    kept = yaml.safe_load(texts[f"{sweep}/spec.yaml"])
    today = yaml.safe_load(load_sweep(sweep).as_yaml())
    assert {key: kept.get(key) for key in ("trials", "criterion", "search")} == {
        key: today.get(key) for key in ("trials", "criterion", "search")
    }
    assert not [name for name, text in texts.items() if re.search(rb'"host"|"/(tmp|home|root|work)/', text)]


def test_code_that_draws_is_compared_without_comments_and_docstrings(tmp_path: Path) -> None:
    path = tmp_path / "code.py"
    texts = [
        '"""One."""\n\n\ndef f():\n    """Two."""\n    return 1  # three\n',
        "def f():\n    return 1\n",
        "def f():\n    return 2\n",
    ]
    statements = []
    for text in texts:
        path.write_text(text)
        statements.append(DRAW["_statements"](str(path)))
    assert statements[0] == statements[1] != statements[2]
