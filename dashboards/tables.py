"""Tables of a sweep as plain rows, and as CSV, JSON and LaTeX: width thresholds, fitted laws, failures.

Numbers keep full precision in JSON and CSV and are rounded for people elsewhere. Censored values stay inequalities everywhere.
"""

import csv
import io
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from dashboards.columns import Axes, axes_of, family_names, field_name, value_words
from dashboards.panels import interval_text
from stsq_core import theory
from stsq_core.trial import TrialConfig
from sweeps.laws import ScalingLaw
from sweeps.ledger import LedgerRecord
from sweeps.plan import cell_of, distinct_labels
from sweeps.thresholds import WidthThreshold

Row = dict[str, Any]

LATEX_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip
LATEX_NAMES = {"fcn": "FCN"}
LATEX_STATUS = {"found": "", "above_range": "above range", "below_range": "below range", "failed": "not found"}


def threshold_rows(thresholds: Iterable[WidthThreshold], laws: Sequence[ScalingLaw] = ()) -> list[Row]:
    """A row a cell: what was measured, the exact floor of fully connected nets, and the law's value where there is a law.

    Every axis in which cells of one architecture differ is a column too, by its dotted name (see `columns`).
    """
    thresholds = list(thresholds)
    predicted = {point.cell_id: point for law in laws for point in law.points}
    axes = axes_of(thresholds)
    return [
        _threshold_row(threshold) | axes.values(threshold.config_sample) | _law_columns(predicted.get(threshold.cell_id))
        for threshold in thresholds
    ]


def law_rows(laws: Sequence[ScalingLaw], thresholds: Sequence[WidthThreshold]) -> list[Row]:
    """A row a fitted number of the laws of these thresholds; `settings` is what sets a family apart in this sweep."""
    axes, samples = axes_of(thresholds), {threshold.cell_id: threshold.config_sample for threshold in thresholds}
    return [
        {
            "family": law.family,
            "settings": axes.values(samples[law.points[0].cell_id]),
            "formula": law.formula,
            "parameter": name,
            "value": estimate.value,
            "low": _finite(estimate.low),
            "high": _finite(estimate.high),
            "level": law.level,
            "largest_residual": law.largest_residual,
            "num_cells": law.num_cells,
            "num_censored": law.num_censored,
            "note": law.note,
        }
        for law in laws
        for name, estimate in law.parameters.items()
    ]


def thresholds_json(thresholds: Sequence[WidthThreshold], laws: Sequence[ScalingLaw] = ()) -> str:
    """Thresholds and laws as one JSON document; what is missing or not finite is null."""
    told = {"thresholds": threshold_rows(thresholds, laws), "laws": law_rows(laws, thresholds)}
    return json.dumps(told, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def thresholds_csv(thresholds: Sequence[WidthThreshold], laws: Sequence[ScalingLaw] = ()) -> str:
    """Thresholds as CSV, a line a cell."""
    place = _COLUMNS.index("d") + 1
    return _csv(threshold_rows(thresholds, laws), [*_COLUMNS[:place], *axes_of(thresholds).fields, *_COLUMNS[place:]])


def trials_csv(records: Iterable[LedgerRecord]) -> str:
    """Every trial of a ledger as CSV, with the cell it belongs to."""
    return _csv([_trial_row(record) for record in records], list(_TRIAL_COLUMNS))


def thresholds_latex(thresholds: Sequence[WidthThreshold], laws: Sequence[ScalingLaw] = ()) -> str:
    r"""Thresholds as a LaTeX table that needs `\usepackage{booktabs}`, with the fitted laws as its last rows."""
    level = f"{thresholds[0].level:.0%}".replace("%", r"\%") if thresholds else ""
    axes = axes_of(thresholds)
    heads = "".join(f" & {latex_escaped(field_name(field))}" for field in axes.fields)
    lines = [
        rf"\begin{{tabular}}{{lrrr{'l' * len(axes.fields)}rrrl}}",
        r"\toprule",
        rf"architecture & $T$ & $q$ & $d${heads} & $m^*$ & $M$ & seeds & {level} interval \\",
        r"\midrule",
        *(_latex_row(threshold, axes) for threshold in thresholds),
    ]
    if laws:
        width = 8 + len(axes.fields)
        told = [_latex_law(law, family) for law, family in zip(laws, family_names(laws, thresholds), strict=True)]
        lines += [r"\midrule", *(rf"\multicolumn{{{width}}}{{l}}{{{law}}} \\" for law in told)]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def failures_table(records: Iterable[LedgerRecord]) -> list[Row]:
    """Trials that gave no loss, counted by cell, way and reason; `trial_id` is one of them."""
    groups: dict[tuple[str, str, str], list[LedgerRecord]] = {}
    for record in records:
        if record.status != "finished":
            key = (cell_of(record.trial_config), record.status, record.reason or "")
            groups.setdefault(key, []).append(record)
    samples = {cell_id: members[0].trial_config for (cell_id, _, _), members in groups.items()}
    labels = dict(zip(samples, distinct_labels(tuple(samples.values())), strict=True))
    return [
        {
            "cell": labels[cell_id],
            "status": status,
            "reason": reason or _divergence_words(members),
            "num_trials": len(members),
            "widths": _span([member.trial_config.width for member in members]),
            "rates": _span([member.trial_config.optimizer.lr for member in members]),
            "trial_id": members[0].trial_id,
        }
        for (cell_id, status, reason), members in sorted(
            groups.items(), key=lambda item: (item[0][1] != "failed", -len(item[1]))
        )
    ]


_COLUMNS = (
    "cell_id", "architecture", "label", "T", "q", "d", "status", "m_star", "M", "low", "high", "low_censored", "high_censored",
    "level", "target_loss", "success_rate", "bound", "law", "relative_residual", "narrowest", "widest", "num_widths",
    "num_seeds", "num_trials", "num_diverged", "num_failed", "crosses_more_than_once", "note",
)  # fmt: skip


def _threshold_row(threshold: WidthThreshold) -> Row:
    task = threshold.config_sample.task
    row = {
        "architecture": threshold.kind,
        "T": task.T,
        "q": task.q,
        "d": task.d,
        "bound": _bound(threshold),
        "narrowest": min(threshold.widths),
        "widest": max(threshold.widths),
        "num_widths": len(threshold.widths),
    }
    return row | {
        name: getattr(threshold, name) for name in _COLUMNS if name not in row and name not in ("law", "relative_residual")
    }


def _law_columns(point: Any) -> Row:
    if point is None:
        return {"law": None, "relative_residual": None}
    return {"law": point.predicted, "relative_residual": point.relative_residual}


def _bound(threshold: WidthThreshold) -> float | None:
    if threshold.kind != "fcn":
        return None
    task = threshold.config_sample.task
    return theory.fcn_width_bound(threshold.target_loss, T=task.T, d=task.d, q=task.q)


_TRIAL_COLUMNS = (
    "trial_id", "cell_id", "architecture", "T", "q", "d", "width", "lr", "seed", "status", "relative_loss",
    "relative_loss_stderr", "steps", "seconds", "device", "finished_at", "reason",
)  # fmt: skip


def _trial_row(record: LedgerRecord) -> Row:
    config: TrialConfig = record.trial_config
    own = {"cell_id": cell_of(config), "architecture": config.model.kind, "width": config.width, "lr": config.optimizer.lr}
    own |= {"T": config.task.T, "q": config.task.q, "d": config.task.d, "seed": config.seed}
    return own | {name: getattr(record, name) for name in _TRIAL_COLUMNS if name not in own}


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
            m, whole = f"{threshold.m_star:.2f}", str(threshold.M)
        case "above_range":
            m = whole = f"$>{max(threshold.widths)}$"
        case "below_range":
            m = whole = rf"$\le {min(threshold.widths)}$"
        case _:
            m = whole = "--"
    own = "".join(f" & {latex_escaped(value_words(value))}" for value in axes.values(threshold.config_sample).values())
    name = LATEX_NAMES.get(threshold.kind, threshold.kind)
    interval = latex_escaped(interval_text(threshold)) if threshold.status == "found" else LATEX_STATUS[threshold.status]
    return rf"{name} & {task.T} & {task.q} & {task.d}{own} & {m} & {whole} & {threshold.num_seeds} & {interval} \\"


def _latex_law(law: ScalingLaw, family: str) -> str:
    kind, _, settings = family.partition(" ")
    opening = latex_escaped(f"{LATEX_NAMES.get(kind, kind)} {settings}".strip() + ": ") if family else ""
    told = []
    for name, estimate in law.parameters.items():
        letter = r"\gamma" if name == "gamma" else name
        ends = "" if _finite(estimate.low) is None else rf"\;[{estimate.low:.2f}, {estimate.high:.2f}]"
        told.append(rf"${letter} = {estimate.value:.2f}{ends}$")
    formula = {"attention": r"$m = d + b\,q \ln T$", "fcn": r"$m = c\,(T d)^\gamma$"}[law.name]
    return f"{opening}{formula}, {', '.join(told)}"


def latex_escaped(text: str) -> str:
    """Text with LaTeX's own characters spelled out."""
    return "".join(LATEX_SPECIAL.get(letter, letter) for letter in text)


def _divergence_words(members: Sequence[LedgerRecord]) -> str:
    return f"loss not finite, first seen at step {_span([member.steps for member in members])}"


def _span(values: Sequence[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
