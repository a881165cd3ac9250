"""The W&B boards of a run: documents without an account, and saved by W&B's own client on a stand-in server."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hunted_runs import Hunt
from wandb_files import OfflineRun, read_run

from dashboards.boards.board import read_board
from dashboards.boards.saving import save_boards, write_documents
from dashboards.publishing.publisher import publish
from stsq_core import UserError
from sweeps.schema.fields import flattened
from sweeps.store.run_directory import RunDirectory

MakeRun = Callable[..., RunDirectory]
KEPT = Path(__file__).parents[1]


def read(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return document


def everywhere(document: object) -> Iterator[dict[str, Any]]:
    """Every object of a document, however deep."""
    if isinstance(document, dict):
        yield document
        for value in document.values():
            yield from everywhere(value)
    elif isinstance(document, list):
        for value in document:
            yield from everywhere(value)


def panels(document: object) -> list[dict[str, Any]]:
    return [one for one in everywhere(document) if "viewType" in one]


def published(run: RunDirectory) -> list[OfflineRun]:
    """The runs of a run directory as the publisher writes them."""
    publish(run.path, mode="offline")
    return [read_run(path) for path in run.wandb.glob("offline-run-*/*.wandb")]


@pytest.fixture
def documents(named_run: RunDirectory, tmp_path: Path) -> Path:
    write_documents(named_run.path, tmp_path / "documents")
    return tmp_path / "documents"


@pytest.mark.parametrize("name", ["workspace.json", "report.json"])
def test_the_documents_are_those_that_are_kept(documents: Path, name: str) -> None:
    """Set STSQ_WRITE_DOCUMENTS=1 to keep the new ones, and look at what has changed."""
    if os.environ.get("STSQ_WRITE_DOCUMENTS"):
        (KEPT / name).write_bytes((documents / name).read_bytes())
    assert read(documents / name) == read(KEPT / name)


def test_the_documents_are_the_same_every_time(named_run: RunDirectory, documents: Path, tmp_path: Path) -> None:
    again = write_documents(named_run.path, tmp_path / "again")
    assert [path.name for path in again] == [
        "workspace.json", "report.json", "thresholds.vl.json", "phase-diagram.vl.json",
        "loss-against-width.vl.json", "statuses.vl.json",
    ]  # fmt: skip
    assert all(path.read_bytes() == (documents / path.name).read_bytes() for path in again)


def test_the_workspace_shows_everything_that_it_should(documents: Path) -> None:
    shown = panels(read(documents / "workspace.json"))
    kinds = [panel["viewType"] for panel in shown]
    assert kinds.count("Vega2") == 4
    assert kinds.count("Run History Line Plot") == 3
    assert {"Scatter Plot", "Parallel Coordinates Plot", "Parameter Importance", "Run Comparer", "Markdown Panel"} <= set(kinds)
    groups = {panel["config"]["groupBy"] for panel in shown if panel["viewType"] == "Run History Line Plot"}
    assert groups == {"cell.value", "m.value", "seed.value"}
    columns = next(panel["config"]["columns"] for panel in shown if panel["viewType"] == "Parallel Coordinates Plot")
    assert [column["accessor"] for column in columns] == [
        *("config:task.value.T", "config:model.value.kind", "config:m.value", "config:optimizer.value.lr"),
        "summary:relative_loss",
    ]  # fmt: skip
    text = next(panel["config"]["value"] for panel in shown if panel["viewType"] == "Markdown Panel")
    assert "| Transformer | T = 16 |" in text
    assert "q ln T" in text
    assert "(T d)^" in text


def test_each_cell_of_the_report_shows_its_own_runs(named_run: RunDirectory, documents: Path) -> None:
    report = read(documents / "report.json")
    filters = [json.dumps(one["filters"]) for one in everywhere(report) if "filters" in one and "runFeed" in one]
    assert all("0123abcd" in text for text in filters)
    for cell in read_board(named_run.path).cells:
        assert sum(cell.cell_id in text for text in filters) == 1


def test_panels_name_exactly_what_the_publisher_writes(
    make_run: MakeRun, documents: Path, diverged: Callable[..., Any], synthetic: Callable[..., Any]
) -> None:
    runs = published(make_run("published", outcome=lambda config: (diverged if config.width == 8 else synthetic)(config)))
    configs = {key for run in runs for key in flattened(run.config)}
    summaries = {key for run in runs for key in run.summary}
    rows = {key for run in runs for row in run.history for key in row}
    for name in ("workspace.json", "report.json"):
        document = read(documents / name)
        named = list(accessors(document))
        assert len(named) > 20
        for section, key in named:
            known = {"config": configs, "summary": summaries, "row": rows}[section]
            assert key in known, f"{name} shows {section} {key}, which the publisher does not write"


@pytest.mark.slow
@pytest.mark.parametrize("targets", [0.3, [0.3, 0.5]])
def test_a_search_is_shown_by_its_interval_and_its_panels_name_what_the_publisher_writes(tmp_path: Path, targets: Any) -> None:
    hunt = Hunt(tmp_path / "run", criterion={"target_loss": targets}, search={"batch": 4, "cap": 8})
    hunt.go()
    write_documents(hunt.run.path, tmp_path)
    runs = published(hunt.run)
    configs = {key for run in runs for key in flattened(run.config)}
    summaries = {key for run in runs for key in run.summary}
    rows = {key for run in runs for row in run.history for key in row}
    suffixes = [""] if targets == 0.3 else ["@0.3", "@0.5"]
    for name, num_places in (("workspace.json", 1), ("report.json", 2)):  # of the report, one a cell
        document = read(tmp_path / name)
        for section, key in accessors(document):
            assert key in {"config": configs, "summary": summaries, "row": rows}[section]
        shown = [panel["config"] for panel in panels(document) if panel["config"].get("xAxis") == "num_points"]
        metrics = [[f"search/{key}{suffix}" for key in ("m_star", "low", "high")] for suffix in suffixes]
        assert [one["metrics"] for one in shown] == metrics * num_places
        assert all(one["chartTitle"].startswith("Threshold m* and its 90% interval so far") for one in shown)
    assert "trial_id" in json.dumps(read(tmp_path / "statuses.vl.json")["transform"][0])


def accessors(document: object) -> Iterator[tuple[str, str]]:
    """Where a document looks for numbers: (config, summary or row; key)."""
    for one in everywhere(document):
        for value in (*_strings(one), *(key for key in one if isinstance(key, str))):
            if value.startswith("config:"):
                first, _, rest = value.removeprefix("config:").partition(".value")
                yield "config", first + rest
            elif value.startswith("summary:"):
                yield "summary", value.removeprefix("summary:")
        if one.get("viewType") == "Run History Line Plot":
            yield from (("row", key) for key in (one["config"]["xAxis"], *one["config"]["metrics"]))
            yield "config", one["config"]["groupBy"].removesuffix(".value")
        if one.get("name") in ("config", "summary") and one.get("args"):
            yield from ((one["name"], key) for key in one["args"][0]["value"])
        if "targetKey" in one:
            yield "summary", one["targetKey"]


def _strings(one: dict[str, Any]) -> list[str]:
    lists = [value for value in one.values() if isinstance(value, list)]
    return [v for v in (*one.values(), *(item for items in lists for item in items)) if isinstance(v, str)]


def test_a_board_refuses_a_key_that_nobody_writes(named_run: RunDirectory) -> None:
    board = read_board(named_run.path)
    assert board.config("task.T") == "task.T"
    with pytest.raises(ValueError, match=r"no config key 'task\.t'"):
        board.config("task.t")
    with pytest.raises(ValueError, match="no summary key 'loss'"):
        board.summary("loss")
    with pytest.raises(ValueError, match="no history key 'epoch'"):
        board.row("epoch")


@pytest.mark.slow
def test_the_server_receives_charts_workspace_and_report(named_run: RunDirectory, documents: Path, boards_server: Any) -> None:
    saved = save_boards(named_run.path)
    (workspace,) = boards_server.of_type("project-view")
    (report,) = boards_server.of_type("runs")
    assert workspace["entityName"] == report["entityName"] == "me"
    assert workspace["projectName"] == report["projectName"] == "stsq"
    assert boards_server.projects == ["stsq"]
    assert report["displayName"] == named_run.read_spec().heading
    for view, name in ((workspace, "workspace.json"), (report, "report.json")):
        sent = json.dumps(json.loads(view["spec"]), sort_keys=True)
        kept = json.dumps(read(documents / name), sort_keys=True).replace("YOUR-ENTITY/", "me/")
        assert sent == kept
    shown = {panel["config"]["panelDefId"] for panel in panels(json.loads(workspace["spec"])) if panel["viewType"] == "Vega2"}
    assert shown == {f"me/{name}" for name in boards_server.charts}
    assert all(chart["access"] == "PRIVATE" for chart in boards_server.charts.values())
    assert saved.workspace_url.startswith(f"{boards_server.url}/me/stsq?nw=")
    assert saved.report_url.startswith(f"{boards_server.url}/me/stsq/reports/")


@pytest.mark.slow
def test_the_command_saves_where_it_says_and_prints_no_line_of_the_clients(
    named_run: RunDirectory, boards_server: Any, said: Callable[..., tuple[int, str]]
) -> None:
    code, text = said("wandb", "setup", named_run.path, "--wandb-project", "widths", "--wandb-entity", "lab")
    assert code == 0, text
    first, *urls = text.splitlines()
    assert first == "W&B: project widths (--wandb-project), entity lab (--wandb-entity)"
    assert [line.partition(": ")[0] for line in urls] == ["workspace", "report"]
    views = boards_server.views.values()
    assert {(view["entityName"], view["projectName"]) for view in views} == {("lab", "widths")}
    assert read_board(named_run.path).project == "widths"


@pytest.mark.slow
def test_saved_again_they_replace_themselves(
    named_run: RunDirectory,
    boards_server: Any,
    fill: Callable[..., None],
    diverged: Callable[..., Any],
    synthetic: Callable[..., Any],
) -> None:
    first = save_boards(named_run.path)
    assert save_boards(named_run.path) == first
    assert (len(boards_server.views), len(boards_server.charts)) == (2, 4)
    (named_run.wandb / "boards.json").unlink()  # as from another copy of the run: the charts are there already
    save_boards(named_run.path)
    assert len(boards_server.of_type("project-view")) == 1
    assert len(boards_server.charts) == 4
    fill(named_run, named_run.read_spec(), lambda config: (diverged if config.model.kind == "fcn" else synthetic)(config))
    save_boards(named_run.path)
    assert len(boards_server.charts) == 7  # other numbers are other charts; the one that draws W&B's runs is as it was


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["createCustomChart", "upsertView", "viewer"])
def test_a_server_that_refuses_is_reported_in_one_message(named_run: RunDirectory, boards_server: Any, operation: str) -> None:
    boards_server.refused = (operation, 200, "you may not do this")
    with pytest.raises(UserError, match=rf"{boards_server.url} did not (take|let us in).*--json DIR"):
        save_boards(named_run.path)
    boards_server.refused = None
    save_boards(named_run.path)
    assert len(boards_server.views) == 2


@pytest.mark.slow
def test_without_a_key_or_a_server_it_is_said_what_to_do(
    named_run: RunDirectory, boards_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    with pytest.raises(UserError, match=r"127.0.0.1:9 does not answer; `stsq wandb setup .* --json DIR`"):
        save_boards(named_run.path)
    monkeypatch.delenv("WANDB_API_KEY")
    with pytest.raises(UserError, match="set WANDB_API_KEY"):
        save_boards(named_run.path)
    assert boards_server.operations == []


def test_an_account_without_an_entity_is_asked_to_name_one(named_run: RunDirectory, boards_server: Any) -> None:
    boards_server.entity = None
    with pytest.raises(UserError, match="entity"):
        save_boards(named_run.path)


def test_a_missing_library_is_named_with_the_command_that_installs_it(
    named_run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboards.boards.extras.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"wandb-workspaces, which is not installed: pip install 'stsq\[boards\]'"):
        write_documents(named_run.path, tmp_path / "documents")


def test_a_run_with_nothing_yet_has_boards_too(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run(keep=lambda place: False)
    names = [path.name for path in write_documents(run.path, tmp_path / "documents")]
    assert "thresholds.vl.json" not in names
    assert len(panels(read(tmp_path / "documents" / "workspace.json"))) > 5


def test_what_a_user_wrote_stays_text(make_run: MakeRun, tmp_path: Path) -> None:
    hostile = "<script>alert(1)</script> | [x](javascript:1) `y`"
    run = make_run(hypothesis=hostile, title=hostile, outcome=lambda config: hostile)
    write_documents(run.path, tmp_path / "documents")
    report = read(tmp_path / "documents" / "report.json")
    markdown = [one["content"] for one in everywhere(report) if one.get("type") == "markdown-block"]
    assert markdown
    assert not any("<script" in text.replace("\\<", "") for text in markdown)
    assert any("\\<script\\>" in text for text in markdown)
