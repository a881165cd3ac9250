"""The worked example in CONTRIBUTING does what it says: a copy of the package takes the patch, trains with it and tests it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
COPIED = ("stsq_core", "docs/plugins", "tests/stsq_core", "tests/conftest.py", "pyproject.toml")

WORK = """
import pytest
from stsq_core import TrialConfig, train_pack

def trial(d_e, redraw):
    return TrialConfig.model_validate({
        "task": {"kind": "stsq", "T": 12, "q": 2, "d": 2},
        "model": {"kind": "transformer", "positions": {"kind": "gaussian_raw", "d_e": d_e, "redraw": redraw}},
        "optimizer": {"kind": "adam", "lr": 0.03},
        "training": {"objective": "population", "steps": 150, "batch_size": 32},
    })

trials = [trial(d_e, redraw) for redraw in ("never", "per_step", "per_sample") for d_e in (29, 30, 32)]
losses = [result.relative_loss for result in train_pack(trials)]
assert max(losses) < 0.9, losses
assert [train_pack([one])[0].relative_loss for one in trials] == losses
raise SystemExit(pytest.main(["-q", "-p", "no:cacheprovider", "-k", "GaussianRaw or gaussian_raw", "tests/stsq_core"]))
"""


def patch() -> str:
    (found,) = re.findall(r"^```diff\n(.*?)^```", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    return str(found)


def test_the_example_is_short() -> None:
    assert len(patch().splitlines()) <= 60


@pytest.mark.skipif(shutil.which("git") is None, reason="git applies the patch")
def test_the_example_applies_trains_and_passes_its_tests(tmp_path: Path) -> None:
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name)
        else:
            shutil.copy2(ROOT / name, tmp_path / name)
    # A ceiling keeps git from taking the folder for part of a repository around it.
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    subprocess.run(["git", "apply", "-"], input=patch(), text=True, check=True, cwd=tmp_path, env=environment)
    done = subprocess.run([sys.executable, "-c", WORK], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"\b[5-9] passed", done.stdout), done.stdout
