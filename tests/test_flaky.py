"""A test that fails and then passes fails the build, unless tests/flaky.txt names it; and nothing is named there."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = """
from pathlib import Path

def test_steady():
    pass

def test_flaky():
    seen = Path("seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError("the first time only")

def test_broken():
    assert not Path("broken").exists()
"""


def build(folder: Path, *, known: str = "", broken: bool = False) -> subprocess.CompletedProcess[str]:
    """What `.ci/run` does with a project of three tests: run them, then run the failed ones again."""
    (folder / "tests").mkdir()
    (folder / "tests/test_some.py").write_text(SOURCE)
    (folder / "tests/flaky.txt").write_text(f"# known\n{known}\n")
    if broken:
        (folder / "broken").touch()
    first = subprocess.run([sys.executable, "-m", "pytest", "-q", "--rootdir=."], cwd=folder, capture_output=True, check=False)
    assert first.returncode == 1
    script = [sys.executable, str(ROOT / ".ci/rerun_failed.py")]
    return subprocess.run(script, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_test_that_passes_the_second_time_fails_the_build(tmp_path: Path) -> None:
    done = build(tmp_path)
    assert done.returncode == 1
    assert "FLAKY: tests/test_some.py::test_flaky failed, then passed" in done.stdout


@pytest.mark.slow
def test_a_named_flaky_test_does_not(tmp_path: Path) -> None:
    done = build(tmp_path, known="tests/test_some.py::test_flaky")
    assert done.returncode == 0
    assert "FLAKY, as tests/flaky.txt says: tests/test_some.py::test_flaky" in done.stdout


@pytest.mark.slow
def test_a_broken_test_fails_the_build_beside_a_named_flaky_one(tmp_path: Path) -> None:
    done = build(tmp_path, known="tests/test_some.py::test_flaky", broken=True)
    assert done.returncode == 1
    assert "FAILED TWICE: tests/test_some.py::test_broken" in done.stdout


def test_a_failure_without_a_failed_test_fails_the_build(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(ROOT / ".ci/rerun_failed.py")], cwd=tmp_path, check=False, capture_output=True)
    assert done.returncode == 1


@pytest.mark.parametrize("line", (ROOT / "tests/flaky.txt").read_text().splitlines())
def test_no_test_of_this_project_is_known_to_be_flaky(line: str) -> None:
    assert line.startswith("#")


def test_ci_runs_failed_tests_again_by_this_script() -> None:
    text = (ROOT / ".ci/run").read_text()
    assert "make test || {" in text
    assert ".venv/bin/python .ci/rerun_failed.py\n}" in text
    assert "make test-failed" not in text
