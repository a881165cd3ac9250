"""Tables of laws hold the fits' own numbers: rows, CSV and LaTeX."""

import csv
import io
import math
from collections.abc import Callable
from typing import Any

from dashboards.paper.law_tables import COLUMNS, conclusion_rows, family_rows, held_out_rows, law_rows, laws_csv, laws_latex
from sweeps.findings.run_findings import Findings, read_findings
from sweeps.store.run_directory import RunDirectory


def test_rows_hold_every_number_of_every_law(findings: Findings) -> None:
    rows = law_rows(findings.comparisons, findings.thresholds)
    expected = [
        (comparison.kind, law.name, letter, estimate.value)
        for comparison in findings.comparisons
        for law in comparison.laws
        for letter, estimate in law.parameters.items()
    ]
    assert [(row["architecture"], row["law"], row["parameter"], row["value"]) for row in rows] == expected
    for row in rows:
        assert row["delta_aicc"] is None or row["delta_aicc"] >= 0
        assert all(not isinstance(value, float) or math.isfinite(value) for value in row.values())


def test_verdicts_name_the_best_law_of_each_architecture(findings: Findings) -> None:
    rows = conclusion_rows(findings.comparisons, findings.thresholds)
    assert [row["verdict"] for row in rows] == [comparison.conclusion for comparison in findings.comparisons]
    assert [row["best"] for row in rows] == [c.best.name if c.best else None for c in findings.comparisons]
    assert [row["named"] for row in rows] == ["attention", "td_power"]
    assert [(row["reason"], row["fit_p"], row["misfit"]) for row in rows] == [
        (c.reason, c.named.test.p, c.named.test.words) for c in findings.comparisons if c.named and c.named.test
    ]
    (slope,) = rows[0]["residual_slopes"]
    assert slope["letter"] == "T"
    assert slope["low"] < slope["value"] < slope["high"]
    named = [row["law"] for row in law_rows(findings.comparisons, findings.thresholds) if row["named"]]
    assert set(named) == {"attention", "td_power"}
    assert held_out_rows(findings.comparisons, findings.thresholds) == []


def test_families_that_share_a_number_have_a_row(make_run: Callable[..., RunDirectory], attention: dict[str, Any]) -> None:
    trials = [{**attention, "grid": {"model.positions.query": ["sum", "dual"]}}]
    comparisons = read_findings(make_run(trials=trials).path).comparisons
    (row,) = family_rows(comparisons)
    assert (row["architecture"], row["number"], row["num_families"], row["num_cells"]) == ("transformer", "b", 2, 8)
    assert [(model["differs_by"], model["standing"]) for model in row["models"]] == [
        ((), "best"),
        (("model.positions.query",), "richer than needed"),
    ]
    (ratio,) = row["ratios"]
    assert (ratio["field"], ratio["at"], ratio["over"]) == ("model.positions.query", "sum", "dual")
    assert ratio["low"] < ratio["value"] < ratio["high"]
    assert family_rows(comparisons[:1]) == []


def test_csv_reads_back_in_full_precision(findings: Findings) -> None:
    rows = list(csv.DictReader(io.StringIO(laws_csv(findings.comparisons, findings.thresholds))))
    assert tuple(rows[0]) == COLUMNS
    assert [float(row["value"]) for row in rows] == [
        row["value"] for row in law_rows(findings.comparisons, findings.thresholds)
    ]


def test_latex_has_a_row_a_law_under_each_architecture(findings: Findings) -> None:
    lines = laws_latex(findings.comparisons, findings.thresholds).splitlines()
    rows = [line for line in lines if line.startswith("$")]
    assert len(rows) == sum(len(comparison.laws) for comparison in findings.comparisons)
    assert {line.count("&") for line in rows} == {5}
    named = [line for line in rows if line.endswith(r", named \\")]
    tests = [comparison.named.test for comparison in findings.comparisons if comparison.named]
    assert [rf" & {test.p_words}" in line for test, line in zip(tests, named, strict=True) if test] == [True, True]
    assert any(" & p $<$ 0.001, residuals " in line for line in rows)
    assert " < " not in "".join(rows)
    assert [line for line in lines if "multicolumn" in line] == [
        r"\multicolumn{6}{l}{transformer} \\", r"\multicolumn{6}{l}{FCN} \\",
    ]  # fmt: skip
    law = findings.comparisons[0].law("attention")
    assert law is not None
    assert rf"$b = {law.parameters['b'].value:.2f}\;[" in "\n".join(rows)
    assert (lines[0], lines[1], lines[-1]) == (r"% needs \usepackage{booktabs}", r"\begin{tabular}{llrrll}", r"\end{tabular}")


def test_no_law_no_row() -> None:
    assert law_rows([], []) == []
    assert laws_csv([], []) == ",".join(COLUMNS) + "\n"
