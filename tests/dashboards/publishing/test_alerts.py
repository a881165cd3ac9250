"""W&B's alert when a sweep ends, fails or stalls: what the client itself would send, once, and no matter to the run."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import wandb
import yaml

from dashboards.publishing.alerts import Alert, send_alert
from dashboards.publishing.damage import publishing_damage
from dashboards.publishing.destination import NOTHING_ASKED, Asked
from dashboards.publishing.process import alert_beside
from dashboards.publishing.publisher import publish
from stsq_core import UserError
from sweeps.store.run_directory import RunDirectory

pytestmark = pytest.mark.slow
MakeRun = Callable[..., RunDirectory]
ALERT = Alert("small ended", "every trial ended as a result", "INFO", "ended 4")


def sent(run: RunDirectory, alert: Alert = ALERT, *, mode: Any = None, asked: Asked = NOTHING_ASKED) -> str:
    return send_alert(run.path, alert, mode=mode, asked=asked)


def test_an_alert_goes_once_to_the_newest_run_of_the_sweep(make_run: MakeRun, small: dict[str, Any], server: Any) -> None:
    run = make_run(trials=[small])
    publish(run.path)
    assert sent(run) == "sent"
    assert sent(run) == "not due: it was sent before"
    assert sent(run, replace(ALERT, text="the same, an hour later")) == "not due: it was sent before"
    (alert,) = server.alerts
    assert alert["runName"] in server.runs
    assert (alert["entityName"], alert["projectName"]) == ("me", "stsq")
    assert (alert["title"], alert["text"], alert["severity"]) == ("small ended", "every trial ended as a result", "INFO")
    assert all(one.exit_code == 0 for one in server.runs.values())  # no run was opened again for it
    assert sent(run, replace(ALERT, title="x" * 100, level="ERROR", key="failed")) == "sent"
    assert len(server.alerts[1]["title"]) == 63  # W&B takes fewer than 64 letters
    assert server.alerts[1]["severity"] == "ERROR"


def test_it_is_the_request_of_the_installed_client(
    make_run: MakeRun, small: dict[str, Any], server: Any, tmp_path: Path
) -> None:
    run = make_run(trials=[small])
    publish(run.path)
    assert sent(run, asked=Asked(entity="me")) == "sent"
    with wandb.init(project="stsq", id="own", dir=str(tmp_path), settings=wandb.Settings(silent=True)) as own:
        own.alert(ALERT.title, ALERT.text, level=ALERT.level)
    ours, theirs = server.alerts
    assert ours | {"runName": "own"} == theirs


def test_a_sweep_that_is_training_gets_its_alert_too(make_run: MakeRun, small: dict[str, Any], server: Any) -> None:
    """As when it stalls: nothing has ended, and its runs stream."""
    run = make_run(trials=[small])
    assert sent(run) == "the server has no run of this sweep yet, to which it could belong"
    ledger = run.ledger.read_bytes()
    run.ledger.write_bytes(b"")
    became: list[str] = []

    def stop() -> bool:
        if not became and sum(len(one.rows) for one in list(server.runs.values())) == 48:
            became.append(sent(run))
            run.ledger.write_bytes(ledger)
        return bool(became)

    publish(run.path, stop=stop, poll_s=0.1)
    assert became == ["sent"]


def test_nothing_is_sent_where_nothing_is_published_online(
    make_run: MakeRun, small: dict[str, Any], server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(trials=[small])
    assert sent(run, mode="offline") == "not due: offline was asked for"
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    assert sent(run) == "not due: the W&B server http://127.0.0.1:9 does not answer"
    monkeypatch.delenv("WANDB_API_KEY")
    assert sent(run).startswith("not due: there is no W&B key")
    assert server.alerts == []


@pytest.mark.parametrize("failure", [401, 500, "hang"])
def test_a_server_that_refuses_is_no_error_and_is_asked_again_next_time(
    make_run: MakeRun, small: dict[str, Any], server: Any, monkeypatch: pytest.MonkeyPatch, failure: int | str
) -> None:
    run = make_run(trials=[small])
    publish(run.path)
    monkeypatch.setattr("dashboards.publishing.held.ASK_TIMEOUT_S", 1.0)
    server.failure = failure
    with pytest.raises(ConnectionError, match=f"the W&B server {server.url} took no alert"):
        sent(run)
    server.heal()
    server.takes_alerts = False
    with pytest.raises(ConnectionError, match="took no alert: it answered without success"):
        sent(run)
    server.takes_alerts = True
    assert sent(run) == "sent"


def test_an_account_without_an_entity_is_asked_to_name_one(
    make_run: MakeRun, small: dict[str, Any], server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(trials=[small])
    publish(run.path, asked=Asked(entity="lab"))
    (run.wandb / "asked.json").unlink()
    monkeypatch.setattr(server, "answer", lambda query, variables: {"viewer": {"entity": None}})
    with pytest.raises(UserError, match="--wandb-entity"):
        sent(run)


def test_a_damaged_line_costs_one_alert_more_and_is_found_by_a_check(
    make_run: MakeRun, small: dict[str, Any], server: Any
) -> None:
    run = make_run(trials=[small])
    publish(run.path)
    assert sent(run) == sent(run, replace(ALERT, key="other")) == "sent"
    assert list(publishing_damage(run)) == []
    path = run.wandb / "alerts.jsonl"
    first, second = path.read_text().splitlines()
    path.write_text(f"{first[:-9]}\n{second}\n")
    (damage,) = publishing_damage(run)
    assert "alerts.jsonl:1 is damaged" in damage.what
    assert sent(run) == "sent"
    assert sent(run, replace(ALERT, key="other")) == "not due: it was sent before"


def test_a_process_of_its_own_sends_it_in_bounded_time(make_run: MakeRun, small: dict[str, Any], server: Any) -> None:
    run = make_run(trials=[small])
    publish(run.path)
    fields = vars(ALERT)
    server.failure = "hang"
    assert alert_beside(run.path, fields, mode=None, timeout_s=5) == "W&B has not taken it within 5 s"
    server.failure = 401
    assert "took no alert: HTTP Error 401" in alert_beside(run.path, fields, mode=None, timeout_s=60)
    server.heal()
    assert alert_beside(run.path, fields, mode=None, timeout_s=60) == "sent"
    assert alert_beside(run.path, fields, mode=None, timeout_s=60) == "not due: it was sent before"
    assert "holds no spec.yaml" in alert_beside(run.wandb, fields, mode=None, timeout_s=60)


def test_a_run_alerts_once_and_a_resume_does_not_repeat_it(
    small: dict[str, Any], server: Any, said: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    fields = {"name": "small", "hypothesis": "A few trials end.", "criterion": {"target_loss": 0.6}}
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump(fields | {"trials": [small | {"grid": {"model.width": [4, 8]}}]}))
    for _ in range(2):
        code, text = said("run", path, "--inline")
        assert code == 0
        assert "no alert" not in text
    (alert,) = server.alerts
    assert (alert["title"], alert["severity"]) == ("small ended", "INFO")
    assert alert["text"].startswith("every trial ended as a result\n")
    assert "2 trials done, 0 of them failed, after 0:00:" in alert["text"]
    assert str(tmp_path) not in alert["text"]
    code, text = said("run", path, "--inline", "--set", "seeds+=1", "--set", "budget.minutes=0.000001")
    assert code == 1
    assert [(one["title"], one["severity"]) for one in server.alerts[1:]] == [("small failed", "ERROR")]
    server.takes_alerts = False
    code, text = said("run", path, "--inline", "--set", "seeds=2")
    assert code == 0
    assert text.count("W&B: no alert that the run has ended was sent: the W&B server") == 1
    assert server.num_measurements == 0
