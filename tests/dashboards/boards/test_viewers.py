"""optuna-dashboard over real HTTP on a run: the studies of its searches or of its ledger, with notes and figures, read-only."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest

from dashboards.boards.viewers import OptunaBoard, study_cells
from stsq_core import UserError
from sweeps import expand
from sweeps.store.run_directory import RunDirectory

MakeRun = Callable[..., RunDirectory]


def asked(board: OptunaBoard, path: str, *, method: str = "GET", host: str | None = None) -> tuple[int, bytes]:
    """The status and body of an answer of the board's server."""
    request = urllib.request.Request(board.url + path, method=method, data=b"{}" if method in ("POST", "PUT") else None)
    request.add_header("Content-Type", "application/json")
    if host:
        request.add_header("Host", host)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def answer_of(board: OptunaBoard, path: str) -> Any:
    status, body = asked(board, path)
    assert status == 200, body
    return json.loads(body)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def searched(make_run: MakeRun, fully_connected: dict[str, Any]) -> RunDirectory:
    """A run whose directory holds a journal of studies: one of a cell with a point that is still training, one of no cell."""
    run = make_run(trials=[{**fully_connected, "seeds": 2}])
    backend = optuna.storages.journal.JournalFileBackend(str(run.studies))
    storage = optuna.storages.JournalStorage(backend)
    cell = expand(run.read_spec())[1]
    study = optuna.create_study(storage=storage, study_name=f"quickstart/{cell.cell_id}", direction="minimize")
    for loss in (0.6, 0.05):
        trial = study.ask()
        trial.suggest_int("m", 4, 32, log=True)
        study.tell(trial, loss)
    study.ask().suggest_int("m", 4, 32, log=True)
    optuna.create_study(storage=storage, study_name="somebody else's", direction="minimize")
    return run


def test_a_run_without_a_search_shows_a_study_a_cell_with_its_points_note_and_figures(whole_run: RunDirectory) -> None:
    before = contents(whole_run.path)
    cells = expand(whole_run.read_spec())
    with OptunaBoard(whole_run.path) as board:
        assert board.url.startswith("http://127.0.0.1:")
        studies = answer_of(board, "/api/studies")["study_summaries"]
        assert [study["study_name"] for study in studies] == [cell.label for cell in cells]
        detail = answer_of(board, f"/api/studies/{studies[0]['study_id']}")
        status, page = asked(board, "/dashboard")
    assert (status, b"<html" in page.lower()) == (200, True)
    assert len(detail["trials"]) == len(cells[0].trials)
    assert {trial["state"] for trial in detail["trials"]} == {"Complete"}
    assert {param["name"] for trial in detail["trials"] for param in trial["params"]} == {"m"}
    assert detail["objective_names"] == ["relative loss"]
    body = detail["note"]["body"]
    assert "m\\* = " in body
    assert "90% interval" in body
    figures = {figure["id"] for figure in detail["plotly_graph_objects"]}
    assert {"loss-against-width", "loss-through-training", "thresholds-0", "thresholds-1"} == figures
    assert contents(whole_run.path) == before


def test_the_figures_are_those_of_the_page(whole_run: RunDirectory) -> None:
    with OptunaBoard(whole_run.path) as board:
        detail = answer_of(board, "/api/studies/0")
    losses = next(one for one in detail["plotly_graph_objects"] if one["id"] == "loss-against-width")
    figure = json.loads(losses["graph_object"])
    assert figure["layout"]["xaxis"]["title"]["text"] == "width <i>m</i>"
    points = next(trace for trace in figure["data"] if trace.get("mode") == "markers")
    assert len(points["x"]) == len(detail["trials"])


def test_the_studies_of_a_search_are_shown_with_their_points_and_nothing_is_written(searched: RunDirectory) -> None:
    before = contents(searched.path)
    cell = expand(searched.read_spec())[1]
    with OptunaBoard(searched.path) as board:
        studies = {study["study_name"]: study["study_id"] for study in answer_of(board, "/api/studies")["study_summaries"]}
        assert set(studies) == {cell.label, "somebody else's"}
        detail = answer_of(board, f"/api/studies/{studies[cell.label]}")
        assert sorted(trial["state"] for trial in detail["trials"]) == ["Complete", "Complete", "Running"]
        assert cell.cell_id in detail["note"]["body"]
        assert answer_of(board, f"/api/studies/{studies[cell.label]}/plot/slice")
    assert contents(searched.path) == before


def test_a_search_that_goes_on_is_followed(searched: RunDirectory) -> None:
    backend = optuna.storages.journal.JournalFileBackend(str(searched.studies))
    with OptunaBoard(searched.path) as board:
        assert len(answer_of(board, "/api/studies")["study_summaries"]) == 2
        cell = expand(searched.read_spec())[0]
        optuna.create_study(storage=optuna.storages.JournalStorage(backend), study_name=cell.cell_id)
        board.refresh()
        assert cell.label in {study["study_name"] for study in answer_of(board, "/api/studies")["study_summaries"]}


def test_results_that_come_in_are_shown_under_the_same_number(
    make_run: MakeRun, fill: Callable[..., None], fully_connected: dict[str, Any]
) -> None:
    run = make_run(trials=[{**fully_connected, "seeds": 2}], keep=lambda place: False)
    with OptunaBoard(run.path) as board:
        assert answer_of(board, "/api/studies/2")["trials"] == []
        assert "nothing measured yet" in answer_of(board, "/api/studies/2")["note"]["body"]
        fill(run, run.read_spec())
        board.refresh()
        names = [study["study_name"] for study in answer_of(board, "/api/studies")["study_summaries"]]
        assert names == [cell.label for cell in expand(run.read_spec())]
        assert "m\\* = " in answer_of(board, "/api/studies/2")["note"]["body"]


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/api/studies"), ("DELETE", "/api/studies/0"), ("PUT", "/api/studies/0/note"), ("POST", "/api/trials/0/tell")],
)
def test_nothing_can_be_changed(searched: RunDirectory, method: str, path: str) -> None:
    before = contents(searched.path)
    with OptunaBoard(searched.path) as board:
        status, body = asked(board, path, method=method)
    assert (status, json.loads(body)["reason"]) == (405, "this view is read-only")
    assert contents(searched.path) == before


def test_another_name_of_this_machine_is_refused(whole_run: RunDirectory) -> None:
    with OptunaBoard(whole_run.path) as board:
        assert asked(board, "/api/studies", host="evil.example")[0] == 403
        assert asked(board, "/api/studies", host="evil.example:80")[0] == 403


def test_what_a_user_wrote_stays_in_its_cell_of_the_note(make_run: MakeRun, fully_connected: dict[str, Any]) -> None:
    run = make_run(trials=[fully_connected], hypothesis="a | b\n\n# [c](http://d) <script>e</script>", title="`t` | u")
    with OptunaBoard(run.path) as board:
        body = answer_of(board, "/api/studies/0")["note"]["body"]
    rows = [line for line in body.splitlines() if line.startswith("| ")]
    assert any("a \\| b # \\[c\\](http://d) \\<script\\>e" in row for row in rows)
    assert "\n# " not in body


def test_a_missing_dashboard_is_named_with_the_command_that_installs_it(
    whole_run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboards.boards.extras.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"optuna-dashboard, which is not installed: pip install 'stsq\[boards\]'"):
        OptunaBoard(whole_run.path)


def test_a_taken_port_is_named(whole_run: RunDirectory) -> None:
    with OptunaBoard(whole_run.path) as board:
        port = int(board.url.rpartition(":")[2])
        with pytest.raises(UserError, match=f"port {port}"):
            OptunaBoard(whole_run.path, port=port)


def test_a_study_belongs_to_the_cell_that_its_name_or_an_attribute_names() -> None:
    studies = [("sweep/0123456789ab", {}), ("by attribute", {"cell_id": "ba9876543210"}), ("neither", {"n": 3})]
    found = study_cells(studies, ["0123456789ab", "ba9876543210"])
    assert found == {"sweep/0123456789ab": "0123456789ab", "by attribute": "ba9876543210"}
