"""`stsq runs`, `stsq rm` and `stsq show A B`: the runs of a folder, removing one, and two side by side."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer
from rich.console import Console

from cluster.run import print_line, print_table, table
from dashboards.page import SAME_TRIALS, RunSummary, matched_cells, run_ratio, summary_of
from dashboards.plots import cell_names
from dashboards.words import architecture_name, interval_text, size_words
from stsq_core.configs import UserError
from sweeps.findings import Findings
from sweeps.store import Ledger, removable_run, remove_run, runs_in
from sweeps.thresholds import WidthThreshold


def summaries_in(folder: Path) -> list[RunSummary]:
    """What is known of every run below a folder."""
    return [summary_of(run) for run in runs_in(folder)]


def show_runs(console: Console, folder: Path) -> None:
    """A table of the runs below a folder: name, sweep, state, progress, headline."""
    runs = summaries_in(folder)
    if not runs:
        print_line(console, f"no run in {folder}: `stsq run SWEEP` makes one in runs/")
        return
    rows = [(run.name(folder), run.sweep, run.state, run.progress, run.headline) for run in runs]
    print_table(console, table(("run", "sweep", "state", "trials", "result"), rows, right=("trials",)))


def runs_json(folder: Path) -> str:
    """The same as JSON."""
    return json.dumps([asdict(run) for run in summaries_in(folder)], indent=2) + "\n"


def remove(path: Path, *, is_sure: bool) -> None:
    """Remove a run directory once the user has agreed."""
    run = removable_run(path)
    num_trials = len(Ledger(run.ledger).read())
    size = sum(file.lstat().st_size for file in run.path.rglob("*") if not file.is_dir())
    what = f"{path} ({num_trials:,} trials, {size / 1e6:,.1f} MB)"
    if not is_sure and not typer.confirm(f"Remove {what}?"):
        print("kept")
        raise typer.Exit(1)
    remove_run(path)
    print(f"removed {what}")


def show_side_by_side(console: Console, runs: Sequence[tuple[str, Findings]]) -> None:
    """The thresholds of two runs cell by cell, and the ratio of the second to the first with its interval.

    Raises:
        UserError: a run has no thresholds, or they have no cell in common.
    """
    for name, findings in runs:
        if not findings.thresholds:
            raise UserError(f"{name} has no thresholds to compare: `stsq show {name}` shows what it has")
    (first, one), (second, two) = runs
    cells = matched_cells([one.thresholds, two.thresholds])
    both = [(a, b) for a, b in cells.values() if a is not None and b is not None]
    if not both:
        raise UserError(
            f"{first} and {second} have no cell in common: "
            "cells are the same where they agree in all but sizes, seeds and rates"
        )
    ratios = [run_ratio(a, b) for a, b in both]
    rows = [
        (architecture_name(a.kind, short=True), name, _words(a), _words(b), ratio)
        for name, (a, b), (ratio, _) in zip(cell_names([a for a, _ in both]), both, ratios, strict=True)
    ]
    letter, level = one.spec.criterion.size.letter, one.spec.criterion.level
    print_line(
        console,
        f"{letter}* with its {level:.0%} interval; cells are the same where they agree in all but sizes, seeds and rates.",
    )
    ratio = f"{Path(second).name} / {Path(first).name}"
    print_table(console, table(("architecture", "cell", first, second, ratio), rows))
    apart = sum(is_apart for _, is_apart in ratios)
    where = "in none of them" if not apart else f"in {apart}" if len(both) > 1 else "in it"
    common = "1 cell" if len(both) == 1 else f"{len(both)} cells"
    if all(SAME_TRIALS in ratio for ratio, _ in ratios):
        print_line(console, f"{common} in common, of the same trials in both runs: nothing of the ratio is chance.")
    else:
        print_line(console, f"{common} in common; the interval of the ratio lies beside 1 {where}.")
    if any("shared" in ratio for ratio, _ in ratios):
        print_line(console, "Intervals of ratios are those of independent trials: too wide where the runs share some.")
    if alone := len(cells) - len(both):
        print_line(console, f"{alone} more {'cell is' if alone == 1 else 'cells are'} in one of the runs only.")


def _words(threshold: WidthThreshold) -> str:
    words, interval = size_words(threshold).replace("≤", "<="), interval_text(threshold)
    return words if interval == "none" else f"{words} ({interval})"
