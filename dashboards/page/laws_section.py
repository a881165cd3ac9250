"""The page's section of laws: the law that the thresholds of each architecture follow, its rivals, and predictions."""

import math
from collections.abc import Sequence

from dashboards.page.interactive import plotly_spec
from dashboards.page.sections import PageSection, downloads, figure_element, lead_paragraph, page_section, status_tag
from dashboards.plots import Chart
from dashboards.words import (
    Html,
    agreement_words,
    architecture_name,
    axes_of,
    element,
    family_title,
    fit_words,
    fitted_formula,
    joined,
    laws_html,
    left_html,
    measured_words,
    numbers_words,
    place_words,
    prose,
    regime_words,
    standing_words,
    table,
    width_words,
)
from sweeps.findings import Findings, Regime
from sweeps.laws import Decision, FamilyComparison, LawComparison, ScalingLaw, compare_families

TAGS = {"best": "found", "as good": "found", "less likely": "above_range", "ruled out": "failed"}
BEATEN = ("less likely", "ruled out")
TABLES, FIGURES = ("laws.csv", "laws.tex"), ("laws.pdf", "laws.svg")


def laws_section(
    findings: Findings, residuals: Sequence[Chart], exponents: Chart | None, names: Sequence[str]
) -> PageSection | None:
    """All laws of every regime with their verdicts, the held-out cells, residuals and exponents."""
    compared = [(regime, regime.comparison) for regime in findings.regimes if regime.comparison is not None]
    if not compared and not findings.decisions:
        return None
    level = f"{findings.spec.criterion.level:.0%}"
    return page_section(
        "laws",
        "Scaling laws",
        lead_paragraph(
            "All laws are fitted to the same cells of an architecture, in the logarithm of the"
            f" {findings.spec.criterion.size.noun}. A cell counts by its own interval, a censored one as a bound. Intervals"
            f" ({level}) are over seeds and cells. A lower AICc is better. The test of fit says how"
            " probable residuals as large as a law's, or such a trend of them, are by the thresholds' own errors. The"
            " leave-one-out error is that of predicting each cell from the others."
        ),
        *(_decision(decision) for decision in findings.decisions),
        *(_regime(findings, regime, comparison) for regime, comparison in compared),
        *(_families(own) for own in compare_families(findings.comparisons)),
        *_figures(residuals, exponents),
        downloads([*TABLES, *(name for name in names if name in FIGURES)]),
    )


def _regime(findings: Findings, regime: Regime, comparison: LawComparison) -> Html:
    """One regime: its verdict, its laws, and its held-out cells."""
    axes = axes_of(findings.thresholds)
    name = family_title(regime, axes)
    rows = [_law_row(comparison, law) for law in comparison.laws]
    columns = {
        "law": "Fitted law",
        "standing": "",
        "numbers": "Numbers",
        "delta": "#AICc",
        "fit": "Test of fit",
        "loo": "#Leave-one-out error",
        "residual": "#Largest residual",
        "scatter": "#Scatter",
    }
    notes = laws_html("; ".join(comparison.notes), comparison.laws[0])
    return element(
        "div",
        element("h3", element("span", name, class_=regime.kind)),
        element("p", prose(regime_words(regime)), class_="setting"),
        element("p", laws_html(comparison.conclusion, comparison.laws[0]), class_="conclusion"),
        element("p", laws_html(comparison.naming, comparison.laws[0])) if comparison.naming else None,
        table(columns, rows),
        element("p", notes, ".", class_="fine") if notes else None,
        _held_out(comparison),
        class_="law",
    )


def _decision(decision: Decision) -> Html:
    """Between which laws the search decides, which of them leads, and where it asked."""
    shares = decision.probabilities
    rows = [{"law": laws_html(law.formula), "share": f"{shares[law.name]:.2%}" if shares else ""} for law in decision.laws]
    where = ", ".join(f"{num} at {letters}" for letters, num in decision.asked.items())
    return element(
        "div",
        element("h3", "Laws decide where to look"),
        element("p", laws_html(decision.words), class_="conclusion"),
        table({"law": "Rival law", "share": "#Probability"}, rows),
        element("p", f"Points: {where}.", class_="fine") if where else None,
        class_="law",
    )


def _families(own: FamilyComparison) -> Html:
    """Whether the families of an architecture share the number of a law: the models, and the ratios between families."""
    rows = [
        {
            "model": laws_html(own.words(model)),
            "standing": status_tag(TAGS.get(own.standing(model), ""), own.standing(model)),
            "num": model.num_numbers,
            "delta": _delta(own.delta(model)),
        }
        for model in own.models
    ]
    return element(
        "div",
        element("h3", element("span", f"{architecture_name(own.kind)}: {own.num_families} families at once", class_=own.kind)),
        element("p", laws_html(own.conclusion), class_="conclusion"),
        table({"model": "Model", "standing": "", "num": "#Numbers", "delta": "#AICc"}, rows) if rows else None,
        element("ul", *(element("li", laws_html(own.ratio_words(one))) for one in own.ratios)) if own.ratios else None,
        class_="law",
    )


def _delta(delta: float) -> str:
    return "–" if math.isnan(delta) else "least" if delta == 0 else f"+{delta:.1f}"  # noqa: RUF001


def _law_row(comparison: LawComparison, law: ScalingLaw) -> dict[str, object]:
    standing = standing_words(comparison, law)
    return {
        "law": element("span", joined(left_html(law), Html(fitted_formula(law).html)), class_="formula"),
        "numbers": [element("span", prose(words), class_="fitted") for words in numbers_words(law)],
        "delta": _delta(comparison.delta(law)),
        "fit": fit_words(law),
        "loo": _percent(law.loo_error),
        "residual": _percent(law.largest_residual),
        "scatter": _percent(law.scatter),
        "standing": status_tag(TAGS.get(standing, ""), place_words(comparison, law)),
    }


def _held_out(comparison: LawComparison) -> Html | None:
    """The cells that no fit has seen, each under the laws that are not beaten and under the one that is named."""
    laws = [law for law in comparison.laws if law is comparison.named or comparison.standing(law) not in BEATEN]
    rows = [
        {
            "cell": element("span", prose(f"`T` = {own.task.T}, `q` = {own.task.q}, `d` = {own.task.d}"), class_="fitted"),
            "law": element("span", Html(fitted_formula(law).html), class_="formula"),
            "predicted": width_words(own.predicted),
            "measured": measured_words(own),
            "error": "–" if own.error is None else f"{own.error:+.1%}",  # noqa: RUF001
            "agrees": status_tag({True: "found", False: "failed", None: ""}[own.agrees], agreement_words(own)),
        }
        for law in laws
        for own in comparison.predictions(law)
    ]
    if not rows:
        return None
    columns = {
        "cell": "Held-out cell",
        "law": "Law",
        "predicted": f"#Predicted `{comparison.laws[0].size.letter}`*",
        "measured": f"#Measured `{comparison.laws[0].size.letter}`*",
        "error": "#Error",
        "agrees": "",
    }
    words = (
        "Cells held out of the fits: predicted by each law with an interval for a new cell, and measured."
        " Intervals that overlap do not contradict the law:"
    )
    return element("div", element("p", words, class_="fine"), table(columns, rows))


def _figures(residuals: Sequence[Chart], exponents: Chart | None) -> list[Html]:
    drawn = [
        element(
            "div",
            element("h3", chart.title),
            figure_element(
                plotly_spec(chart, legend="above"), f"Residuals of the laws against {chart.x.label.text}: {chart.title}"
            ),
            class_="panel drawn",
        )
        for chart in residuals
    ]
    parts = []
    if drawn:
        caption = element(
            "figcaption",
            element("b", "Residuals of the laws."),
            prose(
                " Coloured: the named law, with the intervals of the measurements. Grey: the law that theory expects of the"
                " other architecture. A law that holds leaves no trend; residuals of one that is far off lie outside the panel."
                " Hollow marks were held out."
            ),
        )
        parts.append(element("figure", element("div", *drawn, class_="panels"), caption, class_="hero residuals"))
    if exponents:
        height = f"height:{70 + 46 * len(exponents.marks)}px"
        spec = plotly_spec(exponents, labels_inside=True)
        place = figure_element(spec, "Fitted exponents with their intervals", style=height)
        caption = element(
            "figcaption",
            element("b", "Fitted exponents."),
            prose(" An exponent of 1 is proportional growth; a logarithm looks like a small exponent that falls as `T` grows."),
        )
        parts.append(element("figure", place, caption, class_="hero exponents"))
    return parts


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.1%}"  # noqa: RUF001
