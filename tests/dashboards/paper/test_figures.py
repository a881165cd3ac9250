"""Figures for a paper come out as PNG and PDF, the same for the same results, for few cells and for many."""

import dataclasses
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from synthetic_runs import catalogue_run, fully_connected, transformers

from dashboards.paper.figures import TITLE_LETTERS, losses_figure, save_figure, threshold_figure
from dashboards.plots.cells import cell_views, read_shown_curves
from dashboards.plots.charts_of_cells import loss_charts
from dashboards.plots.charts_of_thresholds import threshold_charts
from dashboards.words.style import theme_pairs
from sweeps.cells.loading import load_sweep
from sweeps.findings.run_findings import Findings, read_findings
from sweeps.store.run_directory import RunDirectory


def test_the_threshold_figure_is_a_readable_png_pdf_and_svg(findings: Findings, tmp_path: Path) -> None:
    figure = threshold_figure(threshold_charts(findings.regimes))
    png, pdf, svg = save_figure(figure, tmp_path, "thresholds")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")
    assert "</svg>" in svg.read_text()
    assert figure.get_figwidth() == pytest.approx(7.0)
    assert [axes.get_xlabel() for axes in figure.axes] == ["$T$", "$T$"]
    sizes = [text.get_fontsize() for axes in figure.axes for text in axes.get_xticklabels()]
    assert min(sizes) >= 8


@pytest.mark.slow
@pytest.mark.filterwarnings("error::UserWarning")
def test_long_names_in_legends_leave_the_panels_their_room(
    make_run: Callable[..., RunDirectory], attention: dict[str, Any], fully_connected: dict[str, Any], tmp_path: Path
) -> None:
    """Two families an architecture, told apart by their steps: no legend reaches into the other panel or past the page."""
    both = [{**group, "grid": {"training.steps": [600, 1200]}} for group in (attention, fully_connected)]
    figure = threshold_figure(threshold_charts(read_findings(make_run(trials=both).path).regimes))
    save_figure(figure, tmp_path, "thresholds")
    legends = [axes.get_legend().get_window_extent() for axes in figure.axes]
    assert not legends[0].overlaps(legends[1])
    assert all(legend.x0 >= 0 and legend.x1 <= figure.bbox.width for legend in legends)
    assert all(legend.y1 < axes.bbox.y0 for legend, axes in zip(legends, figure.axes, strict=True))
    assert min(axes.get_position().width for axes in figure.axes) > 0.3


@pytest.mark.slow
@pytest.mark.filterwarnings("error::UserWarning")
def test_charts_along_three_letters_stand_two_in_a_row(tmp_path: Path) -> None:
    """Three beside each other, with long names in their legends, left no width to the axes."""
    findings = read_findings(catalogue_run(tmp_path / "run", load_sweep("stream_width")).path)
    figure = threshold_figure(threshold_charts(findings.regimes))
    save_figure(figure, tmp_path, "thresholds")
    assert [axes.get_xlabel() for axes in figure.axes] == ["$T$", "$q$", "$d$"]
    assert min(axes.get_position().width for axes in figure.axes) > 0.3
    assert all(axes.get_legend().get_window_extent().x1 <= figure.bbox.width for axes in figure.axes)


@pytest.mark.slow
def test_equal_results_give_equal_files(findings: Findings, tmp_path: Path) -> None:
    drawn = [save_figure(threshold_figure(threshold_charts(findings.regimes)), tmp_path, name) for name in ("first", "second")]
    assert all(drawn)
    for first, second in zip(*drawn, strict=True):
        assert first.read_bytes() == second.read_bytes()


def test_losses_have_a_panel_a_cell(findings: Findings) -> None:
    views = cell_views(findings.thresholds, read_shown_curves(findings))
    figure = losses_figure(loss_charts(views))
    assert [axes.get_title(loc="left") for axes in figure.axes][:1] == ["Transformer, T = 16"]
    assert len(figure.axes) == len(views)


def test_a_long_name_is_broken_into_lines_and_leaves_room_for_its_panel(findings: Findings, tmp_path: Path) -> None:
    views = [
        dataclasses.replace(view, name=view.threshold.label)
        for view in cell_views(findings.thresholds, read_shown_curves(findings))
    ]
    figure = losses_figure(loss_charts(views))
    assert max(len(line) for axes in figure.axes for line in axes.get_title(loc="left").split("\n")) <= TITLE_LETTERS
    save_figure(figure, tmp_path, "losses")
    assert min(axes.get_position().width for axes in figure.axes) > 0.1


def test_no_colour_is_swapped_twice() -> None:
    pairs = theme_pairs()
    lights = {light for light, _ in pairs}
    assert len(lights) == len(pairs)
    assert not lights & {dark for _, dark in pairs}


def test_numbers_of_ticks_are_not_printed_over_each_other(make_run: Callable[..., RunDirectory], tmp_path: Path) -> None:
    """Short lengths close together, on an axis as long as that of lengths of 4 to 512 beside it."""
    groups = [transformers([4, 16, 64, 256, 512]), fully_connected([4, 6, 8, 10, 12, 24])]
    figure = threshold_figure(threshold_charts(read_findings(make_run(trials=groups).path).regimes))
    save_figure(figure, tmp_path, "thresholds")
    for axes in figure.axes:
        boxes = [label.get_window_extent() for label in axes.get_xticklabels() if label.get_text()]
        assert len(boxes) > 2
        digit = min(box.width for box in boxes)
        assert [one for one, other in pairwise(boxes) if other.x0 - one.x1 < digit] == []
