"""The folder for OptunaHub is made of our source, and works with optuna, numpy and scipy alone."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

ALONE = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("sweeps", "stsq", "stsq_core", "torch", "pandas", "lazy_loader", "pydantic"):
            raise ImportError(name)

sys.meta_path.insert(0, Blocked())
import pytest
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--noconftest", *sys.argv[1:]]))
"""


@pytest.mark.slow
def test_the_package_works_alone(tmp_path: Path) -> None:
    package = runpy.run_path(str(ROOT / "optunahub/build.py"))["build"](tmp_path)
    text = "".join(path.read_text() for path in package.glob("*.py"))
    assert "sweeps" not in text.replace("sweeps/sampler", "")
    assert not re.search(r"@[A-Z]", readme := (package / "README.md").read_text())
    assert "| this sampler 24 |" in readme
    assert "| accuracy | 200 |" in readme
    assert {"LICENSE", "README.md", "__init__.py", "example.py"} <= {path.name for path in package.iterdir()}
    environment = os.environ | {"PYTHONPATH": "", "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(package)], cwd=package, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout
