"""Runs that were sent while the server did not say what it holds: said so, asked about again, and not sent again."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from dashboards.publishing.process import offline_reason, unconfirmed_words
from dashboards.publishing.publisher import publish, sync
from stsq_core import UserError
from sweeps.store.run_directory import RunDirectory

pytestmark = pytest.mark.slow
MakeRun = Callable[..., RunDirectory]


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboards.publishing.stream.HELD_PATIENCE_S", 0.3)
    monkeypatch.setattr("dashboards.publishing.held.ASK_TIMEOUT_S", 1.0)


def received(server: Any) -> list[int]:
    return [one.num_received for one in server.runs.values()]


@pytest.mark.parametrize("silence", [500, "hang"])
def test_what_was_sent_and_not_confirmed_is_asked_for_again_and_not_sent_again(
    make_run: MakeRun, small: dict[str, Any], server: Any, assert_whole: Callable[..., None], silence: int | str
) -> None:
    run = make_run(trials=[small])
    server.silence = silence
    report = publish(run.path)
    assert (report.mode, report.num_published, report.num_missing, report.num_unconfirmed) == ("online", 0, 0, 4)
    assert_whole(run, server)
    assert offline_reason(run.path) is None
    words = unconfirmed_words(run.path)
    assert words is not None
    assert words.startswith(
        f"not confirmed: 4 of 4 runs, which were sent; 0 are confirmed; the W&B server {server.url} does not"
    )
    assert words.endswith(f"`stsq wandb sync {run.path}` asks again, and sends only what the server lacks")
    assert list(run.wandb.glob("offline-run-*")) == []

    num_rows, bytes_before = received(server), (run.wandb / "published.jsonl").read_bytes()
    with pytest.raises(UserError, match=r"not confirmed: 4 of 4 runs.*asks again"):
        sync(run.path)
    assert received(server) == num_rows
    assert (run.wandb / "published.jsonl").read_bytes() == bytes_before

    server.heal()
    server.num_questions = 0
    report = sync(run.path)
    assert (report.num_published, report.num_unconfirmed, server.num_questions) == (4, 0, 1)
    assert received(server) == num_rows
    assert_whole(run, server)
    assert unconfirmed_words(run.path) is None
    assert sync(run.path).num_up_to_date == 4


def test_only_what_the_server_lacks_is_sent_again(
    make_run: MakeRun, small: dict[str, Any], server: Any, assert_whole: Callable[..., None]
) -> None:
    run = make_run(trials=[small])
    server.silence = 500
    assert publish(run.path).num_unconfirmed == 4
    shortened, *others = server.runs.values()
    before = {one.name: one.num_received for one in others}
    num_rows = len(shortened.rows)
    del shortened.rows[num_rows - 2 :]  # the server had not kept the last rows of one of them
    shortened.num_received = 0
    server.heal()
    assert sync(run.path).num_published == 4
    assert shortened.num_received == 2
    assert {one.name: one.num_received for one in others} == before
    assert_whole(run, server, resent=True)


def test_a_publisher_that_goes_on_asks_again_until_the_server_answers(
    make_run: MakeRun, small: dict[str, Any], server: Any, assert_whole: Callable[..., None]
) -> None:
    run = make_run(trials=[small])
    server.silence = 500

    def stop() -> bool:
        if server.num_questions >= 4:
            server.heal()
        return server.silence is None and len(_modes(run)) == 8

    report = publish(run.path, stop=stop, poll_s=0.1, pause_s=0.1)
    assert (report.mode, report.num_published, report.num_unconfirmed) == ("online", 4, 0)
    assert _modes(run) == ["sent"] * 4 + ["online"] * 4
    assert_whole(run, server)


def test_what_was_sent_is_not_written_offline_while_the_server_is_away_but_is_where_offline_is_asked_for(
    make_run: MakeRun, small: dict[str, Any], server: Any
) -> None:
    run = make_run(trials=[small])
    server.silence = 500
    assert publish(run.path).num_unconfirmed == 4
    server.shutdown()
    server.server_close()
    report = publish(run.path)
    assert (report.mode, report.num_missing, report.num_unconfirmed) == ("offline", 0, 4)
    assert "the server was not asked again" in (unconfirmed_words(run.path) or "")
    assert list(run.wandb.glob("offline-run-*")) == []
    assert publish(run.path, mode="offline").num_published == 4
    assert len(list(run.wandb.glob("offline-run-*"))) == 4


def _modes(run: RunDirectory) -> list[str]:
    path = run.wandb / "published.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line)["mode"] for line in lines]
