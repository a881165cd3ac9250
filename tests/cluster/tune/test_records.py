"""What Tune's files keep of packs is bounded, and what is no pack has no file."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cluster.tune import records

ROW: dict[str, Any] = dict.fromkeys(records.SETTINGS, 1) | {"pack": "p", "median_loss": 0.25, "training_iteration": 1}


def trial(folder: Path) -> Any:
    return SimpleNamespace(local_path=str(folder), init_local_path=lambda: folder.mkdir(exist_ok=True))


def test_the_first_packs_alone_have_a_file_for_tensorboard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MOST_EVENT_FILES", 2)
    files = records.EventFiles()
    files.log_trial_result(1, trial(tmp_path / "ready"), {"training_iteration": 1})
    for name in "abc":
        files.log_trial_result(1, trial(tmp_path / name), ROW)
    monkeypatch.setattr(records, "MOST_EVENT_FILES", 3)
    files.log_trial_result(1, trial(tmp_path / "none" / "such"), ROW)  # what cannot be written ends no run
    assert sorted(path.parent.name for path in tmp_path.glob("*/events.out.tfevents.*")) == ["a", "b"]


def test_the_table_is_written_at_times_and_at_the_end_and_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "progress_table", lambda trials, *columns, max_rows: f"{len(trials)} of {max_rows}")
    table = records.ProgressTable(tmp_path / "session")
    table.on_step_end(1, [])  # before Tune has made the folder
    (tmp_path / "session").mkdir()
    table = records.ProgressTable(tmp_path / "session")
    table.on_step_end(1, [1])
    table.on_step_end(2, [1, 2])
    path = tmp_path / "session/progress.txt"
    assert path.read_text() == "1 of 50\n"
    table.on_experiment_end([1, 2, 3])
    assert path.read_text() == "3 of 50\n"
