"""What the terminal needs loads no library that draws, and the progress of a grid none that estimates."""

import subprocess
import sys
from pathlib import Path

import pytest

from sweeps.store.run_directory import RunDirectory

pytestmark = pytest.mark.slow
COMMAND = """
import sys
from cluster.commands.cli import app
app(sys.argv[1:], standalone_mode=False)
print(sorted({"plotly", "matplotlib", "torch", "scipy.stats", "scipy.special"} & set(sys.modules)), file=sys.stderr)
"""


def loaded_by(command: str, run: RunDirectory) -> str:
    """Which of the heavy libraries a command loads."""
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, command, str(run.path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        check=True,
    )
    assert "transformer" in done.stdout
    return done.stderr.splitlines()[-1]


def test_show_loads_no_drawing_library(whole_run: RunDirectory) -> None:
    assert "plotly" not in (loaded := loaded_by("show", whole_run))
    assert "matplotlib" not in loaded


def test_status_of_a_grid_estimates_nothing_and_answers_at_once(whole_run: RunDirectory) -> None:
    assert loaded_by("status", whole_run) == "[]"
