"""`stsq runs`, `stsq rm` and `stsq show A B`: what they print, and what they refuse."""

import json
import re
from pathlib import Path

import pytest
from synthetic_runs import folder_of_runs, fully_connected, in_training, make_run, measured, packs_of, sweep, transformers
from typer.testing import CliRunner

from cluster.commands.cli import app, main
from dashboards.page.comparison import Compared, comparison_of
from dashboards.words.threshold_words import ratio_words
from stsq_core import TrialConfig, TrialResult
from sweeps.findings import read_findings, read_progress
from sweeps.store.run_directory import Lock


def output(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "300"})
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return folder_of_runs(tmp_path / "runs")


def test_runs_are_listed_with_state_progress_and_result(folder: Path) -> None:
    whole = "From T = 16 to 32 a transformer needs"
    rows = {line.split()[0]: line for line in output("runs", folder).splitlines()[1:] if line.split()}
    assert {"whole", "half/of_it", "torn"} <= set(rows)
    assert "notes" not in rows
    assert "complete" in rows["whole"]
    assert "36 of 36" in rows["whole"]
    assert whole in rows["whole"]
    assert "not running" in rows["half/of_it"]
    assert "unreadable" in rows["torn"]
    listed = {Path(run["path"]).name: run for run in json.loads(output("runs", folder, "--json"))}
    assert listed["whole"]["state"] == "complete"
    assert listed["whole"]["headline"].startswith(whole)
    assert listed["whole"]["num_ended"] == listed["whole"]["num_trials"] == 36
    assert "spec.yaml" in listed["torn"]["headline"]


def test_a_run_in_training_is_listed_as_running(folder: Path) -> None:
    spec = sweep(trials=[transformers([16, 32])])
    run = make_run(folder / "now", spec, share=0.5)
    with in_training(run, packs_of(spec)[-1]):
        assert next(one for one in json.loads(output("runs", run.path, "--json")))["state"] == "running"


def test_a_folder_without_runs_says_how_to_make_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "`stsq run SWEEP` makes one" in output("runs", tmp_path)
    with pytest.raises(SystemExit):
        main(["runs", str(tmp_path / "gone")])
    assert "is no folder: give one that holds run directories" in capsys.readouterr().err


def test_rm_asks_and_removes_the_run_alone(folder: Path) -> None:
    run, outside = folder / "whole", folder.parent / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    (run / "link").symlink_to(outside)
    asked = CliRunner().invoke(app, ["rm", str(run)], input="n\n")
    assert f"Remove {run} (36 trials, " in asked.output
    assert (asked.exit_code, run.is_dir()) == (1, True)
    assert CliRunner().invoke(app, ["rm", str(run)], input="y\n").exit_code == 0
    assert not run.exists()
    assert (outside / "kept").exists()
    assert (folder / "half").is_dir()
    assert "removed" in output("rm", folder / "half" / "of_it", "--yes")


def test_rm_refuses_what_is_no_run_a_link_and_a_run_in_use(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = folder / "whole"
    link = folder / "link"
    link.symlink_to(run)
    for path, words in ((folder / "notes", "holds no spec.yaml, so it is no run"), (link, "is a link: give the run directory")):
        with pytest.raises(SystemExit):
            main(["rm", str(path), "--yes"])
        assert words in capsys.readouterr().err
    for lock in (run / "lock", run / "checkpoints" / "0123.claim"):
        lock.parent.mkdir(exist_ok=True)
        with Lock(lock):
            with pytest.raises(SystemExit):
                main(["rm", str(run), "--yes"])
            assert "is in use by process" in capsys.readouterr().err
    assert (run / "spec.yaml").is_file()


def test_two_runs_stand_side_by_side_with_the_ratio_of_their_thresholds(tmp_path: Path) -> None:
    def wider(config: TrialConfig) -> TrialResult:
        narrow = measured(config)
        loss = min(1.0, 8 * (narrow.relative_loss or 1.0))
        return TrialResult(config, "finished", loss, loss / 60, config.training.steps, 0.3)

    one = make_run(tmp_path / "one", sweep(trials=[transformers([16, 32]), fully_connected([4])]))
    two = make_run(tmp_path / "two", sweep(trials=[transformers([16, 32, 64]) | {"seeds": [7, 8, 9]}]), wider)
    lines = output("show", one.path, two.path).splitlines()
    rows = [line for line in lines if line.startswith("Transformer")]
    assert [("T = 16" in row, "T = 32" in row) for row in rows] == [(True, False), (False, True)]
    assert "two / one" in lines[1]
    ratio = float(rows[0].rsplit("(", 1)[0].split()[-1])
    assert 1.1 < ratio < 2.5
    assert "2 cells in common; the interval of the ratio lies beside 1 in 2." in lines
    assert "2 more cells are in one of the runs only." in lines


def test_runs_of_the_same_trials_say_so_and_give_no_interval(tmp_path: Path) -> None:
    """All of a cell's trials, in the one run before and in the other after more seeds, on the terminal and on the page."""
    group = transformers([16])
    one, copy = (make_run(tmp_path / name, sweep(trials=[group | {"seeds": [1, 2, 3]}])) for name in ("one", "copy"))
    more = make_run(tmp_path / "more", sweep(trials=[group | {"seeds": [1, 2, 3, 4, 5, 6]}]))
    lines = output("show", one.path, copy.path).splitlines()
    assert next(line for line in lines if line.startswith("Transformer")).endswith("  1.00, the same trials")
    assert "1 cell in common, of the same trials in both runs: nothing of the ratio is chance." in lines
    lines = output("show", one.path, more.path).splitlines()
    row = next(line for line in lines if line.startswith("Transformer"))
    assert re.search(r"  \d\.\d\d \(\d\.\d\d to \d\.\d\d\), 18 of 36 trials shared$", row), row
    assert "Intervals of ratios are those of independent trials: too wide where the runs share some." in lines
    compared = [Compared(run.path.name, read_findings(run.path), read_progress(run)) for run in (one, copy, more)]
    pages = [section.html for section in comparison_of(compared[:2], pages=["a", "b"]).sections]
    assert any("1.00, the same trials</td>" in page and ">the same trials</td>" in page for page in pages)
    pages = [section.html for section in comparison_of(compared, pages=["a", "b", "c"]).sections]
    assert any(", 18 of 36 trials shared</td>" in page for page in pages)


def test_runs_without_a_cell_in_common_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one = make_run(tmp_path / "one", sweep(trials=[transformers([16])]))
    two = make_run(tmp_path / "two", sweep(trials=[transformers([32])]))
    with pytest.raises(SystemExit):
        main(["show", str(one.path), str(two.path)])
    assert "have no cell in common" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        ((1.0, 0.9, 1.1), "1.00 (0.90 to 1.10)"),
        ((1.0, 0.0, 1.1), "1.00 (below 1.10)"),
        ((float("nan"), 1.2, float("inf")), "above 1.20"),
        ((float("nan"), 0.0, float("inf")), ""),
    ],
)
def test_a_ratio_with_an_open_end_is_an_inequality(ratio: tuple[float, float, float], words: str) -> None:
    assert ratio_words(*ratio) == words
