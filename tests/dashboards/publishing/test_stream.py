"""Online publishing against a stand-in for a W&B server: every row once, however often it is interrupted or repeated."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from dashboards.publishing.publisher import publish, sync
from sweeps.store.ledger import Ledger
from sweeps.store.run_directory import RunDirectory

MakeRun = Callable[..., RunDirectory]


@pytest.mark.slow
def test_every_row_arrives_once_and_again_does_nothing(
    make_run: MakeRun, small: dict[str, Any], server: Any, assert_whole: Callable[..., None]
) -> None:
    run = make_run(trials=[small])
    report = publish(run.path)
    assert (report.mode, report.num_published, report.num_missing) == ("online", 4, 0)
    assert_whole(run, server)
    assert publish(run.path).num_up_to_date == 4
    (run.wandb / "published.jsonl").unlink()
    assert publish(run.path).num_published == 4
    assert_whole(run, server)


@pytest.mark.slow
@pytest.mark.parametrize("evaluation", [{}, {"every": 500, "q_test": [1]}], ids=["plain", "evaluated"])
def test_trials_stream_while_they_train(
    make_run: MakeRun,
    small: dict[str, Any],
    server: Any,
    fill: Callable[..., None],
    evaluation: dict[str, Any],
    assert_whole: Callable[..., None],
) -> None:
    run = make_run(trials=[small | {"base": small["base"] | {"evaluation": evaluation}}])
    ledger = run.ledger.read_bytes()
    run.ledger.write_bytes(b"")
    looks = iter(range(1000))

    def stop() -> bool:
        streamed = sum(len(one.rows) for one in list(server.runs.values()))
        if streamed == 48 or next(looks) > 900:
            run.ledger.write_bytes(ledger)
            return True
        return False

    report = publish(run.path, stop=stop, poll_s=0.1)
    assert (report.mode, report.num_published, report.num_missing) == ("online", 4, 0)
    assert_whole(run, server)


def test_sync_publishes_what_was_written_offline(
    make_run: MakeRun, small: dict[str, Any], server: Any, assert_whole: Callable[..., None]
) -> None:
    run = make_run(trials=[small])
    assert publish(run.path, mode="offline").mode == "offline"
    assert server.runs == {}
    assert sync(run.path).num_published == 4
    assert_whole(run, server)
    assert sync(run.path).num_up_to_date == 4
    assert len(list(run.wandb.glob("run-*/*.wandb.synced"))) == 4


@pytest.mark.slow
def test_a_server_that_refuses_everything_costs_no_trial(
    make_run: MakeRun, small: dict[str, Any], server: Any, assert_whole: Callable[..., None]
) -> None:
    run = make_run(trials=[small])
    server.failure = 404
    report = publish(run.path)
    assert (report.mode, report.num_missing) == ("offline", 0)
    server.heal()
    assert sync(run.path).num_published == 4
    assert_whole(run, server)


@pytest.mark.slow
def test_wandbs_own_sync_takes_the_files_that_its_client_did_not_write(
    make_run: MakeRun, small: dict[str, Any], server: Any, wandb_command: Callable[..., str], assert_whole: Callable[..., None]
) -> None:
    run = make_run(trials=[small])
    assert publish(run.path, mode="offline").num_published == 4
    folders = [str(path) for path in run.wandb.glob("offline-run-*")]
    wandb_command("sync", *folders)
    assert_whole(run, server)
    for record in Ledger(run.ledger).read():
        held = next(one for one in server.runs.values() if one.name.endswith(record.trial_id))
        config = json.loads(held.fields["config"])
        assert {key: value["value"] for key, value in config.items() if key != "_wandb"}.items() >= record.config.items()
        assert held.fields["displayName"].startswith("fcn T=")
        assert held.fields["jobType"] == "fcn"
        assert held.fields["tags"] == ["synthetic"]
