"""`stsq wandb setup`: from a run or from a sweep, with and without an account."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Here = Callable[..., Any]


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No stored key of whoever runs the tests."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("NETRC", raising=False)


def test_a_sweep_gets_its_documents_before_anything_has_run(here: Here, write_sweep: Callable[..., Path]) -> None:
    done = here("wandb", "setup", write_sweep(), "--json", "documents")
    assert (done.code, done.err) == (0, "W&B: project stsq (by default), entity your own (by default)\n")
    names = [Path(line).name for line in done.out.splitlines()]
    assert names == ["workspace.json", "report.json", "statuses.vl.json"]
    assert json.loads(Path("documents/workspace.json").read_text())["section"]["runSets"]
    assert Path("runs/small/spec.yaml").is_file()


def test_a_sweep_to_search_gets_its_documents_before_anything_has_run(here: Here) -> None:
    done = here("wandb", "setup", "quickstart", "--json", "documents")
    assert done.code == 0
    workspace = Path("documents/workspace.json").read_text()
    assert "task.value.T" in workspace


def test_a_run_gets_its_documents_with_its_thresholds(here: Here, write_sweep: Callable[..., Path]) -> None:
    assert here("run", write_sweep(), "--inline", "--wandb", "disabled").code == 0
    for target in ("runs/small", write_sweep()):
        done = here("wandb", "setup", target, "--json", "documents")
        assert (done.code, len(done.out.splitlines())) == (0, 5)
        assert "Width thresholds" in Path("documents/report.json").read_text()


@pytest.mark.slow
def test_project_and_entity_are_said_and_serve_later_runs(
    here: Here, write_sweep: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    named = ("--wandb-project", "widths", "--wandb-entity", "lab")
    done = here("wandb", "setup", write_sweep(), "--json", "documents", *named)
    assert (done.code, done.err) == (0, "W&B: project widths (--wandb-project), entity lab (--wandb-entity)\n")
    assert '"lab/stsq-' in Path("documents/workspace.json").read_text()  # where its charts are
    again = here("wandb", "setup", "runs/small", "--json", "documents")
    assert again.err == "W&B: project widths (asked for before), entity lab (asked for before)\n"
    assert here("run", write_sweep(), "--inline", "--wandb", "offline").code == 0
    files = list(Path("runs/small/wandb").glob("offline-run-*/*.wandb"))
    assert len(files) == 8
    assert all(b"widths" in path.read_bytes() and b"lab" in path.read_bytes() for path in files)
    monkeypatch.setenv("WANDB_PROJECT", "here")
    assert "project here (WANDB_PROJECT)" in here("wandb", "setup", "runs/small", "--json", "documents").err


@pytest.mark.parametrize("command", ["setup", "sync"])
@pytest.mark.parametrize(("option", "name"), [("--wandb-project", "a/b"), ("--wandb-entity", ""), ("--wandb-entity", "a b/c")])
def test_a_name_that_wandb_would_refuse_is_refused_before_anything_is_made(
    here: Here, write_sweep: Callable[..., Path], command: str, option: str, name: str
) -> None:
    done = here("wandb", command, write_sweep(), option, name)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"stsq: {option}: ")
    assert not Path("runs").exists()


def test_without_a_key_the_way_without_an_account_is_told(here: Here, write_sweep: Callable[..., Path]) -> None:
    done = here("wandb", "setup", write_sweep())
    assert done.code == 2
    assert "set WANDB_API_KEY" in done.err
    assert "--json DIR" in done.err


def test_what_is_neither_a_run_nor_a_sweep_is_refused(here: Here, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "holds no spec.yaml" in here("wandb", "setup", "empty").err
    assert here("wandb", "setup", "no-such-sweep").code == 2
