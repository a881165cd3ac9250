"""Which strategy runs a sweep: its grids and searches side by side, then the re-checks where they are asked for."""

import secrets
from collections.abc import Mapping

import numpy as np

from cluster.run.options import RunOptions
from sweeps.cells import ExpandedSweep, Trials, recheck_trials
from sweeps.schedule import Grid, Sequel, Strategy, Together
from sweeps.store import FAILED, Curve, Results, RunDirectory, read_curves, read_results, write_atomically


def strategy_of(run: RunDirectory, sweep: ExpandedSweep, results: Results, options: RunOptions) -> Strategy:
    """The strategy of a sweep whose ledger holds these results."""
    strategy = _first(run, sweep, results, options)
    if not options.recheck:
        return strategy
    return Sequel(strategy, lambda: Grid((), more=_rechecks(run, sweep)))


def _first(run: RunDirectory, sweep: ExpandedSweep, results: Results, options: RunOptions) -> Strategy:
    if not sweep.searched:
        return Grid(sweep.cells)
    from sweeps.search import Search

    records = results.records
    search = Search(
        sweep.spec,
        sweep.searched,
        journal=run.studies,
        owner=_identity(run),
        curves=lambda ended_in: _curves(run, ended_in),
        again=records.take(records.status == FAILED) if options.retry_failed else None,
    )
    return Together([Grid(sweep.cells), search]) if sweep.cells else search


def _rechecks(run: RunDirectory, sweep: ExpandedSweep) -> Trials:
    """The trials that tell, for each threshold that was found, whether steps or width was its limit."""
    from sweeps.thresholds import thresholds_of

    parts = []
    for threshold in thresholds_of(sweep.spec, read_results(run, sweep)):
        if threshold.m_star is not None:
            rates = tuple(np.unique(threshold.points.outcomes.trials.rates).tolist())
            parts.append(recheck_trials(threshold.cell_id, threshold.config_sample, rates, threshold.m_star, threshold.size))
    return Trials.joined(parts)


def _curves(run: RunDirectory, ended_in: Mapping[str, str]) -> Mapping[str, Curve]:
    return read_curves(run, ended_in, ended_in=ended_in)


def _identity(run: RunDirectory) -> str:
    """The name of a run directory, made once: it stays when the directory is moved."""
    if not run.identity.exists():
        write_atomically(run.identity, secrets.token_hex(8).encode())
    return run.identity.read_text(encoding="utf-8").strip()
