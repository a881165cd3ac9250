"""Run directories made through the sweeps' own API, with synthetic results that look like a measured sweep."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import synthetic_runs
from browsing import Browser, chromium
from synthetic_runs import Outcome, sweep, transformers

from dashboards import write_report
from stsq_core import TrialConfig, TrialResult
from sweeps import SweepSpec
from sweeps.findings.run_findings import Findings, read_findings
from sweeps.store.run_directory import RunDirectory, create_or_open
from sweeps.store.sessions import session

LENGTHS = {"attention": [16, 32, 64, 128], "fcn": [4, 8, 12, 16]}


def fill_run(
    run: RunDirectory,
    spec: SweepSpec,
    outcome: Outcome = synthetic_runs.measured,
    *,
    keep: Callable[[int], bool] = lambda _place: True,
) -> None:
    """Write journals and ledger lines for the packs of a sweep whose place `keep` admits."""
    packs = [pack for place, pack in enumerate(synthetic_runs.packs_of(spec)) if keep(place)]
    with session(run, ["stsq", "run", spec.name]):
        synthetic_runs.finish(run, packs, outcome)


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., RunDirectory]:
    """Makes a run directory; keywords change the sweep, `outcome` and `keep` say how its trials end."""

    def make(
        name: str = "run",
        *,
        outcome: Outcome = synthetic_runs.measured,
        keep: Callable[[int], bool] = lambda _place: True,
        **changes: Any,
    ) -> RunDirectory:
        spec = sweep(**changes)
        run = create_or_open(tmp_path / name, spec)
        fill_run(run, spec, outcome, keep=keep)
        return run

    return make


@pytest.fixture
def fill() -> Callable[..., None]:
    """Adds results to a run directory."""
    return fill_run


@pytest.fixture
def diverged() -> Callable[[TrialConfig], TrialResult]:
    """The result of a trial whose loss stopped being finite."""
    return synthetic_runs.diverged


@pytest.fixture
def synthetic() -> Callable[[TrialConfig], TrialResult]:
    """The synthetic result of a trial."""
    return synthetic_runs.measured


@pytest.fixture
def attention() -> dict[str, Any]:
    """The transformer cells of the synthetic sweep."""
    return transformers(LENGTHS["attention"])


@pytest.fixture
def fully_connected() -> dict[str, Any]:
    """The fully connected cells of the synthetic sweep."""
    return synthetic_runs.fully_connected(LENGTHS["fcn"])


@pytest.fixture(scope="session")
def whole_run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """The synthetic sweep, complete; for reading only."""
    spec = sweep()
    run = create_or_open(tmp_path_factory.mktemp("whole") / "run", spec)
    fill_run(run, spec)
    return run


@pytest.fixture(scope="session")
def whole_page(whole_run: RunDirectory) -> Path:
    """The page of the complete sweep; for reading only."""
    return write_report(whole_run.path)


@pytest.fixture(scope="session")
def findings(whole_run: RunDirectory) -> Findings:
    """The findings of the complete sweep."""
    return read_findings(whole_run.path)


@pytest.fixture
def wandb_command(tmp_path: Path) -> Callable[..., str]:
    """Runs W&B's own command, which leaves a log where it is run, and gives what it prints."""

    def run(*arguments: str) -> str:
        command = shutil.which("wandb", path=str(Path(sys.executable).parent)) or "wandb"
        done = subprocess.run([command, *arguments], capture_output=True, text=True, cwd=tmp_path, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def said(tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Runs `stsq` in a process of its own, with both outputs in one file; gives the exit code and what the file holds."""

    def run(*words: object) -> tuple[int, str]:
        environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
        path = tmp_path / "said.txt"
        with path.open("w") as out:
            command = [sys.executable, "-m", "stsq", *map(str, words)]
            done = subprocess.run(command, stdout=out, stderr=out, cwd=tmp_path, env=environment, timeout=240, check=False)
        return done.returncode, path.read_text()

    return run


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests of a process."""
    with chromium() as running:
        yield running


@pytest.fixture(scope="session")
def large_run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """About ten thousand trials in 32 cells; for reading only."""
    return synthetic_runs.make_run(tmp_path_factory.mktemp("large") / "run", synthetic_runs.large_sweep())


@pytest.fixture(scope="session")
def large_page(large_run: RunDirectory) -> Path:
    """The page of ten thousand trials, without the files beside it; for reading only."""
    with pytest.MonkeyPatch.context() as patch:
        draw_no_files(patch)
        return write_report(large_run.path)


@pytest.fixture
def page_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages come without the figures beside them, which take nine tenths of the time and which a browser does not show."""
    draw_no_files(monkeypatch)


def draw_no_files(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("dashboards.page.report.write_figures", lambda figures, folder: None)
