"""Drawings for a paper, with matplotlib: plots as small panels in a row, heat maps of W and V in blocks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure

from dashboards.paper.figures import TWO_COLUMNS_IN, paper, set_ticks
from dashboards.plots import Heat, HeatPlot, Plot, PlotPanel, Trace
from dashboards.words import FAINT, MUTED, Dash

STROKES: dict[Dash, Any] = {"solid": "-", "dashed": (0, (5, 2)), "dashdot": (0, (5, 1.5, 1, 1.5)), "dotted": (0, (1, 1.4))}
COLUMNS = 3


def plot_figure(plot: Plot) -> Figure:
    """The panels of a plot, at most three in a row, with one legend below."""
    columns = min(COLUMNS, len(plot.panels))
    rows = -(-len(plot.panels) // columns)
    with paper():
        figure = Figure(figsize=(TWO_COLUMNS_IN * (0.6 if columns == 1 else 1), 2.5 * rows + 0.5), layout="constrained")
        grid = figure.subplots(rows, columns, sharey=True, squeeze=False)
        labels: dict[str, Any] = {}
        for place, panel in enumerate(plot.panels):
            axes = grid[place // columns, place % columns]
            labels |= _draw(axes, plot, panel)
            axes.set_xlabel(plot.x_label if place + columns >= len(plot.panels) else "")
            axes.set_ylabel(plot.y_label if place % columns == 0 else "")
        for place in range(len(plot.panels), rows * columns):
            grid[place // columns, place % columns].set_visible(False)
        if labels:
            figure.legend(
                list(labels.values()), list(labels), loc="outside lower center", frameon=False, ncols=_legend_columns(labels)
            )
    return figure


def heat_figure(plot: HeatPlot) -> Figure:
    """Heat maps, a row a matrix, before and after side by side; colours of a row share their scale."""
    with paper():
        heights = [max(0.35, heat.matrix.shape[0] / heat.matrix.shape[1]) for heat, *_ in plot.rows]
        columns = max(len(row) for row in plot.rows)
        figure = Figure(figsize=(TWO_COLUMNS_IN, 0.4 + sum(heights) * TWO_COLUMNS_IN / columns * 0.82), layout="constrained")
        grid = figure.subplots(len(plot.rows), columns, squeeze=False, height_ratios=heights)
        for axes_of_row, row in zip(grid, plot.rows, strict=True):
            limit = max(float(np.abs(heat.matrix).max()) for heat in row) or 1.0
            for axes, heat in zip(axes_of_row, row, strict=True):
                image = _heat(axes, heat, limit)
            figure.colorbar(image, ax=list(axes_of_row), shrink=0.85, pad=0.01)
    return figure


def _legend_columns(labels: dict[str, Any]) -> int:
    longest = max(map(len, labels))
    return max(1, min(len(labels), 96 // (longest + 8)))


def _draw(axes: Axes, plot: Plot, panel: PlotPanel) -> dict[str, Any]:
    axes.set_title(panel.title, loc="left")
    if plot.log_x:
        axes.set_xscale("log")
        set_ticks(axes.xaxis, plot.x_ticks)
    if plot.log_y:
        axes.set_yscale("log")
    axes.grid(visible=True, color=FAINT.light, linewidth=0.4, alpha=0.6)
    axes.set_axisbelow(True)
    handles = {trace.name: _draw_trace(axes, trace, points=plot.points) for trace in panel.traces}
    for x, name in panel.marks:
        axes.axvline(x, color=MUTED.light, linewidth=0.8, linestyle=STROKES["dotted"])
        axes.annotate(name, (x, 1), xycoords=("data", "axes fraction"), xytext=(2, -9), textcoords="offset points", fontsize=8)
    return handles


def _draw_trace(axes: Axes, trace: Trace, *, points: bool) -> Any:
    colour = trace.shade.light
    if trace.low is not None and trace.high is not None and not points:
        axes.fill_between(trace.x, trace.low, trace.high, color=colour, alpha=0.18, linewidth=0)
    style = {"color": colour, "linestyle": STROKES[trace.dash], "linewidth": 1.3 if trace.role == "data" else 1.0}
    if points and trace.role == "data" and trace.low is not None and trace.high is not None:
        reach = np.array([trace.y - trace.low, trace.high - trace.y])
        return axes.errorbar(trace.x, trace.y, yerr=reach, marker="o", markersize=3.2, capsize=2, elinewidth=0.9, **style)
    return axes.plot(trace.x, trace.y, zorder=3 if trace.role == "theory" else 2, **style)[0]


def _heat(axes: Axes, heat: Heat, limit: float) -> Any:
    image = axes.imshow(heat.matrix, cmap="RdBu_r", norm=TwoSlopeNorm(0, -limit, limit), interpolation="nearest", aspect="auto")
    for edge in heat.edges_x:
        axes.axvline(edge - 0.5, color="black", linewidth=0.6)
    for edge in heat.edges_y:
        axes.axhline(edge - 0.5, color="black", linewidth=0.6)
    axes.set_title(heat.title, loc="left")
    axes.set_xticks(_ticks(heat.matrix.shape[1]))
    axes.set_yticks(_ticks(heat.matrix.shape[0]))
    return image


def _ticks(size: int) -> Sequence[int]:
    step = max(1, size // 4)
    return list(range(0, size, step))
