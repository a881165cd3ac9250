"""Laws in words: every law has a formula for text, TeX and HTML, and says no more than its cells can tell."""

import math
from dataclasses import replace

import pytest
from matplotlib.mathtext import MathTextParser

from dashboards.words.law_words import (
    GAMMA,
    agreement_words,
    fitted_formula,
    interval_words,
    laws_html,
    left_html,
    measured_words,
    plain_formula,
    standing_words,
)
from sweeps.findings.run_findings import Findings
from sweeps.laws.comparison import LawComparison, Prediction
from sweeps.laws.fit import Estimate
from sweeps.laws.formulas import LAWS
from sweeps.laws.scaling_law import ScalingLaw


@pytest.fixture
def comparison(findings: Findings) -> LawComparison:
    return findings.comparisons[0]


def test_every_law_has_a_formula_that_tex_can_set(comparison: LawComparison) -> None:
    parser: MathTextParser[object] = MathTextParser("agg")
    for law in LAWS:
        shown = named(comparison, law.name)
        for formula in (plain_formula(shown), fitted_formula(shown)):
            parser.parse(formula.tex)
            assert "{" not in formula.text + formula.html
        assert f"m = {plain_formula(shown).text}" == law.formula


def named(comparison: LawComparison, name: str) -> ScalingLaw:
    """Another law fitted to the same widths, however it fits."""
    one, law = comparison.laws[0], next(law for law in LAWS if law.name == name)
    tasks = one.fit.cells.tasks
    return replace(one, fit=replace(one.fit, law=law, theta=law.start(one.line(tasks), tasks)))


def test_a_constant_that_is_taken_away_is_told_so(findings: Findings) -> None:
    law = findings.comparisons[1].law("attention_offset")
    assert law is not None
    assert law.numbers["const"] < 0
    assert " - " in fitted_formula(law).text
    assert "+ -" not in "".join(fitted_formula(law))


def test_intervals_are_told_only_where_there_are_any() -> None:
    assert interval_words(Estimate(2.5, 2.4, 2.61)) == "2.50 (2.40 to 2.61)"
    assert interval_words(Estimate(0.0123, math.nan, math.nan)) == "0.0123 (no interval)"


def test_the_best_of_undecided_laws_is_not_called_the_best(findings: Findings) -> None:
    assert findings.comparisons
    for comparison in findings.comparisons:
        words = [standing_words(comparison, law) for law in comparison.laws]
        assert ("best" in words) == (comparison.best is not None and not comparison.rivals())


def test_formulas_and_letters_of_notes_are_set_also_of_laws_that_no_table_has(comparison: LawComparison) -> None:
    """All that a formula may hold: none is left half as text."""
    note = "on these cells m = c T^gamma and m = d + c q T^gamma are the same function as m = c (T d)^gamma; d is the same"
    words = f"{note} in all cells: gamma is the power of T alone; a = 1.2, a factor of query=sum and d_e"
    formulas = (
        f"<i>m</i> = <i>c</i> <i>T</i><sup><i>{GAMMA}</i></sup>",
        f"<i>m</i> = <i>d</i> + <i>c</i> <i>q T</i><sup><i>{GAMMA}</i></sup>",
        f"<i>m</i> = <i>c</i> (<i>Td</i>)<sup><i>{GAMMA}</i></sup>",
    )
    one, two, three = (f'<span class="formula">{formula}</span>' for formula in formulas)
    whole = f"on these cells {one} and {two} are the same function as {three}; <i>d</i> is the same in all cells: "
    whole += f"<i>{GAMMA}</i> is the power of <i>T</i> alone; <i>a</i> = 1.2, a factor of query=sum and d_e"
    assert laws_html(words) == laws_html(words, comparison.laws[0]) == whole


def test_every_formula_is_set_as_in_the_table(findings: Findings) -> None:
    for comparison in findings.comparisons:
        for law in comparison.laws:
            whole = f'<span class="formula">{left_html(law)}{plain_formula(law).html}</span>'
            assert laws_html(f"{law.formula} is best.", law) == f"{whole} is best."
            assert laws_html(f"{law.formula}: {law.note}", law).count("gamma") == 0


def test_a_verdict_keeps_its_words_and_sets_its_formulas(comparison: LawComparison) -> None:
    html = laws_html(comparison.conclusion, comparison.laws[0])
    assert comparison.conclusion.split(":")[0].split(" m = ")[0] in html
    assert '<span class="formula"><i>m</i> = ' in html


def test_measurements_of_held_out_cells_stay_inequalities(findings: Findings) -> None:
    task = findings.thresholds[0].config_sample.task
    found = Prediction("c", "cell", task, Estimate(40, 38, 43), 41.0, 40.0, 42.0)
    assert (measured_words(found), agreement_words(found)) == ("41.0 (40.0 to 42.0)", "intervals overlap")
    above = replace(found, m_star=None, low=64.0, high=math.inf)
    assert (measured_words(above), agreement_words(above)) == ("above 64", "intervals apart")
    below = replace(found, m_star=None, low=0.0, high=8.0)
    assert measured_words(below) == "at or below 8"
    open_end = replace(found, high=math.inf)
    assert measured_words(open_end) == "41.0 (40.0 to above the widths)"
    assert agreement_words(replace(found, low=math.nan, high=math.nan)) == "no interval"
