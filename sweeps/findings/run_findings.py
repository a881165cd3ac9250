"""The findings of a run: sweep, results, thresholds, laws and verdicts, read and computed once for all that show them."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from sweeps.cells import Cell, ExpandedSweep
from sweeps.findings.claim_pairs import unpaired_words
from sweeps.findings.claim_results import Verdict
from sweeps.findings.claim_verdicts import verdicts
from sweeps.findings.observations import Observation, read_observations
from sweeps.findings.progress_basis import ProgressBasis, basis_of
from sweeps.findings.regimes import Regime, regimes_of
from sweeps.laws import Decision, LawComparison, ScalingLaw, decisions_of, unfinished_cells
from sweeps.schema import Claim, SweepSpec, ThresholdRatio
from sweeps.store import (
    Outcomes,
    Results,
    Round,
    RunDirectory,
    Session,
    Status,
    cells_with_points,
    open_run,
    read_results,
    read_sessions,
)
from sweeps.thresholds import WidthThreshold, thresholds_of


@dataclass(frozen=True)
class Findings:
    """A run directory's sweep, results, thresholds and laws; `declared` holds the ids of the trials that the sweep declares."""

    run: RunDirectory
    sweep: ExpandedSweep
    records: Outcomes
    notes: tuple[str, ...]
    thresholds: tuple[WidthThreshold, ...]
    regimes: tuple[Regime, ...]
    sessions: tuple[Session, ...]
    declared: frozenset[str]

    @property
    def spec(self) -> SweepSpec:
        """The sweep as declared."""
        return self.sweep.spec

    @property
    def num_searched(self) -> int:
        """Cells whose thresholds are searched."""
        return len(self.sweep.searched)

    @property
    def comparisons(self) -> tuple[LawComparison, ...]:
        """All laws of each regime."""
        return tuple(regime.comparison for regime in self.regimes if regime.comparison is not None)

    @property
    def laws(self) -> tuple[ScalingLaw, ...]:
        """The law that is named of each regime."""
        return tuple(regime.law for regime in self.regimes if regime.law is not None)

    @cached_property
    def num_waiting(self) -> int:
        """Declared trials that have not ended."""
        return len(self.declared) - len(self.records)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The cells that the sweep declares, and of those that it searches the ones that have points."""
        return cells_with_points(self.sweep, self.records)

    def progress_basis(self, rounds: Mapping[str, Round]) -> ProgressBasis:
        """What the run's progress is computed from, given the rounds that its searches wait for."""
        return basis_of(self.sweep, self.records, self.thresholds, rounds)

    @cached_property
    def num_searching(self) -> int:
        """Searched cells whose search has not finished."""
        return len(unfinished_cells(self.spec, self.sweep.searched, self.thresholds))

    @cached_property
    def decisions(self) -> tuple[Decision, ...]:
        """Between which laws searches decide, and how far they are."""
        return decisions_of(self.spec, self.sweep.searched, self.thresholds)

    @property
    def complete(self) -> bool:
        """Whether nothing is left to train."""
        return not self.num_waiting and not self.num_searching

    def num_ended(self, status: Status) -> int:
        """The number of trials that ended with a status."""
        return self.records.num_ended(status)

    @property
    def device_seconds(self) -> Mapping[str, float]:
        """Training time by kind of device: each trial's share of its pack's wall time."""
        seconds: dict[str, float] = {}
        for device, own in zip(self.records.device.tolist(), self.records.seconds.tolist(), strict=True):
            kind = device.partition(":")[0]
            seconds[kind] = seconds.get(kind, 0.0) + own
        return seconds

    @cached_property
    def observations(self) -> tuple[Observation, ...]:
        """The finished trials with their metrics, for claims and drawings."""
        return read_observations(self.run, self.declared)

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdict on each claim of the sweep."""
        if not self.spec.claims:
            return ()
        level, laws, claims = self.spec.criterion.level, self.spec.laws, self.spec.claims
        found = verdicts(claims, self.observations, level=level, thresholds=self.thresholds, laws=laws)
        return tuple(_with_reason(claim, verdict, self) for claim, verdict in zip(claims, found, strict=True))


def read_findings(run_path: Path | str) -> Findings:
    """Read a run directory and compute its thresholds and laws.

    Raises:
        UserError: it is no run, or its ledger or sweep cannot be read.
    """
    run = open_run(run_path)
    sweep = run.read_sweep()
    results = read_results(run, sweep)
    return findings_of(run, sweep, results, thresholds_of(sweep.spec, results))


def findings_of(run: RunDirectory, sweep: ExpandedSweep, results: Results, thresholds: tuple[WidthThreshold, ...]) -> Findings:
    """The findings of a run whose results and thresholds are at hand."""
    return Findings(
        run=run,
        sweep=sweep,
        records=results.records,
        notes=(*sweep.notes, *results.notes),
        thresholds=thresholds,
        regimes=regimes_of(thresholds, sweep.spec.laws),
        sessions=read_sessions(run),
        declared=results.declared,
    )


def _with_reason(claim: Claim, verdict: Verdict, findings: Findings) -> Verdict:
    """The verdict, with the reason where its claim compares no cells of the sweep, ended or not."""
    if not isinstance(claim, ThresholdRatio) or any(setting.num_seeds for setting in verdict.settings):
        return verdict
    words = unpaired_words(findings.sweep, claim)
    note = f"compares no pair of cells: {words}" if words else ""
    return replace(verdict, settings=tuple(replace(one, note=one.note or note) for one in verdict.settings))
