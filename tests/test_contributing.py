"""The worked examples in CONTRIBUTING do what they say, and half of one is refused: a copy of the package takes each patch."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parent.parent
UNFINISHED = shutil.ignore_patterns("*.tmp.*", "*.pyc.*")
"""Files that Numba and Python are writing; what they have compiled is copied."""
COPIED = ("stsq_core", "docs/plugins", "tests/stsq_core", "tests/conftest.py", "pyproject.toml")

TRIAL = """
import pytest
from stsq_core import TrialConfig, train_pack

def trial(d_e, redraw, kind, optimizer):
    return TrialConfig.model_validate({
        "task": {"kind": "stsq", "T": 12, "q": 2, "d": 2},
        "model": {"kind": "transformer", "positions": {"kind": kind, "d_e": d_e, "redraw": redraw}},
        "optimizer": optimizer,
        "training": {"objective": "population", "steps": 150, "batch_size": 32},
    })
"""

CODE = """
adam = {"kind": "adam", "lr": 0.03}
trials = [trial(d_e, redraw, "gaussian_raw", adam) for redraw in ("never", "per_step", "per_sample") for d_e in (29, 30, 32)]
losses = [result.relative_loss for result in train_pack(trials)]
assert max(losses) < 0.9, losses
assert [train_pack([one])[0].relative_loss for one in trials] == losses
raise SystemExit(pytest.main(["-q", "-p", "no:cacheprovider", "-k", "GaussianRaw or gaussian_raw", "tests/stsq_core"]))
"""

OPTIMIZER = """
optimizers = [
    {"kind": "heavy_ball", "lr": 0.3, "schedule": {"kind": "cosine"}},
    {"kind": "gd", "lr": 0.3},
    {"kind": "adam", "lr": 0.03},
    {"kind": "heavy_ball", "lr": 3e30},
    {"kind": "heavy_ball", "lr": 0.3, "beta": 0.5},
]
trials = [trial(30, "never", "random_sign", optimizer) for optimizer in optimizers]
results = [(result.status, result.relative_loss) for result in train_pack(trials)]
assert [status for status, _ in results] == ["finished", "finished", "finished", "diverged", "finished"], results
assert results[0][1] < results[4][1] < results[1][1] < 1, results
assert [(alone.status, alone.relative_loss) for one in trials for alone in train_pack([one])] == results
raise SystemExit(pytest.main(["-q", "-p", "no:cacheprovider", "-k", "heavy_ball or neighbours", "tests/stsq_core/training"]))
"""

UNION_ALONE = """
from stsq_core.configs.optimizer import HeavyBall
try:
    train_pack([trial(8, "never", "random_sign", {"kind": "heavy_ball", "lr": 0.1})])
except TypeError as error:
    assert str(error) == "stsq_core/training/descent.py: rule_of has no case for HeavyBall: write it there", error
else:
    raise SystemExit("it trained")
"""

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git applies the patch")


def patches() -> list[str]:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    return re.findall(r"^```diff\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


def patched(folder: Path, patch: str, *include: str) -> dict[str, str]:
    """Put a copy of the package with a patch into a folder, and return the environment in which Python runs it."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=UNFINISHED)
        else:
            shutil.copy2(ROOT / name, folder / name)
    # A ceiling keeps git from taking the folder for part of a repository around it.
    environment = os.environ | {"PYTHONPATH": str(folder), "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    command = ["git", "apply", *(f"--include={name}" for name in include), "-"]
    subprocess.run(command, input=patch, text=True, check=True, cwd=folder, env=environment)
    return environment


def run(folder: Path, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=folder, env=environment)


def test_the_examples_are_short() -> None:
    assert [len(patch.splitlines()) <= 60 for patch in patches()] == [True, True]


@needs_git
@pytest.mark.parametrize(("number", "work", "passed"), [(0, CODE, "[5-9]"), (1, OPTIMIZER, "[3-9]")], ids=["code", "optimizer"])
def test_an_example_applies_trains_and_passes_its_tests(tmp_path: Path, number: int, work: str, passed: str) -> None:
    environment = patched(tmp_path, patches()[number])
    done = run(tmp_path, environment, "-c", TRIAL + work)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"\b{passed} passed", done.stdout), done.stdout


@needs_git
def test_an_optimizer_in_the_union_alone_is_refused_by_mypy_and_by_its_first_trial(tmp_path: Path) -> None:
    environment = patched(tmp_path, patches()[1], "stsq_core/configs/*")
    cache = tmp_path / ".mypy_cache"
    if (ROOT / ".mypy_cache").is_dir():  # what is known of the libraries, so that it takes seconds
        shutil.copytree(ROOT / ".mypy_cache", cache)
    done = run(tmp_path, environment, "-m", "mypy", "--cache-dir", str(cache), "-m", "stsq_core.training.descent")
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r'stsq_core/training/descent\.py:\d+: error: Argument 1 to "missing_case" .*"HeavyBall"', done.stdout), (
        done.stdout
    )
    done = run(tmp_path, environment, "-c", TRIAL + UNION_ALONE)
    assert done.returncode == 0, done.stdout + done.stderr
