"""The figures of the laws for a paper: residuals of each architecture's law and of its rival, and the fitted exponents."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from dashboards.paper.figures import TWO_COLUMNS_IN, paper, set_ticks
from dashboards.plots import Exponent, ResidualPanel, ResidualSeries, exponent_range
from dashboards.words import CARD, FAINT, INK, MUTED, mark_shape, series_shade


def laws_figure(panels: tuple[ResidualPanel, ...], exponents: tuple[Exponent, ...]) -> Figure:
    """Residuals, a panel a regime, above the intervals of the exponents where there are any."""
    columns = min(2, max(1, len(panels)))
    rows = -(-len(panels) // columns)
    heights = [2.1] * rows + ([0.55 + 0.24 * len(exponents)] if exponents else [])
    with paper():
        figure = Figure(figsize=(TWO_COLUMNS_IN, sum(heights)), layout="constrained")
        grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
        for place, panel in enumerate(panels):
            row, column = divmod(place, columns)
            _draw_residuals(figure.add_subplot(grid[row, column]), panel)
        if exponents:
            _draw_exponents(figure.add_subplot(grid[rows, :]), exponents)
    return figure


def _draw_residuals(axes: Axes, panel: ResidualPanel) -> None:
    axes.set_xscale("log")
    axes.set_xlim(panel.x_range)
    axes.set_ylim(-panel.reach, panel.reach)
    set_ticks(axes.xaxis, panel.x_ticks)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=None))
    axes.grid(visible=True, color=FAINT.light, linewidth=0.4, alpha=0.6)
    axes.axhline(0, color=INK.light, linewidth=0.8)
    for series in panel.series:
        _draw_series(axes, series, panel.kind)
    axes.set_xlabel(f"${panel.letter}$")
    axes.set_ylabel(f"${panel.size.letter}^*$ / law $- 1$")
    axes.set_title(panel.title, loc="left", fontweight="bold")
    axes.legend(loc="best", frameon=False, handlelength=1.9, borderaxespad=0.2, labelspacing=0.35)


def _draw_series(axes: Axes, series: ResidualSeries, kind: str) -> None:
    colour = MUTED.light if series.is_rival else series_shade(kind, 0).light
    marker = "D" if series.is_rival else mark_shape(kind)[1]
    fitted = [one for one in series.residuals if not one.held_out]
    axes.plot(
        [one.x for one in fitted], [one.value for one in fitted], color=colour, linewidth=0.8, marker=marker, markersize=3.8,
        markeredgecolor=CARD.light, markeredgewidth=0.5, linestyle=(0, (4, 2)) if series.is_rival else "none",
        label=series.tex, zorder=3,
    )  # fmt: skip
    for one in series.residuals:
        if one.held_out:
            axes.plot([one.x], [one.value], marker=marker, markersize=4.4, color=colour, markerfacecolor=CARD.light, zorder=3)
        if not series.is_rival and math.isfinite(one.low) and math.isfinite(one.high):
            axes.vlines(one.x, one.low, one.high, color=colour, linewidth=1.1)


def _draw_exponents(axes: Axes, exponents: tuple[Exponent, ...]) -> None:
    places = np.arange(len(exponents))[::-1]
    for value in (0, 1):
        axes.axvline(value, color=INK.light, linewidth=0.7, linestyle=(0, (4, 2)))
    for place, one in zip(places, exponents, strict=True):
        axes.hlines(place, one.low, one.high, color=one.shade.light, linewidth=1.6)
        axes.plot(
            [one.value], [place], marker=mark_shape(one.kind)[1], color=one.shade.light, markersize=4.6,
            markeredgecolor=CARD.light, markeredgewidth=0.6,
        )  # fmt: skip
    axes.set_yticks(places, [one.label_tex for one in exponents])
    axes.set_ylim(-0.6, len(exponents) - 0.4)
    axes.set_xlim(exponent_range(exponents))
    axes.grid(visible=True, axis="x", color=FAINT.light, linewidth=0.4, alpha=0.6)
    axes.set_xlabel(r"exponent $\gamma$")
    axes.tick_params(axis="y", length=0)
