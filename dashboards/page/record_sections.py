"""The page's records: failures, how to run every number again, and where the numbers come from."""

import shlex

from dashboards.page.sections import MAX_ROWS, Section, downloads, more, section, tag
from dashboards.paper import failures_table
from dashboards.words import duration_words, element, table
from sweeps.findings import Findings
from sweeps.schema import Criterion


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
    """The commands that make every number again; those of single trials stand beside their cells."""
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
    return section(
        "rerun",
        "Run it again",
        element(
            "dl",
            *(part for command, words in commands for part in (element("dt", element("code", command)), element("dd", words))),
        ),
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
            " Censored thresholds count in the fits of laws as what they are, above or below the widths tried.",
        ),
        ("Sweep", element("code", str(findings.run.spec))),
    ]
    listed = [part for name, value in pairs for part in (element("dt", name), element("dd", value))]
    return section("provenance", "Provenance", element("dl", *listed), downloads(["sweep.yaml", "trials.csv"]))


def criterion_words(criterion: Criterion) -> str:
    """When a width is wide enough, in words."""
    if criterion.statistic == "mean":
        return f"mean relative loss over seeds at most {criterion.target_loss:g}"
    solved = ", by their number alone" if criterion.statistic == "solved" else ""
    return f"relative loss at most {criterion.target_loss:g} for {criterion.success_rate:.0%} of seeds{solved}"


def _interval_words(findings: Findings) -> str:
    searched = any(threshold.search is not None for threshold in findings.thresholds)
    grid = any(threshold.search is None for threshold in findings.thresholds)
    ways = [*(["a posterior over the points of a search"] if searched else []), *(["bootstrap over seeds"] if grid else [])]
    return " or ".join(ways) or "bootstrap over seeds"
