"""A run counts as held when the server has its last row and its summary, and an answer is waited for in bounded time."""

import math
import socket
from dataclasses import replace
from typing import Any

import pytest

from dashboards.publishing import held
from dashboards.publishing.held import Account, Held
from dashboards.publishing.projection import Outcome, Row, RunProjection

RUN = RunProjection(
    key="k",
    run_id="d-k",
    name="n",
    group="g",
    job_type="fcn",
    tags=(),
    config={},
    rows=tuple(Row(step, {"step": step}) for step in (0, 5, 9)),
    outcome=Outcome({"status": "finished", "relative_loss": 0.1, "reason": None, "loss": math.nan}, 0, 0.0),
)
SUMMARY = {"status": "finished", "relative_loss": 0.1, "loss": "NaN", "_step": 9}


@pytest.mark.parametrize(("server", "is_held"), [
    (Held(3, 9, SUMMARY), True), (Held(4, 9, SUMMARY), True), (Held(2, 9, SUMMARY), False), (Held(3, 5, SUMMARY), False),
    (Held(3, 9, SUMMARY | {"relative_loss": 0.2}), False), (Held(3, 9, {"status": "finished"}), False),
])  # fmt: skip
def test_rows_and_summary_must_be_there(server: Held, is_held: bool) -> None:
    assert server.covers(RUN) == is_held


def test_a_run_that_goes_on_is_never_held_and_one_without_rows_can_be() -> None:
    assert not Held(3, 9, SUMMARY).covers(replace(RUN, outcome=None))
    assert Held(0, -1, SUMMARY).covers(replace(RUN, rows=()))


def test_many_runs_are_asked_for_in_few_requests(server: Any) -> None:
    for place in range(120):
        server.upsert({"name": f"r{place}"})
        server.runs[f"r{place}"].take({"files": {"wandb-history.jsonl": {"offset": 0, "content": ['{"_step": 3}']}}})
    found = Account(server.url, "0" * 40).held([f"r{place}" for place in range(125)], "stsq", None)
    assert found == {f"r{place}": Held(1, 3, {}) for place in range(120)}


@pytest.mark.parametrize("failure", [401, 403, 404, 429, 500])
def test_a_refusal_is_a_connection_error(server: Any, failure: int) -> None:
    server.failure = failure
    with pytest.raises(ConnectionError, match=f"does not say what it holds.*{failure}"):
        Account(server.url, "0" * 40).held(["r"], "stsq", None)


def test_a_server_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "ASK_TIMEOUT_S", 0.3)
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        pytest.raises(ConnectionError, match=r"no answer within|timed out"),
    ):
        Account(f"http://127.0.0.1:{silent.getsockname()[1]}", "0" * 40).held(["r"], "stsq", None)
