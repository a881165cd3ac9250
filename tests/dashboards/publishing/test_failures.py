"""Whatever a W&B server does, publishing ends in time and loses nothing, and every row arrives once when it is well again."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dashboards.publishing.publisher import publish, sync
from stsq_core import Measurement, UserError
from sweeps import expand, make_packs
from sweeps.store.journal import JournalWriter, read_curves
from sweeps.store.ledger import Ledger
from sweeps.store.run_directory import RunDirectory, create_or_open

pytestmark = pytest.mark.slow
MakeRun = Callable[..., RunDirectory]
FAILURES = [401, 403, 404, 429, 500, "hang"]
WELL_S, FAILING_S = 10.0, 2.5


Patience = Callable[[float], None]


@pytest.fixture(autouse=True)
def give_up_after(monkeypatch: pytest.MonkeyPatch) -> Patience:
    """Sets how many seconds are waited for a server: less than in earnest, and little while it is known to fail."""

    def set_patience(seconds: float) -> None:
        monkeypatch.setattr("dashboards.publishing.client.INIT_TIMEOUT_S", seconds)
        monkeypatch.setattr("dashboards.publishing.client.FINISH_TIMEOUT_S", seconds)
        monkeypatch.setattr("dashboards.publishing.stream.HANGS_S", 0.8 * seconds)
        monkeypatch.setattr("dashboards.publishing.stream.HELD_PATIENCE_S", 2.0)
        monkeypatch.setattr("dashboards.publishing.held.ASK_TIMEOUT_S", seconds)

    set_patience(WELL_S)
    return set_patience


@pytest.mark.parametrize("failure", FAILURES)
def test_a_failure_in_mid_run_loses_nothing_and_sync_mends_it(
    make_run: MakeRun,
    small: dict[str, Any],
    server: Any,
    assert_whole: Callable[..., None],
    give_up_after: Patience,
    monkeypatch: pytest.MonkeyPatch,
    failure: int | str,
) -> None:
    run = make_run(trials=[small])
    server.fail_in_mid_run(failure, after=1)
    give_up_after(FAILING_S)
    monkeypatch.setattr("dashboards.publishing.client.INIT_TIMEOUT_S", WELL_S)  # it is well while the runs are opened
    report = publish(run.path)
    assert server.failure == failure
    # where the client ends without an error, nobody knows what the server has: its own file holds the run meanwhile
    assert report.num_missing == 0
    assert report.mode == "offline" or report.num_unconfirmed == 4
    give_up_after(FAILING_S)
    with pytest.raises(UserError, match=r"did not take every run|not confirmed"):
        sync(run.path)
    give_up_after(WELL_S)
    server.heal()
    assert sync(run.path).mode == "online"
    assert_whole(run, server, resent=True)
    received = [one.num_received for one in server.runs.values()]
    assert sync(run.path).num_up_to_date == 4
    assert [one.num_received for one in server.runs.values()] == received


@pytest.mark.parametrize("failure", FAILURES)
def test_a_server_that_fails_from_the_start_and_heals_gets_everything_from_the_same_publisher(
    make_run: MakeRun,
    small: dict[str, Any],
    server: Any,
    assert_whole: Callable[..., None],
    give_up_after: Patience,
    failure: int | str,
) -> None:
    run = make_run(trials=[small])
    server.failure = failure
    give_up_after(FAILING_S)
    wrote_offline: list[int] = []

    def stop() -> bool:
        if not wrote_offline and len(list(run.wandb.glob("offline-run-*"))) == 4:
            wrote_offline.append(4)
            give_up_after(WELL_S)
            server.heal()
        return bool(wrote_offline) and len(server.runs) == 4 and all(one.exit_code == 0 for one in [*server.runs.values()])

    report = publish(run.path, stop=_within(300, stop), poll_s=0.1, pause_s=0.2)
    assert wrote_offline == [4]
    assert (report.mode, report.num_published, report.num_missing) == ("online", 4, 0)
    assert_whole(run, server)
    assert list(run.wandb.glob("offline-run-*")) == []


def test_a_server_that_dies_in_mid_run_and_comes_back_has_every_row_once(
    make_run: MakeRun, small: dict[str, Any], server: Any, start_server: Callable[..., Any], assert_whole: Callable[..., None]
) -> None:
    run = make_run(trials=[small])
    server.fail_in_mid_run(500, after=1)
    dead: list[bool] = []

    def stop() -> bool:
        if server.failure and not dead:
            server.shutdown()
            server.server_close()
            dead.append(True)
        return bool(list(run.wandb.glob("offline-run-*")))

    report = publish(run.path, stop=_within(300, stop), poll_s=0.1)
    assert dead
    assert (report.mode, report.num_missing) == ("offline", 0)
    back = start_server(server.server_address[1])
    back.runs = server.runs
    assert sync(run.path).mode == "online"
    assert_whole(run, back, resent=True)


@pytest.mark.parametrize("num_rows", [1, 20, 40])
def test_a_killed_publisher_leaves_every_row_once_after_the_next(
    make_run: MakeRun, small: dict[str, Any], server: Any, assert_whole: Callable[..., None], num_rows: int
) -> None:
    run = make_run(trials=[small])
    server.fail_in_mid_run("hang", after=num_rows)
    process = subprocess.Popen([sys.executable, "-m", "dashboards.publishing", str(run.path)], stderr=subprocess.DEVNULL)
    _until(lambda: server.failure == "hang")
    process.send_signal(signal.SIGKILL)
    process.wait()
    server.heal()
    assert publish(run.path).mode == "online"
    assert_whole(run, server, resent=True)
    received = [one.num_received for one in server.runs.values()]
    publish(run.path)
    assert [one.num_received for one in server.runs.values()] == received


def test_a_run_that_the_server_does_not_hold_is_not_published(make_run: MakeRun, small: dict[str, Any], server: Any) -> None:
    """wandb's `finish` returns in silence; only the server's own word counts."""
    run = make_run(trials=[small])
    refused = Ledger(run.ledger).read()[0].trial_id
    kept = server.answer

    def without_rows(query: str, variables: dict[str, Any]) -> dict[str, Any]:
        answer = kept(query, variables)
        if "StsqRunsHeld" in query:
            for bucket in answer["model"].values():
                if bucket and bucket["name"].endswith(refused):
                    bucket["historyLineCount"] = 3
        return answer

    server.answer = without_rows
    report = publish(run.path)
    assert (report.mode, report.num_missing) == ("offline", 0)
    assert len(list(run.wandb.glob("offline-run-*"))) == 1
    server.answer = kept
    assert sync(run.path).num_published == 1


def test_steps_that_are_trained_twice_after_a_crash_are_published_once(
    tmp_path: Path, make_run: MakeRun, small: dict[str, Any], server: Any, assert_whole: Callable[..., None]
) -> None:
    """Scenario 14: crash at step 150, resume from the checkpoint at 100: steps 101 to 150 arrive once."""
    base = small["base"] | {"training": {"objective": "minibatch", "batch_size": 8, "steps": 200, "log_every": 1}}
    group = small | {"base": base, "grid": {"model.width": [4, 8]}}
    done = make_run("done", trials=[group])
    spec = done.read_spec()
    run = create_or_open(tmp_path / "run", spec)
    (pack,) = make_packs([config for cell in expand(spec) for config in cell.configs])
    journal = JournalWriter(run.curves / f"{pack.pack_id}.jsonl", pack)
    checkpoint: list[int] = []

    def train(first: int, last: int) -> None:
        for step in range(first, last + 1):
            journal(
                Measurement(step, pack.trial_ids, tuple(1 / (1 + step + place) for place in range(len(pack.trial_ids))), {})
            )
            if step == 100:
                checkpoint.append(journal.size())

    train(0, 150)
    crashed: list[bool] = []

    def stop() -> bool:
        if not crashed and [len(one.rows) for one in [*server.runs.values()]] == [151, 151]:
            journal.truncate(checkpoint[0])
            train(101, 200)
            shutil.copy(done.ledger, run.ledger)
            crashed.append(True)
        return bool(crashed)

    report = publish(run.path, stop=_within(300, stop), poll_s=0.1)
    journal.close()
    assert (report.mode, report.num_published) == ("online", 2)
    curves = read_curves(run)
    for one in server.runs.values():
        steps, losses = curves[one.config["trial_id"]]
        assert [row["step"] for row in one.rows] == steps.tolist() == list(range(201))
        assert [row["relative_loss"] for row in one.rows] == losses.tolist()
        assert one.num_received == 201


def _within(seconds: float, stop: Callable[[], bool]) -> Callable[[], bool]:
    """The same question, with a patience at whose end the answer is yes; what was waited for is asserted afterwards."""
    deadline = time.monotonic() + seconds
    return lambda: stop() or time.monotonic() > deadline


def _until(happened: Callable[[], bool], timeout_s: float = 300.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not happened():
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.02)
