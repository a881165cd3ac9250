"""A stand-in for a W&B server that the real client talks to over HTTP, and that can fail in the ways in which servers fail."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dashboards.publishing.client import restart_service
from sweeps.store.journal import read_curves, read_metrics
from sweeps.store.ledger import Ledger
from sweeps.store.run_directory import RunDirectory

KEY = "0" * 40


class Run:
    """One run as the server holds it; `num_received` counts every row that it was ever sent."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rows: list[dict[str, Any]] = []
        self.num_received = 0
        self.summary: dict[str, Any] = {}
        self.fields: dict[str, Any] = {}
        self.exit_code: int | None = None

    @property
    def config(self) -> dict[str, Any]:
        config = json.loads(self.fields["config"])
        return {key: value["value"] for key, value in config.items() if key != "_wandb"}

    def take(self, body: dict[str, Any]) -> None:
        files = body.get("files", {})
        if history := files.get("wandb-history.jsonl"):
            self.rows[history["offset"] :] = [json.loads(line) for line in history["content"]]
            self.num_received += len(history["content"])
        for line in files.get("wandb-summary.json", {}).get("content", []):
            self.summary = json.loads(line)
        if body.get("complete"):
            self.exit_code = body.get("exitcode")


class Server(ThreadingHTTPServer):
    """Speaks as much of W&B's protocol as the client's `init`, `log` and `finish` need; keeps what it is sent.

    `failure` is how it answers every request now: None well, a number with that HTTP status, "hang" not at all until it is set
    to something else. `fails_after` rows received, `failure` becomes `next_failure`: a failure in the middle of a run.
    `silence` is a failure of the query for what it holds, alone; `num_questions` counts these. `alerts` are the messages of
    `wandb.Run.alert`, refused unless `takes_alerts`. `num_measurements` counts what the client tells its makers.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Requests)
        self.runs: dict[str, Run] = {}
        self.files: dict[str, bytes] = {}
        self.failure: int | str | None = None
        self.next_failure: int | str | None = None
        self.fails_after: int | None = None
        self.silence: int | str | None = None
        self.num_questions = 0
        self.num_measurements = 0
        self.alerts: list[dict[str, Any]] = []
        self.takes_alerts = True
        self.keys: set[str] = set()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    def fail_in_mid_run(self, failure: int | str, *, after: int) -> None:
        self.next_failure, self.fails_after = failure, after

    def heal(self) -> None:
        self.failure, self.fails_after, self.silence = None, None, None

    def check_rows(self) -> None:
        if self.fails_after is not None and sum(run.num_received for run in [*self.runs.values()]) >= self.fails_after:
            self.failure, self.fails_after = self.next_failure, None

    def answer(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        if "upsertBucket" in query:
            return {"upsertBucket": self.upsert(variables)}
        if "notifyScriptableRunAlert" in query:
            self.alerts.append(variables)
            return {"notifyScriptableRunAlert": {"success": self.takes_alerts}}
        if "StsqRunsHeld" in query:
            names = {name: run_id for name, run_id in variables.items() if name not in ("project", "entity")}
            return {"model": {name: resumed(self.runs.get(run_id)) for name, run_id in names.items()}}
        if "RunResumeStatus" in query:
            run = self.runs.get(str(variables.get("name")))
            return {"model": {"id": "m", "name": "stsq", "entity": {"id": "e", "name": "me"}, "bucket": resumed(run)}}
        if "createRunFiles" in query:
            files = [{"name": name, "uploadUrl": f"{self.url}/upload/{variables['run']}/{name}"} for name in variables["files"]]
            return {"createRunFiles": {"runID": "id", "uploadHeaders": [], "files": files}}
        return {"viewer": {"id": "v", "entity": "me", "username": "me", "flags": "{}", "teams": {"edges": []}}}

    def upsert(self, variables: dict[str, Any]) -> dict[str, Any]:
        name = str(variables.get("name") or variables.get("id"))
        run = self.runs.setdefault(name, Run(name))
        run.fields |= {key: value for key, value in variables.items() if value is not None}
        project = {"name": variables.get("project") or "stsq", "entity": {"name": variables.get("entity") or "me"}}
        bucket = {"id": "id", "name": name, "displayName": "x", "description": "", "config": "{}", "sweepName": None}
        return {"bucket": bucket | {"historyLineCount": len(run.rows), "project": project}, "inserted": not run.rows}


def resumed(run: Run | None) -> dict[str, Any] | None:
    if run is None or not (run.rows or run.summary):
        return None
    tail = json.dumps([json.dumps(row) for row in run.rows[-1:]])
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

    def do_PUT(self) -> None:
        self.server.files[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.reply({})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        self.server.keys.add(self.headers.get("Authorization") or "")
        is_question = "StsqRunsHeld" in body.get("query", "")
        self.server.num_questions += is_question
        while self.failure(is_question) == "hang":
            threading.Event().wait(0.05)
        if isinstance(status := self.failure(is_question), int):
            self.reply({"error": "refused"}, status=status)
        elif "/otel/" in self.path:
            self.server.num_measurements += 1
            self.reply({})
        elif self.path.endswith("/graphql"):
            self.reply({"data": self.server.answer(body.get("query", ""), body.get("variables") or {})})
        else:
            self.server.runs[self.path.split("/")[4]].take(body)
            self.server.check_rows()
            self.reply({"exitcode": None, "limits": {}})

    def failure(self, is_question: bool) -> int | str | None:
        return self.server.failure or (self.server.silence if is_question else None)

    def reply(self, body: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(body).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except ConnectionError:  # the client gave up
            self.close_connection = True


@pytest.fixture(autouse=True)
def _no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No test may find a key, a login, a server or a service of whoever runs it."""
    restart_service(0.0)  # first: what an earlier test left in the environment must not come back after this one
    for name in [name for name in os.environ if name.startswith("WANDB_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / "no-netrc"))
    monkeypatch.setenv("WANDB__FILE_STREAM_TRANSMIT_INTERVAL", "1")  # seconds between what the client sends; its own is 15
    yield
    restart_service(0.0)


@pytest.fixture
def start_server() -> Iterator[Callable[..., Server]]:
    """Starts stand-ins, at a port where one is given; all are ended after the test."""
    running: list[Server] = []

    def start(port: int = 0) -> Server:
        server = Server(port)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        running.append(server)
        return server

    yield start
    for server in running:
        server.heal()
        server.shutdown()
        server.server_close()


@pytest.fixture
def server(start_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch) -> Server:
    """A stand-in that this process is set up for."""
    running = start_server()
    monkeypatch.setenv("WANDB_BASE_URL", running.url)
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    return running


@pytest.fixture
def small(fully_connected: dict[str, Any]) -> dict[str, Any]:
    """Four trials in two cells."""
    return {**fully_connected, "zip": {}, "grid": {"model.width": [4, 8], "task.T": [4, 8]}, "seeds": 1}


@pytest.fixture
def assert_whole() -> Callable[..., None]:
    """Fails unless a server holds every trial of a run bit for bit: rows once and in order, config, group, summary, exit state.

    `resent`: rows may have been sent more than once, as long as they are held once.
    """

    def check(run: RunDirectory, server: Server, *, resent: bool = False) -> None:
        records = Ledger(run.ledger).read()
        held = {one.config["trial_id"]: one for one in server.runs.values()}
        assert len(server.runs) == len(held) == len(records)
        curves, metrics = read_curves(run), read_metrics(run)
        for record in records:
            one = held[record.trial_id]
            steps, losses = curves[record.trial_id]
            assert [row["step"] for row in one.rows] == [row["_step"] for row in one.rows] == steps.tolist()
            assert [row["relative_loss"] for row in one.rows] == losses.tolist()
            assert resent or one.num_received == len(one.rows)
            for name, (at, values) in metrics.get(record.trial_id, {}).items():
                assert [(row["step"], row[name]) for row in one.rows if name in row] == [*zip(at, values, strict=True)]
            for name, value in (record.metrics or {}).items():
                assert one.summary[name] == value
            for name in ("status", "relative_loss", "relative_loss_stderr", "steps", "seconds", "reason"):
                assert one.summary.get(name) == getattr(record, name)  # a value of None is not kept
            assert one.config["task"] == record.config["task"]
            assert one.config["m"] == record.trial_config.width
            assert one.exit_code == (1 if record.status == "failed" else 0)
            assert one.fields["groupName"].startswith(f"fcn T={record.config['task']['T']}")
            assert one.fields["jobType"] == "fcn"

    return check
