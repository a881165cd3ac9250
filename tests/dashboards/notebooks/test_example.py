"""The example notebook runs, shows what it says, and is kept without outputs."""

import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

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


def test_it_is_kept_clean_and_small(notebook: Any) -> None:
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.outputs == [] and cell.execution_count is None for cell in code)
    assert NOTEBOOK.stat().st_size < 10_000


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
    figures = [data for data in shown if "application/vnd.plotly.v1+json" in data]
    assert len(figures) == 3
    assert all("text/html" in data for data in shown if data not in figures)
    assert "144 trials ended" in shown[0]["text/html"]
    assert "finished" in shown[-1]["text/html"]
