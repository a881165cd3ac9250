"""The page's records: failures, how to run every number again, and where the numbers come from."""

import shlex

import numpy as np

from dashboards.cells import cell_names
from dashboards.findings import Findings
from dashboards.markup import Html, element, table
from dashboards.section import MAX_CELLS, MAX_ROWS, Section, more, name_html, section, tag
from dashboards.story import duration_words
from dashboards.style import NAMES
from dashboards.tables import failures_table
from sweeps.spec import Criterion
from sweeps.thresholds import Points, WidthThreshold

MAX_TRIALS_LISTED = 60


def failures_section(findings: Findings, given: str) -> Section | None:
    """Trials that gave no loss: counted by cell and reason, with one to look at."""
    rows = failures_table(findings.records)
    if not rows and not findings.notes:
        return None
    shown = [
        row
        | {
            "status": tag(row["status"], row["status"]),
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
    told = f"{failed:,} of {len(findings.records):,} trials failed and {diverged:,} diverged."
    told += " A diverged trial is a result: it counts as unsolved." if diverged else ""
    if failed:
        spec, run = shlex.quote(str(findings.run.spec)), shlex.quote(given)
        told += f" Try the failed ones again with stsq run {spec} --out {run} --retry-failed."
    return section(
        "failures",
        "Failures",
        element("p", told, class_="lead") if rows else None,
        table(columns | {"again": "Look at one"}, shown) if rows else None,
        more(len(rows) - len(shown), "groups are in trials.csv"),
        *(element("p", note, class_="note") for note in findings.notes),
    )


def rerun_section(findings: Findings, given: str) -> Section | None:
    """The commands that make every number again, and the trials each threshold rests on."""
    if not findings.records:
        return None
    run = shlex.quote(given)
    commands = [
        (
            f"stsq run {shlex.quote(str(findings.run.spec))} --out {run}",
            "continue the sweep, or do nothing where it is complete",
        ),
        (f"stsq trial {run} TRIAL_ID", "train one trial alone and compare it with the ledger"),
        (f"stsq show {run}", "print what was found"),
        (f"stsq report {run}", "make this page again"),
    ]
    names = cell_names(findings.thresholds)
    listed = [
        _rested_on(threshold, name, run) for threshold, name in list(zip(findings.thresholds, names, strict=True))[:MAX_CELLS]
    ]
    return section(
        "rerun",
        "Run it again",
        element(
            "dl",
            *(part for command, words in commands for part in (element("dt", element("code", command)), element("dd", words))),
        ),
        element("h3", "The trials each threshold rests on") if listed else None,
        *listed,
        more(len(names) - len(listed), "cells are in trials.csv"),
    )


def provenance_section(findings: Findings) -> Section:
    """When, where, with what and at which cost."""
    pairs: list[tuple[str, object]] = []
    if findings.sessions:
        last = findings.sessions[-1]
        wall = sum(session.seconds for session in findings.sessions)
        pairs += [
            (
                "Wall time",
                f"{duration_words(wall)} in {len(findings.sessions)} session{'s' if len(findings.sessions) > 1 else ''}",
            ),
            ("Command", element("code", last.command)),
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
            " Censored thresholds are left out of fits and counted.",
        ),
        ("Sweep", element("code", str(findings.run.spec))),
    ]
    listed = [part for name, value in pairs for part in (element("dt", name), element("dd", value))]
    return section("provenance", "Provenance", element("dl", *listed))


def criterion_words(criterion: Criterion) -> str:
    """When a width is wide enough, in words."""
    if criterion.statistic == "mean":
        return f"mean relative loss over seeds at most {criterion.target_loss:g}"
    return f"relative loss at most {criterion.target_loss:g} for {criterion.success_rate:.0%} of seeds"


def _interval_words(findings: Findings) -> str:
    searched = any(threshold.search is not None for threshold in findings.thresholds)
    grid = any(threshold.search is None for threshold in findings.thresholds)
    ways = [*(["a posterior over the points of a search"] if searched else []), *(["bootstrap over seeds"] if grid else [])]
    return " or ".join(ways) or "bootstrap over seeds"


def _rested_on(threshold: WidthThreshold, name: str, run: str) -> Html:
    points = threshold.points
    chosen = points.take(points.chosen) if points.chosen.any() else points
    shown = chosen if len(chosen) <= MAX_TRIALS_LISTED else _one_a_width(chosen)
    rows = [
        {
            "m": point.width,
            "seed": point.seed,
            "lr": f"{point.lr:g}",
            "loss": "" if point.relative_loss is None else f"{point.relative_loss:.4g} ± {point.relative_loss_stderr or 0:.1g}",
            "status": point.status,
            "again": element("code", f"stsq trial {run} {point.trial_id}"),
        }
        for point in shown
    ]
    columns = {"m": "#`m`", "loss": "#Relative loss", "status": "Status", "lr": "#Rate", "seed": "#Seed", "again": "Command"}
    note = f"{len(chosen)} trials" if len(shown) == len(chosen) else f"{len(chosen):,} trials, one of each width shown"
    summary = element(
        "summary",
        element("span", NAMES.get(threshold.kind, threshold.kind), class_=threshold.kind),
        ", ",
        name_html(name),
        " ",
        element("small", note),
    )
    return element("details", summary, table(columns, rows))


def _one_a_width(points: Points) -> Points:
    """The last point of each width."""
    ends = np.flatnonzero(np.append(np.diff(points.widths) != 0, True))
    return points.take(ends[:MAX_TRIALS_LISTED])
