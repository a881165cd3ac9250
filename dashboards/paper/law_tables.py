"""Tables of laws as plain rows, and as CSV and LaTeX: every law of every family of cells, verdicts, and held-out cells."""

import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import Any

from dashboards.words import axes_of, family_names, fit_words, place_words, plain_formula, standing_words
from sweeps.laws import Decision, Estimate, LawComparison, Prediction, ScalingLaw, compare_families
from sweeps.thresholds import WidthThreshold

Row = dict[str, Any]

COLUMNS = (
    "architecture", "family", "settings", "law", "formula", "parameter", "value", "low", "high", "level", "aicc", "delta_aicc",
    "standing", "named", "fit_p", "misfit", "loo_error", "largest_residual", "scatter", "num_cells", "num_censored", "note",
)  # fmt: skip


def named_laws(comparisons: Iterable[LawComparison]) -> tuple[ScalingLaw, ...]:
    """The law that is named of each family of cells."""
    return tuple(comparison.named for comparison in comparisons if comparison.named is not None)


def law_rows(comparisons: Sequence[LawComparison], thresholds: Sequence[WidthThreshold]) -> list[Row]:
    """A row a fitted number, best laws first; `settings` is what sets a family apart in this sweep."""
    axes = axes_of(thresholds)
    return [
        {
            "architecture": comparison.kind,
            "family": comparison.regime,
            "settings": axes.values(law.fit.cells.thresholds[0]),
            "law": law.name,
            "formula": law.formula,
            "parameter": letter,
            **_estimate(estimate),
            "level": law.level,
            "aicc": _finite(law.aicc),
            "delta_aicc": _finite(comparison.delta(law)),
            "standing": standing_words(comparison, law),
            "named": law is comparison.named,
            "fit_p": law.test.p if law.test else None,
            "misfit": law.test.words if law.test else None,
            "loo_error": _finite(law.loo_error),
            "largest_residual": law.largest_residual,
            "scatter": law.scatter,
            "num_cells": law.num_cells,
            "num_censored": law.num_censored,
            "note": law.note,
        }
        for comparison in comparisons
        for law in comparison.laws
        for letter, estimate in law.parameters.items()
    ]


def conclusion_rows(comparisons: Sequence[LawComparison], thresholds: Sequence[WidthThreshold]) -> list[Row]:
    """A row a family of cells: which law its thresholds follow, in words; the law that is named, why, and how it fits."""
    axes = axes_of(thresholds)
    return [
        {
            "architecture": comparison.kind,
            "family": comparison.regime,
            "settings": axes.values(comparison.laws[0].fit.cells.thresholds[0]),
            "best": comparison.best.name if comparison.best else None,
            "as_good": [law.name for law in comparison.rivals()],
            "verdict": comparison.conclusion,
            "named": comparison.named.name if comparison.named else None,
            "reason": comparison.reason,
            **_fit_test(comparison.named),
        }
        for comparison in comparisons
    ]


def family_rows(comparisons: Sequence[LawComparison]) -> list[Row]:
    """A row an architecture of several families: whether they share the number of a law, all models, and the ratios."""
    return [
        {
            "architecture": own.kind,
            **({} if own.target is None else {"target_loss": own.target}),
            "formula": own.formula,
            "number": own.letter,
            "num_families": own.num_families,
            "num_cells": own.num_cells,
            "verdict": own.conclusion,
            "models": [
                {
                    "differs_by": model.fields,
                    "num_numbers": model.num_numbers,
                    "delta_aicc": _finite(own.delta(model)),
                    "standing": own.standing(model),
                }
                for model in own.models
            ],
            "ratios": [
                {"field": one.field, "at": one.value, "over": one.reference, "num_pairs": one.num_pairs, **_estimate(one.ratio)}
                for one in own.ratios
            ],
        }
        for own in compare_families(comparisons)
    ]


def decision_rows(decisions: Iterable[Decision]) -> list[Row]:
    """A row a family in whose search laws decide: probabilities, odds, why it ended, and the points of each cell asked."""
    return [
        {
            "settings": decision.summary,
            "probabilities": decision.probabilities,
            "leader": None if decision.leader is None else decision.leader.name,
            "odds": decision.odds,
            "ended": decision.reason or None,
            "num_points": decision.total,
            "max_points": decision.settings.points,
            "points": decision.asked,
        }
        for decision in decisions
    ]


def held_out_rows(comparisons: Sequence[LawComparison], thresholds: Sequence[WidthThreshold]) -> list[Row]:
    """A row a held-out cell and law: predicted with its interval, measured with its own, error and agreement."""
    axes = axes_of(thresholds)
    measured = {threshold.label: threshold for threshold in thresholds}
    return [
        {
            "architecture": comparison.kind,
            "settings": axes.values(measured[prediction.label]),
            "cell_id": prediction.cell_id,
            "label": prediction.label,
            **{letter: getattr(prediction.task, letter) for letter in ("T", "q", "d")},
            "law": law.name,
            "formula": law.formula,
            **{f"predicted_{end}": number for end, number in _estimate(prediction.predicted).items()},
            **_measured(prediction),
            "error": prediction.error,
            "agrees": prediction.agrees,
        }
        for comparison in comparisons
        for law in comparison.laws
        for prediction in comparison.predictions(law)
    ]


def laws_csv(comparisons: Sequence[LawComparison], thresholds: Sequence[WidthThreshold]) -> str:
    """Every fitted number of every law as CSV."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in law_rows(comparisons, thresholds):
        settings = " ".join(f"{name}={value}" for name, value in row["settings"].items() if value is not None)
        writer.writerow(row | {"settings": settings})
    return text.getvalue()


def laws_latex(comparisons: Sequence[LawComparison], thresholds: Sequence[WidthThreshold]) -> str:
    r"""All laws of all families as a LaTeX table that needs `\usepackage{booktabs}`."""
    names = _family_heads(comparisons, thresholds)
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{tabular}{llrrll}",
        r"\toprule",
        r"law & numbers & $\Delta$AICc & leave-one-out error & test of fit & \\",
    ]
    for comparison, name in zip(comparisons, names, strict=True):
        lines += [r"\midrule", rf"\multicolumn{{6}}{{l}}{{{name}}} \\"]
        lines += [_latex_row(comparison, law) for law in comparison.laws]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def latex_numbers(law: ScalingLaw) -> str:
    """A law's numbers with their intervals, for LaTeX."""
    numbers = []
    for letter, estimate in law.parameters.items():
        spelled = r"\gamma" if letter == "gamma" else letter
        ends = rf"\;[{estimate.low:.2f}, {estimate.high:.2f}]" if estimate.has_interval else ""
        numbers.append(rf"${spelled} = {estimate.value:.2f}{ends}$")
    return ", ".join(numbers)


def _latex_row(comparison: LawComparison, law: ScalingLaw) -> str:
    delta = comparison.delta(law)
    difference = "--" if math.isnan(delta) else f"{delta:.1f}"
    error = "--" if math.isnan(law.loo_error) else rf"{law.loo_error * 100:.1f}\%"
    formula = plain_formula(law).tex
    fit = fit_words(law).replace("<", "$<$")
    return rf"{formula} & {latex_numbers(law)} & {difference} & {error} & {fit} & {place_words(comparison, law)} \\"


def _family_heads(comparisons: Sequence[LawComparison], thresholds: Sequence[WidthThreshold]) -> list[str]:
    names = family_names([comparison.laws[0] for comparison in comparisons], thresholds)
    plain = [name or comparison.kind for name, comparison in zip(names, comparisons, strict=True)]
    return [name.replace("fcn", "FCN", 1).replace("_", r"\_") for name in plain]


def _estimate(estimate: Estimate) -> Row:
    return {"value": estimate.value, "low": _finite(estimate.low), "high": _finite(estimate.high)}


def _fit_test(law: ScalingLaw | None) -> Row:
    """The test of the named law's fit, with the slopes of its residuals in the logarithms of the letters."""
    test = law.test if law else None
    slopes = [{"letter": own.letter, **_estimate(own.slope)} for own in (test.residual_slopes if test else ())]
    return {"fit_p": test.p if test else None, "misfit": test.words if test else None, "residual_slopes": slopes}


def _measured(prediction: Prediction) -> Row:
    return {
        "m_star": prediction.m_star,
        "low": _finite(prediction.low) if prediction.low else None,
        "high": _finite(prediction.high),
        "low_censored": prediction.low == 0,
        "high_censored": prediction.high == math.inf,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
