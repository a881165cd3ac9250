"""The figures of the laws hold residuals and exponents as they were fitted, and stay readable when a law is far off."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dashboards.paper.figures import save_figure
from dashboards.paper.law_figures import laws_figure
from dashboards.plots.law_panels import exponent_range, exponents, residual_panels
from sweeps.findings.run_findings import Findings, read_findings
from sweeps.store.run_directory import RunDirectory

MakeRun = Callable[..., RunDirectory]


def test_residuals_are_those_of_the_law_and_of_its_rival(findings: Findings) -> None:
    panels = residual_panels(findings.regimes)
    assert [panel.kind for panel in panels] == ["transformer", "fcn"]
    for panel, comparison in zip(panels, findings.comparisons, strict=True):
        assert [series.law for series in panel.series] == (
            ["attention", "td_power"] if panel.kind == "transformer" else ["td_power", "attention"]
        )
        for series in panel.series:
            law = comparison.law(series.law)
            assert law is not None
            assert [one.value for one in series.residuals] == pytest.approx([p.relative_residual for p in law.points])
        assert all(one.low <= one.value <= one.high for one in panel.series[0].residuals)


def test_a_rival_that_is_far_off_does_not_flatten_the_panel(findings: Findings) -> None:
    panel = residual_panels(findings.regimes)[1]
    own, rival = (max(abs(one.value) for one in series.residuals) for series in panel.series)
    assert rival > 0.3
    assert own < panel.reach < 0.3


def test_exponents_are_shown_with_0_and_1(findings: Findings) -> None:
    shown = exponents(findings.comparisons)
    assert [one.kind for one in shown] == ["transformer", "transformer", "fcn", "fcn"]
    low, high = exponent_range(shown)
    assert low < 0 < 1 < high
    assert all(low < one.low <= one.value <= one.high < high for one in shown)


def test_the_figure_is_a_png_and_a_pdf_the_same_for_the_same_results(findings: Findings, tmp_path: Path) -> None:
    drawn = [
        save_figure(laws_figure(residual_panels(findings.regimes), exponents(findings.comparisons)), tmp_path, name)
        for name in ("first", "second")
    ]
    for first, second in zip(*drawn, strict=True):
        assert first.read_bytes() == second.read_bytes()
    assert drawn[0][0].read_bytes().startswith(b"\x89PNG")


def test_held_out_cells_are_marked_and_in_no_fit(make_run: MakeRun) -> None:
    findings = read_findings(make_run(laws={"held_out": {"task.T": 128}}).path)
    panel = residual_panels(findings.regimes)[0]
    assert [one.held_out for one in panel.series[0].residuals] == [False, False, False, True]
    assert [point.task.T for point in findings.laws[0].points] == [16, 32, 64]


def test_two_cells_have_residuals_and_no_exponent(make_run: MakeRun, attention: dict[str, object]) -> None:
    two = {**attention, "zip": {"task.T": [16, 32], "model.positions.d_e": [{"geom": [8, 40], "num": 6}] * 2}}
    findings = read_findings(make_run(trials=[two]).path)
    assert exponents(findings.comparisons) == ()
    assert len(laws_figure(residual_panels(findings.regimes), ()).axes) == 1
