"""The picture of a cell: densities integrate to the share they show, and every seed's losses are in it."""

import numpy as np
import pytest
from synthetic_runs import diverged, make_run, measured, sweep, transformers

from dashboards.page.interactive import plotly_strips
from dashboards.plots.cells import cell_views
from dashboards.plots.charts_of_cells import cell_strips, density, shares_solved
from sweeps.findings.run_findings import Findings, read_findings
from sweeps.store.run_directory import RunDirectory


def area(found: tuple[np.ndarray, np.ndarray]) -> float:
    return float(np.trapezoid(found[1], np.log(found[0])))


def test_the_density_integrates_to_the_share_of_replicates_in_range() -> None:
    inside = np.log(20) + 0.05 * np.random.default_rng(0).standard_normal(3000)
    found = density(inside, (10, 40))
    assert found is not None
    assert area(found) == pytest.approx(1, abs=0.01)
    assert found[0][np.argmax(found[1])] == pytest.approx(20, rel=0.02)
    part = density(np.concatenate([inside, np.full(1000, np.inf)]), (10, 40))
    assert part is not None
    assert area(part) == pytest.approx(0.75, abs=0.01)


def test_replicates_wholly_beyond_the_range_have_no_density() -> None:
    assert density(np.full(10, np.inf), (10, 40)) is None
    assert density(np.array([]), (10, 40)) is None


def test_replicates_that_are_all_equal_make_a_narrow_peak() -> None:
    found = density(np.full(500, np.log(20)), (10, 40))
    assert found is not None
    assert area(found) == pytest.approx(1, abs=0.02)
    assert np.ptp(found[0][found[1] > 0.01 * found[1].max()]) < 2


def test_a_diverged_trial_is_unsolved_and_a_failed_one_is_left_out(tmp_path) -> None:
    def outcome(config):
        if config.width == widths[-1]:
            return "worker lost"
        return diverged(config) if config.width == widths[-2] else measured(config)

    spec = sweep(trials=[transformers([16])])
    widths = read_findings(make_run(tmp_path / "all", spec).path).thresholds[0].widths
    [threshold] = read_findings(make_run(tmp_path / "run", spec, outcome).path).thresholds
    points = threshold.points.take(threshold.points.widths > 0)
    printed, shares = shares_solved(points, threshold.target_loss)
    assert printed == list(widths[:-1])
    assert shares[0] == 0
    assert shares[-1] == 0


def test_every_loss_of_every_seed_is_drawn(findings: Findings, whole_run: RunDirectory) -> None:
    views = cell_views(findings.thresholds, {})
    assert len(views) == len(findings.thresholds) > 0
    for view in views:
        spec = plotly_strips(cell_strips(view))
        marks = [trace for trace in spec["data"] if "seed" in str(trace.get("text"))]
        assert len(marks) == view.threshold.num_seeds
        drawn = sorted(loss for trace in marks for loss in trace["y"])
        assert drawn == pytest.approx(sorted(point.relative_loss for point in view.threshold.points), rel=1e-5)
