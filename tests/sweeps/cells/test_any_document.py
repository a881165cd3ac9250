"""Whatever stands in a sweep file, it is planned or refused in words: never a traceback, never long."""

import copy
import io
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from rich.console import Console

from cluster.commands.planning import show_plan
from stsq_core.configs import UserError
from sweeps.cells import catalog_names, read_catalog
from sweeps.schema import parse
from sweeps.schema.yaml_source import dump

ODD: tuple[Any, ...] = (
    *(None, True, 0, 1, 2, -1, 3.0, 0.5, 1e-320, 1e16, 1e308, float("nan"), float("inf")),
    *(2**31, 2**53, 2**63 - 1, 2**63, 2**64, 10**30, 10**300, -(10**20)),
    *("", "x", "x" * 100_000, "all", "m", "T", "one_hot", "\x1b[31mred", "ü", "a b: c"),
    *([], [[]], [{}], [None], [1, 1], [1, "a"], [2**70], list(range(50))),
    *({}, {"a": 1}, {"kind": "nope"}, {"kind": None}, {"kind": {}}, {"T": 10**12}, {"low": 10**20, "high": 10**30}),
    *({"geom": [1, 2], "num": 3}, {"geom": [1, 10**30], "num": 5}, {"linear": [1e300, 1e308], "num": 3}),
)
DOCUMENTS = {name: parse(read_catalog(name), name).data for name in catalog_names()}
SECONDS = 1.0
LONGEST = 1_200
"""Characters of a message."""


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every path under the top of nested data."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inner:
        yield (*path, key)
        yield from places(value, (*path, key))


def damaged(data: Any, chance: random.Random) -> Any:
    """A copy with one to three values changed, left out, renamed, or taken from elsewhere in the document."""
    data = copy.deepcopy(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        *branch, last = chance.choice(list(places(data)))
        parent = data
        for key in branch:
            parent = parent[key]
        match chance.choice(("change", "change", "change", "scale", "remove", "rename", "copy")):
            case "change":
                parent[last] = copy.deepcopy(chance.choice(ODD))
            case "scale" if isinstance(parent[last], int | float):
                parent[last] = parent[last] * chance.choice((2, 0.5, 10, 1000, -1))
            case "remove" if len(parent) > 1:
                del parent[last]
            case "rename" if isinstance(parent, dict):
                parent[f"{last}{chance.choice(('s', 'x' * 100_000, '.kind'))}"] = parent.pop(last)
            case "copy":
                value = data
                for key in chance.choice(list(places(data))):
                    value = value[key]
                parent[last] = copy.deepcopy(value)
    return data


def planned(path: Path, settings: tuple[str, ...] = ()) -> str:
    """What `stsq plan` prints of a sweep file."""
    console = Console(file=io.StringIO(), width=120)
    show_plan(console, str(path), list(settings), out=path.parent / "out", workers=2)
    printed = console.file
    assert isinstance(printed, io.StringIO)
    return printed.getvalue()


@pytest.mark.slow
@settings(max_examples=200, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.sampled_from(sorted(DOCUMENTS)), seed=st.integers(0, 2**32))
def test_a_damaged_sweep_is_planned_or_refused(tmp_path: Path, name: str, seed: int) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(dump(damaged(DOCUMENTS[name], random.Random(seed))), encoding="utf-8")
    begun = time.process_time()
    try:
        words = planned(path)
    except UserError as error:
        words = str(error)
        assert len(words) < LONGEST
    assert words.startswith(str(path)) or "run directory" in words
    assert time.process_time() - begun < SECONDS


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"model.depth": 10**9}, "model.depth: must be less than or equal to 1000; got 1000000000"),
        ({"task.T": 2**70}, "task.T: must be less than or equal to 16777216; got 1180591620717411303424"),
        ({"training.steps": 10**30}, "training.steps: must be less than or equal to 1000000000000; got 1" + "0" * 30),
        ({"model.kind": "x" * 100_000}, "model.kind: unknown kind '" + "x" * 56 + "...; allowed: "),
    ],
)
def test_sizes_have_bounds_and_values_are_cut(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    group: dict[str, Any] = {
        "name": "net",
        "base": {"task": {"T": 8, "q": 2, "d": 2}, "optimizer": {"kind": "adam", "lr": 0.1}},
    }
    group["base"] |= {"model": {"kind": "fcn", "width": 4}, "training": {"steps": 10}}
    for name, value in change.items():
        branch, leaf = name.split(".")
        group["base"][branch][leaf] = value
    path = tmp_path / "sweep.yaml"
    path.write_text(dump({"name": "bounds", "hypothesis": "None.", "trials": [group]}), encoding="utf-8")
    with pytest.raises(UserError) as raised:
        planned(path)
    assert f"trials.0.base.{problem}" in str(raised.value)
