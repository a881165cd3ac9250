"""Saves the W&B boards of a run on a server, or writes their documents to a folder without an account.

`RUN/wandb/boards.json` has the ids of saved boards, so that a second setup replaces the first workspace and report.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from dashboards.boards.board import Board, read_board
from dashboards.boards.extras import load_extra
from dashboards.publishing import (
    NOTHING_ASKED,
    Asked,
    decide_mode,
    document_of,
    server_url,
    set_workspace_id,
    workspace_id,
)
from stsq_core.configs import UserError
from sweeps.store import disk_errors, warn_once, write_atomically

NO_ENTITY = "YOUR-ENTITY"
"""Stands for the account in documents that are written without one."""

TIMEOUT_S = 30


@dataclass(frozen=True)
class SavedBoards:
    """Where the boards were saved."""

    workspace_url: str
    report_url: str


def write_documents(run_path: Path | str, folder: Path, *, asked: Asked = NOTHING_ASKED) -> tuple[Path, ...]:
    """Write a run's workspace, report and charts as the JSON that W&B would be sent.

    Raises:
        UserError: it is no run, wandb-workspaces is missing, or the folder cannot be written.
    """
    make_workspace, make_report = _makers()
    board = read_board(run_path, asked)
    board = replace(board, entity=board.entity or NO_ENTITY)
    documents = {
        "workspace.json": document_of(make_workspace(board)),
        "report.json": document_of(make_report(board)),
        **{f"{kind}.vl.json": chart.spec for kind, chart in board.charts.items()},
    }
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    for name, document in documents.items():
        write_atomically(folder / name, (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode())
    return tuple(folder / name for name in documents)


def save_boards(run_path: Path | str, *, asked: Asked = NOTHING_ASKED) -> SavedBoards:
    """Make or replace the workspace and the report of a run on the W&B server, in the project and entity that are asked for.

    Raises:
        UserError: it is no run, wandb-workspaces is missing, there is no key, or the server does not take the boards.
    """
    make_workspace, make_report = _makers()
    decision = decide_mode("online", "online", server=server_url)
    if decision.mode != "online":
        raise UserError(
            f"cannot set up the boards of {run_path}: {decision.reason}; `stsq wandb setup {run_path} --json DIR` writes them"
            " without an account"
        )
    import wandb

    with _server_errors("let us in"):
        api = wandb.Api(timeout=TIMEOUT_S)
        own_entity = api.default_entity
    board = read_board(run_path, asked)
    board = replace(board, entity=board.entity or own_entity or "")
    if not board.entity:
        raise UserError("the W&B account has no default entity: name one with --wandb-entity NAME")
    memory = _Memory(board)
    _register(api, board, memory)
    workspace, report = make_workspace(board), make_report(board)
    report.id = memory.get("report")
    set_workspace_id(workspace, memory.get("workspace"))
    with _server_errors("take the report"):
        report.save()  # first, because it makes the project where there is none
    memory.keep(report=report.id)
    with _server_errors("take the workspace"):
        workspace.save()
    memory.keep(workspace=workspace_id(workspace))
    return SavedBoards(str(workspace.url), str(report.url))


def _register(api: Any, board: Board, memory: "_Memory") -> None:
    """Register the charts with W&B, each once: a chart's name changes with its content."""
    for chart in board.charts.values():
        if memory.get(chart.name):
            continue
        with _server_errors(f"take the chart {chart.name}"):
            try:
                api.create_custom_chart(
                    entity=board.entity,
                    name=chart.name,
                    display_name=chart.title,
                    spec_type="vega2",
                    access="private",
                    spec=chart.spec,
                )
            except Exception as error:  # saved from another copy of the run: the same name is the same chart
                if "exist" not in str(error).lower():
                    raise
        memory.keep(**{chart.name: "registered"})


_IDS: TypeAdapter[dict[str, dict[str, str]]] = TypeAdapter(dict[str, dict[str, str]])


class _Memory:
    """The ids under which a run's boards were saved to one project of one server, kept beside the run's W&B files."""

    def __init__(self, board: Board) -> None:
        self._path = board.findings.run.wandb / "boards.json"
        self._place = f"{server_url()} {board.entity}/{board.project}"
        self._ids: dict[str, dict[str, str]] = {}
        if self._path.exists():
            try:
                self._ids = _IDS.validate_json(self._path.read_bytes())
            except (OSError, ValueError) as error:
                warn_once(f"{self._path} is damaged and left out ({type(error).__name__}): boards are saved under new ids")

    def get(self, name: str) -> str:
        """An id; empty where there is none."""
        return self._ids.get(self._place, {}).get(name, "")

    def keep(self, **ids: str) -> None:
        """Remember ids."""
        self._ids.setdefault(self._place, {}).update(ids)
        write_atomically(self._path, json.dumps(self._ids, indent=1).encode())


def _makers() -> tuple[Callable[..., Any], ...]:
    load_extra("wandb_workspaces", extra="boards", what="`stsq wandb setup`")
    from dashboards.boards.documents import make_report, make_workspace

    return make_workspace, make_report


@contextmanager
def _server_errors(what: str) -> Iterator[None]:
    """Turn the errors of W&B's client, which are of many kinds, into one message."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()).rstrip(".")
        raise UserError(
            f"the W&B server {server_url()} did not {what}: {reason}."
            " Try again; `--json DIR` writes the boards without a server"
        ) from error
