"""The example notebook runs, shows what it says, and is kept with the outputs of a whole run, for readers without scripts."""

import base64
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from dashboards.notebooks.loaded_run import PLOTLY
from sweeps.store.run_directory import RunDirectory

ROOT = Path(__file__).parents[3]
NOTEBOOK = ROOT / "docs" / "notebooks" / "look_at_a_run.ipynb"


@pytest.fixture
def notebook() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)


def outputs(notebook: Any) -> list[dict[str, Any]]:
    """What the code cells show, each as its data by kind."""
    return [
        output["data"]
        for cell in notebook.cells
        if cell.cell_type == "code"
        for output in cell.outputs
        if output.output_type in ("execute_result", "display_data")
    ]


def shown_by_nbconvert(data: dict[str, Any]) -> str:
    """The form of an output that an export to HTML shows, as GitHub's viewer does: it has no plotly."""
    order = ("text/html", "text/markdown", "image/svg+xml", "image/png", "text/plain")
    return next(kind for kind in order if kind in data)


def check_figures(shown: list[dict[str, Any]]) -> None:
    figures = [data for data in shown if PLOTLY in data]
    assert len(figures) == 3
    for data in figures:
        assert shown_by_nbconvert(data) == "text/html"
        assert f'src="data:image/png;base64,{data["image/png"]}"' in data["text/html"]
        assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
        assert data[PLOTLY]["data"]


def test_it_is_kept_with_the_tables_and_figures_of_a_whole_run(notebook: Any) -> None:
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    shown = outputs(notebook)
    assert len(shown) == len(code)
    check_figures(shown)
    assert "So far" not in str(shown[0])
    assert str(Path.home()) not in NOTEBOOK.read_text()
    assert NOTEBOOK.stat().st_size < 1_500_000


@pytest.mark.slow
def test_every_cell_runs_and_shows_its_table_or_figure(
    notebook: Any, whole_run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    shutil.copytree(whole_run.path, tmp_path / "runs" / "quickstart")
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = outputs(notebook)
    assert len(shown) == sum(cell.cell_type == "code" for cell in notebook.cells)
    check_figures(shown)
    assert all("text/html" in data for data in shown)
    assert "144 trials ended" in shown[0]["text/html"]
    assert "finished" in shown[-1]["text/html"]
