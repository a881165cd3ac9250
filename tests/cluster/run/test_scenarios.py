"""What users of such tools ran into, and no other test tries: large grids, many swept keys, late jumps."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wandb_files import read_run

from sweeps.store.journal import read_curves
from sweeps.store.ledger import Ledger
from sweeps.store.run_directory import RunDirectory

Write = Callable[..., Path]
Here = Callable[..., Any]
Numbers = Callable[[Path], dict[str, tuple[object, ...]]]

QUIET = ("--inline", "--wandb", "disabled")


def test_a_grid_of_450_killed_after_50_trains_exactly_the_others(
    stsq: Any, here: Here, write_sweep: Write, small: dict[str, Any], until: Any, numbers: Numbers
) -> None:
    """Scenario 8: kill a grid at 50 of 450: exactly the others, and what was there stays as it is."""
    small["trials"] = small["trials"][1:]
    small["trials"][0] |= {"grid": {"model.width": [2, 4, 8], "task.T": [4, 5, 6]}, "seeds": 50}
    small["trials"][0]["base"]["training"]["steps"] = 300
    sweep, ledger = write_sweep(small), stsq.folder / "runs/small/ledger.jsonl"
    process = stsq.start("run", sweep, *QUIET)
    until(lambda: ledger.exists() and ledger.read_bytes().count(b"\n") >= 50, what="50 trials")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = ledger.read_bytes()
    num_held = before.count(b"\n")
    assert 50 <= num_held < 450
    again = here("run", sweep, *QUIET)
    assert again.code == 0, again
    num_adopted = 450 - num_held - trained(again.err)
    assert num_adopted in range(65), "a pack may have ended that nobody wrote down"
    assert ledger.read_bytes().startswith(before)
    assert len(numbers(ledger.parent)) == 450


def trained(printed: str) -> int:
    """The number of trials that a run says it trained."""
    (line,) = [line for line in printed.splitlines() if " trials ended" in line]
    return int(line.split(" trials ended")[0].split()[-1])


@pytest.mark.slow
def test_500_trials_leave_a_small_directory(here: Here, tmp_path: Path, write_sweep: Write, small: dict[str, Any]) -> None:
    """Scenario 13: the run directory stays small, and holds no weights unless they are asked for."""
    small["trials"] = small["trials"][1:]
    small["trials"][0] |= {"grid": {"model.width": [2, 4, 6, 8, 16]}, "seeds": 100}
    assert here("run", write_sweep(small), *QUIET).code == 0
    files = [path for path in (tmp_path / "runs/small").rglob("*") if path.is_file()]
    assert len(Ledger(tmp_path / "runs/small/ledger.jsonl").read()) == 500
    assert len(files) < 50
    assert sum(path.stat().st_size for path in files) < 2 * 2**20
    assert not [path for path in files if path.suffix in (".npz", ".state", ".claim", ".pkl")]


TWELVE = {
    "task.T": [4, 5],
    "task.q": [2],
    "task.d": [2, 3],
    "model.width": [2, 4],
    "model.tail_width": [8, 16],
    "optimizer.lr": [0.012345678901, 0.02],
    "optimizer.kind": ["adam"],
    "training.batch_size": [8],
    "training.steps": [200],
    "training.log_every": [50],
    "evaluation.samples": [4096],
    "evaluation.every": [100],
}


@pytest.mark.slow
def test_names_and_paths_of_twelve_swept_keys_are_short(
    here: Here, tmp_path: Path, write_sweep: Write, small: dict[str, Any]
) -> None:
    """Scenario 12: under 100 characters, in the run directory and in W&B. Losses after 200 steps are 0.47 to 0.90."""
    small["trials"], small["criterion"] = small["trials"][1:], {"target_loss": 0.95}
    small["trials"][0] |= {"grid": TWELVE, "seeds": 1}
    ended = here("run", write_sweep(small), "--inline", "--wandb", "offline")
    assert ended.code == 0, ended
    run = tmp_path / "runs/small"
    assert len(Ledger(run / "ledger.jsonl").read()) == 32
    assert max(len(str(path.relative_to(run))) for path in run.rglob("*")) < 100
    printed = [read_run(path) for path in run.glob("wandb/offline-run-*/*.wandb")]
    assert len(printed) == 32
    names = [name for one in printed for name in (one.run_id, one.name, one.group, one.job_type, *one.tags)]
    assert all(len(name) < 100 for name in names)
    assert len({one.name for one in printed}) == 32


def test_a_long_plateau_with_a_late_jump_is_trained_to_its_end(
    here: Here, tmp_path: Path, write_sweep: Write, small: dict[str, Any]
) -> None:
    """Scenario 28: not cut short and called unsolved."""
    small["trials"] = small["trials"][:1]
    small["trials"][0] |= {"grid": {}, "seeds": 1}
    base = small["trials"][0]["base"]
    base |= {"task": {"T": 40, "q": 2, "d": 2}, "optimizer": {"kind": "gd", "lr": 1.0}}
    base |= {"model": {"kind": "transformer", "positions": {"kind": "one_hot"}}}
    base["training"] |= {"steps": 1_500, "log_every": 50}
    ended = here("run", write_sweep(small), *QUIET)
    assert ended.code == 0, ended
    (record,) = Ledger(tmp_path / "runs/small/ledger.jsonl").read()
    steps, losses = read_curves(RunDirectory(tmp_path / "runs/small"))[record.trial_id]
    assert steps[-1] == record.steps == 1_500
    assert losses[steps <= 300].min() > 0.85, "a plateau of a fifth of the budget"
    assert record.relative_loss is not None
    assert record.relative_loss < 0.3
    assert json.loads(here("show", tmp_path / "runs/small", "--json").out)["thresholds"][0]["status"] != "failed"


def test_a_kill_two_seconds_after_the_start_leaves_a_fresh_start(
    stsq: Any, here: Here, write_sweep: Write, small: dict[str, Any], until: Any, numbers: Numbers
) -> None:
    """Scenario 10: as early as there is anything to be torn, the run starts anew with no traceback."""
    sweep, run = write_sweep(small), stsq.folder / "runs/small"
    process = stsq.start("run", sweep, *QUIET)
    until(lambda: (run / "lock").exists(), what="the run directory")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    again = here("run", sweep, *QUIET)
    assert again.code == 0, again
    assert "Traceback" not in again.err
    assert len(numbers(run)) == 8


def test_a_run_while_the_clock_jumps_is_the_same_run(
    here: Here, tmp_path: Path, write_sweep: Write, numbers: Numbers, monkeypatch: Any
) -> None:
    """The wall clock jumps by an hour, forth and back, at every look: it decides no number, no order and no budget."""
    import time

    assert here("run", write_sweep(), *QUIET, "--out", "undisturbed").code == 0
    real, looks = time.time, iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: real() + 3600.0 * (-1) ** next(looks))
    ended = here("run", write_sweep(), *QUIET, "--set", "budget.minutes=50")
    assert ended.code == 0, ended
    assert numbers(tmp_path / "runs/small") == numbers(tmp_path / "undisturbed")
    assert here("run", write_sweep(), *QUIET, "--set", "budget.minutes=50").code == 0
