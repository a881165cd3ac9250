"""The page's sections on the run itself: progress, failures, commands that reproduce every number, provenance."""

import shlex
from collections.abc import Mapping, Sequence

from dashboards.page.sections import MAX_ROWS, PageSection, downloads, name_html, page_section, rest_note, status_tag
from dashboards.paper import failures_table
from dashboards.plots import MAX_CELLS, cell_names
from dashboards.words import (
    Html,
    architecture_name,
    duration_words,
    element,
    ended_words,
    left_words,
    searches_words,
    table,
    total_words,
    without_places,
)
from sweeps.findings import CellProgress, Findings, Progress, WorkerProgress
from sweeps.schema import Criterion
from sweeps.thresholds import WidthThreshold

SHARES = {
    "finished": "finished",
    "diverged": "diverged",
    "failed": "failed",
    "training": "in training",
    "waiting": "waiting",
}
"""The parts of a bar in their order, and in words."""

MANY_CELLS = 12
"""More cells than this are folded away once nothing is left to train."""


def progress_section(progress: Progress, *, thresholds: Sequence[WidthThreshold] = ()) -> PageSection:
    """The progress by cell and by worker; of a complete run with many cells the list of cells is folded.

    The cells of the first `thresholds` have panels on the page and are linked to them.
    """
    linked = {threshold.cell_id: threshold.key for threshold in reversed(thresholds[:MAX_CELLS])}
    names = dict(zip((cell.cell_id for cell in progress.cells), _names(progress), strict=True))
    totals = _totals(progress)
    cells = _cells(progress, names, linked)
    return page_section(
        "progress",
        "Progress",
        element("p", *_progress_sentence(progress), class_="lead"),
        _bar(totals, large=True),
        _key(totals),
        *_workers(progress, names),
        _folded(cells, f"All {len(progress.cells)} cells") if progress.complete and len(progress.cells) > MANY_CELLS else cells,
    )


def total_bar(progress: Progress) -> Html:
    """The statuses of all trials of a run in one bar."""
    return _bar(_totals(progress))


def _totals(progress: Progress) -> dict[str, int]:
    return {share: sum(_count(cell, share) for cell in progress.cells) for share in SHARES}


def _progress_sentence(progress: Progress) -> list[object]:
    ended = element("b", ended_words(progress))
    if progress.complete:
        return [element("b", f"All {progress.num_trials:,}"), " trials have ended."]
    if progress.holder is None:
        searches = f", {words}" if (words := searches_words(progress.outlook)) else ""
        return [ended, f" trials have ended{searches}. The sweep is not running; the same command continues it."]
    left = left_words(progress.seconds_left)
    return [
        ended,
        " trials have ended",
        *([", ", element("b", left), " left"] if left else []),
        *([", ", searches_words(progress.outlook)] if progress.outlook.num_searching else []),
        ". Run by ",
        progress.holder.partition(" since ")[0],
        ".",
    ]


def _names(progress: Progress) -> list[Html]:
    names = zip(progress.cells, cell_names(progress.cells), strict=True)
    return [element("span", name_html(name), class_=cell.kind) for cell, name in names]


def _count(cell: CellProgress, share: str) -> int:
    return int(getattr(cell, f"num_{share}"))


def _bar(counts: Mapping[str, int], *, large: bool = False) -> Html:
    """A bar whose parts are as long as their shares; its label has the same numbers."""
    total = max(1, sum(counts.values()))
    words = ", ".join(f"{count:,} {SHARES[share]}" for share, count in counts.items() if count) or "no trials"
    parts = [element("i", class_=share, style=f"width:{100 * count / total:.3f}%") for share, count in counts.items() if count]
    return element("div", *parts, class_="bar large" if large else "bar", role="img", aria_label=words, title=words)


def _key(totals: Mapping[str, int]) -> Html:
    shown = [
        element("span", element("i", class_=f"swatch {share}"), f"{count:,} {SHARES[share]}")
        for share, count in totals.items()
        if count
    ]
    return element("p", *shown, class_="key shares")


def _cells(progress: Progress, names: Mapping[str, Html], linked: Mapping[str, str]) -> Html:
    rows = [
        {
            "kind": element("span", architecture_name(cell.kind), class_=cell.kind),
            "cell": element("a", names[cell.cell_id], href=f"#cell={linked[cell.cell_id]}")
            if cell.cell_id in linked
            else names[cell.cell_id],
            "bar": _bar({share: _count(cell, share) for share in SHARES}),
            "ended": f"{cell.num_ended:,} / {total_words(cell)}",
            "left": "done" if cell.complete else left_words(cell.seconds_left),
        }
        for cell in progress.cells[:MAX_ROWS]
    ]
    columns = {"kind": "Architecture", "cell": "Cell", "bar": "Trials", "ended": "#Ended", "left": "#Time left"}
    cut = rest_note(len(progress.cells) - len(rows), "cells are in trials.csv")
    return element("div", table(columns, rows, class_="progress"), cut)


def _workers(progress: Progress, names: Mapping[str, Html]) -> list[Html]:
    if not progress.workers:
        return []
    rows = [_worker(worker, names) for worker in progress.workers]
    columns = {
        "worker": "Worker",
        "cells": "Trains",
        "bar": "Steps",
        "steps": "#Step",
        "left": "#Time left",
        "heard": "#Last heard of",
    }
    return [element("h3", "Workers"), table(columns, rows, class_="progress"), element("h3", "Cells")]


def _worker(worker: WorkerProgress, names: Mapping[str, Html]) -> dict[str, object]:
    share = worker.step / worker.num_steps
    cells = names[worker.cell_ids[0]] if len(worker.cell_ids) == 1 else f"{len(worker.cell_ids)} cells"
    steps = f"{worker.step:,} / {worker.num_steps:,}"
    words = f"step {steps}"
    return {
        "worker": worker.worker,
        "cells": [f"{worker.num_trials:,} trial{'s' * (worker.num_trials != 1)} of ", cells],
        "bar": element(
            "div",
            element("i", class_="training", style=f"width:{100 * share:.2f}%"),
            class_="bar",
            role="img",
            aria_label=words,
        ),
        "steps": steps,
        "left": left_words(worker.seconds_left),
        "heard": f"{duration_words(worker.quiet_s)} ago",
    }


def _folded(inside: Html, words: str) -> Html:
    return element("details", element("summary", words), inside, id="all-cells")


def failures_section(findings: Findings, given: str) -> PageSection | None:
    """Trials that gave no loss: counted by cell and reason, with one to look at."""
    rows = failures_table(findings.records)
    if not rows and not findings.notes:
        return None
    shown = [
        row
        | {
            "reason": without_places(row["reason"] or ""),
            "status": status_tag(row["status"], row["status"]),
            "again": element("code", f"stsq trial {shlex.quote(given)} {row['trial_id']}"),
        }
        for row in rows[:MAX_ROWS]
    ]
    columns = {
        "status": "Status",
        "num_trials": "#Trials",
        "cell": "Cell",
        "widths": "Widths",
        "rates": "Rates",
        "reason": "Reason",
    }
    failed, diverged = findings.num_ended("failed"), findings.num_ended("diverged")
    lead_words = f"{failed:,} of {len(findings.records):,} trials failed and {diverged:,} diverged."
    lead_words += " A diverged trial is a result: it counts as unsolved." if diverged else ""
    if failed:
        lead_words += f" Try the failed ones again with stsq run {shlex.quote(given)} --retry-failed."
    return page_section(
        "failures",
        "Failures",
        element("p", lead_words, class_="lead") if rows else None,
        table(columns | {"again": "Example"}, shown) if rows else None,
        rest_note(len(rows) - len(shown), "groups are in trials.csv"),
        *(element("p", without_places(note), class_="note") for note in findings.notes),
    )


def rerun_section(findings: Findings, given: str) -> PageSection | None:
    """The commands that reproduce every number; those of single trials are beside their cells."""
    if not findings.records:
        return None
    run = shlex.quote(given)
    commands = [
        (f"stsq run {run}", "continue the sweep; of a complete one, draw and publish the results again"),
        (f"stsq trial {run} TRIAL_ID", "train one trial alone and compare it with the ledger"),
        (f"stsq show {run}", "print what was found"),
        (f"stsq report {run}", "make this page again"),
    ]
    return page_section(
        "rerun",
        "Run it again",
        element(
            "dl",
            *(part for command, words in commands for part in (element("dt", element("code", command)), element("dd", words))),
        ),
    )


def provenance_section(findings: Findings) -> PageSection:
    """Time, machine, versions and cost of the run."""
    pairs: list[tuple[str, object]] = []
    if findings.sessions:
        last = findings.sessions[-1]
        wall = sum(session.seconds for session in findings.sessions)
        pairs += [
            (
                "Wall time",
                f"{duration_words(wall)} in {len(findings.sessions)} session{'s' if len(findings.sessions) > 1 else ''}",
            ),
            ("Command", element("code", without_places(last.command))),
            ("Machine", f"{last.cpu}, {last.num_cpus} cores, {last.host}"),
            ("Code", last.git_revision or "not a git checkout"),
            ("Versions", ", ".join(f"{name} {version}" for name, version in last.versions.items())),
        ]
    for kind, seconds in ({"cpu": 0.0, "cuda": 0.0} | dict(findings.device_seconds)).items():
        name = "CPU-hours of training" if kind == "cpu" else "GPU-hours of training"
        pairs.append((name, f"{seconds / 3600:,.3f}"))
    criterion = findings.spec.criterion
    pairs += [
        (
            "Criterion",
            f"{criterion_words(criterion)}, intervals at {criterion.level:.0%}",
        ),
        (
            "Intervals",
            f"{_interval_words(findings)} for thresholds; over seeds and cells for laws."
            " Censored thresholds count in the fits of laws as what they are, above or below the widths tried.",
        ),
        *(
            (name, element("div", *(element("div", line) for line in lines)))
            for name, lines in (("Defaults", findings.sweep.default_lines), ("Theory", findings.sweep.theorem_lines))
            if lines
        ),
    ]
    listed = [part for name, value in pairs for part in (element("dt", name), element("dd", value))]
    return page_section("provenance", "Provenance", element("dl", *listed), downloads(["sweep.yaml", "trials.csv"]))


def criterion_words(criterion: Criterion) -> str:
    """When a width is wide enough, in words."""
    if criterion.statistic == "mean":
        return f"mean {criterion.measure} over seeds at most {criterion.target_words}"
    solved = ", by their number alone" if criterion.statistic == "solved" else ""
    return f"{criterion.measure} at most {criterion.target_words} for {criterion.success_rate:.0%} of seeds{solved}"


def _interval_words(findings: Findings) -> str:
    searched = any(threshold.search is not None for threshold in findings.thresholds)
    grid = any(threshold.search is None for threshold in findings.thresholds)
    ways = [*(["a posterior over the points of a search"] if searched else []), *(["bootstrap over seeds"] if grid else [])]
    return " or ".join(ways) or "bootstrap over seeds"
