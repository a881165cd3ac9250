"""`stsq status`: how far a run is, read from its directory alone, as the terminal tells it and as JSON."""

import json
from dataclasses import asdict
from typing import Any

from rich.console import Console

from cluster.run import say, say_table, table
from dashboards.words import duration_words, ended_words, left_words, searches_words
from sweeps.findings import CellHeadway, Headway


def show_status(console: Console, headway: Headway) -> None:
    """A line on the whole, a table of the workers that train, a table of the cells."""
    say(console, _line(headway))
    if headway.workers:
        names = ("worker", "trials", "step", "of", "time left", "last heard of")
        rows = [
            (
                one.worker,
                one.num_trials,
                one.step,
                one.num_steps or "",
                left_words(one.seconds_left),
                f"{duration_words(one.quiet_s)} ago",
            )
            for one in headway.workers
        ]
        say_table(console, table(names, rows, right=("trials", "step", "of", "time left")))
    columns = ("cell", "ended", "of", "diverged", "failed", "in training", "time left")
    say_table(console, table(columns, [_row(cell) for cell in headway.cells], right=columns[1:]))


def status_json(headway: Headway) -> str:
    """The same as JSON; a time that nothing tells is null."""
    told: dict[str, Any] = {
        "num_trials": headway.num_trials,
        "num_ended": headway.num_ended,
        "complete": headway.complete,
        "num_searches": headway.num_searches,
        "num_searching": headway.num_searching,
        "holder": headway.holder,
        "seconds_left": headway.seconds_left,
        "workers": [asdict(worker) for worker in headway.workers],
        "cells": [_plain(cell) for cell in headway.cells],
    }
    return json.dumps(told, indent=2) + "\n"


def _line(headway: Headway) -> str:
    searches = f", {told}" if (told := searches_words(headway)) else ""
    ended = f"{ended_words(headway)} trials have ended{searches}"
    if headway.complete:
        return ended
    if headway.holder is None:
        return f"{ended}; nobody runs the sweep now"
    left = left_words(headway.seconds_left)
    return f"{ended}{f', {left} left' if left else ''}; run by {headway.holder}"


def _row(cell: CellHeadway) -> tuple[object, ...]:
    left = "done" if cell.complete else "searching" if cell.searching else left_words(cell.seconds_left)
    counts = (cell.num_ended, cell.num_trials, cell.num_diverged, cell.num_failed, cell.num_training)
    return cell.label, *counts, left


def _plain(cell: CellHeadway) -> dict[str, Any]:
    told = {name: value for name, value in vars(cell).items() if name != "config_sample"}
    return told | {"num_ended": cell.num_ended, "num_waiting": cell.num_waiting}
