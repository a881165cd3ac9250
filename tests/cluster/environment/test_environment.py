"""What an interpreter needs is checked first, from one list, and what it lacks is said in one line."""

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cluster import environment
from cluster.commands.doctor import OPTIONAL
from cluster.jobs.job_client import MIN_RAY

ROOT = Path(__file__).parents[3]

WITHOUT = """
import runpy, sys
for name in {missing!r}:
    sys.modules[name] = None
runpy.run_module("stsq", run_name="__main__", alter_sys=True)
"""
"""`python -m stsq` in an interpreter that lacks some packages."""


def call_without(missing: list[str], *words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT.format(missing=missing), *map(str, words)]
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=180, check=False)


def test_what_is_required_is_what_the_project_depends_on() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[><=]", line)[0] for line in declared["dependencies"]}
    assert set(environment.REQUIRED.values()) == needed
    assert declared["requires-python"] == f">={'.'.join(map(str, environment.MIN_PYTHON))}"
    assert set(environment.REQUIRED) >= environment.RAY_ONLY | environment.COMMAND_LINE
    for package in environment.REQUIRED.values():
        assert metadata.version(package.partition("[")[0])


@pytest.mark.slow
def test_what_the_product_imports_is_declared_and_what_is_declared_is_imported() -> None:
    rooms = environment.ROOMS
    nodes = [node for room in rooms for path in (ROOT / room).rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))]
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    imported = {name.partition(".")[0] for name in names} - sys.stdlib_module_names - set(rooms)
    brought_by_others = {"triton", "pydantic_core", "tensorboardX"}  # by torch's CUDA builds, by pydantic, by ray[tune]
    assert imported - set(OPTIONAL) - brought_by_others == set(environment.REQUIRED)


def test_every_version_is_bounded_above_and_what_was_tried_lies_within() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    tried = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line)
    tried = {canonicalize_name(name): version for name, version in tried.items()}
    for line in [*project["dependencies"], *extras["boards"], *extras["notebooks"]]:
        requirement = Requirement(line)
        assert any(bound.operator == "<" for bound in requirement.specifier), line
        assert requirement.specifier.contains(tried[canonicalize_name(requirement.name)]), line


def test_a_cluster_may_have_the_lowest_ray_that_the_project_allows() -> None:
    [ray] = [line for line in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"] if "ray[" in line]
    assert f">={'.'.join(map(str, MIN_RAY))}," in ray


def test_this_interpreter_is_not_refused() -> None:
    assert environment.refusal(["run", "smoke"]) is None


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
    command = [tmp_path / "bare/bin/python", "-m", "stsq", "run", "smoke"]
    done = subprocess.run(command, cwd=ROOT, env={}, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2, done
    assert done.stderr.count("\n") == 1
    assert "lacks aiohttp, lazy_loader, llvmlite, matplotlib, numba" in done.stderr


@pytest.mark.slow
def test_a_sweep_runs_inline_without_ray_and_is_refused_otherwise(tmp_path: Path, write_sweep: Callable[..., Path]) -> None:
    sweep, missing = write_sweep(), sorted(environment.RAY_ONLY)
    done = call_without(missing, "run", sweep, "--inline", "--wandb", "disabled", folder=tmp_path)
    assert done.returncode == 0, done
    assert "m*" in done.stdout
    refused = call_without(missing, "run", sweep, folder=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert "lacks aiohttp, ray[default,tune]: install" in refused.stderr
    explained = call_without(missing, "run", "--help", folder=tmp_path)
    assert explained.returncode == 0
    assert "--inline" in explained.stdout


def test_a_run_is_refused_where_its_trials_would_fail(tmp_path: Path) -> None:
    done = call_without(["numba"], "run", "smoke", "--inline", folder=tmp_path)
    assert done.returncode == 2
    assert "lacks numba: install" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_the_doctor_reports_every_required_package_that_is_missing(tmp_path: Path) -> None:
    missing = sorted(environment.REQUIRED.keys() - environment.COMMAND_LINE)
    done = call_without(missing, "doctor", folder=tmp_path)
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    for module in missing:
        package = environment.REQUIRED[module].partition("[")[0]
        status = "note" if module in environment.RAY_ONLY else "missing"
        assert re.search(rf"^{status} +{package} +not installed +pip install", done.stdout, flags=re.MULTILINE), done.stdout


@pytest.mark.parametrize("module", ["numba", "orjson"])
def test_the_doctor_is_not_content_without_one_of_them(module: str, tmp_path: Path) -> None:
    done = call_without([module], "doctor", folder=tmp_path)
    assert done.returncode == 2, done
    assert re.search(rf"^missing +{module} ", done.stdout, flags=re.MULTILINE), done.stdout


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with our packages, as an environment holds them."""
    for room in environment.ROOMS:
        shutil.copytree(ROOT / room, tmp_path / "site" / room, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "site"


def start(site: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`python -m stsq` of an installation, in a folder."""
    variables = {**os.environ, "PYTHONPATH": str(site), "COLUMNS": "200"}
    command = [sys.executable, "-m", "stsq", *words]
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=120, check=False)


def overwrite(site: Path, room: str) -> None:
    """What `pip install` of another project with a package of this name does to ours."""
    (site / room / "__init__.py").write_text('"""Sweeps of hyperparameters."""\n')
    info = site / f"{room}-0.2.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {room}\nVersion: 0.2.0\n")
    (info / "top_level.txt").write_text(f"{room}\n")


@pytest.mark.slow
@pytest.mark.parametrize("room", ["sweeps", "cluster", "dashboards"])
def test_a_project_that_overwrote_a_package_of_ours_is_named(room: str, installed: Path, tmp_path: Path) -> None:
    overwrite(installed, room)
    done = start(installed, tmp_path, "list")
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr == (
        f"stsq: the Python package {room!r} in {installed / room} is not the one of stsq, and hides it: pip uninstall {room}, "
        f"then {environment.INSTALL}; they cannot share an environment\n"
    )
    (installed / room / "__init__.py").unlink()  # what `pip uninstall` leaves
    shutil.rmtree(installed / f"{room}-0.2.0.dist-info")
    assert start(installed, tmp_path, "list").stderr.endswith(f"and hides it: {environment.INSTALL}\n")


@pytest.mark.slow
@pytest.mark.parametrize("room", ["sweeps", "cluster"])
def test_a_folder_of_the_user_that_hides_a_package_of_ours_is_named(room: str, installed: Path, tmp_path: Path) -> None:
    own = tmp_path / "work" / room
    own.mkdir(parents=True)
    assert start(installed, own.parent, "cat", "smoke").returncode == 0  # without __init__.py it hides nothing
    (own / "__init__.py").touch()
    done = start(installed, own.parent, "list")
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"stsq: the Python package {room!r} in {own} is not the one of stsq, and hides it: rename that"
    )
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_the_doctor_names_an_intruder(installed: Path, tmp_path: Path) -> None:
    assert re.search(r"^ok +stsq ", start(installed, tmp_path, "doctor").stdout, flags=re.MULTILINE)
    overwrite(installed, "sweeps")
    done = start(installed, tmp_path, "doctor")
    assert done.returncode == 2
    assert re.search(r"^missing +stsq: sweeps +hidden by .+ pip uninstall sweeps, then pip", done.stdout, flags=re.MULTILINE)
