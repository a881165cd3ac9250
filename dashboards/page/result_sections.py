"""The page's sections of results: the verdict on each claim with its numbers, and the table of thresholds."""

from collections.abc import Sequence

from dashboards.page.headline import summary_words
from dashboards.page.sections import MAX_ROWS, PageSection, downloads, lead_paragraph, page_section, rest_note, status_tag
from dashboards.paper import Row, threshold_rows
from dashboards.words import (
    Html,
    architecture_name,
    axes_of,
    element,
    field_name,
    interval_text,
    number_words,
    prose,
    setting_interval,
    setting_words,
    size_words,
    star_words,
    table,
    value_words,
    whole_letter,
    without_places,
)
from stsq_core.configs import SAMPLES, WIDTH
from sweeps.findings import LEAST_SEEDS, Findings, Verdict
from sweeps.schema import LOSS, Criterion
from sweeps.thresholds import WidthThreshold, rate_end_lines

MAX_SETTINGS = 60
CLASSES = {"holds": "found", "does not hold": "failed", "not enough data": "above_range"}


def verdicts_section(findings: Findings) -> PageSection | None:
    """Every claim with its rule, its answer, and its numbers by setting."""
    if not findings.verdicts:
        return None
    level = findings.spec.criterion.level
    return page_section(
        "claims",
        "Claims and their verdicts",
        lead_paragraph(
            "The sweep file states each claim and its rule. Values are means over seeds, geometric ones of ratios, or, of"
            f" claims about thresholds, their ratios and the exponents of laws, with {level:.0%} intervals. A claim holds where"
            " the whole interval meets the rule, and does not hold where none of it does."
            f" Fewer than {LEAST_SEEDS} seeds, or too few for an interval of the level, decide nothing."
        ),
        *(_claim(verdict) for verdict in findings.verdicts),
        downloads(["verdicts.json"]) if findings.spec.drawings else None,
        class_="first",
    )


def _claim(verdict: Verdict) -> Html:
    shown = verdict.settings[:MAX_SETTINGS]
    rows = [
        {
            "setting": setting_words(setting.fields) or "all trials",
            "answer": status_tag(CLASSES[setting.answer], setting.answer),
            "value": number_words(setting.value),
            "interval": setting_interval(setting),
            "seeds": setting.num_seeds,
            "note": setting.note,
        }
        for setting in shown
    ]
    columns = {"setting": "Setting", "answer": "Answer", "value": "#Value", "interval": "#Interval", "seeds": "#Seeds"}
    columns |= {"note": "Note"} if any(setting.note for setting in shown) else {}
    several = len(verdict.settings) > 1
    held = f" It holds in {verdict.num_holding} of {len(verdict.settings)} settings." if several else None
    return element(
        "div",
        element("h3", status_tag(CLASSES[verdict.answer], verdict.answer), " ", verdict.says, id=f"claim-{verdict.name}"),
        element("p", element("b", "Rule: "), prose(f"{verdict.quantity}, {verdict.rule}."), held),
        table(columns, rows) if rows else None,
        rest_note(len(verdict.settings) - len(shown), "settings are in verdicts.json"),
        class_="claim",
    )


def table_section(findings: Findings) -> PageSection | None:
    """The table of thresholds."""
    if not findings.thresholds:
        return None
    rows = threshold_rows(findings.thresholds, findings.laws)
    axes, size = axes_of(findings.thresholds).fields, findings.spec.criterion.size
    letters = findings.thresholds[0].config_sample.task.letters
    common = _common_notes(findings.thresholds)
    pairs = list(zip(findings.thresholds, rows, strict=True))[:MAX_ROWS]
    notes = list(dict.fromkeys(note for threshold, row in pairs if (note := _own_note(threshold, row, common))))
    shown = [
        _table_row(threshold, row)
        | {field: value_words(row[field]) for field in axes}
        | {"note": notes.index(note) + 1 if (note := _own_note(threshold, row, common)) else None}
        for threshold, row in pairs
    ]
    names = {
        "architecture": "Architecture",
        **{letter: f"#`{letters.get(letter, letter)}`" for letter in ("T", "q", "d")},
        **{field: field_name(field) for field in axes},
    }
    kinds = {threshold.kind for threshold, _ in pairs}
    varying = [name for name in names if len(kinds if name == "architecture" else {str(row[name]) for row in shown}) > 1]
    columns = {
        **{
            name: names[name] for name in varying or ["architecture"]
        },  # beside the threshold, so that a narrow screen shows both
        "m": f"#`{size.letter}`*",
        "interval": "#Interval",
        "M": "#`M`" if size == WIDTH else f"#{whole_letter(size)}",
        **names,
    }
    columns |= {"bound": "#Exact floor"} if any(row["bound"] is not None for row in rows) else {}
    columns |= {"law": "#Law", "residual": f"#`{size.letter}`* / law - 1"} if findings.laws else {}
    columns |= {"widths": "#Budget" if size == SAMPLES else f"#{size.nouns.capitalize()} tried", "seeds": "#Seeds"}
    columns |= {"limit": "Limit"} if any(row["limit"] for row in rows) else {}
    columns |= {"status": "Status"}
    columns |= {"note": "#Note"} if notes else {}
    criterion = findings.spec.criterion
    counts = f"Of {len(findings.thresholds)} cells: {summary_words(findings.thresholds)}."
    return page_section(
        "table",
        "Table of thresholds",
        lead_paragraph(f"{_definition(criterion, several_rates=findings.sweep.several_rates)} {counts}"),
        table(columns, shown),
        rest_note(len(rows) - len(shown), "cells are in the files"),
        element("p", element("b", "All cells: "), without_places("; ".join(common)), ".", class_="note") if common else None,
        *(element("p", line, class_="note") for line in rate_end_lines(findings.thresholds)),
        element("ol", *(element("li", without_places(note)) for note in notes), class_="notes") if notes else None,
        downloads(["thresholds.csv", "thresholds.tex", "thresholds.json", "trials.csv"]),
    )


def _definition(criterion: Criterion, *, several_rates: bool) -> str:
    """What the threshold is, in a sentence."""
    size = criterion.size
    if size == SAMPLES:
        return (
            "`n`* is the median over seeds of the samples drawn until an evaluation first found the relative loss at"
            f" {criterion.target_words} or less{', with the learning rate of the least median' if several_rates else ''}."
        )
    whole = "`M`" if size == WIDTH else f"the {whole_letter(size)}"
    chosen = f", with the learning rate chosen for each {size.noun}" if several_rates else ""
    return (
        f"`{size.letter}`* is the {size.noun} from which {_reach_words(criterion)}, between {size.nouns} interpolated in log"
        f" `{size.letter}`{chosen}; {whole} is the next whole number."
    )


def _table_row(threshold: WidthThreshold, row: Row) -> dict[str, object]:
    widest, narrowest = max(threshold.widths), min(threshold.widths)
    name = architecture_name(threshold.kind)
    return {
        "architecture": element("span", name, class_=threshold.kind, title=threshold.label),
        **{letter: row[letter] for letter in ("T", "q", "d")},
        "m": element("b", size_words(threshold)),
        "M": threshold.M,
        "interval": interval_text(threshold),
        "bound": _rounded(row["bound"]),
        "law": _rounded(row["law"]),
        "residual": f"{row['relative_residual']:+.1%}" if row["relative_residual"] is not None else None,
        "widths": f"{widest:,}" if threshold.size == SAMPLES else f"{len(threshold.widths)}: {narrowest:g} to {widest:g}",
        "seeds": threshold.num_seeds,
        "limit": row["limit"],
        "status": status_tag(threshold.status, threshold.status.replace("_", " ")),
    }


def _common_notes(thresholds: Sequence[WidthThreshold]) -> list[str]:
    """Notes that all cells share, shown once under the table."""
    notes = [threshold.note.split("; ") for threshold in thresholds]
    return [note for note in notes[0] if note and len(notes) > 1 and all(note in others for others in notes)]


def _own_note(threshold: WidthThreshold, row: Row, common: Sequence[str]) -> str:
    """Notes on one cell alone; a threshold below the exact floor can only come from widths too far apart."""
    notes = [note for note in threshold.note.split("; ") if note and note not in common]
    if threshold.m_star is not None and row["bound"] is not None and threshold.m_star < row["bound"]:
        notes.append(
            "the line between the two widths around m* passes below the exact floor, which no net does: try closer widths"
        )
    return "; ".join(notes)


def _reach_words(criterion: Criterion) -> str:
    if criterion.statistic == "mean":
        return f"the mean {criterion.measure} over seeds is at most {criterion.target_words}"
    share = f"{criterion.success_rate:.0%} of seeds"
    if criterion.metric == LOSS:
        reach = f"{share} reach a relative loss of {criterion.target_words}"
    else:
        reach = f"{share} have {criterion.measure} at most {criterion.target_words}"
    return f"{reach}, by the number of seeds that do alone" if criterion.statistic == "solved" else reach


def _rounded(value: object) -> str | None:
    return star_words(value) if isinstance(value, float) else None
