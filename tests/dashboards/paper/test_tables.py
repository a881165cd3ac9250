"""Tables hold the thresholds' own numbers, spelled for each reader."""

import csv
import json
from collections.abc import Callable
from typing import Any

import pytest

from dashboards.paper.tables import (
    failures_table,
    latex_escaped,
    threshold_rows,
    thresholds_csv,
    thresholds_json,
    thresholds_latex,
    trials_csv,
)
from stsq_core import TrialConfig, TrialResult
from stsq_core.oracles import theory
from sweeps.findings.run_findings import Findings, read_findings
from sweeps.store.ledger import Ledger
from sweeps.store.run_directory import RunDirectory

MakeRun = Callable[..., RunDirectory]


def test_rows_hold_the_exact_floor_and_the_laws_value(findings: Findings) -> None:
    rows = threshold_rows(findings.thresholds, findings.laws)
    assert len(rows) == len(findings.thresholds) > 0
    for row in rows:
        assert row["law"] == pytest.approx(row["m_star"] / (1 + row["relative_residual"]))
        expected = theory.fcn_width_bound(0.1, T=row["T"], d=row["d"], q=row["q"]) if row["architecture"] == "fcn" else None
        assert row["bound"] == expected


def test_json_reads_back_to_the_same_numbers(findings: Findings) -> None:
    printed = json.loads(thresholds_json(findings.thresholds, findings.comparisons))
    assert [row["m_star"] for row in printed["thresholds"]] == [t.m_star for t in findings.thresholds]
    assert {row["parameter"] for row in printed["laws"]} == {"b", "c", "gamma", "s"}
    (b,) = [row for row in printed["laws"] if (row["architecture"], row["law"]) == ("transformer", "attention")]
    assert (b["value"], b["formula"]) == (findings.laws[0].parameters["b"].value, "m = d + b q ln T")


def test_json_of_few_cells_has_null_for_what_is_not_known(make_run: MakeRun, attention: dict[str, object]) -> None:
    one = {**attention, "zip": {"task.T": [16], "model.positions.d_e": [{"geom": [8, 40], "num": 6}]}, "seeds": 1}
    findings = read_findings(make_run(trials=[one]).path)
    printed = json.loads(thresholds_json(findings.thresholds, findings.comparisons))
    assert (printed["thresholds"][0]["low"], printed["laws"][0]["low"]) == (None, None)


def test_latex_has_a_row_a_cell_and_the_laws(findings: Findings) -> None:
    text = thresholds_latex(findings.thresholds, findings.comparisons)
    lines = text.splitlines()
    rows = [line for line in lines if line.startswith(("transformer", "FCN"))]
    assert len(rows) == 8
    assert all(line.count("&") == 7 and line.endswith(r"\\") for line in rows)
    assert sum("multicolumn" in line for line in lines) == 2
    assert f"{findings.thresholds[0].m_star:.2f}" in rows[0]
    assert r"90\% interval" in text


@pytest.fixture
def two_queries(make_run: MakeRun, attention: dict[str, Any]) -> Findings:
    """A sweep whose cells differ in the query beside T."""
    return read_findings(make_run(trials=[{**attention, "grid": {"model.positions.query": ["sum", "dual"]}}]).path)


def test_latex_tells_cells_and_laws_apart(two_queries: Findings) -> None:
    lines = thresholds_latex(two_queries.thresholds, two_queries.comparisons).splitlines()
    rows = [line for line in lines if line.startswith("transformer &")]
    assert lines[:2] == [r"% needs \usepackage{booktabs}", r"\begin{tabular}{lrrrlrrrl}"]
    assert r"& $d$ & query & $m^*$" in lines[3]
    assert len(rows) == 8
    assert {line.count("&") for line in (lines[3], *rows)} == {8}
    assert sum("& sum &" in row for row in rows) == sum("& dual &" in row for row in rows) == 4
    laws = [line for line in lines if line.startswith(r"\multicolumn{9}")]
    assert sorted(law[len(r"\multicolumn{9}{l}{") :].partition(":")[0] for law in laws) == [
        "transformer query=dual",
        "transformer query=sum",
    ]


def test_json_and_csv_name_the_axis_in_full(two_queries: Findings) -> None:
    printed = json.loads(thresholds_json(two_queries.thresholds, two_queries.comparisons))
    assert {row["model.positions.query"] for row in printed["thresholds"]} == {"sum", "dual"}
    assert {row["settings"]["model.positions.query"] for row in printed["laws"]} == {"dual", "sum"}
    head, *rows = csv.reader(thresholds_csv(two_queries.thresholds, two_queries.laws).splitlines())
    assert {row[head.index("model.positions.query")] for row in rows} == {"sum", "dual"}
    assert {len(row) for row in rows} == {len(head)}


def test_the_trials_name_the_axes_of_their_cells(two_queries: Findings) -> None:
    head, *rows = csv.reader(trials_csv(two_queries.records).splitlines())
    assert head[:8] == ["trial_id", "cell_id", "architecture", "T", "q", "d", "model.positions.query", "width"]
    assert {row[1]: row[6] for row in rows} == {
        one.cell_id: one.config_sample.model.positions.query for one in two_queries.thresholds
    }
    assert {len(row) for row in rows} == {len(head)}


def test_latex_keeps_censored_values_inequalities(make_run: MakeRun, attention: dict[str, object]) -> None:
    narrow = {**attention, "zip": {"task.T": [16, 32], "model.positions.d_e": [[10, 14], [60, 80]]}}
    findings = read_findings(make_run(trials=[narrow]).path)
    text = thresholds_latex(findings.thresholds)
    assert "$>18$" in text
    assert r"$\le 64$" in text


def test_latex_of_nothing_is_an_empty_table() -> None:
    assert thresholds_latex([]).count(r"\\") == 1


def test_latex_spells_out_its_own_characters() -> None:
    assert latex_escaped("5% & _x_ \\") == r"5\% \& \_x\_ \textbackslash{}"


def test_failures_are_counted_by_cell_way_and_reason(
    make_run: MakeRun, diverged: Callable[[TrialConfig], TrialResult], fully_connected: dict[str, object]
) -> None:
    def outcome(config: TrialConfig) -> TrialResult | str:
        return "out of memory" if config.width > 16 else diverged(config)

    records = Ledger(make_run(trials=[fully_connected], outcome=outcome).ledger).read()
    rows = failures_table(records)
    assert sum(row["num_trials"] for row in rows) == len(records)
    assert [row["status"] for row in rows] == sorted((row["status"] for row in rows), reverse=True)
    assert {row["reason"] for row in rows if row["status"] == "failed"} == {"out of memory"}
    assert {row["reason"] for row in rows if row["status"] == "diverged"} == {"loss not finite, first seen at step 50"}


def test_failures_of_cells_that_differ_in_steps_alone_are_told_apart(
    make_run: MakeRun, fully_connected: dict[str, Any]
) -> None:
    trials = [{**fully_connected, "grid": {"training.steps": [1000, 2000]}}]
    records = Ledger(make_run(trials=trials, outcome=lambda _config: "worker lost").ledger).read()
    cells = [row["cell"] for row in failures_table(records)]
    assert len(set(cells)) == len(cells) == 8


def test_a_held_out_and_a_censored_cell_have_the_laws_value_beside_them(make_run: MakeRun, attention: dict[str, Any]) -> None:
    zipped = attention["zip"]
    narrow = {
        "task.T": [*zipped["task.T"], 256],
        "model.positions.d_e": [*zipped["model.positions.d_e"], [20, 28]],
    }
    findings = read_findings(make_run(trials=[{**attention, "zip": narrow}], laws={"held_out": {"task.T": 128}}).path)
    rows = {row["T"]: row for row in threshold_rows(findings.thresholds, findings.laws)}
    law = findings.laws[0]
    assert {point.task.T for point in law.points} == {16, 32, 64}
    assert law.num_censored == 1
    for T in (128, 256):
        assert rows[T]["law"] == law.predict(T=T, q=3, d=4)
    assert rows[128]["relative_residual"] == rows[128]["m_star"] / rows[128]["law"] - 1
    assert rows[256]["relative_residual"] is None
