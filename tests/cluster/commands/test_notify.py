"""`stsq run --notify COMMAND` with real processes: what the command gets when a sweep ends, fails, is stopped or stalls."""

import json
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cluster.run import notices

Write = Callable[..., Path]
Here = Callable[..., Any]
QUIET = ("--inline", "--wandb", "disabled")


@pytest.fixture
def hook(tmp_path: Path) -> str:
    """A command that adds what it gets to a file."""
    (tmp_path / "tell.py").write_text("import sys\nwith open(sys.argv[1], 'a') as file: file.write(sys.stdin.read())\n")
    return shlex.join([sys.executable, str(tmp_path / "tell.py"), str(tmp_path / "told.jsonl")])


def told(folder: Path) -> list[dict[str, Any]]:
    path = folder / "told.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.slow
def test_a_sweep_that_ends_tells_its_results(here: Here, write_sweep: Write, hook: str, tmp_path: Path) -> None:
    done = here("run", write_sweep(), *QUIET, "--notify", hook)
    assert done.code == 0
    assert "notify" not in done.err
    (summary,) = told(tmp_path)
    assert summary["state"] == "ended"
    assert (summary["name"], summary["run"]) == ("small", str(tmp_path / "runs/small"))
    assert (summary["verdict"], summary["exit_code"]) == ("every trial ended as a result", 0)
    assert (summary["trials_done"], summary["trials_failed"]) == (8, 0)
    assert summary["headline"]
    assert 0 < summary["seconds"] < 600
    assert {one["cell"].split()[0] for one in summary["thresholds"]} == {"transformer", "fcn"}
    assert {"cell", "target", "status", "m_star", "M", "low", "high"} == set(summary["thresholds"][0])
    assert here("run", write_sweep(), *QUIET, "--notify", hook).code == 0  # complete: it ends again, and says so again
    assert [one["state"] for one in told(tmp_path)] == ["ended", "ended"]


def test_the_command_is_in_no_file_of_the_run(here: Here, write_sweep: Write, tmp_path: Path) -> None:
    command = shlex.join([sys.executable, "-c", "pass", "a-secret-token"])
    assert here("run", write_sweep(), *QUIET, "--notify", command).code == 0
    files = [path for path in (tmp_path / "runs").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if b"a-secret-token" in path.read_bytes()]


@pytest.mark.slow
def test_a_command_that_fails_or_hangs_changes_nothing(
    here: Here, write_sweep: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(notices, "TIMEOUT_S", 1.0)
    fails, hangs = (
        shlex.join([sys.executable, "-c", code]) for code in ("raise SystemExit(7)", "import time; time.sleep(600)")
    )
    done = here("run", write_sweep(), *QUIET, "--notify", fails)
    assert done.code == 0
    assert done.err.count("notify") == 1
    assert f"--notify: {sys.executable} ended with exit code 7; the run is as it was" in done.err
    ledger = (tmp_path / "runs/small/ledger.jsonl").read_bytes()
    done = here("run", write_sweep(), *QUIET, "--notify", hangs)
    assert done.code == 0
    assert f"--notify: {sys.executable} took longer than 1 s and was ended; the run is as it was" in done.err
    assert (tmp_path / "runs/small/ledger.jsonl").read_bytes() == ledger


def test_what_is_no_command_is_refused_before_anything_is_made(here: Here, write_sweep: Write, tmp_path: Path) -> None:
    done = here("run", write_sweep(), *QUIET, "--notify", "tell 'it")
    assert (done.code, done.err) == (2, "stsq: --notify cannot be split into words: No closing quotation\n")
    assert not (tmp_path / "runs").exists()


def test_a_budget_that_is_spent_and_an_error_are_failures(
    here: Here, write_sweep: Write, small: dict[str, Any], hook: str, tmp_path: Path
) -> None:
    done = here("run", write_sweep(), *QUIET, "--notify", hook, "--set", "budget.minutes=0.00001")
    assert done.code == 1
    (tmp_path / "runs/small/ledger.jsonl").unlink(missing_ok=True)
    (tmp_path / "runs/small/ledger.jsonl").mkdir()
    assert here("run", write_sweep(), *QUIET, "--notify", hook).code == 2
    spent, broken = told(tmp_path)
    assert (spent["state"], spent["exit_code"], spent["verdict"]) == ("failed", 1, "8 trials are untrained")
    assert (broken["state"], broken["exit_code"]) == ("failed", 2)
    assert "ledger.jsonl" in broken["verdict"]


def test_a_sweep_that_is_stopped_says_by_what(
    stsq: Any, write_sweep: Write, small: dict[str, Any], until: Any, hook: str
) -> None:
    small["trials"][0]["base"]["training"] |= {"steps": 60_000, "log_every": 100}
    process = stsq.start("run", write_sweep(small), *QUIET, "--notify", hook)
    until(lambda: list((stsq.folder / "runs/small").glob("curves/*.jsonl")), what="training")
    process.send_signal(signal.SIGTERM)
    assert stsq.wait(process).code == 130
    (summary,) = told(stsq.folder)
    assert (summary["state"], summary["verdict"], summary["exit_code"]) == ("stopped", "stopped by SIGTERM", 130)
    assert summary["headline"] == f"{summary['trials_done']} trials ended"


def test_a_sweep_that_stalls_says_so_once_and_then_that_it_ended(
    stsq: Any, write_sweep: Write, small: dict[str, Any], hook: str
) -> None:
    """No step is logged before the last one: seen from outside, nothing happens for some seconds."""
    small["trials"] = small["trials"][:1]
    small["trials"][0]["base"]["training"] |= {"steps": 150_000, "log_every": 150_000}
    ended = stsq.run("run", write_sweep(small), *QUIET, "--notify", hook, "--stalled-after", 0.5, "--checkpoint-every", 600)
    assert ended.code == 0, ended
    stalled, *others, summary = told(stsq.folder)  # others, where another pack is silent in its turn
    assert {(one["state"], one["exit_code"]) for one in (stalled, *others)} == {("stalled", None)}
    assert summary["state"] == "ended"
    assert stalled["verdict"].startswith("no trial has ended and no step was trained for ")
    assert "of 4 trials" in stalled["headline"]
    assert ended.err.count("stalled: no trial has ended and no step was trained") == 1 + len(others) <= 4
