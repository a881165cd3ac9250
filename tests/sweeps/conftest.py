"""Trials, results and records made by hand, so that this room is tested without training anything."""

import hashlib
import json
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from stsq_core import TrialConfig, TrialResult
from stsq_core.configs import TrialFamily
from stsq_core.configs.trial import deviations
from sweeps.schema.spec import SweepSpec
from sweeps.store.ledger import LedgerRecord, record_of_failure, record_of_result
from sweeps.store.outcomes import Outcomes
from sweeps.store.run_directory import RunDirectory
from sweeps.thresholds.width_threshold import Points, WidthThreshold

if TYPE_CHECKING:
    import optuna

    from sweeps.search.search import Search

SWEEP = """\
name: little
title: A little sweep
hypothesis: Wider is better.
trials:
  - name: fcn
    base:
      task: {kind: stsq, T: 8, q: 2, d: 2}
      model: {kind: fcn, width: 8}
      optimizer: {kind: adam, lr: 0.01}
      training: {objective: minibatch, steps: 100}
    grid:
      model.width: [4, 8, 16]
    seeds: 2
  - name: transformer
    base:
      task: {kind: stsq, T: 16, q: 3, d: 4}
      model: {kind: transformer, positions: {kind: random_sign, d_e: 24, redraw: per_step, query: dual}, init: zero}
      optimizer: {kind: adam, lr: 0.03}
      training: {objective: population, batch_size: 64, steps: 600}
    zip:
      task.T: [16, 32]
      model.positions.d_e: [[8, 16], {geom: [10, 40], num: 3}]
    seeds: [5, 6, 7]
"""


@pytest.fixture
def sweep_text() -> str:
    return SWEEP


@pytest.fixture
def sweep_file(tmp_path: Path) -> Path:
    path = tmp_path / "little.yaml"
    path.write_text(SWEEP)
    return path


@pytest.fixture
def spec(sweep_file: Path) -> SweepSpec:
    from sweeps.cells.loading import load_sweep

    return load_sweep(sweep_file)


@pytest.fixture
def run(tmp_path: Path, spec: SweepSpec) -> RunDirectory:
    from sweeps.store.run_directory import create_or_open

    return create_or_open(tmp_path / "run", spec)


@pytest.fixture
def fcn() -> Callable[..., TrialConfig]:
    def make(
        width: int = 8, *, seed: int = 0, lr: float = 0.01, T: int = 8, q: int = 2, d: int = 2, **training: Any
    ) -> TrialConfig:
        return TrialConfig.model_validate(
            {
                "task": {"kind": "stsq", "T": T, "q": q, "d": d},
                "model": {"kind": "fcn", "width": width},
                "optimizer": {"kind": "adam", "lr": lr},
                "training": {"steps": 100, **training},
                "seed": seed,
            }
        )

    return make


@pytest.fixture
def transformer() -> Callable[..., TrialConfig]:
    def make(
        d_e: int = 16, *, seed: int = 0, lr: float = 0.03, T: int = 16, q: int = 3, d: int = 4, **codes: Any
    ) -> TrialConfig:
        return TrialConfig.model_validate(
            {
                "task": {"kind": "stsq", "T": T, "q": q, "d": d},
                "model": {"kind": "transformer", "positions": {"kind": "random_sign", "d_e": d_e, **codes}},
                "optimizer": {"kind": "adam", "lr": lr},
                "training": {"objective": "population", "steps": 600},
                "seed": seed,
            }
        )

    return make


@pytest.fixture
def finished() -> Callable[..., TrialResult]:
    def make(config: TrialConfig, loss: float = 0.5) -> TrialResult:
        return TrialResult(
            config=config,
            status="finished",
            relative_loss=loss,
            relative_loss_stderr=0.01,
            steps=config.training.steps,
            seconds=1.5,
        )

    return make


@pytest.fixture
def record(finished: Callable[..., TrialResult]) -> Callable[..., LedgerRecord]:
    """A ledger record: of a loss, of a divergence (inf), or of a failure (None)."""

    def make(config: TrialConfig, loss: float | None = 0.5) -> LedgerRecord:
        if loss is None:
            return record_of_failure(config, "worker lost", pack_id="0" * 16, device="cpu")
        result = finished(config, loss)
        if math.isinf(loss):
            result = TrialResult(
                config=config, status="diverged", relative_loss=None, relative_loss_stderr=None, steps=5, seconds=0.1
            )
        return record_of_result(result, pack_id="0" * 16, device="cpu")

    return make


@pytest.fixture
def cell_records(fcn: Callable[..., TrialConfig], record: Callable[..., LedgerRecord]) -> Callable[..., list[LedgerRecord]]:
    """Records of one FCN cell from a function (width, seed) -> loss."""

    def make(
        widths: Iterable[int], seeds: Iterable[int], loss: Callable[[int, int], float | None], **fields: Any
    ) -> list[LedgerRecord]:
        seeds = list(seeds)
        return [record(fcn(width, seed=seed, **fields), loss(width, seed)) for width in widths for seed in seeds]

    return make


HUNT = """\
name: hunt
hypothesis: The least width lies somewhere.
criterion: {target_loss: 0.1}
trials:
  - name: fcn
    base:
      task: {kind: stsq, T: 8, q: 2, d: 2}
      model: {kind: fcn}
      optimizer: {kind: adam, lr: 0.01}
      training: {objective: minibatch, steps: 100}
    search: {low: 4, high: 256}
"""

Loss = Callable[[TrialConfig], float | None]


class Hunt:
    """A sweep with searches in a run directory, driven as `stsq run` drives it, by a trainer that is a function.

    The function gives a trial's relative loss: nan or inf where it diverges, None where it fails.
    """

    def __init__(self, path: Path, spec: SweepSpec, record: Callable[..., LedgerRecord]) -> None:
        from sweeps.store.run_directory import create_or_open

        self.spec = spec
        self.run = create_or_open(path, spec)
        self.asked: list[TrialConfig] = []
        self._record = record

    def strategy(self, *, retry_failed: bool = False) -> "Search":
        from sweeps.search.search import Search
        from sweeps.store.outcomes import FAILED
        from sweeps.store.results import read_results
        from sweeps.store.run_directory import former_search_seeds

        results = read_results(self.run, self.spec)
        again = results.records.take(results.records.status == FAILED) if retry_failed else None
        printed = results.records.take(results.records.status != FAILED) if retry_failed else results.records
        search = Search(
            self.spec,
            results.searched,
            journal=self.run.studies,
            owner=self.run.path.name,
            curves=lambda _: {},
            rounds=self.run.rounds,
            again=again,
            former_seeds=former_search_seeds(self.run),
        )
        search.tell(printed)
        return search

    def go(self, loss: Loss, *, trials: int | None = None, search: "Search | None" = None) -> "Search":
        """Train what a search asks for, one trial after another, until it has finished or so many trials have ended."""
        from sweeps.store.ledger import Ledger
        from sweeps.store.results import read_results

        ledger, search = Ledger(self.run.ledger), search or self.strategy()
        while asked := search.ask():
            held = {record.trial_id for record in read_results(self.run, self.spec).records if record.status != "failed"}
            for config in asked:
                if config.trial_id in held:
                    continue
                if trials is not None and trials <= 0:
                    return search
                self.asked.append(config)
                printed = loss(config)
                record = self._record(config, printed if printed is None or math.isfinite(printed) else math.inf)
                ledger.append([record])
                search.tell([record])
                trials = None if trials is None else trials - 1
        return search

    def studies(self, url: str | None = None) -> "list[optuna.Study]":
        import optuna

        from sweeps.search.study_storage import open_storage

        storage = open_storage(url or self.spec.search.storage, self.run.studies)
        return [optuna.load_study(study_name=name, storage=storage) for name in optuna.get_all_study_names(storage)]

    def thresholds(self) -> "tuple[WidthThreshold, ...]":
        from sweeps.store.results import read_results
        from sweeps.thresholds.thresholds import thresholds_of

        return thresholds_of(self.spec, read_results(self.run, self.spec))


@pytest.fixture
def hunt(tmp_path: Path, record: Callable[..., LedgerRecord]) -> Callable[..., Hunt]:
    """Makes a hunt: of the usual cell with settings, in a directory of its name."""
    from sweeps.cells.loading import check_sweep
    from sweeps.schema.overrides import apply_settings
    from sweeps.schema.yaml_source import parse

    def make(*settings: str, name: str = "hunt", text: str = HUNT) -> Hunt:
        spec = check_sweep(apply_settings(parse(text, "hunt.yaml"), settings)).spec
        return Hunt(tmp_path / name, spec, record)

    return make


@pytest.fixture
def simulated() -> Loss:
    """A trainer whose threshold is 40: a steep curve with noise, nothing diverges."""
    from simulation import Logistic, SimulatedCell

    curve = Logistic.through(math.log(40), slope=5.0, log_target=math.log(0.1))
    cell = SimulatedCell(curve, noise=0.2, shift=0.03, lapse_rate=0.0, divergence_rate=0.0, stream=0)
    return lambda config: cell.relative_loss(config.width, config.seed)


def lasting_cell(config: TrialConfig) -> str:
    """The name of a config's cell when `NUMERICS` was 2: replicates and tests of laws draw streams that begin with names."""
    key = json.dumps([2, deviations(TrialFamily(config).key)], sort_keys=True)
    return hashlib.sha256(f"cell {hashlib.sha256(key.encode()).hexdigest()[:16]}".encode()).hexdigest()[:12]


@pytest.fixture
def threshold() -> Callable[..., WidthThreshold]:
    """A width threshold by hand: of seeds' values of m*, or censored where `status` says so; the widths tried are 4 to 1024."""

    def make(
        config: TrialConfig,
        values: Iterable[float] = (),
        *,
        status: str = "found",
        widths: tuple[int, ...] = (4, 64, 1024),
        level: float = 0.9,
    ) -> WidthThreshold:
        logs, stream = np.log(np.array(list(values) or [math.nan], dtype=float)), np.random.default_rng(len(widths))
        found = status == "found"
        replicates = np.median(logs[stream.integers(len(logs), size=(400, len(logs)))], axis=1)
        m_star = math.exp(float(np.median(logs))) if found else None
        low, high = (math.exp(float(end)) if found else None for end in np.quantile(replicates, [0.05, 0.95]))
        return WidthThreshold(
            cell_id=lasting_cell(config),
            label=f"T={config.task.T} q={config.task.q} d={config.task.d}",
            config_sample=config,
            status=status,  # type: ignore[arg-type]
            m_star=m_star,
            M=math.ceil(m_star) if m_star else None,
            low=low,
            high=high,
            low_censored=status == "below_range",
            high_censored=status == "above_range",
            level=level,
            target_loss=0.1,
            success_rate=0.5,
            widths=widths,
            num_seeds=len(logs),
            num_trials=len(logs),
            num_diverged=0,
            num_failed=0,
            crosses_more_than_once=False,
            points=Points(Outcomes.of([]), np.zeros(0, dtype=bool)),
            note="",
            replicates=replicates if found else np.full(400, math.inf if status == "above_range" else -math.inf),
        )

    return make
