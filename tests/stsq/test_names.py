"""The names that users import from one place."""

import ast
import tomllib
from importlib import import_module, metadata
from pathlib import Path

import pytest

import stsq

ROOT = Path(__file__).parents[2]
STUB = ast.parse((ROOT / "stsq/__init__.pyi").read_text())
HOMES = {alias.name: node.module for node in STUB.body if isinstance(node, ast.ImportFrom) for alias in node.names}


def test_the_names_are_those_that_the_types_promise() -> None:
    assert set(stsq.__all__) == set(HOMES)
    assert set(dir(stsq)) == {*HOMES, "__version__"}
    with pytest.raises(AttributeError, match="module 'stsq' has no attribute 'train'"):
        stsq.train  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("name", sorted(HOMES))
def test_a_name_is_the_one_of_its_room(name: str) -> None:
    assert getattr(stsq, name) is getattr(import_module(str(HOMES[name])), name)


def test_the_version_is_that_of_the_package() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert declared["project"]["dynamic"] == ["version", "readme"]
    assert declared["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "stsq.__version__"}
    assert metadata.version("stsq") == stsq.__version__
