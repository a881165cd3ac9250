"""Online publishing against a stand-in for a W&B server: every row once, however often it is interrupted or repeated."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dashboards.publishing.publisher import publish, sync
from dashboards.publishing.stream import restart_service
from sweeps.journal import read_curves, read_metrics
from sweeps.ledger import Ledger
from sweeps.run_directory import RunDirectory

MakeRun = Callable[..., RunDirectory]


class Run:
    """One run as the server holds it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: list[dict[str, Any]] = []
        self.summary: dict[str, Any] = {}
        self.fields: dict[str, Any] = {}
        self.exit_code: int | None = None


class Server(ThreadingHTTPServer):
    """Speaks as much of W&B's protocol as the client's `init`, `log` and `finish` need; keeps what it is sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Requests)
        self.runs: dict[str, Run] = {}
        self.broken = False
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        if "upsertBucket" in query:
            name = variables.get("name") or variables.get("id")
            run = self.runs.setdefault(str(name), Run(str(name)))
            run.fields |= {key: value for key, value in variables.items() if value is not None}
            project = {"name": "stsq", "entity": {"name": "me"}}
            bucket = {"id": "id", "name": run.name, "displayName": "x", "description": "", "config": "{}", "sweepName": None}
            history = {"historyLineCount": len(run.rows), "project": project}
            return {"upsertBucket": {"bucket": bucket | history, "inserted": not run.rows}}
        if "RunResumeStatus" in query:
            run_or_none = self.runs.get(str(variables.get("name")))
            return {"model": {"id": "m", "name": "stsq", "entity": {"id": "e", "name": "me"}, "bucket": resumed(run_or_none)}}
        if "createRunFiles" in query:
            return {"createRunFiles": {"runID": "id", "uploadHeaders": [], "files": []}}
        return {"viewer": {"id": "v", "entity": "me", "username": "me", "flags": "{}", "teams": {"edges": []}}}


def resumed(run: Run | None) -> dict[str, Any] | None:
    if run is None or not run.rows:
        return None
    tail = json.dumps([json.dumps(run.rows[-1])])
    return {
        "id": "id", "name": run.name, "summaryMetrics": json.dumps(run.summary), "displayName": "x", "logLineCount": 0,
        "historyLineCount": len(run.rows), "eventsLineCount": 0, "historyTail": tail, "eventsTail": "[]", "config": "{}",
        "tags": [], "wandbConfig": json.dumps({"t": 1}),
    }  # fmt: skip


class Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        if self.server.broken:
            self.reply({}, status=404)
        elif self.path.endswith("/graphql"):
            self.reply({"data": self.server.answer(body.get("query", ""), body.get("variables") or {})})
        else:
            self.stream(self.server.runs[self.path.split("/")[4]], body)
            self.reply({"exitcode": None, "limits": {}})

    def stream(self, run: Run, body: dict[str, Any]) -> None:
        files = body.get("files", {})
        history = files.get("wandb-history.jsonl")
        if history:
            run.rows[history["offset"] :] = [json.loads(line) for line in history["content"]]
        for line in files.get("wandb-summary.json", {}).get("content", []):
            run.summary = json.loads(line)
        if body.get("complete"):
            run.exit_code = body.get("exitcode")

    def reply(self, told: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    with Server() as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        for name in ("WANDB_MODE", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("WANDB_BASE_URL", running.url)
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
        restart_service()  # which would remember the environment of an earlier test
        yield running
        running.shutdown()


@pytest.fixture
def small(fully_connected: dict[str, Any]) -> dict[str, Any]:
    return {**fully_connected, "zip": {}, "grid": {"model.width": [4, 8], "task.T": [4, 8]}, "seeds": 1}


def assert_whole(run: RunDirectory, server: Server) -> None:
    """The server holds every trial's rows once and in order, and its final evaluation as the summary."""
    records = Ledger(run.ledger).read()
    assert len(server.runs) == len(records)
    curves, metrics = read_curves(run), read_metrics(run)
    for record in records:
        (held,) = (one for one in server.runs.values() if one.name.endswith(record.trial_id))
        steps, losses = curves[record.trial_id]
        assert [row["step"] for row in held.rows] == steps.tolist()
        assert [row["relative_loss"] for row in held.rows] == losses.tolist()
        for name, (at, values) in metrics.get(record.trial_id, {}).items():
            assert [(row["step"], row[name]) for row in held.rows if name in row] == [*zip(at, values, strict=True)]
            assert held.summary[name] == (record.metrics or {})[name]
        assert held.summary["relative_loss"] == record.relative_loss
        assert held.summary["status"] == "finished"
        assert held.exit_code == 0
        assert held.fields["groupName"].startswith(f"fcn T={record.config['task']['T']}")


def test_every_row_arrives_once_and_again_does_nothing(make_run: MakeRun, small: dict[str, Any], server: Server) -> None:
    run = make_run(trials=[small])
    report = publish(run.path)
    assert (report.mode, report.num_published, report.num_missing) == ("online", 4, 0)
    assert_whole(run, server)
    assert publish(run.path).num_up_to_date == 4
    (run.wandb / "published.jsonl").unlink()
    assert publish(run.path).num_published == 4
    assert_whole(run, server)


@pytest.mark.parametrize("evaluation", [{}, {"every": 500, "q_test": [1]}], ids=["plain", "evaluated"])
def test_trials_stream_while_they_train(
    make_run: MakeRun, small: dict[str, Any], server: Server, fill: Callable[..., None], evaluation: dict[str, Any]
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


def test_sync_publishes_what_was_written_offline(make_run: MakeRun, small: dict[str, Any], server: Server) -> None:
    run = make_run(trials=[small])
    assert publish(run.path, mode="offline").mode == "offline"
    assert server.runs == {}
    assert sync(run.path).num_published == 4
    assert_whole(run, server)
    assert sync(run.path).num_up_to_date == 4
    assert len(list(run.wandb.glob("run-*/*.wandb.synced"))) == 4


def test_a_server_that_refuses_everything_costs_no_trial(make_run: MakeRun, small: dict[str, Any], server: Server) -> None:
    run = make_run(trials=[small])
    server.broken = True
    report = publish(run.path)
    assert (report.mode, report.num_missing) == ("offline", 0)
    server.broken = False
    assert sync(run.path).num_published == 4
    assert_whole(run, server)


def test_wandbs_own_sync_takes_the_files_that_its_client_did_not_write(
    make_run: MakeRun, small: dict[str, Any], server: Server, wandb_command: Callable[..., str]
) -> None:
    run = make_run(trials=[small])
    assert publish(run.path, mode="offline").num_published == 4
    folders = [str(path) for path in run.wandb.glob("offline-run-*")]
    wandb_command("sync", *folders)
    assert_whole(run, server)
    for record in Ledger(run.ledger).read():
        held = next(one for one in server.runs.values() if one.name.endswith(record.trial_id))
        told = json.loads(held.fields["config"])
        assert {key: value["value"] for key, value in told.items() if key != "_wandb"}.items() >= record.config.items()
        assert held.fields["displayName"].startswith("fcn T=")
        assert held.fields["jobType"] == "fcn"
        assert held.fields["tags"] == ["synthetic"]
