"""Every private name of wandb and wandb-workspaces that the border uses is still there; only the border uses any."""

import ast
import os
from pathlib import Path

import pytest
import wandb
import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws

import dashboards
from dashboards.publishing import wandb_border as border
from dashboards.publishing.client import restart_service

MOVED = f"wandb {wandb.__version__} has moved or changed {{}}: mend dashboards/publishing/wandb_border.py"
VIEWS_MOVED = "this wandb-workspaces has moved or changed {}: mend dashboards/publishing/wandb_border.py"


def test_the_quick_writer_is_tried_with_the_installed_release() -> None:
    assert border.has_quick_files(), (
        f"wandb {wandb.__version__} is outside of the releases that the quick writer is tried with: where test_files.py passes,"
        " widen QUICK_FILES_BELOW in dashboards/publishing/wandb_border.py"
    )


@pytest.mark.parametrize(
    ("version", "has"), [("0.30.9", False), ("0.31.0", True), ("0.31.2.dev1", True), ("0.32.0", False), ("1.31.0", False)]
)
def test_other_releases_write_their_own_files(version: str, has: bool) -> None:
    assert border.has_quick_files(version) == has


def test_the_message_of_a_record_is_there() -> None:
    record = border.record_class()(exit={"exit_code": 3})
    assert record.WhichOneof("record_type") == "exit", MOVED.format("wandb.proto.wandb_internal_pb2.Record")


def test_every_quiet_setting_is_there() -> None:
    assert border.quiet_settings() == border.QUIET, MOVED.format(f"one of the settings {', '.join(border.QUIET)}")
    assert all(getattr(wandb.Settings(**border.quiet_settings()), name) == value for name, value in border.QUIET.items())


def test_looking_for_the_service_starts_none() -> None:
    assert border.service_process() is None
    restart_service()
    assert border.SERVICE_VARIABLE not in os.environ


def test_the_service_is_found_by_its_process_and_its_variable() -> None:
    run = wandb.init(mode="offline", dir=os.environ["HOME"], settings=wandb.Settings(silent=True))
    process = border.service_process()
    assert process is not None, MOVED.format("_WandbSetup._connection._proc._process")
    assert process.poll() is None
    assert border.SERVICE_VARIABLE in os.environ, MOVED.format(f"the variable {border.SERVICE_VARIABLE}")
    run.finish()
    restart_service()
    assert process.poll() is not None
    assert border.SERVICE_VARIABLE not in os.environ


def test_a_workspace_has_a_name_and_an_id_for_the_server() -> None:
    workspace = ws.Workspace(entity="me", project="p", sections=[])
    border.set_workspace_name(workspace, "nw-name-v")
    border.set_workspace_id(workspace, "abc")
    model = workspace._to_model()
    assert (model.name, model.id) == ("nw-name-v", "abc"), VIEWS_MOVED.format("Workspace._internal_name or _internal_id")
    assert border.workspace_id(workspace) == "abc"


def test_panels_and_sets_of_runs_take_ids_and_views_become_documents() -> None:
    panel, runset = wr.MarkdownPanel(markdown="x"), wr.Runset(name="y")
    border.set_id(panel, "panel-id")
    border.set_id(runset, "runs-id")
    document = border.document_of(wr.Report(entity="me", project="p", blocks=[wr.PanelGrid(runsets=[runset], panels=[panel])]))
    text = str(document)
    assert "panel-id" in text, VIEWS_MOVED.format("Panel._id")
    assert "runs-id" in text, VIEWS_MOVED.format("Runset._id")


def test_nothing_but_the_border_uses_private_names() -> None:
    folder = Path(dashboards.__file__).parent
    sources = {path: path.read_text() for path in sorted(folder.rglob("*.py")) if path.name != "wandb_border.py"}
    using = {path: ast.walk(ast.parse(text)) for path, text in sources.items() if "import wandb" in text}
    assert {path.name for path in using} >= {"client.py", "documents.py", "saving.py"}
    for path, nodes in using.items():
        for node in nodes:
            where = f"{path.relative_to(folder)}:{getattr(node, 'lineno', 0)}"
            match node:
                case ast.ImportFrom(module=str(module)) if module.startswith("wandb"):
                    assert module in ("wandb", "wandb_workspaces"), f"{where} imports {module}: import it in wandb_border"
                case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner not in ("self", "cls"):
                    assert not name.startswith("_") or name.endswith("__"), f"{where} uses {owner}.{name}: use wandb_border"
                case ast.Call(func=ast.Attribute(attr="Settings"), keywords=keywords):
                    names = [keyword.arg for keyword in keywords if (keyword.arg or "").startswith("x_")]
                    assert not names, f"{where} sets {names}: set them in wandb_border"
