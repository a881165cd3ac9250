"""Run directories made through the sweeps' own API, with synthetic results that look like a measured sweep."""

import math
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from dashboards import write_report
from dashboards.findings import Findings, read_findings
from stsq_core import Measurement, TrialConfig, TrialResult, theory
from sweeps import SweepSpec, expand, make_packs
from sweeps.journal import JournalWriter
from sweeps.ledger import Ledger, LedgerRecord, record_of_failure, record_of_result
from sweeps.run_directory import RunDirectory, create_or_open
from sweeps.sessions import session

NUM_POINTS = 12

TRANSFORMER = {
    "name": "attention",
    "base": {
        "task": {"kind": "stsq", "T": 16, "q": 3, "d": 4},
        "model": {
            "kind": "transformer",
            "positions": {"kind": "random_sign", "d_e": 8, "redraw": "per_step", "query": "dual"},
        },
        "optimizer": {"kind": "adam", "lr": 0.03},
        "training": {"objective": "population", "batch_size": 64, "steps": 600},
    },
    "zip": {
        "task.T": [16, 32, 64, 128],
        "model.positions.d_e": [
            {"geom": [round(a * 3 * math.log(T)) for a in (1.2, 5.0)], "num": 6} for T in (16, 32, 64, 128)
        ],
    },
    "seeds": 3,
}

FCN = {
    "name": "fcn",
    "base": {
        "task": {"kind": "stsq", "T": 4, "q": 2, "d": 2},
        "model": {"kind": "fcn", "width": 8},
        "optimizer": {"kind": "adam", "lr": 0.01},
        "training": {"objective": "minibatch", "batch_size": 128, "steps": 2000},
    },
    "zip": {
        "task.T": [4, 8, 12, 16],
        "model.width": [{"geom": [round(a * T * 2) for a in (0.5, 2.0)], "num": 6} for T in (4, 8, 12, 16)],
    },
    "seeds": 3,
}


def synthetic_loss(config: TrialConfig) -> float:
    """A relative loss near what training gives: a steep fall at `d + 2.5 q ln T`, or a little above the exact floor."""
    noise = random.Random(config.trial_id)
    task = config.task
    if config.model.kind == "transformer":
        threshold = task.d + 2.5 * task.q * math.log(task.T)
        return math.exp(noise.gauss(0, 0.12)) / (1 + 9 * (config.width / threshold) ** 6)
    floor = theory.fcn_floor(config.width / 1.04, T=task.T, d=task.d, q=task.q)
    return (floor + 0.004) * math.exp(abs(noise.gauss(0, 0.05)))


def synthetic_result(config: TrialConfig) -> TrialResult:
    loss = synthetic_loss(config)
    metrics = synthetic_metrics(config, loss) if config.evaluation.has_metrics else {}
    return TrialResult(config, "finished", loss, loss / 60, config.training.steps, 0.31, metrics=metrics)


def synthetic_metrics(config: TrialConfig, loss: float) -> dict[str, float]:
    """The losses that an evaluation asks for, a little worse on every other subset size."""
    told = {"loss": loss, "loss_stderr": loss / 60}
    for place, q in enumerate(config.evaluation.q_test, start=1):
        told |= {f"loss@q={q}": loss * (1 + place / 10), f"loss_stderr@q={q}": loss / 50}
    return told


def diverged_result(config: TrialConfig) -> TrialResult:
    return TrialResult(config, "diverged", None, None, 50, 0.02)


Outcome = Callable[[TrialConfig], "TrialResult | str"]
"""A trial's result, or in words why it failed."""


def sweep(**changes: Any) -> SweepSpec:
    told = {
        "name": "quickstart",
        "title": "How wide must a network be to select q of T tokens?",
        "hypothesis": "A transformer's width threshold grows with q log T, a fully connected net's with T d.",
        "trials": [TRANSFORMER, FCN],
        "wandb": {"tags": ["synthetic"]},
    }
    return SweepSpec.model_validate(told | changes)


def fill_run(
    run: RunDirectory,
    spec: SweepSpec,
    outcome: Outcome = synthetic_result,
    *,
    keep: Callable[[int], bool] = lambda _place: True,
) -> None:
    """Write journals and ledger lines for the packs of a sweep whose place `keep` admits."""
    configs = [config for cell in expand(spec) for config in cell.configs]
    with session(run, ["stsq", "run", spec.name]):
        for place, pack in enumerate(make_packs(configs)):
            if keep(place):
                outcomes = [(config, outcome(config)) for config in pack.configs]
                _write_journal(run, pack, outcomes)
                Ledger(run.ledger).append(_records(outcomes, pack.pack_id))


def _records(outcomes: Iterable[tuple[TrialConfig, TrialResult | str]], pack_id: str) -> list[LedgerRecord]:
    return [
        record_of_failure(config, told, pack_id=pack_id, device="cpu")
        if isinstance(told, str)
        else record_of_result(told, pack_id=pack_id, device="cpu")
        for config, told in outcomes
    ]


def _write_journal(run: RunDirectory, pack: Any, outcomes: list[tuple[TrialConfig, TrialResult | str]]) -> None:
    steps = pack.configs[0].training.steps
    with JournalWriter(run.curves / f"{pack.pack_id}.jsonl", pack) as journal:
        journal.truncate()
        for point in range(NUM_POINTS):
            losses = [_training_loss(told, point / (NUM_POINTS - 1)) for _, told in outcomes]
            metrics: dict[str, tuple[float, ...]] = {}
            if pack.configs[0].evaluation.has_metrics and point % 3 == 0:
                rows = [synthetic_metrics(config, loss) for (config, _), loss in zip(outcomes, losses, strict=True)]
                metrics = {name: tuple(row[name] for row in rows) for name in rows[0]}
            journal(Measurement(1 + point * (steps - 1) // (NUM_POINTS - 1), pack.trial_ids, tuple(losses), metrics))


def _training_loss(told: TrialResult | str, progress: float) -> float:
    match told:
        case TrialResult(relative_loss=float(end)):
            return end ** (progress**0.7) * (1 + 0.05 * math.sin(40 * progress))
        case TrialResult():
            return math.nan if progress > 0.5 else 3.0
    return 1.0


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., RunDirectory]:
    """Makes a run directory; keywords change the sweep, `outcome` and `keep` say how its trials end."""

    def make(
        name: str = "run",
        *,
        outcome: Outcome = synthetic_result,
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
    return diverged_result


@pytest.fixture
def synthetic() -> Callable[[TrialConfig], TrialResult]:
    """The synthetic result of a trial."""
    return synthetic_result


@pytest.fixture
def attention() -> dict[str, Any]:
    """The transformer cells of the synthetic sweep."""
    return TRANSFORMER


@pytest.fixture
def fully_connected() -> dict[str, Any]:
    """The fully connected cells of the synthetic sweep."""
    return FCN


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
