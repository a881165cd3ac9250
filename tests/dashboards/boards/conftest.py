"""A stand-in for a W&B server that takes boards: charts, workspaces and reports, over real HTTP from W&B's own clients."""

import json
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from dashboards.publishing.client import restart_service
from sweeps.store.run_directory import RunDirectory

ENTITY = "me"


NONE: dict[str, list[Any]] = {"edges": []}
PAGE = {"endCursor": None, "hasNextPage": False}
USER = {
    "id": "v", "entity": ENTITY, "username": "me", "name": "me", "email": "me@localhost", "admin": False, "flags": "{}",
    "deletedAt": None, "teams": NONE, "apiKeys": NONE,
}  # fmt: skip


class BoardsServer(ThreadingHTTPServer):
    """Keeps the views and charts that it is sent; `refused` answers what this operation asks for with an error."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Requests)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.views: dict[str, dict[str, Any]] = {}
        self.charts: dict[str, dict[str, Any]] = {}
        self.projects: list[str] = []
        self.operations: list[str] = []
        self.refused: tuple[str, int, str] | None = None
        self.entity: str | None = ENTITY

    def answer(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        """The data of one GraphQL operation."""
        if "upsertView" in query:
            return {"upsertView": {"view": self._keep_view(variables), "inserted": True}}
        if "createCustomChart" in query:
            return self._keep_chart(variables)
        if "upsertModel" in query:
            asked = variables["input"]
            self.projects.append(asked["name"])
            project = {**asked, "id": "p", "description": "", "access": "PRIVATE", "views": "{}"}
            return {"result": {"model": project, "project": project, "inserted": True}}
        if "models(" in query:
            return {"models": {"edges": [self._project(name) for name in self.projects], "pageInfo": PAGE}}
        return {"viewer": USER | {"entity": self.entity}}

    def _keep_view(self, variables: dict[str, Any]) -> dict[str, Any]:
        known = next((one for one in self.views.values() if one["name"] == variables["name"]), None)
        view_id = variables.get("id") or (known["id"] if known else f"view{len(self.views)}")
        project = {"id": "p", "name": variables["projectName"], "entityName": variables["entityName"]}
        self.views[view_id] = {**variables, "id": view_id, "project": project, "updatedAt": "2026-01-01T00:00:00Z"}
        return self.views[view_id]

    def _keep_chart(self, variables: dict[str, Any]) -> dict[str, Any]:
        name = variables["chartName"]
        if name in self.charts:
            raise KeyError(f"a chart named {name} already exists")
        self.charts[name] = variables
        return {"createCustomChart": {"chart": {"id": f"{variables['entity']}/{name}"}}}

    def _project(self, name: str) -> dict[str, Any]:
        node = {
            "id": "p", "name": name, "entityName": ENTITY, "createdAt": "2026-01-01T00:00:00Z", "isBenchmark": False,
            "internalId": "p", "user": USER, "access": "PRIVATE",
        }  # fmt: skip
        return {"node": node, "cursor": "c"}

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        """The views of a type, `project-view` or `runs`."""
        return [view for view in self.views.values() if view["type"] == kind]


class Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: BoardsServer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        query = body.get("query", "")
        found = re.search(r"(?:query|mutation)\s+(\w+)", query)
        operation = found[1] if found else "?"
        self.server.operations.append(operation)
        if self.server.refused and self.server.refused[0].lower() in query.lower():
            _, status, message = self.server.refused
            self.reply({"errors": [{"message": message}], "data": None}, status)
            return
        try:
            self.reply({"data": self.server.answer(query, body.get("variables") or {})})
        except KeyError as error:
            self.reply({"errors": [{"message": str(error)}], "data": None})

    def reply(self, body: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def boards_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[BoardsServer]:
    with BoardsServer() as running:
        threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        for name in ("WANDB_MODE", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "WANDB_ENTITY", "WANDB_PROJECT"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("WANDB_BASE_URL", running.url)
        monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
        monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
        restart_service()  # which would remember the environment of an earlier test
        yield running
        restart_service()
        running.shutdown()


@pytest.fixture
def named_run(make_run: Callable[..., RunDirectory]) -> RunDirectory:
    """The synthetic sweep in a directory of a fixed id, so that its boards are the same every time."""
    run = make_run()
    run.wandb.mkdir()
    (run.wandb / "identity.json").write_text('{"id": "0123abcd"}\n')
    return run
