"""What an interpreter needs is looked at first, and told in one line."""

import re
import subprocess
import sys
import tomllib
import venv
from importlib import metadata
from pathlib import Path

import pytest

from cluster.run import environment

ROOT = Path(__file__).parents[3]


def test_what_is_required_is_what_the_project_depends_on() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[><=]", line)[0] for line in declared["dependencies"]}
    assert set(environment.REQUIRED.values()) == needed
    assert declared["requires-python"] == f">={'.'.join(map(str, environment.MIN_PYTHON))}"
    for module, package in environment.REQUIRED.items():
        assert module in environment.REQUIRED
        assert metadata.version(package.partition("[")[0])


def test_this_interpreter_is_not_refused() -> None:
    assert environment.missing_packages() == ()
    assert environment.refusal() is None


def test_a_missing_package_is_named_with_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "REQUIRED", {"no_such_module": "no-such-package", "torch": "torch"})
    refusal = environment.refusal()
    assert refusal is not None
    assert refusal.startswith(f"{sys.executable} on ")
    assert "lacks no-such-package: install" in refusal


def test_an_old_python_is_refused_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "MIN_PYTHON", (99, 1))
    assert "stsq needs 99.1 or later" in str(environment.refusal())


def test_a_bare_interpreter_says_it_in_one_line(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    command = [tmp_path / "bare/bin/python", "-m", "cluster", "run", "smoke"]
    done = subprocess.run(command, cwd=ROOT, env={}, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1
    assert "lacks matplotlib, numba" in done.stderr
