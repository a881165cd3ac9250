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
    assert (done.code, done.err) == (0, "")
    names = [Path(line).name for line in done.out.splitlines()]
    assert names == ["workspace.json", "report.json", "statuses.vl.json"]
    assert json.loads(Path("documents/workspace.json").read_text())["section"]["runSets"]
    assert Path("runs/small/spec.yaml").is_file()


def test_a_sweep_to_search_gets_its_documents_before_anything_has_run(here: Here) -> None:
    done = here("wandb", "setup", "quickstart", "--json", "documents")
    assert (done.code, done.err) == (0, "")
    workspace = Path("documents/workspace.json").read_text()
    assert "task.value.T" in workspace


def test_a_run_gets_its_documents_with_its_thresholds(here: Here, write_sweep: Callable[..., Path]) -> None:
    assert here("run", write_sweep(), "--inline", "--wandb", "disabled").code == 0
    for target in ("runs/small", write_sweep()):
        done = here("wandb", "setup", target, "--json", "documents")
        assert (done.code, len(done.out.splitlines())) == (0, 5)
        assert "Width thresholds" in Path("documents/report.json").read_text()


def test_without_a_key_the_way_without_an_account_is_told(here: Here, write_sweep: Callable[..., Path]) -> None:
    done = here("wandb", "setup", write_sweep())
    assert done.code == 2
    assert "set WANDB_API_KEY" in done.err
    assert "--json DIR" in done.err


def test_what_is_neither_a_run_nor_a_sweep_is_refused(here: Here, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "holds no spec.yaml" in here("wandb", "setup", "empty").err
    assert here("wandb", "setup", "no-such-sweep").code == 2
