"""`stsq status` tells how far a run is from its directory alone."""

import io
import json
import re
from pathlib import Path

import pytest
from rich.console import Console
from synthetic_runs import in_training, make_run, packs_of, sweep

from cluster.commands import status
from cluster.commands.cli import main
from cluster.commands.status import show_status
from dashboards.page.run_sections import progress_section
from stsq_core import TrialResult
from sweeps.cells.loading import check_sweep
from sweeps.findings.progress import read_progress
from sweeps.schema.overrides import apply_settings
from sweeps.schema.yaml_source import parse
from sweeps.store.ledger import Ledger, record_of_result
from sweeps.store.run_directory import RunDirectory, create_or_open

RUN = Path("runs/x")


@pytest.fixture
def half(tmp_path: Path) -> RunDirectory:
    return make_run(tmp_path / "run", sweep(), share=0.5)


def test_it_tells_workers_cells_and_the_time_left(half: RunDirectory) -> None:
    packs = packs_of(sweep())
    out = io.StringIO()
    with in_training(half, packs[len(packs) // 2]):
        show_status(Console(file=out, width=150), read_progress(half), run=half.path)
    printed = out.getvalue()
    assert "of 144 trials have ended, about" in printed
    assert "run by process" in printed
    assert printed.count("process ") == 2
    assert "transformer T=16 q=3 d=4" in printed


def test_it_says_where_the_results_are_of_a_run_that_nobody_runs(half: RunDirectory) -> None:
    def second_line() -> str:
        out = io.StringIO()
        show_status(Console(file=out, width=500), read_progress(half), run=half.path)
        return out.getvalue().splitlines()[1]

    assert second_line() == f"results: `stsq show {half.path}`, page: `stsq report {half.path}`"
    page = half.path / "report" / "index.html"
    page.parent.mkdir()
    page.write_text("")
    assert second_line() == f"results: `stsq show {half.path}`, page: {page}"
    with in_training(half, packs_of(sweep())[-1]):
        assert "results" not in second_line()


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
    show_status(Console(file=out, width=150), progress, run=RUN)
    rest = f"and {len(progress.cells) - 1} more cells; --json prints all"
    assert out.getvalue().splitlines()[-1] == rest
    assert sum(line.startswith(("transformer", "fcn")) for line in out.getvalue().splitlines()) == 1


def test_a_search_is_shown_as_what_it_is_expected_to_take(tmp_path: Path) -> None:
    """After one point of about 16 there is no full bar and no search done; the cell that has not begun is listed."""
    spec = check_sweep(apply_settings(parse(HUNT, "hunt.yaml"), ["task.T=8,12"])).spec
    run = create_or_open(tmp_path / "run", spec)
    (first, _) = run.read_sweep().searched
    (config,) = first.trials([(8, 1)])
    Ledger(run.ledger).append(
        [record_of_result(TrialResult(config, "finished", 0.5, 0.01, 100, 1.0), pack_id="p", device="cpu")]
    )
    out, progress = io.StringIO(), read_progress(run)
    show_status(Console(file=out, width=150), progress, run=RUN)
    first_line, results, _, *rows = [" ".join(line.split()) for line in out.getvalue().splitlines()]
    assert first_line == "1 of about 32 trials have ended, 0 of 2 searches done; nobody runs the sweep now"
    assert results == "results: `stsq show runs/x`, page: `stsq report runs/x`"
    assert [row.partition("minibatch ")[2] for row in rows] == ["1 about 16 0 0 0", "0 about 16 0 0 0"]
    page = re.sub(r"<[^>]*>", " ", progress_section(progress).html)
    assert "1 / about 16" in page
    assert "0 / about 16" in page
    assert 'aria-label="1 finished, 15 waiting"' in progress_section(progress).html


HUNT = """\
name: hunt
hypothesis: The least width lies somewhere.
criterion: {target_loss: 0.1}
trials:
  - name: fcn
    base:
      task: {kind: stsq, T: 8, q: 2, d: 2}
      model: {kind: fcn}
      optimizer: {kind: adam, lr: 0.01}
      training: {objective: minibatch, steps: 100}
    search: {low: 4, high: 256}
"""
