"""`stsq status` tells how far a run is from its directory alone."""

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from synthetic_runs import in_training, make_run, packs_of, sweep

from cluster.commands import status
from cluster.commands.cli import main
from cluster.commands.status import show_status
from sweeps.findings.progress import read_progress
from sweeps.store.run_directory import RunDirectory


@pytest.fixture
def half(tmp_path: Path) -> RunDirectory:
    return make_run(tmp_path / "run", sweep(), share=0.5)


def test_it_tells_workers_cells_and_the_time_left(half: RunDirectory) -> None:
    packs = packs_of(sweep())
    out = io.StringIO()
    with in_training(half, packs[len(packs) // 2]):
        show_status(Console(file=out, width=150), read_progress(half))
    printed = out.getvalue()
    assert "of 144 trials have ended, about" in printed
    assert "run by process" in printed
    assert printed.count("process ") == 2
    assert "transformer T=16 q=3 d=4" in printed


def test_json_is_complete_and_counts_every_trial(half: RunDirectory, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["status", str(half.path), "--json"])
    assert ended.value.code == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["num_trials"] == 144
    assert sum(cell["num_ended"] for cell in printed["cells"]) == printed["num_ended"]
    assert printed["seconds_left"] is None
    assert printed["workers"] == []


def test_what_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["status", str(tmp_path)])
    assert ended.value.code == 2
    assert "no run" in capsys.readouterr().err


def test_of_very_many_cells_the_first_are_shown(half: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "SHOWN_CELLS", 1)
    out, progress = io.StringIO(), read_progress(half)
    show_status(Console(file=out, width=150), progress)
    rest = f"and {len(progress.cells) - 1} more cells; --json prints all"
    assert out.getvalue().splitlines()[-1] == rest
    assert sum(line.startswith(("transformer", "fcn")) for line in out.getvalue().splitlines()) == 1
