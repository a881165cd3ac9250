"""Several targets from one ledger, as a reader sees them: series, tables and panels of each, and none taken for another."""

import csv
import io
import re
from collections.abc import Callable
from typing import Any

import pytest

from dashboards.page.report import write_report
from dashboards.paper.tables import threshold_rows, thresholds_csv
from dashboards.plots.charts_of_thresholds import threshold_charts
from dashboards.plots.phase_diagram import phase_diagrams
from dashboards.publishing.projection import trial_outcome
from dashboards.words.settings import family_names
from sweeps.findings.run_findings import read_findings
from sweeps.store.ledger import Ledger


@pytest.mark.slow
def test_each_target_is_a_series_with_its_law_and_has_its_rows_and_panels(
    make_run: Callable[..., Any], attention: dict[str, Any]
) -> None:
    run = make_run(trials=[attention], criterion={"target_loss": [0.3, 0.1]})
    findings = read_findings(run.path)
    assert len(findings.thresholds) == 8
    (chart,) = threshold_charts(findings.regimes)
    marks = [marks for marks in chart.marks if len(marks.x)]
    assert [marks.name.text.split(", ")[1] for marks in marks] == ["target_loss = 0.3", "target_loss = 0.1"]
    assert len({marks.shape for marks in marks}) == 2
    assert all(high > low for low, high in zip(marks[0].y, marks[1].y, strict=True))
    assert len([line for line in chart.lines if line.role == "law"]) == 2
    assert [panel.title for panel in phase_diagrams(findings.regimes)] == [
        f"Transformer, target_loss = {t}" for t in (0.3, 0.1)
    ]
    assert family_names(findings.laws, findings.thresholds) == tuple(f"transformer target_loss={t}" for t in (0.3, 0.1))
    rows = list(csv.DictReader(io.StringIO(thresholds_csv(findings.thresholds, findings.laws))))
    assert [(row["T"], row["target_loss"]) for row in rows] == [
        (T, t) for T in ("16", "32", "64", "128") for t in ("0.3", "0.1")
    ]
    assert all(row["law"] for row in rows)
    assert len({row["law"] for row in threshold_rows(findings.thresholds, findings.laws)}) == 8
    page = write_report(run.path).read_text(encoding="utf-8")
    panels = re.findall(r'<article id="cell-([^"]+)"', page)
    assert len(panels) == len(set(panels)) == 8
    linked = re.findall(r'href="#cell=([^"]+)"', page)
    assert set(linked) <= set(panels)
    assert "a relative loss of 0.3 or 0.1" in page
    assert "From <i>T</i> = 16 to 128 a transformer with target_loss = 0.3 needs" in re.sub(r"</?span[^>]*>", "", page)


def test_a_trial_is_solved_for_each_target(make_run: Callable[..., Any], attention: dict[str, Any]) -> None:
    findings = read_findings(make_run(trials=[attention], criterion={"target_loss": [0.3, 0.1]}).path)
    for record in Ledger(findings.run.ledger).read()[:20]:
        summary = trial_outcome(record, criterion=findings.spec.criterion, counts=None).summary
        assert record.relative_loss is not None
        solved = [record.relative_loss <= target for target in (0.3, 0.1)]
        assert [summary["solved@0.3"], summary["solved@0.1"]] == solved
        assert summary["solved"] is solved[1]
