"""Tables of a sweep as plain rows, and as CSV, JSON and LaTeX: width thresholds, fitted laws, failures.

Numbers keep full precision in JSON and CSV and are rounded for people elsewhere. Censored values stay inequalities everywhere.
"""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from dashboards.paper.law_tables import (
    Row,
    conclusion_rows,
    decision_rows,
    family_rows,
    held_out_rows,
    latex_numbers,
    law_rows,
    named_laws,
)
from dashboards.words import (
    Axes,
    axes_of,
    axes_of_configs,
    family_names,
    field_name,
    interval_text,
    plain_formula,
    star_words,
    value_words,
)
from stsq_core.configs import SAMPLES, SAMPLES_TO_TARGET, WIDTH, Size
from stsq_core.oracles import theory
from sweeps.cells import cell_of_family, distinct_labels
from sweeps.findings import Verdict
from sweeps.laws import Decision, LawComparison, ScalingLaw, by_regime, has_fcn_bound
from sweeps.schema import fields_of
from sweeps.store import FAILED, FINISHED, MEASURED, STATUSES, LedgerRecord, Outcomes, none_of_nan
from sweeps.thresholds import WidthThreshold, samples_to_target

LATEX_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip
LATEX_NAMES = {"fcn": "FCN"}
LATEX_STATUS = {
    "found": "",
    "above_range": "above range",
    "below_range": "below range",
    "not_reached": "not reached",
    "solved": "solved at the only width",
    "not_solved": "not solved at the only width",
    "failed": "not found",
    "open": "not known yet",
}


def threshold_rows(thresholds: Iterable[WidthThreshold], laws: Sequence[ScalingLaw] = ()) -> list[Row]:
    """A row a cell: what was measured, the exact floor of fully connected nets, and the value of its family's law, also where
    the cell was held out of the fit or is censored.

    Every axis in which cells of one architecture differ is a column too, by its dotted name (see `columns`).
    """
    thresholds = list(thresholds)
    members_of = [(members, _law_of(members, laws)) for members in by_regime(thresholds)]
    by_cell = {own.key: law for members, law in members_of if law for own in members}
    axes = axes_of(thresholds)
    return [
        _threshold_row(threshold) | axes.values(threshold) | _law_columns(threshold, by_cell.get(threshold.key))
        for threshold in thresholds
    ]


def _law_of(members: Sequence[WidthThreshold], laws: Sequence[ScalingLaw]) -> ScalingLaw | None:
    """The law that was fitted to a family of cells."""
    own = {threshold.key for threshold in members}
    return next((law for law in laws if law.fit.cells.thresholds[0].key in own), None)


def thresholds_json(
    thresholds: Sequence[WidthThreshold],
    comparisons: Sequence[LawComparison] = (),
    decisions: Sequence[Decision] = (),
) -> str:
    """Thresholds and laws as one JSON document; what is missing or not finite is null."""
    laws = named_laws(comparisons)
    document = {
        "thresholds": threshold_rows(thresholds, laws),
        "laws": law_rows(comparisons, thresholds),
        "verdicts": conclusion_rows(comparisons, thresholds),
        "families": family_rows(comparisons),
        "held_out": held_out_rows(comparisons, thresholds),
        "decisions": decision_rows(decisions),
    }
    return json.dumps(document, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def thresholds_csv(thresholds: Sequence[WidthThreshold], laws: Sequence[ScalingLaw] = ()) -> str:
    """Thresholds as CSV, a line a cell."""
    place = _COLUMNS.index("d") + 1
    columns = dict.fromkeys([*_COLUMNS[:place], *axes_of(thresholds).fields, *_COLUMNS[place:]])
    return _csv(threshold_rows(thresholds, laws), [*columns])


def trials_csv(records: Iterable[LedgerRecord]) -> str:
    """Every trial of a ledger as CSV, with the cell it belongs to and every axis in which cells of one architecture differ, by
    its dotted name; a size other than the width has its own column.
    """
    outcomes = Outcomes.of(records)
    trials = outcomes.trials
    size = trials.families[0].size if trials.families else WIDTH
    samples = [family.sample for family in trials.families]
    axes = {field: [fields_of(sample).get(field) for sample in samples] for field in axes_of_configs(samples, size)}
    shared: dict[str, list[Any]] = {
        "cell_id": [cell_of_family(family) for family in trials.families],
        "architecture": [sample.model.kind for sample in samples],
        **{letter: [getattr(sample.task, letter) for sample in samples] for letter in ("T", "q", "d")},
        **axes,
    }
    columns = {name: np.array(values, dtype=object)[trials.family].tolist() for name, values in shared.items()}
    columns |= {"trial_id": outcomes.trial_ids, "status": [STATUSES[code] for code in outcomes.status.tolist()]}
    columns |= {"lr": trials.rates.tolist(), "seed": trials.seeds.tolist(), **_size_columns(outcomes, size)}
    columns |= {name: [none_of_nan(number) for number in getattr(outcomes, name).tolist()] for name in MEASURED}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    place = _TRIAL_COLUMNS.index("d") + 1
    names = [*_TRIAL_COLUMNS[:place], *axes, *_TRIAL_COLUMNS[place:]]
    if size != WIDTH:
        names.insert(names.index("width") + 1, size.name if size != SAMPLES else SAMPLES_TO_TARGET)
    writer.writerow(names)
    listed = [columns[name] if name in columns else getattr(outcomes, name).tolist() for name in names]
    writer.writerows(zip(*listed, strict=True))
    return text.getvalue()


def _size_columns(outcomes: Outcomes, size: Size) -> dict[str, list[Any]]:
    """The width of each trial, and the size that thresholds are about where that is another."""
    trials = outcomes.trials
    if size == WIDTH:
        return {"width": trials.widths.tolist()}
    widths = np.array([family.sample.width for family in trials.families])[trials.family].tolist()
    if size == SAMPLES:
        return {"width": widths, SAMPLES_TO_TARGET: [none_of_nan(one) for one in samples_to_target(outcomes).tolist()]}
    return {"width": widths, size.name: trials.widths.tolist()}


def thresholds_latex(thresholds: Sequence[WidthThreshold], comparisons: Sequence[LawComparison] = ()) -> str:
    r"""Thresholds as a LaTeX table that needs `\usepackage{booktabs}`, with the named laws as its last rows."""
    laws = named_laws(comparisons)
    level = f"{thresholds[0].level:.0%}".replace("%", r"\%") if thresholds else ""
    axes = axes_of(thresholds)
    size = thresholds[0].size if thresholds else WIDTH
    letter, whole = size.letter, "$M$" if size == WIDTH else f"least ${size.letter}$"
    heads = "".join(f" & {latex_escaped(field_name(field))}" for field in axes.fields)
    lines = [
        r"% needs \usepackage{booktabs}",
        rf"\begin{{tabular}}{{lrrr{'l' * len(axes.fields)}rrrl}}",
        r"\toprule",
        rf"architecture & $T$ & $q$ & $d${heads} & ${letter}^*$ & {whole} & seeds & {level} interval \\",
        r"\midrule",
        *(_latex_row(threshold, axes) for threshold in thresholds),
    ]
    if laws:
        width = 8 + len(axes.fields)
        spelled = [_latex_law(law, family) for law, family in zip(laws, family_names(laws, thresholds), strict=True)]
        lines += [r"\midrule", *(rf"\multicolumn{{{width}}}{{l}}{{{law}}} \\" for law in spelled)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def failures_table(records: Iterable[LedgerRecord]) -> list[Row]:
    """Trials that gave no loss, counted by cell, way and reason; `trial_id` is one of them."""
    outcomes = Outcomes.of(records)
    groups: dict[tuple[int, int, str], list[int]] = {}
    for place in np.flatnonzero(outcomes.status != FINISHED).tolist():
        key = int(outcomes.trials.family[place]), int(outcomes.status[place]), outcomes.reason[place] or ""
        groups.setdefault(key, []).append(place)
    families = list(dict.fromkeys(family for family, _, _ in groups))
    samples = [outcomes.trials.families[family].sample for family in families]
    labels = dict(zip(families, distinct_labels(samples), strict=True))
    return [
        _failure_row(labels[family], reason, outcomes.take(np.array(places)))
        for (family, _, reason), places in sorted(groups.items(), key=lambda item: (item[0][1] != FAILED, -len(item[1])))
    ]


def _failure_row(label: str, reason: str, members: Outcomes) -> Row:
    return {
        "cell": label,
        "status": STATUSES[members.status[0]],
        "reason": reason or f"loss not finite, first seen at step {_span(members.steps)}",
        "num_trials": len(members),
        "widths": _span(members.trials.widths),
        "rates": _span(members.trials.rates),
        "trial_id": members.trial_ids[0],
    }


_COLUMNS = (
    "cell_id", "architecture", "label", "T", "q", "d", "of", "status", "m_star", "M", "low", "high", "low_censored",
    "high_censored", "level", "metric", "target_loss", "success_rate", "bound", "law", "relative_residual", "narrowest",
    "widest", "num_widths", "num_seeds", "num_trials", "num_diverged", "num_failed", "crosses_more_than_once", "statistic",
    "search", "limit", "note",
)  # fmt: skip


def _threshold_row(threshold: WidthThreshold) -> Row:
    task = threshold.config_sample.task
    row = {
        "architecture": threshold.kind,
        "T": task.T,
        "q": task.q,
        "d": task.d,
        "of": threshold.size.name,
        "bound": _bound(threshold),
        "narrowest": min(threshold.widths),
        "widest": max(threshold.widths),
        "num_widths": len(threshold.widths),
        "search": None if threshold.search is None else threshold.search.reason or "searching",
        "limit": None if threshold.recheck is None else threshold.recheck.limit,
    }
    return row | {
        name: getattr(threshold, name) for name in _COLUMNS if name not in row and name not in ("law", "relative_residual")
    }


def _law_columns(threshold: WidthThreshold, law: ScalingLaw | None) -> Row:
    if law is None:
        return {"law": None, "relative_residual": None}
    task = threshold.config_sample.task
    predicted = law.predict(T=task.T, d=task.d, q=task.q)
    residual = None if threshold.m_star is None else threshold.m_star / predicted - 1
    return {"law": predicted, "relative_residual": residual}


def _bound(threshold: WidthThreshold) -> float | None:
    if not has_fcn_bound(threshold):
        return None
    task = threshold.config_sample.task
    return theory.fcn_width_bound(threshold.target_loss, T=task.T, d=task.d, q=task.q)


_TRIAL_COLUMNS = (
    "trial_id", "cell_id", "architecture", "T", "q", "d", "width", "lr", "seed", "status", *MEASURED, "device", "finished_at",
    "reason",
)  # fmt: skip


def _csv(rows: Iterable[Row], columns: Sequence[str]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _latex_row(threshold: WidthThreshold, axes: Axes) -> str:
    task = threshold.config_sample.task
    match threshold.status:
        case "found":
            m, whole = star_words(threshold.m_star), str(threshold.M)
        case "above_range":
            m = whole = f"$>{max(threshold.widths)}$"
        case "below_range":
            m = whole = rf"$\le {min(threshold.widths)}$"
        case "solved" | "not_solved":
            m, whole = "--", f"${threshold.widths[0]}$"
        case _:
            m = whole = "--"
    own = "".join(f" & {latex_escaped(value_words(value))}" for value in axes.values(threshold).values())
    name = LATEX_NAMES.get(threshold.kind, threshold.kind)
    interval = latex_escaped(interval_text(threshold)) if threshold.status == "found" else LATEX_STATUS[threshold.status]
    return rf"{name} & {task.T} & {task.q} & {task.d}{own} & {m} & {whole} & {threshold.num_seeds} & {interval} \\"


def _latex_law(law: ScalingLaw, family: str) -> str:
    kind, _, settings = family.partition(" ")
    opening = latex_escaped(f"{LATEX_NAMES.get(kind, kind)} {settings}".strip() + ": ") if family else ""
    return f"{opening}${law.size.letter} = {plain_formula(law).tex[1:-1]}$, {latex_numbers(law)}"


def latex_escaped(text: str) -> str:
    """Text with LaTeX's own characters spelled out."""
    return "".join(LATEX_SPECIAL.get(letter, letter) for letter in text)


def _span(values: np.ndarray) -> str:
    low, high = values.min(), values.max()
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def verdicts_json(verdicts: Sequence[Verdict]) -> str:
    """Claims with their answers and the numbers of every setting."""
    rows = [
        {
            "name": verdict.name,
            "says": verdict.says,
            "quantity": verdict.quantity,
            "rule": verdict.rule,
            "answer": verdict.answer,
            "settings": [
                {
                    "fields": dict(s.fields),
                    "value": s.value,
                    "low": s.low,
                    "high": s.high,
                    "seeds": s.num_seeds,
                    "answer": s.answer,
                    "note": s.note,
                }
                for s in verdict.settings
            ],
        }
        for verdict in verdicts
    ]
    return json.dumps(rows, indent=2) + "\n"
