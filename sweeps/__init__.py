"""What to run, and what came of it: sweep files, plans, packs, the ledger, width thresholds and scaling laws."""

from sweeps.catalog import catalog_names, read_catalog
from sweeps.expansion import cell_of
from sweeps.journal import read_curves, read_metrics
from sweeps.law_comparison import compare_laws
from sweeps.laws import fit_attention_law, fit_fcn_law, fit_laws
from sweeps.ledger import Ledger, LedgerRecord, merge
from sweeps.line_ratios import fcn_line
from sweeps.loading import load_sweep, spec_json_schema
from sweeps.packs import Pack, make_packs
from sweeps.plan import Cell, Plan, describe, expand, make_plan
from sweeps.queue import Failure, PackOutcome, PackQueue
from sweeps.run_directory import RunDirectory, create_or_open, open_run
from sweeps.search_spec import SearchSettings, WidthRange
from sweeps.searched import SearchedCell, searched_cells
from sweeps.spec import Budget, Criterion, SweepSpec, TrialGroup, WandbSettings
from sweeps.strategy import Grid, Strategy
from sweeps.thresholds import WidthThreshold, thresholds_of, width_thresholds
from sweeps.weights import load_weights, save_weights

__all__ = [
    "Budget",
    "Cell",
    "Criterion",
    "Failure",
    "Grid",
    "Ledger",
    "LedgerRecord",
    "Pack",
    "PackOutcome",
    "PackQueue",
    "Plan",
    "RunDirectory",
    "SearchSettings",
    "SearchedCell",
    "Strategy",
    "SweepSpec",
    "TrialGroup",
    "WandbSettings",
    "WidthRange",
    "WidthThreshold",
    "catalog_names",
    "cell_of",
    "compare_laws",
    "create_or_open",
    "describe",
    "expand",
    "fcn_line",
    "fit_attention_law",
    "fit_fcn_law",
    "fit_laws",
    "load_sweep",
    "load_weights",
    "make_packs",
    "make_plan",
    "merge",
    "open_run",
    "read_catalog",
    "read_curves",
    "read_metrics",
    "save_weights",
    "searched_cells",
    "spec_json_schema",
    "thresholds_of",
    "width_thresholds",
]
