"""The phase diagram: tiles hold the fraction of seeds solved, columns meet in the middle, contours are other success rates."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from dashboards.plots.chart import Tiles, tile_opacity
from dashboards.plots.phase_diagram import _bin_edges, _width_at, phase_diagrams
from stsq_core.configs import SAMPLES
from sweeps.findings.run_findings import Findings, read_findings
from sweeps.sampler import ThresholdPosterior
from sweeps.store.run_directory import RunDirectory


def columns(chart: Any) -> list[Tiles]:
    return [layer for layer in chart.layers if isinstance(layer, Tiles)]


def test_each_tile_has_the_fraction_of_its_trials_that_reach_the_target(findings: Findings) -> None:
    charts = phase_diagrams(findings.regimes)
    assert [chart.title for chart in charts] == ["Transformer", "Fully connected net"]
    for chart, regime in zip(charts, findings.regimes, strict=True):
        tiles, cells = columns(chart), sorted(regime.thresholds, key=lambda one: one.config_sample.task.T)
        assert len(tiles) == len(cells)
        for column, cell in zip(tiles, cells, strict=True):
            assert len(column.shares) == len(cell.widths)  # a grid: one tile a width
            for place, width in enumerate(cell.widths):
                own = [point for point in cell.points if point.width == width and point.chosen]
                losses = [math.inf if point.relative_loss is None else point.relative_loss for point in own]
                num = sum(loss <= cell.target_loss for loss in losses)
                assert column.shares[place] == num / len(own)
                assert column.edges[place] < width < column.edges[place + 1]
                assert column.texts[place] == f"m = {width}: {num} of {len(own)} seeds solved"


def test_columns_meet_in_the_middle_and_hold_their_marks(findings: Findings) -> None:
    chart = phase_diagrams(findings.regimes)[0]
    tiles = columns(chart)
    for left, right in pairwise(tiles):
        assert left.x_high < right.x_low < left.x_high * 1.05
    assert [round(math.sqrt(column.x_low * column.x_high)) for column in tiles] == [16, 32, 64, 128]
    assert chart.x.ends == (tiles[0].x_low, tiles[-1].x_high)
    assert [line.role for line in chart.lines] == ["law"]
    [marks] = chart.marks
    assert list(marks.x) == [16, 32, 64, 128]
    assert list(marks.y) == [one.m_star for one in findings.regimes[0].thresholds]
    assert chart.y.label.text == "width m"


def test_a_cell_that_misses_the_target_everywhere_has_its_column_too(findings: Findings) -> None:
    regime = findings.regimes[0]
    first, *others = regime.thresholds
    missed = replace(first, status="not_reached", m_star=None, low=None, high=None, target_loss=1e-9)
    chart = phase_diagrams([replace(regime, thresholds=(missed, *others))])[0]
    assert set(columns(chart)[0].shares) == {0.0}
    assert list(chart.marks[0].x) == [32, 64, 128]


def test_nothing_is_drawn_of_a_single_cell_or_of_samples_to_a_target(findings: Findings) -> None:
    regime = findings.regimes[0]
    assert phase_diagrams([replace(regime, thresholds=regime.thresholds[:1])]) == ()
    counted = tuple(replace(one, size=SAMPLES) for one in regime.thresholds)
    assert phase_diagrams([replace(regime, thresholds=counted)]) == ()


def test_bins_are_the_same_in_every_column_and_hold_every_width() -> None:
    few, many = _bin_edges(np.array([8, 16, 64])), _bin_edges(np.array([8, 9, 11, 63]))
    assert few == pytest.approx(8 * 2 ** (0.25 * np.arange(14)))  # 64 begins a bin of its own
    assert many == pytest.approx(few[:-1])


def test_contours_lie_where_other_fractions_of_the_seeds_are_solved() -> None:
    """log loss = log 0.1 - 4 (log m - log 30) + 0.4 z: a fraction p of seeds is solved at log 30 + 0.1 Phi^-1(p)."""
    chance = np.random.default_rng(0)
    widths = np.rint(np.exp(chance.uniform(math.log(18), math.log(50), 400))).astype(int)
    losses = math.log(0.1) - 4 * (np.log(widths) - math.log(30)) + 0.4 * chance.standard_normal(400)
    posterior = ThresholdPosterior(widths, losses, low=8, high=128, log_target=math.log(0.1))
    assert _width_at(posterior, 0.5) == pytest.approx(30, rel=0.04)
    assert _width_at(posterior, 0.1) == pytest.approx(30 * math.exp(-0.1 * 1.2816), rel=0.05)
    assert _width_at(posterior, 0.9) == pytest.approx(30 * math.exp(0.1 * 1.2816), rel=0.05)


@pytest.mark.slow
def test_page_and_paper_show_it(make_run: Callable[..., RunDirectory]) -> None:
    from dashboards import write_report

    run = make_run()
    text = write_report(run.path).read_text()
    assert '<section id="phases"' in text
    assert "The fraction of trials that reach the target, a tile for each cell and stretch of sizes" in text
    assert (run.report / "phases.png").stat().st_size > 10_000
    assert (run.report / "phases.pdf").exists()
    assert len(phase_diagrams(read_findings(run.path).regimes)) == 2


def test_a_tile_of_no_solved_seed_can_be_told_from_an_empty_one() -> None:
    assert [round(tile_opacity(share), 2) for share in (0.0, 0.5, 1.0)] == [0.06, 0.33, 0.6]
