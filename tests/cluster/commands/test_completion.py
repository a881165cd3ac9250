"""What a shell completes: commands, sweeps, run directories, fields of `--set`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.commands.cli import app
from sweeps.cells import catalog_names
from sweeps.schema import settable_fields

ROOT = Path(__file__).parents[3]


def completed(line: str) -> list[str]:
    """What is offered for the last word of a line."""
    words = line.split(" ")
    asked = {"_STSQ_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
    shown = CliRunner().invoke(app, [], prog_name="stsq", env=asked)
    assert shown.exit_code == 0, shown.output
    return shown.output.split()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with two runs, a folder that is none, and a sweep file."""
    monkeypatch.chdir(tmp_path)
    for run in ("runs/wide", "runs/deep", "elsewhere/wide"):
        (tmp_path / run).mkdir(parents=True)
        (tmp_path / run / "spec.yaml").touch()
    (tmp_path / "runs/notes").mkdir()
    (tmp_path / "mine.yaml").touch()
    return tmp_path


def test_commands_are_completed_in_the_order_of_use() -> None:
    offered = completed("stsq ")
    assert offered[:5] == ["list", "cat", "new", "plan", "run"]
    assert completed("stsq wandb s") == ["sync", "setup"]


def test_sweeps_are_names_files_and_runs(folder: Path) -> None:
    assert completed("stsq plan figure") == [name for name in catalog_names() if name.startswith("figure")]
    assert completed("stsq run mi") == ["mine.yaml"]
    assert completed("stsq run r") == ["rank_needed", "runs/deep", "runs/wide"]
    assert completed("stsq cat quick") == ["quickstart"]


@pytest.mark.parametrize("command", ["show", "status", "report", "check", "trial", "open optuna", "wandb sync"])
def test_run_directories_are_completed(command: str, folder: Path) -> None:
    assert completed(f"stsq {command} ") == ["runs/deep", "runs/wide"]
    assert completed(f"stsq {command} elsewhere/") == ["elsewhere/wide"]
    assert completed(f"stsq {command} {folder}/runs/w") == [f"{folder}/runs/wide"]
    assert completed(f"stsq {command} nowhere/") == []


def test_fields_of_settings_are_completed() -> None:
    assert completed("stsq run quickstart --set task.T") == ["task.T="]
    assert completed("stsq plan quickstart --set net:optimizer.l") == ["net:optimizer.lr="]
    every = [f"{name}=" for name in settable_fields()]
    assert completed("stsq plan --set ") == every
    assert completed("stsq plan quickstart --set ") == ["transformer:", "fcn:", *every]


def test_groups_of_the_sweep_on_the_line_are_completed(folder: Path) -> None:
    """Also behind other options, and of a run; a sweep that cannot be read offers none."""
    assert completed("stsq run quickstart --set transf") == ["transformer:"]
    assert completed("stsq run --out runs/new quickstart --set transformer:task.T=8 --set transformer:task.T") == [
        "transformer:task.T="
    ]
    (folder / "runs/wide/spec.yaml").write_text("name: wide\ntrials: [{name: trees}, {name: nets}]\n")
    assert completed("stsq run runs/wide --set tr")[0] == "trees:"
    for unreadable in ("nowhere.yaml", "mine.yaml", "runs/deep"):
        assert completed(f"stsq run {unreadable} --set task.T") == ["task.T="]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_script_that_is_shown_completes_in_bash(tmp_path: Path) -> None:
    stsq = tmp_path / "stsq"
    program = "import sys; sys.argv[0] = 'stsq'; from stsq.__main__ import main; main()"
    stsq.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{program}" "$@"\n')
    stsq.chmod(0o755)
    line = (
        'eval "$(stsq --show-completion)"; COMP_WORDS=(stsq plan width_vs_); COMP_CWORD=2; '
        '_stsq_completion stsq; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", line], env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split() == [name for name in catalog_names() if name.startswith("width_vs_")], done
