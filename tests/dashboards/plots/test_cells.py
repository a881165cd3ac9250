"""Cells as the small figures show them: medians that count a diverged seed as unsolved, curves, thinning."""

import dataclasses
from collections.abc import Callable

import numpy as np
from synthetic_runs import transformers

from dashboards.plots.cells import MAX_CURVE_POINTS, MAX_CURVES, cell_names, cell_views, read_shown_curves
from dashboards.words.settings import axes_of, family_title
from stsq_core import TrialConfig, TrialResult
from sweeps.findings.run_findings import Findings, read_findings
from sweeps.store.run_directory import RunDirectory

MakeRun = Callable[..., RunDirectory]


def test_medians_are_those_of_the_seeds(findings: Findings) -> None:
    for view, threshold in zip(cell_views(findings.thresholds, read_shown_curves(findings)), findings.thresholds, strict=True):
        for width, median in zip(view.median_widths, view.median_losses, strict=True):
            losses = [point.relative_loss for point in threshold.points if point.width == width and point.relative_loss]
            np.testing.assert_allclose(median, np.median(losses))


def test_a_width_where_most_seeds_diverge_has_no_median(
    make_run: MakeRun, diverged: Callable[[TrialConfig], TrialResult], synthetic: Callable[[TrialConfig], TrialResult]
) -> None:
    widest = 46
    run = make_run(outcome=lambda config: diverged(config) if config.width >= widest else synthetic(config))
    findings = read_findings(run.path)
    view = cell_views(findings.thresholds, read_shown_curves(findings))[0]
    assert max(view.threshold.widths) == widest
    assert widest not in view.median_widths


def test_curves_end_at_the_final_loss(findings: Findings) -> None:
    view = cell_views(findings.thresholds, read_shown_curves(findings))[0]
    assert [curve.width for curve in view.curves] == list(view.threshold.widths)
    assert all(curve.steps[-1] == 600 for curve in view.curves)
    assert view.curves[0].losses[-1] > view.curves[-1].losses[-1]


def test_many_widths_and_points_are_thinned_to_the_ends(make_run: MakeRun, attention: dict[str, object]) -> None:
    many = {**attention, "zip": {"task.T": [16], "model.positions.d_e": [{"geom": [6, 60], "num": 30}]}}
    findings = read_findings(make_run(trials=[many]).path)
    (view,) = cell_views(findings.thresholds, read_shown_curves(findings))
    assert len(view.curves) == MAX_CURVES
    assert (view.curves[0].width, view.curves[-1].width) == (min(view.threshold.widths), max(view.threshold.widths))
    assert all(len(curve.steps) <= MAX_CURVE_POINTS for curve in view.curves)


def test_names_tell_cells_apart(findings: Findings) -> None:
    thresholds = findings.thresholds
    assert cell_names(thresholds)[:4] == ("T = 16", "T = 32", "T = 64", "T = 128")
    twins = (thresholds[0], dataclasses.replace(thresholds[0], label="another"))
    assert cell_names(twins) == (thresholds[0].label, "another")


def test_names_tell_every_setting_also_the_usual_one_where_few_are_crossed(make_run: MakeRun) -> None:
    """Four of the eight combinations of code, redraw and query; each name has all three, and so have families."""
    code = {"kind": "random_sign", "d_e": 8, "redraw": "never", "query": "dual"}
    learned = {"kind": "learned", "d_e": 8}
    codes = [code | {"redraw": "per_step"}, code, learned | {"query": "dual"}, learned | {"query": "sum"}]
    training = {"objective": "minibatch", "batch_size": 64, "steps": 600}
    group = {name: value for name, value in transformers([16], training=training).items() if name != "zip"}
    grid = {"model.positions": codes, "model.positions.d_e": {"geom": [8, 60], "num": 6}}
    findings = read_findings(make_run(trials=[group | {"grid": grid}]).path)
    settings = [
        "positions.kind = random_sign, redraw = per_step, query = dual",
        "positions.kind = random_sign, redraw = never, query = dual",
        "positions.kind = learned, redraw = never, query = dual",
        "positions.kind = learned, redraw = never, query = sum",
    ]
    assert sorted(cell_names(findings.thresholds)) == sorted(f"T = 16, {own}" for own in settings)
    axes = axes_of(findings.thresholds)
    titles = {family_title(regime, axes) for regime in findings.regimes}
    assert titles == {f"Transformer {own.replace(' = ', '=').replace(',', '')}" for own in settings}


def test_names_tell_what_else_varies(make_run: MakeRun, attention: dict[str, object]) -> None:
    both = {**attention, "grid": {"model.positions.query": ["sum", "dual"]}}
    names = cell_names(read_findings(make_run(trials=[both]).path).thresholds)
    assert sorted(names)[:2] == ["T = 128, query = dual", "T = 128, query = sum"]
    assert len(set(names)) == 8
