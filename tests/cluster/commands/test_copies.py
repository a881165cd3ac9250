"""`stsq cat` and `stsq new`: a sweep to read, and a copy of it to edit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sweeps import load_sweep, read_catalog
from sweeps.cells.sweep_schema import schema_text

Here, Write = Callable[..., Any], Callable[..., Path]


def test_cat_prints_a_sweep_as_it_stands(here: Here, write_sweep: Write) -> None:
    assert here("cat", "parity").out == read_catalog("parity")
    mine = write_sweep()
    assert here("cat", mine).out == mine.read_text()
    refused = here("cat", "pairty")
    assert refused.code == 2
    assert "did you mean parity?" in refused.err


def test_new_copies_a_sweep_under_the_name_of_its_file(here: Here, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    done = here("new", "width_vs_T", mine)
    assert done.code == 0
    assert done.out == f"{mine}: edit it, then `stsq plan {mine}`\n"
    copied, own = load_sweep(mine), load_sweep("width_vs_T")
    assert copied == own.model_copy(update={"name": "mine"})
    first, note, *rest = mine.read_text().splitlines()
    original = read_catalog("width_vs_T").replace("name: width_vs_T", "name: mine").splitlines()
    assert [first, *rest] == original  # with its comments
    assert note == "# Copied from stsq's width_vs_T: what comments say of runs and claims is about that sweep."
    assert first == "# yaml-language-server: $schema=sweep.schema.json"  # no path of this machine
    assert (tmp_path / "sweep.schema.json").read_text() == schema_text()


def test_new_renews_its_schema_and_keeps_another_file(here: Here, tmp_path: Path) -> None:
    beside = tmp_path / "sweep.schema.json"
    beside.write_text('{"$id": "urn:stsq:sweep", "of": "an older version"}')
    assert here("new", "smoke", tmp_path / "first.yaml").code == 0
    assert beside.read_text() == schema_text()
    beside.write_text("another's")
    assert here("new", "smoke", tmp_path / "second.yaml").code == 0
    assert beside.read_text() == "another's"


@pytest.mark.slow
def test_new_copies_the_sweep_of_a_run_without_its_checksum(
    here: Here, write_sweep: Write, small: dict[str, Any], tmp_path: Path
) -> None:
    run, mine = tmp_path / "run", tmp_path / "mine.yaml"
    here("run", write_sweep(small), "--out", run, "--inline", "--wandb", "disabled")
    assert here("new", run, mine).code == 0
    assert "checksum" not in mine.read_text()
    assert load_sweep(mine).trials == load_sweep(run / "spec.yaml").trials
    assert here("cat", run).out.partition("\n")[2] == mine.read_text().partition("\n")[2]


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("kept.yaml", "is there already, and is kept as it is"),
        ("mine.txt", "must end in .yaml"),
        ("my sweep.yaml", "gives its sweep the name my sweep: a name begins with"),
        ("nowhere/mine.yaml", "cannot be written: No such file or directory"),
    ],
)
def test_new_refuses_and_overwrites_nothing(file: str, reason: str, here: Here, tmp_path: Path) -> None:
    (tmp_path / "kept.yaml").write_text("kept")
    refused = here("new", "smoke", tmp_path / file)
    assert refused.code == 2
    assert reason in refused.err
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["kept.yaml"]
    assert (tmp_path / "kept.yaml").read_text() == "kept"


@pytest.mark.parametrize("command", ["show", "status", "report", "plan", "run", "cat", "open page"])
def test_a_misspelt_run_is_answered_with_the_nearest(
    command: str, here: Here, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("runs/wide_nets", "elsewhere/wide_nets"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "spec.yaml").touch()
    for given, meant in (
        ("runs/wide_net", "runs/wide_nets"),
        ("elsewhere/wide-nets", "elsewhere/wide_nets"),
        ("wide_nets", "runs/wide_nets"),
    ):
        refused = here(*command.split(), given)
        assert refused.code == 2, refused
        assert f"did you mean {meant}?" in refused.err, refused
    assert "did you mean" not in here(*command.split(), "runs/zzz").err
