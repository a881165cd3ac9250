"""The results of a run as the `stsq` command prints them: verdicts, thresholds with intervals and laws, failures."""

from collections.abc import Sequence
from itertools import accumulate, islice, takewhile

from rich.console import Console
from rich.table import Table

from cluster.commands.law_results import show_laws
from cluster.commands.status import SHOWN_CELLS
from cluster.run import print_line, print_table, table
from dashboards.paper import failures_table, named_laws, threshold_rows
from dashboards.words import (
    axes_of,
    field_name,
    number_words,
    setting_interval,
    setting_words,
    size_words,
    star_words,
    value_words,
    whole_letter,
)
from stsq_core.configs import WIDTH
from sweeps.findings import Findings, Verdict
from sweeps.laws import LawComparison, ScalingLaw
from sweeps.schema import LOSS
from sweeps.store import Outcomes
from sweeps.thresholds import WidthThreshold, rate_end_lines

SHOWN_NOTES = 50
SHOWN_FAILURES = 20
SHOWN_SETTINGS = 16
MAX_NOTE = 400
"""Characters of a note and the cells that it is about."""


def show_findings(console: Console, findings: Findings) -> None:
    """The findings of a run: verdicts on the claims of its sweep, thresholds unless it has drawings, and failures."""
    show_verdicts(console, findings.verdicts, level=findings.spec.criterion.level)
    if findings.spec.drawings:
        show_failures(console, findings.records)
    else:
        show_run(console, findings.records, findings.thresholds, findings.comparisons, run=str(findings.run.path))
        known = {threshold.cell_id for threshold in findings.thresholds}
        cell_ids = {cell.cell_id for cell in findings.sweep.cells} | {cell.cell_id for cell in findings.sweep.searched}
        if known and (num := len(cell_ids - known)):
            print_line(console, f"{num} of {len(cell_ids)} cells {'has' if num == 1 else 'have'} no result yet")
        for decision in findings.decisions:
            print_line(console, decision.words)


def show_run(
    console: Console,
    records: Outcomes,
    thresholds: Sequence[WidthThreshold],
    comparisons: Sequence[LawComparison],
    *,
    run: str,
) -> None:
    """The thresholds of a run with their laws, and its failures; of thousands of cells and notes the first."""
    where = f"; `stsq report {run}` writes all to {run}/report/thresholds.csv"
    print_table(console, threshold_table(thresholds, named_laws(comparisons)))
    if thresholds and thresholds[0].metric != LOSS:
        targets = dict.fromkeys(f"{threshold.target_loss:g}" for threshold in thresholds)
        print_line(console, f"A trial is solved where its {thresholds[0].measure} is at most {' or '.join(targets)}.")
    if len(thresholds) > SHOWN_CELLS:
        print_line(console, f"and {len(thresholds) - SHOWN_CELLS:,} more cells{where}")
    show_laws(console, comparisons, thresholds)
    lines = notes(thresholds)
    for line in lines[:SHOWN_NOTES]:
        print_line(console, line)
    if len(lines) > SHOWN_NOTES:
        print_line(console, f"and {len(lines) - SHOWN_NOTES:,} more notes{where}")
    for line in rate_end_lines(thresholds):
        print_line(console, line)
    show_failures(console, records)


def show_verdicts(console: Console, verdicts: Sequence[Verdict], *, level: float) -> None:
    """Each claim with its answer, its rule, and the numbers of the first settings."""
    for verdict in verdicts:
        print_line(console, f"{verdict.answer.upper()}: {verdict.says}")
        print_line(console, f"  {verdict.quantity}, {verdict.rule}")
        rows = [
            (
                *(setting_words(s.fields) or "all trials", number_words(s.value), setting_interval(s), s.num_seeds),
                f"{s.answer}: {s.note}" if s.note else s.answer,
            )
            for s in verdict.settings[:SHOWN_SETTINGS]
        ]
        if rows:
            names = ("  setting", "value", f"{level:.0%} interval", "seeds", "answer")
            print_table(console, table(names, [("  " + row[0], *row[1:]) for row in rows], right=("value", "seeds")))
        if len(verdict.settings) > SHOWN_SETTINGS:
            print_line(console, f"  and {len(verdict.settings) - SHOWN_SETTINGS} more settings")


def notes(thresholds: Sequence[WidthThreshold]) -> list[str]:
    """The notes on cells; a note on several cells stands once, with the first of them that fit on a line."""
    cells: dict[str, list[str]] = {}
    for threshold in thresholds:
        for note in filter(None, threshold.note.split("; ")):
            cells.setdefault(note, []).append(threshold.label)
    several = len(thresholds) > 1
    return [
        f"{'all cells' if several and len(labels) == len(thresholds) else _first_of(labels, MAX_NOTE - len(note))}: {note}"
        for note, labels in cells.items()
    ]


def _first_of(labels: Sequence[str], length: int) -> str:
    """Names as a list of about this length, with how many more there are."""
    ends = accumulate(len(label) + 2 for label in labels)
    num = max(1, sum(1 for _ in takewhile(lambda end: end <= length, ends)))
    more = f" and {len(labels) - num:,} more cells" if num < len(labels) else ""
    return ", ".join(labels[:num]) + more


def threshold_table(thresholds: Sequence[WidthThreshold], laws: Sequence[ScalingLaw]) -> Table:
    """The thresholds, a row a cell, with every axis in which cells differ; a censored one stays an inequality."""
    level = f"{thresholds[0].level:.0%} " if thresholds else ""
    axes = axes_of(thresholds).fields
    letters, size = ("T", "q", "d"), thresholds[0].size if thresholds else WIDTH
    fields = threshold_rows(thresholds, laws)
    bound, law, limit = (
        (name,) if any(row[name] not in (None, "") for row in fields) else () for name in ("bound", "law", "limit")
    )
    expected = (*(f"exact {name}" for name in bound), *law)
    measured = (f"{size.letter}*", whole_letter(size), f"{level}interval", *expected, "seeds", "status")
    rows = [
        (
            row["architecture"],
            *(row[letter] for letter in letters),
            *(value_words(row[field]) for field in axes),
            _m_star(threshold),
            _number(row["M"], "d"),
            _interval(threshold),
            *(_number(row[name], ".1f") for name in (*bound, *law)),
            row["num_seeds"],
            row["status"].replace("_", " "),
            *(row[name] or "" for name in limit),
        )
        for threshold, row in islice(zip(thresholds, fields, strict=True), SHOWN_CELLS)
    ]
    spelled = thresholds[0].config_sample.task.letters if thresholds else {}
    names = ("architecture", *(spelled.get(letter, letter) for letter in letters), *map(field_name, axes), *measured, *limit)
    return table(names, rows, right=(*(spelled.get(letter, letter) for letter in letters), *measured[:2], *expected, "seeds"))


def show_failures(console: Console, records: Outcomes) -> None:
    """The trials without a loss, with the reasons; nothing if there are none."""
    rows = failures_table(records)
    if not rows:
        return
    num_failed, num_diverged = records.num_ended("failed"), records.num_ended("diverged")
    print_line(console, f"{num_failed} trials failed and {num_diverged} diverged, of {len(records)}:")
    names = ("status", "trials", "cell", "widths", "rates", "reason", "one of them")
    shown = [
        (row["status"], row["num_trials"], row["cell"], row["widths"], row["rates"], row["reason"], row["trial_id"])
        for row in rows[:SHOWN_FAILURES]
    ]
    print_table(console, table(names, shown, right=("trials",)))
    if len(rows) > SHOWN_FAILURES:
        print_line(console, f"and {len(rows) - SHOWN_FAILURES} more kinds of failure")


def _m_star(threshold: WidthThreshold) -> str:
    """A threshold's number or side in ASCII; why there is none stands in the column of the status."""
    return "none" if threshold.status in ("not_reached", "failed", "open") else size_words(threshold).replace("≤", "<=")


def _number(value: float | None, style: str) -> str:
    return "" if value is None else format(value, style)


def _interval(threshold: WidthThreshold) -> str:
    if threshold.low is None and threshold.high is None and not (threshold.low_censored or threshold.high_censored):
        return "none"
    low = f"< {min(threshold.widths)}" if threshold.low is None else star_words(threshold.low)
    high = f"> {max(threshold.widths)}" if threshold.high is None else star_words(threshold.high)
    return f"{low} to {high}"
