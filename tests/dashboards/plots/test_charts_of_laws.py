"""The figures of the laws hold residuals and exponents as they were fitted, and stay readable when a law is far off."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dashboards.paper.figures import laws_figure, save_figure
from dashboards.plots.charts_of_laws import exponents_chart, residual_charts
from dashboards.words.law_words import plain_formula
from sweeps.findings.run_findings import Findings, read_findings
from sweeps.store.run_directory import RunDirectory

MakeRun = Callable[..., RunDirectory]


def test_residuals_are_those_of_the_law_and_of_its_rival(findings: Findings) -> None:
    charts = residual_charts(findings.regimes)
    assert [chart.title for chart in charts] == ["Transformer", "Fully connected net"]
    for chart, comparison in zip(charts, findings.comparisons, strict=True):
        names = ["attention", "td_power"] if comparison.kind == "transformer" else ["td_power", "attention"]
        for marks, name in zip(chart.marks, names, strict=True):
            law = comparison.law(name)
            assert law is not None
            assert marks.name == plain_formula(law)
            assert list(marks.y) == pytest.approx([p.relative_residual for p in law.points])
        own, rival = chart.marks
        assert own.low is not None
        assert own.high is not None
        assert all(low <= value <= high for low, value, high in zip(own.low, own.y, own.high, strict=True))
        assert rival.low is None


def test_a_rival_that_is_far_off_does_not_flatten_the_panel(findings: Findings) -> None:
    chart = residual_charts(findings.regimes)[1]
    own, rival = (max(map(abs, marks.y)) for marks in chart.marks)
    assert rival > 0.3
    assert chart.y.ends is not None
    assert own < chart.y.ends[1] < 0.3


def test_exponents_are_shown_with_0_and_1(findings: Findings) -> None:
    chart = exponents_chart(findings.comparisons)
    assert chart is not None
    assert chart.x.ends is not None
    assert [word.text.partition(",")[0] for word in chart.y.words] == ["Transformer", "Transformer", "FCN", "FCN"]
    low, high = chart.x.ends
    assert low < 0 < 1 < high
    for marks in chart.marks:
        assert marks.low is not None
        assert marks.high is not None
        assert low < marks.low[0] <= marks.x[0] <= marks.high[0] < high


@pytest.mark.slow
def test_the_figure_is_the_same_for_the_same_results(findings: Findings, tmp_path: Path) -> None:
    drawn = [
        save_figure(laws_figure(residual_charts(findings.regimes), exponents_chart(findings.comparisons)), tmp_path, name)
        for name in ("first", "second")
    ]
    for first, second in zip(*drawn, strict=True):
        assert first.read_bytes() == second.read_bytes()
    assert drawn[0][0].read_bytes().startswith(b"\x89PNG")


def test_held_out_cells_are_marked_and_in_no_fit(make_run: MakeRun) -> None:
    findings = read_findings(make_run(laws={"held_out": {"task.T": 128}}).path)
    own, held_out, *_ = residual_charts(findings.regimes)[0].marks
    assert (own.hollow, len(own.x)) == (False, 3)
    assert (held_out.hollow, held_out.x) == (True, [128.0])
    assert [point.task.T for point in findings.laws[0].points] == [16, 32, 64]


def test_two_cells_have_residuals_and_no_exponent(make_run: MakeRun, attention: dict[str, object]) -> None:
    two = {**attention, "zip": {"task.T": [16, 32], "model.positions.d_e": [{"geom": [8, 40], "num": 6}] * 2}}
    findings = read_findings(make_run(trials=[two]).path)
    assert exponents_chart(findings.comparisons) is None
    assert len(laws_figure(residual_charts(findings.regimes), None).axes) == 1
