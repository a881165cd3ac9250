"""The Vega-Lite charts of the boards: valid, drawn by Vega itself, and saying what the figures say."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import vl_convert

from dashboards.boards.charts import BoardChart, loss_chart, status_chart, threshold_chart
from dashboards.plots.cells import cell_views
from dashboards.plots.charts_of_cells import loss_charts
from dashboards.plots.charts_of_thresholds import threshold_charts
from sweeps.findings.run_findings import Findings, read_findings
from sweeps.store.run_directory import RunDirectory

MakeRun = Callable[..., RunDirectory]


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    """Runs as W&B's query gives them; one is still training and one diverged."""
    ended = [
        {"name": f"run {m}", "m": m, "cell": f"{kind} T=8", "relative_loss": 2.0 / m, "status": "finished"}
        for kind in ("transformer", "fcn")
        for m in (4, 8, 16)
    ]
    return [
        *ended,
        {"name": "diverged", "m": 4, "cell": "fcn T=8", "relative_loss": None, "status": "diverged"},
        {"name": "training", "m": 4, "cell": "fcn T=8", "relative_loss": None, "status": None},
    ]


def drawn(chart: BoardChart, rows: list[dict[str, Any]]) -> str:
    """The chart as Vega draws it."""
    svg: str = vl_convert.vegalite_to_svg(chart.filled(rows))
    return svg


def values(spec: object) -> Iterator[dict[str, Any]]:
    if isinstance(spec, dict):
        if isinstance(spec.get("values"), list) and spec["values"] and isinstance(spec["values"][0], dict):
            yield from spec["values"]
        for value in spec.values():
            yield from values(value)
    elif isinstance(spec, list):
        for value in spec:
            yield from values(value)


def test_the_threshold_chart_has_every_threshold_with_its_interval_and_both_laws(findings: Findings) -> None:
    panels = threshold_charts(findings.regimes)
    chart = threshold_chart(panels, level=0.9)
    marks = [row for row in values(chart.spec) if "low" in row and "y" in row]
    for threshold in findings.thresholds:
        assert any((row["y"], row["low"], row["high"]) == (threshold.m_star, threshold.low, threshold.high) for row in marks)
    text = drawn(chart, [])
    for words in ("Transformer", "Fully connected net", "q ln T", "(T d)^", "exact floor", "width threshold m*"):
        assert words in text


def test_a_censored_threshold_is_an_arrow_and_no_point(make_run: MakeRun, attention: dict[str, Any]) -> None:
    low = {"trials": [attention | {"zip": {"task.T": [16, 32], "model.positions.d_e": [[4, 6], [4, 6]]}}]}
    panels = threshold_charts(read_findings(make_run(**low).path).regimes)
    chart = threshold_chart(panels, level=0.9)
    text = json.dumps(chart.spec)
    assert "triangle-up" in text
    assert not [row for row in values(chart.spec) if row.get("low") is not None]
    assert "<svg" in drawn(chart, [])


def test_the_loss_chart_draws_a_panel_a_cell_with_every_trial_and_the_target(findings: Findings) -> None:
    views = cell_views(findings.thresholds, {})
    chart = loss_chart(loss_charts(views))
    dots = [row for panel in chart.spec["concat"] for row in values(panel) if "x" in row and "y" in row]
    medians = sum(len(view.median_widths) for view in views)
    assert len(dots) == len(findings.records) + medians
    text = drawn(chart, [])
    for view in views:
        assert view.name in text
    assert text.count("stroke-dasharray") >= len(views)


def test_the_status_chart_counts_what_ended_and_what_trains(rows: list[dict[str, Any]]) -> None:
    text = drawn(status_chart(), rows)
    for words in ("finished", "diverged", "training"):
        assert words in text


def test_the_status_chart_of_a_search_counts_its_trials_alone(rows: list[dict[str, Any]]) -> None:
    trials = [row | {"trial_id": str(place)} for place, row in enumerate(rows)]
    searches = [row | {"status": "found", "cell": "the run of a search"} for row in rows[:1]]
    text = drawn(status_chart(with_searches=True), [*trials, *searches])
    assert "finished" in text
    assert "the run of a search" not in text
    assert "the run of a search" in drawn(status_chart(), [*trials, *searches])


def test_every_placeholder_is_a_column_that_is_asked_for(rows: list[dict[str, Any]]) -> None:
    chart = status_chart()
    assert "${" in json.dumps(chart.spec)
    assert "${" not in json.dumps(chart.filled(rows))


def test_a_chart_of_other_numbers_has_another_name(findings: Findings) -> None:
    panels = threshold_charts(findings.regimes)
    assert threshold_chart(panels, level=0.9).name == threshold_chart(panels, level=0.9).name
    assert threshold_chart(panels, level=0.9).name != threshold_chart(panels[:1], level=0.9).name
    assert status_chart().name == status_chart().name
