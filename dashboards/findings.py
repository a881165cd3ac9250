"""Everything a report says about a run directory, read and computed once."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from dashboards.regimes import Regime, regimes_of
from sweeps.journal import Curve, read_curves
from sweeps.laws import ScalingLaw
from sweeps.ledger import LedgerRecord
from sweeps.results import read_results
from sweeps.run_directory import RunDirectory, open_run
from sweeps.sessions import Session, read_sessions
from sweeps.spec import SweepSpec
from sweeps.thresholds import WidthThreshold, width_thresholds


@dataclass(frozen=True)
class Findings:
    """A run directory's sweep, results, thresholds and laws; `num_declared` counts the trials that the sweep declares now."""

    run: RunDirectory
    spec: SweepSpec
    records: tuple[LedgerRecord, ...]
    notes: tuple[str, ...]
    thresholds: tuple[WidthThreshold, ...]
    regimes: tuple[Regime, ...]
    sessions: tuple[Session, ...]
    declared: frozenset[str]

    @property
    def laws(self) -> tuple[ScalingLaw, ...]:
        """The fitted laws."""
        return tuple(regime.law for regime in self.regimes if regime.law is not None)

    @property
    def num_declared(self) -> int:
        """Trials that the sweep declares."""
        return len(self.declared)

    @cached_property
    def num_waiting(self) -> int:
        """Declared trials that have not ended."""
        return len(self.declared - {record.trial_id for record in self.records})

    def num_ended(self, status: str) -> int:
        """Trials that ended in one way."""
        return sum(record.status == status for record in self.records)

    @property
    def device_seconds(self) -> Mapping[str, float]:
        """Training time by kind of device: each trial's share of its pack's wall time."""
        seconds: dict[str, float] = {}
        for record in self.records:
            kind = record.device.partition(":")[0]
            seconds[kind] = seconds.get(kind, 0.0) + record.seconds
        return seconds

    def curves(self) -> dict[str, Curve]:
        """The training curves of the trials that thresholds rest on."""
        return read_curves(
            self.run, {point.trial_id for threshold in self.thresholds for point in threshold.points if point.chosen}
        )


def read_findings(run_path: Path | str) -> Findings:
    """Read a run directory and compute its thresholds and laws.

    Raises:
        UserError: it is no run, or its ledger or sweep cannot be read.
    """
    run = open_run(run_path)
    spec = run.read_spec()
    results = read_results(run, spec)
    thresholds = width_thresholds(results.records, spec.criterion)
    return Findings(
        run=run,
        spec=spec,
        records=results.records,
        notes=results.notes,
        thresholds=thresholds,
        regimes=regimes_of(thresholds),
        sessions=read_sessions(run),
        declared=results.declared,
    )
