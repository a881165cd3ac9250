"""What the terminal needs loads no library that draws."""

import subprocess
import sys
from pathlib import Path

from sweeps.store.run_directory import RunDirectory

SHOW = """
import sys
from cluster.commands.cli import app
app(["show", sys.argv[1]], standalone_mode=False)
print(sorted({"plotly", "matplotlib"} & set(sys.modules)), file=sys.stderr)
"""


def test_show_loads_no_drawing_library(whole_run: RunDirectory) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHOW, str(whole_run.path)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[3],
        check=True,
    )
    assert "transformer" in done.stdout
    assert done.stderr.splitlines()[-1] == "[]"
