import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sweeps.store.sessions import elapsed_minutes, read_sessions, session


def test_a_session_is_written_down_with_its_circumstances(run):
    with session(run, ["stsq", "run", "a sweep"]):
        (now,) = read_sessions(run)
        assert now.ended_at is None
    (then,) = read_sessions(run)
    assert then.outcome == "ended"
    assert then.command == "stsq run 'a sweep'"
    assert {"python", "numpy", "torch"} <= then.versions.keys()
    assert then.cpu
    assert then.num_cpus == os.cpu_count()


def test_an_error_is_the_outcome_and_goes_on(run):
    with pytest.raises(KeyboardInterrupt), session(run):
        raise KeyboardInterrupt
    assert read_sessions(run)[0].outcome == "stopped by KeyboardInterrupt"


def test_time_adds_up_over_sessions_also_over_killed_ones(run):
    now = time.time()
    lines = [
        {
            "event": "start",
            "at": now - 5000,
            "command": "",
            "host": "",
            "cpu": "",
            "num_cpus": 1,
            "git_revision": None,
            "versions": {},
        },
        {"event": "end", "at": now - 4400, "outcome": "ended"},
        {
            "event": "start",
            "at": now - 2000,
            "command": "",
            "host": "",
            "cpu": "",
            "num_cpus": 1,
            "git_revision": None,
            "versions": {},
        },
    ]
    run.sessions.write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"event": "en')
    run.ledger.write_text("")
    os.utime(run.ledger, (now - 1700, now - 1700))
    with session(run):
        assert [one.outcome for one in read_sessions(run)] == ["ended", "killed", None]
        assert elapsed_minutes(run) == pytest.approx(15, abs=0.2)


def test_no_session_yet(run):
    assert read_sessions(run) == ()
    assert elapsed_minutes(run) == 0


@pytest.mark.parametrize("jump_s", [-7200.0, 7200.0])
def test_a_clock_that_is_set_in_mid_session_spends_no_time_budget(run, monkeypatch, jump_s):
    clock, steady = [1.7e9], [50.0]
    monkeypatch.setattr(time, "time", lambda: clock[0])
    monkeypatch.setattr(time, "monotonic", lambda: steady[0])
    with session(run):
        clock[0] += jump_s
        steady[0] += 6.0
    assert elapsed_minutes(run) == 0.1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("git") is None, reason="git tells the revision")
@pytest.mark.parametrize("edited", ["stsq_core/training/stack.py", "sweeps/sampler/threshold_sampler.py"])
def test_a_session_says_that_its_code_differs_from_the_commit(tmp_path: Path, edited: str) -> None:
    root = Path(__file__).parents[3]
    for name in ("stsq_core", "sweeps", "dashboards", "cluster", "stsq"):
        shutil.copytree(root / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost", "-C", str(tmp_path)]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *arguments], check=True)
    command = [sys.executable, "-c", "from sweeps.store.sessions import _git_revision; print(_git_revision())"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}

    def revision() -> str:
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True).stdout.strip()

    clean = revision()
    assert len(clean) == 40
    with (tmp_path / edited).open("a") as file:
        file.write("# edited\n")
    assert revision() == f"{clean} with changes"
