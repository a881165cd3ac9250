"""Run directories for the tests of the page, made through the sweeps' own API in milliseconds: no network is trained."""

import hashlib
import json
import math
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from stsq_core import Measurement, TrialConfig, TrialResult
from stsq_core.configs import SAMPLES, WIDTH, TrialFamily
from stsq_core.configs.trial import deviations
from stsq_core.oracles import theory
from sweeps.cells import cell_of, point_seed
from sweeps.cells.expanded_sweep import ExpandedSweep, expand
from sweeps.cells.expansion import derived_seed
from sweeps.cells.packs import Pack, make_packs
from sweeps.schema.spec import SweepSpec
from sweeps.store.journal import JournalWriter
from sweeps.store.ledger import Ledger, LedgerRecord, record_of_failure, record_of_result
from sweeps.store.run_directory import Lock, RunDirectory, create_or_open
from sweeps.store.sessions import session

MANY_CELLS = 32
MANY_SEEDS = 39
MANY_WIDTHS = 8
NUM_POINTS = 12
CODES = {"kind": "random_sign", "d_e": 8, "redraw": "per_step", "query": "dual"}

Outcome = Callable[[TrialConfig], "TrialResult | str"]
"""A trial's result, or in words why it failed."""


def transformers(lengths: Iterable[int], *, widths: int = 6, seeds: int = 3, **base: Any) -> dict[str, Any]:
    """A group of transformer trials at these lengths T, with widths about the threshold."""
    lengths = list(lengths)
    return {
        "name": "attention",
        "base": {
            "task": {"kind": "stsq", "T": 16, "q": 3, "d": 4},
            "model": {
                "kind": "transformer",
                "positions": {"kind": "random_sign", "d_e": 8, "redraw": "per_step", "query": "dual"},
            },
            "optimizer": {"kind": "adam", "lr": 0.03},
            "training": {"objective": "population", "batch_size": 64, "steps": 600},
            **base,
        },
        "zip": {
            "task.T": lengths,
            "model.positions.d_e": [{"geom": [round(a * 3 * math.log(T)) for a in (1.2, 5.0)], "num": widths} for T in lengths],
        },
        "seeds": seeds,
    }


def fully_connected(lengths: Iterable[int], *, widths: int = 6, seeds: int = 3) -> dict[str, Any]:
    """A group of fully connected trials at these lengths T, with widths about the exact floor."""
    lengths = list(lengths)
    return {
        "name": "fcn",
        "base": {
            "task": {"kind": "stsq", "T": 4, "q": 2, "d": 2},
            "model": {"kind": "fcn", "width": 8},
            "optimizer": {"kind": "adam", "lr": 0.01},
            "training": {"objective": "minibatch", "batch_size": 128, "steps": 2000},
        },
        "zip": {"task.T": lengths, "model.width": [{"geom": [T, 4 * T], "num": widths} for T in lengths]},
        "seeds": seeds,
    }


def sweep(**changes: Any) -> SweepSpec:
    """Eight cells of both architectures, 144 trials; keywords change it."""
    fields: dict[str, Any] = {
        "name": "quickstart",
        "title": "How wide must a network be to select q of T tokens?",
        "hypothesis": "A transformer's width threshold grows with q log T, a fully connected net's with T d.",
        "trials": [transformers([16, 32, 64, 128]), fully_connected([4, 8, 12, 16])],
        "wandb": {"tags": ["synthetic"]},
    }
    return SweepSpec.model_validate(fields | changes)


def large_sweep() -> SweepSpec:
    """About ten thousand trials in 32 cells."""
    half = MANY_CELLS // 2
    return sweep(
        name="large",
        trials=[
            transformers([16 + 8 * place for place in range(half)], widths=MANY_WIDTHS, seeds=MANY_SEEDS),
            fully_connected([4 + place for place in range(half)], widths=MANY_WIDTHS, seeds=MANY_SEEDS),
        ],
    )


def _name(config: TrialConfig) -> str:
    """The trial's id as of `NUMERICS` 2, with the seed that its cell derived then: made-up results do not change with the
    arithmetic."""
    return _hashed(config.model_copy(update={"seed": _former_seeds(TrialFamily(config).key).get(config.seed, config.seed)}))


def _hashed(config: TrialConfig) -> str:
    return hashlib.sha256(json.dumps([2, deviations(config)], sort_keys=True).encode()).hexdigest()[:16]


@cache
def _former_seeds(key: TrialConfig) -> dict[int, int]:
    """The first seeds that the cell of a family derives now, each with the one in its place as of `NUMERICS` 2."""
    now, then = cell_of(key), hashlib.sha256(f"cell {_hashed(key)}".encode()).hexdigest()[:12]
    return {derived_seed(now, place): derived_seed(then, place) for place in range(2 * MANY_SEEDS)}


def measured(config: TrialConfig) -> TrialResult:
    """A result near what training gives: a steep fall at `d + 2.5 q ln T`, or a little above the exact floor."""
    noise, task = random.Random(_name(config)), config.task
    if config.model.kind == "transformer":
        threshold = task.d + 2.5 * task.q * math.log(task.T)
        loss = math.exp(noise.gauss(0, 0.12)) / (1 + 9 * (config.width / threshold) ** 6)
    else:
        floor = theory.fcn_floor(config.width / 1.04, T=task.T, d=task.d, q=task.q)
        loss = (floor + 0.004) * math.exp(abs(noise.gauss(0, 0.05)))
    metrics = metrics_of(config, loss) if config.evaluation.has_metrics else {}
    return TrialResult(config, "finished", loss, loss / 60, config.training.steps, 0.31, metrics=metrics)


def metrics_of(config: TrialConfig, loss: float) -> dict[str, float]:
    """The losses that an evaluation asks for, a little worse on every other subset size."""
    metrics = {"loss": loss, "loss_stderr": loss / 60}
    for place, q in enumerate(config.evaluation.q_test, start=1):
        metrics |= {f"loss@q={q}": loss * (1 + place / 10), f"loss_stderr@q={q}": loss / 50}
    return metrics


def as_theory(spec: SweepSpec) -> Outcome:
    """Results that fall steeply at a size like that of theory, for any sweep: `q ln T` and the exact floor, and more or less of
    it by the code and the optimizer."""
    criterion = spec.criterion
    factors = {"gaussian": 1.15, "never": 0.9, "sum": 1.25, "gd": 1.1}

    def outcome(config: TrialConfig) -> TrialResult:
        task, kind, noise = config.task, config.model.kind, random.Random(_hashed(config)).gauss(0, 0.1)
        positions = getattr(config.model, "positions", None)
        settings = [config.optimizer.kind, *(getattr(positions, name, "") for name in ("kind", "redraw", "query"))]
        expected = 2.4 * task.q * math.log(task.T) * math.prod(factors.get(setting, 1.0) for setting in settings)
        if criterion.size == SAMPLES:
            loss, size = criterion.target_loss / 2, 1
        elif criterion.size == WIDTH:
            expected = (
                1.02 * theory.fcn_width_bound(criterion.target_loss, T=task.T, d=task.d, q=task.q)
                if kind == "fcn"
                else task.d + expected
            )
            size = config.width
        else:
            expected = getattr(task, "order", task.q) + 0.5 if criterion.of == "model.heads" else expected
            size = criterion.size.of(config)
        if criterion.size != SAMPLES:
            loss = math.exp(noise) / (1 + (1 / criterion.target_loss - 1) * (size / expected) ** 8)
        metrics = metrics_of(config, loss) if config.evaluation.has_metrics else {}
        metrics |= {f"loss@T={T}": loss for T in config.evaluation.T_test}
        if criterion.size == SAMPLES:
            metrics["samples_to_target"] = float(config.batch * config.evaluation.every * math.ceil(task.T * (1 + noise)))
        return TrialResult(config, "finished", loss, loss / 60, config.training.steps, 0.31, metrics=metrics)

    return outcome


def catalogue_run(path: Path, spec: SweepSpec, *, num_points: int = 8) -> RunDirectory:
    """The run of a sweep without its journals; the widths of a search are spread over its range."""
    run, sweep, outcome = create_or_open(path, spec), ExpandedSweep.of(spec), as_theory(spec)
    configs = [config for cell in sweep.cells for config in cell.configs]
    for cell in sweep.searched:
        seeds = (point_seed(cell.cell_id, number, seed=spec.search.seed) for number in range(num_points))
        configs += cell.trials([*zip(cell.even_widths(num_points), seeds, strict=False)])
    Ledger(run.ledger).append(_records([(config, outcome(config)) for config in configs], "0" * 16))
    return run


def diverged(config: TrialConfig) -> TrialResult:
    """The result of a trial whose loss stopped being finite."""
    return TrialResult(config, "diverged", None, None, 50, 0.02)


def packs_of(spec: SweepSpec) -> tuple[Pack, ...]:
    """The packs of a sweep in the order in which they would run."""
    return make_packs([config for cell in expand(spec) for config in cell.configs])


def finish(run: RunDirectory, packs: Iterable[Pack], outcome: Outcome = measured) -> None:
    """Write journals and ledger lines as if these packs had been trained."""
    for pack in packs:
        outcomes = [(config, outcome(config)) for config in pack.configs]
        write_journal(run, pack, outcomes, num_points=NUM_POINTS)
        Ledger(run.ledger).append(_records(outcomes, pack.pack_id))


def make_run(path: Path, spec: SweepSpec, outcome: Outcome = measured, *, share: float = 1.0) -> RunDirectory:
    """The run of a sweep of whose packs a `share` has been trained, by a session that is over."""
    run = create_or_open(path, spec)
    packs = packs_of(spec)
    with session(run, ["stsq", "run", spec.name]):
        finish(run, packs[: round(share * len(packs))], outcome)
    return run


def folder_of_runs(folder: Path) -> Path:
    """A folder with a complete run, a part of one deeper down that nobody runs, one that cannot be read, and what is no run."""
    spec = sweep(trials=[transformers([16, 32])])
    make_run(folder / "whole", spec)
    make_run(folder / "half" / "of_it", spec, share=0.5)
    make_run(folder / "torn", spec).spec.write_text("name: [", encoding="utf-8")
    (folder / "notes").mkdir()
    return folder


@contextmanager
def in_training(run: RunDirectory, pack: Pack, *, points: int = 5) -> Iterator[None]:
    """The run as it is while somebody runs it, and a worker trains this pack."""
    run.checkpoints.mkdir(exist_ok=True)
    write_journal(run, pack, [(config, measured(config)) for config in pack.configs], num_points=points)
    with Lock(run.lock), session(run, ["stsq", "run"]), Lock(run.checkpoints / f"{pack.pack_id}.claim"):
        yield


def write_journal(
    run: RunDirectory, pack: Pack, outcomes: list[tuple[TrialConfig, TrialResult | str]], *, num_points: int
) -> None:
    """The first `num_points` of `NUM_POINTS` measurements of a pack that ends in these ways."""
    steps = pack.configs[0].training.steps
    with JournalWriter(run.curves / f"{pack.pack_id}.jsonl", pack) as journal:
        journal.truncate()
        for point in range(num_points):
            losses = tuple(_training_loss(outcome, point / (NUM_POINTS - 1)) for _, outcome in outcomes)
            metrics: dict[str, tuple[float, ...]] = {}
            if pack.configs[0].evaluation.has_metrics and point % 3 == 0:
                rows = [metrics_of(config, loss) for (config, _), loss in zip(outcomes, losses, strict=True)]
                metrics = {name: tuple(row[name] for row in rows) for name in rows[0]}
            journal(Measurement(1 + point * (steps - 1) // (NUM_POINTS - 1), pack.trial_ids, losses, metrics))


def _records(outcomes: Iterable[tuple[TrialConfig, TrialResult | str]], pack_id: str) -> list[LedgerRecord]:
    return [
        record_of_failure(config, outcome, pack_id=pack_id, device="cpu")
        if isinstance(outcome, str)
        else record_of_result(outcome, pack_id=pack_id, device="cpu")
        for config, outcome in outcomes
    ]


def _training_loss(outcome: TrialResult | str, progress: float) -> float:
    match outcome:
        case TrialResult(relative_loss=float(end)):
            return end ** (progress**0.7) * (1 + 0.05 * math.sin(40 * progress))
        case TrialResult():
            return math.nan if progress > 0.5 else 3.0
    return 1.0
