"""What W&B gets is what the ledger and the journals hold, number by number, once, however often publishing is cut off."""

import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from wandb_files import OfflineRun, read_run

from dashboards.publishing.process import RESTARTS, PublisherProcess
from dashboards.publishing.published import directory_id
from dashboards.publishing.publisher import publish, sync
from stsq_core import UserError
from sweeps.cells.trials import cell_of
from sweeps.store.journal import read_curves, read_metrics
from sweeps.store.ledger import Ledger, LedgerRecord
from sweeps.store.run_directory import RunDirectory

MakeRun = Callable[..., RunDirectory]

SMALL = {
    "name": "fcn",
    "base": {
        "task": {"kind": "stsq", "T": 4, "q": 2, "d": 2},
        "model": {"kind": "fcn", "width": 8},
        "optimizer": {"kind": "adam", "lr": 0.01},
        "training": {"objective": "minibatch", "batch_size": 128, "steps": 2000},
    },
    "grid": {"model.width": [4, 8], "task.T": [4, 8]},
    "seeds": 2,
}


def runs_of(run: RunDirectory) -> dict[str, OfflineRun]:
    """The offline runs by the trial they hold; fails where a trial has more than one file."""
    files = sorted(run.wandb.glob("offline-run-*/*.wandb"))
    runs = {str(read.config["trial_id"]): read for read in map(read_run, files)}
    assert len(runs) == len(files)
    return runs


def assert_equal(run: RunDirectory, record: LedgerRecord, shown: OfflineRun) -> None:
    """One W&B run against its ledger record and its curve in the journal."""
    steps, losses = read_curves(run, [record.trial_id], ended_in={record.trial_id: record.pack_id})[record.trial_id]
    assert [row["step"] for row in shown.history] == steps.tolist()
    assert [row["_step"] for row in shown.history] == steps.tolist()
    np.testing.assert_array_equal([row["relative_loss"] for row in shown.history], losses)
    for name in ("status", "relative_loss", "relative_loss_stderr", "steps", "seconds", "reason"):
        assert shown.summary[name] == getattr(record, name), name
    for name, value in (record.metrics or {}).items():
        assert shown.summary[name] == value, name
    own = read_metrics(run, [record.trial_id]).get(record.trial_id, {})
    for name, (at, values) in own.items():
        rows = [row for row in shown.history if name in row]
        assert [row["step"] for row in rows] == at.tolist()
        np.testing.assert_array_equal([row[name] for row in rows], values)
    others = {"step", "relative_loss", "_step", "_runtime", "_timestamp"}
    assert {name for row in shown.history for name in row} - others == own.keys()
    place = {"cell_id": cell_of(record.trial_config), "run_directory": directory_id(run.wandb)}
    expected = {**record.config, "trial_id": record.trial_id, "m": record.trial_config.width, **place}
    assert shown.config == expected | {"cell": shown.config["cell"]}
    assert shown.group.partition("~")[0] in shown.config["cell"]
    assert shown.name.startswith(f"{record.config['model']['kind']} T={record.config['task']['T']} ")
    assert shown.job_type == record.config["model"]["kind"]
    assert shown.exit_code == (1 if record.status == "failed" else 0)


def test_offline_files_equal_the_ledger_and_the_journals_number_by_number(make_run: MakeRun) -> None:
    run = make_run(trials=[SMALL])
    report = publish(run.path)
    records = Ledger(run.ledger).read()
    assert (report.mode, report.num_published, report.num_missing) == ("offline", len(records), 0)
    shown = runs_of(run)
    assert shown.keys() == {record.trial_id for record in records}
    for record in records:
        assert_equal(run, record, shown[record.trial_id])
    groups = {record.config["task"]["T"]: shown[record.trial_id].group for record in records}
    assert len(set(groups.values())) == 2
    assert groups[4].startswith("fcn T=4 q=2 d=2")
    assert all("synthetic" in one.tags for one in shown.values())


def test_metrics_are_published_beside_the_losses_of_their_steps(make_run: MakeRun, diverged: Callable[..., object]) -> None:
    base = SMALL["base"] | {"evaluation": {"every": 500, "q_test": [1, 3]}}
    run = make_run(trials=[SMALL | {"base": base}])
    publish(run.path)
    records, shown = Ledger(run.ledger).read(), runs_of(run)
    for record in records:
        assert set(record.metrics or {}) == {f"{kind}{way}" for kind in ("loss", "loss_stderr") for way in ("", "@q=1", "@q=3")}
        assert_equal(run, record, shown[record.trial_id])
    assert publish(run.path).num_published == 0
    plain, asked = (read_metrics(r, None) for r in (make_run("plain", trials=[SMALL]), run))
    assert (plain, asked.keys()) == ({}, {record.trial_id for record in records})


def test_diverged_and_failed_trials_are_published_as_what_they_are(make_run: MakeRun, diverged: Callable[..., object]) -> None:
    run = make_run(trials=[SMALL], outcome=lambda config: diverged(config) if config.width == 4 else "worker lost: <killed>")
    publish(run.path)
    shown, records = runs_of(run), Ledger(run.ledger).read()
    assert {record.status for record in records} == {"diverged", "failed"}
    for record in records:
        assert_equal(run, record, shown[record.trial_id])
        assert record.status in shown[record.trial_id].tags


def test_publishing_again_does_nothing(make_run: MakeRun) -> None:
    run = make_run(trials=[SMALL])
    first = publish(run.path)
    before = {path: path.stat().st_mtime_ns for path in run.wandb.rglob("*.wandb")}
    again = publish(run.path)
    assert (again.num_published, again.num_up_to_date) == (0, first.num_published)
    assert {path: path.stat().st_mtime_ns for path in run.wandb.rglob("*.wandb")} == before


@pytest.mark.slow
def test_a_killed_publisher_leaves_one_complete_file_a_trial_after_the_next(make_run: MakeRun) -> None:
    run = make_run(trials=[{**SMALL, "seeds": 150}])
    process = subprocess.Popen([sys.executable, "-m", "dashboards.publishing", str(run.path)], stderr=subprocess.DEVNULL)
    _wait(lambda: len(list(run.wandb.glob("offline-run-*"))) >= 260)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert len(list(run.wandb.glob("offline-run-*"))) < 600
    publish(run.path)
    shown = runs_of(run)
    records = Ledger(run.ledger).read()
    assert len(shown) == len(records) == 600
    for record in records:
        assert_equal(run, record, shown[record.trial_id])


def test_a_trial_that_was_tried_again_replaces_its_file(make_run: MakeRun, fill: Callable[..., None]) -> None:
    run = make_run(trials=[SMALL], outcome=lambda _config: "out of memory")
    publish(run.path)
    fill(run, run.read_spec())
    publish(run.path)
    shown = runs_of(run)
    assert {one.summary["status"] for one in shown.values()} == {"finished"}
    for record in Ledger(run.ledger).read():
        assert_equal(run, record, shown[record.trial_id])


def test_a_full_disk_is_logged_and_costs_no_trial(make_run: MakeRun, caplog: pytest.LogCaptureFixture) -> None:
    run = make_run(trials=[SMALL], outcome=lambda _config: "worker lost " * 10_000)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        report = publish(run.path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (report.num_published, report.num_missing) == (0, 8)
    assert "cannot be written" in caplog.text
    assert list(run.wandb.rglob("*.wandb")) == []
    assert publish(run.path).num_published == 8
    assert len(runs_of(run)) == 8


@pytest.mark.slow
def test_a_key_but_no_server_goes_offline(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(trials=[SMALL])
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", _dead_server())
    report = publish(run.path)
    assert report.mode == "offline"
    assert "does not answer" in report.reason
    assert report.num_missing == 0


@pytest.mark.slow
def test_a_server_that_breaks_after_the_connection_costs_no_trial(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(trials=[{**SMALL, "grid": {"model.width": [4, 8]}, "seeds": 1}])
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setattr("dashboards.publishing.client.INIT_TIMEOUT_S", 2.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("WANDB_BASE_URL", f"http://127.0.0.1:{silent.getsockname()[1]}")
        report = publish(run.path)
    assert (report.mode, report.num_missing) == ("offline", 0)
    assert len(runs_of(run)) == 2


def test_disabled_writes_nothing(make_run: MakeRun) -> None:
    run = make_run(trials=[SMALL], wandb={"mode": "disabled"})
    assert publish(run.path).mode == "disabled"
    assert not run.wandb.exists()


def test_sync_without_a_key_says_what_to_do(make_run: MakeRun) -> None:
    run = make_run(trials=[SMALL])
    with pytest.raises(UserError, match="WANDB_API_KEY"):
        sync(run.path)


@pytest.mark.slow
def test_the_child_publishes_the_rest_when_it_is_to_finish(make_run: MakeRun, fill: Callable[..., None]) -> None:
    run = make_run(trials=[SMALL], keep=lambda place: place == 0)
    publisher = PublisherProcess.start(run.path)
    _wait(lambda: (run.wandb / "published.jsonl").exists())
    fill(run, run.read_spec(), keep=lambda place: place > 0)
    assert publisher.finish(timeout_s=300)
    assert len(runs_of(run)) == len(Ledger(run.ledger).read()) == 8


@pytest.mark.slow
def test_a_child_that_is_killed_is_started_again_and_said(make_run: MakeRun, fill: Callable[..., None]) -> None:
    run = make_run(trials=[SMALL], keep=lambda place: place == 0)
    said: list[str] = []
    publisher = PublisherProcess.start(run.path, notify=said.append)
    first = publisher.process
    _wait(lambda: (run.wandb / "published.jsonl").exists())
    first.kill()
    _wait(lambda: publisher.process is not first)
    fill(run, run.read_spec(), keep=lambda place: place > 0)
    assert publisher.finish(timeout_s=300)
    assert said == ["W&B: the publisher was ended by SIGKILL; it is started again"]
    assert len(runs_of(run)) == len(Ledger(run.ledger).read()) == 8


@pytest.mark.parametrize(("end", "num"), [("os.kill(os.getpid(), 9)", 1 + RESTARTS), ("sys.exit(2)", 1), ("sys.exit(0)", 1)])
def test_a_child_that_is_killed_again_and_again_is_given_up_and_one_that_ends_is_left(end: str, num: int) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def begin() -> "subprocess.Popen[bytes]":
        started.append(subprocess.Popen([sys.executable, "-S", "-c", f"import os, sys; {end}"], stdin=subprocess.PIPE))
        return started[-1]

    publisher = PublisherProcess(begin(), begin)
    _wait(lambda: len(started) == num)
    assert publisher.finish() is (end == "sys.exit(0)")
    assert len(started) == num


def test_the_child_ends_by_itself_after_its_driver_is_killed(make_run: MakeRun) -> None:
    run = make_run(trials=[SMALL])
    program = (
        "import sys, time; from pathlib import Path; from dashboards import PublisherProcess\n"
        "print(PublisherProcess.start(Path(sys.argv[1])).process.pid, flush=True); time.sleep(600)"
    )
    driver = subprocess.Popen([sys.executable, "-c", program, str(run.path)], stdout=subprocess.PIPE, text=True)
    assert driver.stdout is not None
    child = int(driver.stdout.readline())
    driver.kill()
    driver.communicate()
    _wait(lambda: not _alive(child), timeout_s=300)
    assert len(runs_of(run)) == 8


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _wait(happened: Callable[[], bool], timeout_s: float = 300.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not happened():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)


def _dead_server() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"
