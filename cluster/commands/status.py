"""`stsq status`: the progress of a run, read from its directory alone, as tables and as JSON."""

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console

from cluster.run import print_line, print_table, table
from dashboards.words import duration_words, ended_words, left_words, searches_words, total_words
from sweeps.findings import CellProgress, Progress

SHOWN_CELLS = 400
"""Cells in a table of the terminal, as in those of the page."""


def show_status(console: Console, progress: Progress, *, run: Path) -> None:
    """A line on the whole, where its results are, what is wrong with the ledger, tables of the workers that train and of the
    cells."""
    print_line(console, _line(progress))
    if progress.num_ended and progress.holder is None:
        page, place = run / "report" / "index.html", shlex.quote(str(run))
        print_line(console, f"results: `stsq show {place}`, page: {page if page.is_file() else f'`stsq report {place}`'}")
    for note in progress.notes:
        print_line(console, note)
    if progress.workers:
        names = ("worker", "trials", "step", "of", "time left", "last heard of")
        rows = [
            (
                one.worker,
                one.num_trials,
                one.step,
                one.num_steps,
                left_words(one.seconds_left),
                f"{duration_words(one.quiet_s)} ago",
            )
            for one in progress.workers
        ]
        print_table(console, table(names, rows, right=("trials", "step", "of", "time left")))
    columns = ("cell", "ended", "of", "diverged", "failed", "in training", "time left")
    print_table(console, table(columns, [_row(cell) for cell in progress.cells[:SHOWN_CELLS]], right=columns[1:]))
    if len(progress.cells) > SHOWN_CELLS:
        print_line(console, f"and {len(progress.cells) - SHOWN_CELLS:,} more cells; --json prints all")


def status_json(progress: Progress) -> str:
    """The same as JSON; an unknown time is null."""
    fields: dict[str, Any] = {
        "num_trials": progress.num_trials,
        "num_ended": progress.num_ended,
        "complete": progress.complete,
        "num_searches": progress.outlook.num_searches,
        "num_searching": progress.outlook.num_searching,
        "holder": progress.holder,
        "seconds_left": progress.seconds_left,
        "notes": progress.notes,
        "workers": [asdict(worker) for worker in progress.workers],
        "cells": [_plain(cell) for cell in progress.cells],
    }
    return json.dumps(fields, indent=2) + "\n"


def _line(progress: Progress) -> str:
    searches = f", {words}" if (words := searches_words(progress.outlook)) else ""
    ended = f"{ended_words(progress)} trials have ended{searches}"
    if progress.complete:
        return ended
    if progress.holder is None:
        return f"{ended}; nobody runs the sweep now"
    left = left_words(progress.seconds_left)
    return f"{ended}{f', {left} left' if left else ''}; run by {progress.holder}"


def _row(cell: CellProgress) -> tuple[object, ...]:
    left = "done" if cell.complete else left_words(cell.seconds_left)
    counts = (cell.num_ended, total_words(cell), cell.num_diverged, cell.num_failed, cell.num_training)
    return cell.label, *counts, left


def _plain(cell: CellProgress) -> dict[str, Any]:
    fields = {name: value for name, value in vars(cell).items() if name != "config_sample"}
    return fields | {"num_ended": cell.num_ended, "num_waiting": cell.num_waiting}
