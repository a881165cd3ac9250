"""Figures for a paper, drawn with matplotlib as PNG and PDF: the threshold figure and loss against width.

Sizes fit a two-column page (7 in across both columns) and the type is that of the text around it; axis letters are the paper's.
"""

import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from dashboards.plots import CellView, Line, Mark, Panel, Series
from dashboards.words import (
    CARD,
    FAINT,
    INK,
    MUTED,
    TARGET,
    architecture_name,
    loss_ticks,
    mark_shape,
    series_shade,
    tick_words,
)
from stsq_core.configs import Size

TWO_COLUMNS_IN = 7.0
MAX_SMALL_MULTIPLES = 20
LEGEND_LETTERS = 52
"""The longest name of which two stand beside each other in a legend."""

NAME_LETTERS = 28
"""What fits on a line at a named place of an axis."""

TITLE_LETTERS = 26
"""What fits on a line over one of four small panels."""

PAPER: Any = {
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.5,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "legend.fontsize": 8,
    "axes.linewidth": 0.6,
    "axes.edgecolor": MUTED.light,
    "axes.labelcolor": INK.light,
    "text.color": INK.light,
    "xtick.color": MUTED.light,
    "ytick.color": MUTED.light,
    "xtick.labelcolor": INK.light,
    "ytick.labelcolor": INK.light,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "pdf.fonttype": 42,
    "savefig.dpi": 220,
}


def load_backends() -> None:
    """Load what drawing loads when it is first used, most of a second: the backends and the fonts of text and mathematics."""
    with paper():
        figure = Figure(figsize=(1, 1))
        figure.text(0.5, 0.5, "$m^2$ and $m$")
        for kind in ("png", "pdf"):
            figure.savefig(BytesIO(), format=kind)


def save_figure(figure: Figure, folder: Path, name: str) -> tuple[Path, ...]:
    """Write `name.png` and `name.pdf`; the PDF carries no date, so that equal results give equal files."""
    with paper():
        figure.savefig(folder / f"{name}.png")
        figure.set_layout_engine("none")  # the places found for the PNG serve the PDF
        figure.savefig(folder / f"{name}.pdf", metadata={"CreationDate": None})
    return folder / f"{name}.png", folder / f"{name}.pdf"


def threshold_figure(panels: Sequence[Panel], *, level: float) -> Figure:
    """Width threshold against T: marks with intervals, censored cells as arrows, laws with bands, the exact floor, 2Td."""
    with paper():
        figure = Figure(figsize=(TWO_COLUMNS_IN if len(panels) > 1 else TWO_COLUMNS_IN * 0.6, 3.7), layout="constrained")
        for place, panel in enumerate(panels):
            axes = figure.add_subplot(1, len(panels), place + 1)
            _set_axes(axes, panel)
            for series in panel.series:
                _draw_series(axes, series, level=level)
            if axes.get_legend_handles_labels()[0] and not panel.names:
                longest = max(map(len, axes.get_legend_handles_labels()[1]))
                axes.legend(
                    loc="upper center", bbox_to_anchor=(0.47, -0.17), ncols=1 if longest > LEGEND_LETTERS else 2,
                    frameon=False, handlelength=1.9, borderaxespad=0.2, labelspacing=0.35, columnspacing=1.2,
                )  # fmt: skip
    return figure


def losses_figure(cells: Sequence[CellView]) -> Figure:
    """Loss against width, one small panel a cell: seeds as dots, their median as a line, the target, the interval."""
    shown = cells[:MAX_SMALL_MULTIPLES]
    columns = min(4, max(1, len(shown)))
    rows = -(-len(shown) // columns)
    with paper():
        lines = max((_panel_title(cell).count("\n") + 1 for cell in shown), default=1)
        head, panel, foot = 0.1 + 0.165 * lines, 1.15, 0.5  # inches
        gap = 0.28 + head
        height = head + rows * panel + (rows - 1) * gap + foot
        figure = Figure(figsize=(TWO_COLUMNS_IN, height))
        # Fixed places: a constrained layout measures every text of up to twenty panels, which takes longer than drawing them.
        figure.subplots_adjust(
            left=0.095, right=0.985, top=1 - head / height, bottom=foot / height, wspace=0.32, hspace=gap / panel
        )
        for place, cell in enumerate(shown):
            axes = figure.add_subplot(rows, columns, place + 1)
            _draw_losses(axes, cell)
            axes.set_ylabel("relative loss" if place % columns == 0 else "")
            axes.set_xlabel(axis_tex(cell.threshold.size) if place + columns >= len(shown) else "")
    return figure


def axis_tex(size: Size) -> str:
    """The label of an axis of sizes: `width $m$`."""
    return f"{size.axis} ${size.letter}$" if len(size.letter) == 1 else size.quantity


@contextmanager
def paper() -> Iterator[None]:
    with mpl.rc_context(PAPER):
        yield


def _set_axes(axes: Axes, panel: Panel) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(panel.x_range)
    axes.set_ylim(panel.y_range)
    set_ticks(axes.xaxis, panel.x_ticks)
    set_ticks(axes.yaxis, panel.y_ticks)
    if panel.names:
        axes.set_xticks(panel.x_ticks, [textwrap.fill(name, NAME_LETTERS) for name in panel.names], rotation=30, ha="right")
    axes.grid(visible=True, color=FAINT.light, linewidth=0.4, alpha=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("" if panel.names else f"${panel.letter}$")
    axes.set_ylabel(f"{panel.size.threshold_words} ${panel.size.letter}^*$")
    axes.set_title(panel.title, loc="left", fontweight="bold")


def set_ticks(axis: Axis, ticks: Sequence[float]) -> None:
    """These ticks and no others, spelled as numbers."""
    axis.set_major_locator(FixedLocator(list(ticks)))
    axis.set_major_formatter(FuncFormatter(lambda value, _place: tick_words(value)))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def _draw_series(axes: Axes, series: Series, *, level: float) -> None:
    colour = series.shade.light
    for line in series.lines:
        _draw_line(axes, line, colour)
    for held_out in (False, True):
        found = [mark for mark in series.marks if mark.m is not None and mark.held_out is held_out]
        if not found:
            continue
        name = "held out of the fits" if held_out else f"{series.name}, {level:.0%} interval"
        centres = np.array([mark.m for mark in found], dtype=float)
        reach = np.array([[mark.m - mark.low, mark.high - mark.m] for mark in found if mark.m is not None]).T
        axes.errorbar(
            [mark.x for mark in found], centres, yerr=np.maximum(reach, 0), fmt=mark_shape(series.kind)[1], color=colour,
            markersize=4.6 if held_out else 4.2, markerfacecolor=CARD.light if held_out else colour,
            markeredgecolor=colour if held_out else CARD.light, markeredgewidth=1.1 if held_out else 0.6, elinewidth=1.1,
            capsize=2.5, capthick=1.1, zorder=3, label=name,
        )  # fmt: skip
    for mark in series.marks:
        _draw_open_ends(axes, mark, colour)


def _draw_line(axes: Axes, line: Line, colour: str) -> None:
    match line.role:
        case "law":
            if line.low is not None and line.high is not None:
                axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.16, linewidth=0)
            axes.plot(line.x, line.y, color=colour, linewidth=1.2, label=line.name.tex)
        case "rival":
            if line.low is not None and line.high is not None:
                axes.fill_between(line.x, line.low, line.high, color=MUTED.light, alpha=0.1, linewidth=0)
            axes.plot(line.x, line.y, color=MUTED.light, linewidth=1.0, linestyle=(0, (6, 2, 1, 2)), label=line.name.tex)
        case "floor":
            axes.plot(line.x, line.y, color=INK.light, linewidth=1.0, linestyle=(0, (5, 2)), label=line.name.tex)
        case "relu":
            axes.plot(line.x, line.y, color=MUTED.light, linewidth=1.0, linestyle=(0, (1, 1.6)), label=line.name.tex)


def _draw_open_ends(axes: Axes, mark: Mark, colour: str) -> None:
    """Arrows where a threshold or an end of its interval lies beyond the widths that were tried."""
    arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.1, "mutation_scale": 8}
    if mark.high_open:
        axes.annotate("", xy=(mark.x, mark.high * 1.13), xytext=(mark.x, mark.high), arrowprops=arrow)
    if mark.low_open:
        axes.annotate("", xy=(mark.x, mark.low / 1.13), xytext=(mark.x, mark.low), arrowprops=arrow)
    if mark.m is None:
        edge = mark.high if mark.high_open else mark.low
        axes.plot([mark.x], [edge], marker="_", color=colour, markersize=9, markeredgewidth=1.6, zorder=3)


def _panel_title(cell: CellView) -> str:
    return textwrap.fill(f"{architecture_name(cell.kind, short=True)}, {cell.name}", TITLE_LETTERS)


def _draw_losses(axes: Axes, cell: CellView) -> None:
    colour = series_shade(cell.kind, 0).light
    axes.set_xscale("log")
    axes.set_yscale("log")
    threshold = cell.threshold
    if threshold.low is not None and threshold.high is not None and threshold.status == "found":
        axes.axvspan(threshold.low, threshold.high, color=colour, alpha=0.14, linewidth=0)
    axes.axhline(cell.target_loss, color=TARGET.light, linewidth=0.8, linestyle=(0, (4, 2)))
    if cell.floor is not None:
        axes.plot(*cell.floor, color=INK.light, linewidth=0.8, linestyle=(0, (1, 1.5)))
    axes.plot(cell.dot_widths, cell.dot_losses, "o", color=colour, markersize=2.2, alpha=0.5, markeredgewidth=0)
    axes.plot(cell.median_widths, cell.median_losses, color=colour, linewidth=1.2)
    axes.set_title(_panel_title(cell), loc="left", fontsize=8.5)
    set_ticks(axes.xaxis, cell.width_ticks)
    set_ticks(axes.yaxis, loss_ticks(*cell.loss_range))
    axes.set_xlim(cell.width_range)
    axes.set_ylim(cell.loss_range)
