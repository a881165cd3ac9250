"""Figures for a paper, drawn with matplotlib as PNG, PDF and SVG.

Sizes fit a two-column page (7 in across both columns) and the type is that of the text around it; axis letters are the paper's.
"""

import re
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any, assert_never

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis as MatplotlibAxis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator, PercentFormatter
from matplotlib.transforms import ScaledTranslation

from dashboards.plots import (
    Axis,
    Chart,
    ChartFigure,
    CustomFigure,
    Heat,
    HeatFigure,
    Layer,
    Line,
    Marks,
    OpenEnd,
    Rule,
    Span,
    Tiles,
    tile_opacity,
)
from dashboards.words import CARD, FAINT, INK, MUTED, Dash, paper_mark, tick_words

TWO_COLUMNS_IN = 7.0
MAX_SMALL_MULTIPLES = 20
NARROW_IN = 4.0
LEGEND_ROW_IN = 0.17
LEGEND_LETTERS = 120
"""What fits in a row of a legend as wide as the page, with 8 for each mark."""

NAME_LETTERS = 28
"""What fits on a line at a named place of an axis."""

PANEL_LETTERS = 36
"""Letters in a line of the title of a panel half as wide as the page."""

TITLE_LETTERS = 26
"""What fits on a line over one of four small charts."""

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""In the key to the depth of tiles."""

LINE_POINTS, MARK_POINTS = 0.63, 0.5
"""Points on paper for a pixel of the page: of a line's width, and of a mark's size."""

STROKES: dict[Dash, Any] = {"solid": "-", "dashed": (0, (5, 2)), "dashdot": (0, (6, 2, 1, 2)), "dotted": (0, (1, 1.5))}

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
    "svg.hashsalt": "stsq",
}
UNDATED = {"pdf": "CreationDate", "svg": "Date"}
"""The drawings without pixels, and what each calls the date that is left out."""


@contextmanager
def _paper() -> Iterator[None]:
    with mpl.rc_context(PAPER):
        yield


def load_backends() -> None:
    """Load what drawing loads when it is first used, most of a second: the backends and the fonts of text and mathematics."""
    with _paper():
        figure = Figure(figsize=(1, 1))
        figure.text(0.5, 0.5, "$m^2$ and $m$")
        for kind in ("png", *UNDATED):
            figure.savefig(BytesIO(), format=kind)


def save_figure(figure: Figure, folder: Path, name: str, endings: Sequence[str] = ("png", *UNDATED)) -> tuple[Path, ...]:
    """Write `name.png`, `name.pdf` and `name.svg`, or those of other endings; they carry no date, so that equal results give
    equal files.
    """
    with _paper():
        for place, ending in enumerate(endings):
            undated: dict[str, Any] = (
                {"metadata": {UNDATED[ending]: None}} if ending in UNDATED else {}
            )  # pgf knows no metadata at all
            figure.savefig(folder / f"{name}.{ending}", **undated)
            if place == 0:
                figure.set_layout_engine("none")  # the places found for the first serve the others
    return tuple(folder / f"{name}.{ending}" for ending in endings)


def _columns(num: int, most: int, width_in: float | None) -> tuple[int, float]:
    """How many of so many charts stand in a row, at most `most` across a page, and how wide the figure is, in inches.

    Without a width the figure is as wide as the page, or a single chart some three fifths of it.
    """
    if width_in is None:
        columns = min(most, max(1, num))
        return columns, TWO_COLUMNS_IN * (0.6 if columns == 1 else 1)
    return max(1, min(most, num, round(most * width_in / TWO_COLUMNS_IN))), width_in


def picture(figure: Figure) -> bytes:
    """A figure as a PNG of 110 pixels an inch."""
    file = BytesIO()
    with _paper():
        figure.savefig(file, format="png", dpi=110)
    return file.getvalue()


def threshold_figure(charts: Sequence[Chart], *, width_in: float | None = None) -> Figure:
    """The charts of thresholds, two in a row, each with its legend below; small multiples with one for all."""
    if charts[0].is_small:
        titles = [re.sub(r"\b([A-Za-z]) = ", r"$\1$ = ", textwrap.fill(chart.title, PANEL_LETTERS - 4)) for chart in charts]
        return _charts_figure(
            [replace(one, title=title) for one, title in zip(charts, titles, strict=True)], shared=False, width_in=width_in
        )
    with _paper():
        columns, width = _columns(len(charts), 2, width_in)
        rows = -(-len(charts) // columns)
        figure = Figure(figsize=(width, 3.7), layout="constrained")
        legend = 0
        for place, chart in enumerate(charts):
            axes = figure.add_subplot(rows, columns, place + 1)
            _draw(axes, chart)
            axes.set_title(chart.title, loc="left", fontweight="bold")
            legend = max(legend, _legend_below(axes, width_in=figure.get_figwidth() / columns))
        figure.set_figheight(rows * (2.9 + LEGEND_ROW_IN * legend))
    return figure


def _legend_below(axes: Axes, *, width_in: float) -> int:
    """The legend of a chart, two names in a row where that is no wider than this; the number of its lines."""
    handles, labels = axes.get_legend_handles_labels()
    names = [
        label if "$" in label else textwrap.fill(label.replace(" = ", "\xa0=\xa0"), PANEL_LETTERS) for label in map(str, labels)
    ]
    if not names:
        return 0
    renderer = FigureCanvasAgg(axes.figure).get_renderer()  # type: ignore[arg-type, no-untyped-call]  # axes of the figure itself
    below_ticks = axes.transAxes + ScaledTranslation(0, -0.48, axes.figure.dpi_scale_trans)
    for columns in (2, 1):
        legend = axes.legend(
            handles, names, loc="upper center", bbox_to_anchor=(0.47, 0), bbox_transform=below_ticks, ncols=columns,
            frameon=False, handlelength=1.9, borderaxespad=0.2, labelspacing=0.35, columnspacing=1.2,
        )  # fmt: skip
        if legend.get_window_extent(renderer).width <= width_in * renderer.dpi:
            break
    return -(-sum(name.count("\n") + 1 for name in names) // columns)


def laws_figure(residuals: Sequence[Chart], exponents: Chart | None, *, width_in: float = TWO_COLUMNS_IN) -> Figure:
    """The charts of residuals above the intervals of the exponents where there are any."""
    columns, width = _columns(len(residuals), 2, width_in)
    rows = -(-len(residuals) // columns)
    lines = sum(word.tex.count("\n") + 1 for word in exponents.y.words) if exponents else 0
    heights = [2.1 * rows] + ([0.55 + 0.24 * lines] if exponents else [])
    with _paper():
        figure = Figure(figsize=(width, sum(heights)), layout="constrained")
        parts = figure.subfigures(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
        for place, chart in enumerate(residuals):
            axes = parts[0].add_subplot(max(rows, 1), columns, place + 1)
            _draw(axes, chart)
            axes.set_title(textwrap.fill(chart.title, PANEL_LETTERS), loc="left", fontweight="bold")
            axes.legend(loc="best", frameon=False, handlelength=1.9, borderaxespad=0.2, labelspacing=0.35)
        if exponents:
            axes = parts[-1].add_subplot()
            _draw(axes, exponents)
            axes.tick_params(axis="y", length=0)
    return figure


def phase_figure(charts: Sequence[Chart], *, width_in: float | None = None) -> Figure:
    """The panels of a phase diagram, two in a row, each with its legend below, and a key to the depth of the tiles."""
    columns, width = _columns(len(charts), 2, width_in)
    rows = -(-len(charts) // columns)
    with _paper():
        figure = Figure(figsize=(width, 1), layout="constrained")
        legend = 0
        for place, chart in enumerate(charts):
            axes = figure.add_subplot(rows, columns, place + 1)
            _draw(axes, chart, grid=False)
            axes.set_title(textwrap.fill(chart.title, PANEL_LETTERS), loc="left", fontweight="bold")
            legend = max(legend, _legend_below(axes, width_in=figure.get_figwidth() / columns))
        keys = [Patch(color=INK.light, alpha=tile_opacity(share), linewidth=0, label=f"{share:.0%}") for share in SHARES]
        figure.legend(
            handles=keys,
            title="seeds solved",
            loc="outside upper right",
            ncols=len(keys),
            frameon=False,
            **({"handlelength": 1.1, "columnspacing": 0.8} if width < NARROW_IN else {}),
        )
        figure.set_figheight(0.4 + rows * (2.7 + LEGEND_ROW_IN * legend))
    return figure


def losses_figure(charts: Sequence[Chart], *, width_in: float = TWO_COLUMNS_IN) -> Figure:
    """Loss against width, one small chart a cell: seeds as dots, their median as a line, the target, the interval."""
    shown = charts[:MAX_SMALL_MULTIPLES]
    columns, width = _columns(len(shown), 4, width_in)
    rows = -(-len(shown) // columns)
    with _paper():
        left = 0.095 * TWO_COLUMNS_IN / width
        room = (0.985 - left) * width / columns / ((0.985 - 0.095) * TWO_COLUMNS_IN / 4)  # of one of four charts across a page
        titles = [textwrap.fill(chart.title, max(8, int(TITLE_LETTERS * min(1, room)))) for chart in shown]
        lines = max((title.count("\n") + 1 for title in titles), default=1)
        head, panel, foot = 0.1 + 0.165 * lines, 1.15, 0.5  # inches
        gap = 0.28 + head
        height = head + rows * panel + (rows - 1) * gap + foot
        figure = Figure(figsize=(width, height))
        # Fixed places: a constrained layout measures every text of up to twenty charts, which takes longer than drawing them.
        figure.subplots_adjust(
            left=0.095 * TWO_COLUMNS_IN / width,
            right=0.985,
            top=1 - head / height,
            bottom=foot / height,
            wspace=0.32,
            hspace=gap / panel,
        )
        for place, (chart, title) in enumerate(zip(shown, titles, strict=True)):
            axes = figure.add_subplot(rows, columns, place + 1)
            _draw(axes, chart, grid=False)
            axes.set_title(title, loc="left", fontsize=8.5)
            axes.set_ylabel(chart.y.label.tex if place % columns == 0 else "")
            axes.set_xlabel(chart.x.label.tex if place + columns >= len(shown) else "")
    return figure


def custom_figure(figure: CustomFigure, *, width_in: float | None = None) -> Figure:
    """A figure that a sweep file declares."""
    match figure:
        case ChartFigure():
            return _charts_figure(figure.charts, width_in=width_in)
        case HeatFigure():
            return _heat_figure(figure, width_in or TWO_COLUMNS_IN)
        case _:
            assert_never(figure)


def _charts_figure(charts: Sequence[Chart], *, shared: bool = True, width_in: float | None = None) -> Figure:
    """Charts, at most three in a row, with one legend below; they share their y axis or have one each."""
    columns, width = _columns(len(charts), 3, width_in)
    rows = -(-len(charts) // columns)
    with _paper():
        figure = Figure(figsize=(width, 2.5 * rows + 0.5), layout="constrained")
        grid = figure.subplots(rows, columns, sharey=shared, squeeze=False)
        labels: dict[str, Any] = {}
        for place, chart in enumerate(charts):
            axes = grid[place // columns, place % columns]
            _draw(axes, chart)
            axes.set_title(chart.title, loc="left")
            handles, names = axes.get_legend_handles_labels()
            labels |= dict(zip(names, handles, strict=True))
            axes.set_xlabel(chart.x.label.tex if place + columns >= len(charts) else "")
            axes.set_ylabel(chart.y.label.tex if place % columns == 0 else "")
        for place in range(len(charts), rows * columns):
            grid[place // columns, place % columns].set_visible(False)
        if labels:
            in_a_row = max(1, min(len(labels), round(LEGEND_LETTERS * width / TWO_COLUMNS_IN) // (max(map(len, labels)) + 8)))
            figure.legend(list(labels.values()), list(labels), loc="outside lower center", frameon=False, ncols=in_a_row)
    return figure


def _heat_figure(custom: HeatFigure, width_in: float) -> Figure:
    """Heat maps, a row a matrix, before and after side by side; colours of a row share their scale."""
    with _paper():
        heights = [max(0.35, heat.matrix.shape[0] / heat.matrix.shape[1]) for heat, *_ in custom.rows]
        columns = max(len(row) for row in custom.rows)
        figure = Figure(figsize=(width_in, 0.4 + sum(heights) * width_in / columns * 0.82), layout="constrained")
        grid = figure.subplots(len(custom.rows), columns, squeeze=False, height_ratios=heights)
        for axes_of_row, row in zip(grid, custom.rows, strict=True):
            limit = max(float(np.abs(heat.matrix).max()) for heat in row) or 1.0
            for axes, heat in zip(axes_of_row, row, strict=True):
                image = _draw_heat(axes, heat, limit)
            figure.colorbar(image, ax=list(axes_of_row), shrink=0.85, pad=0.01)
    return figure


def _draw_heat(axes: Axes, heat: Heat, limit: float) -> Any:
    image = axes.imshow(heat.matrix, cmap="RdBu_r", norm=TwoSlopeNorm(0, -limit, limit), interpolation="nearest", aspect="auto")
    for edge in heat.edges_x:
        axes.axvline(edge - 0.5, color="black", linewidth=0.6)
    for edge in heat.edges_y:
        axes.axhline(edge - 0.5, color="black", linewidth=0.6)
    axes.set_title(heat.title, loc="left")
    rows, columns = heat.matrix.shape
    axes.set_xticks(range(0, columns, max(1, columns // 4)))
    axes.set_yticks(range(0, rows, max(1, rows // 4)))
    return image


def _draw(axes: Axes, chart: Chart, *, grid: bool = True) -> None:
    """A chart with its axes; titles and legends are up to the figure."""
    for axis, name in ((chart.x, "x"), (chart.y, "y")):
        axes.set(**{f"{name}scale": "log" if axis.log else "linear", f"{name}label": axis.label.tex})
    for layer in chart.layers:
        _draw_layer(axes, layer)
    _set_axis(axes.xaxis, chart.x)
    _set_axis(axes.yaxis, chart.y)
    if chart.x.ends is not None:
        axes.set_xlim(chart.x.ends)
    if chart.y.ends is not None:
        axes.set_ylim(chart.y.ends)
    if chart.x.words and chart.x.ticks is not None:
        names = [textwrap.fill(name.tex, NAME_LETTERS) for name in chart.x.words]
        axes.set_xticks(chart.x.ticks, names, rotation=30, ha="right")
    if grid:
        axes.grid(visible=True, axis="both" if chart.y.grid else "x", color=FAINT.light, linewidth=0.4, alpha=0.6)
        axes.set_axisbelow(True)


def _set_axis(axis: MatplotlibAxis, shown: Axis) -> None:
    """The ticks of an axis and no others, spelled as numbers or by their names."""
    if shown.percent:
        axis.set_major_formatter(PercentFormatter(1.0, decimals=None))
    if shown.ticks is None:
        return
    axis.set_major_locator(FixedLocator(list(shown.ticks)))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
    if shown.words:
        axis.set_ticks(list(shown.ticks), [word.tex for word in shown.words])
    else:
        axis.set_major_formatter(FuncFormatter(lambda value, _place: tick_words(value)))


def _draw_layer(axes: Axes, layer: Layer) -> None:
    colour = layer.shade.light
    match layer:
        case Line():
            if layer.low is not None and layer.high is not None:
                axes.fill_between(layer.x, layer.low, layer.high, color=colour, alpha=layer.band_opacity, linewidth=0)
            axes.plot(
                layer.x, layer.y, color=colour, linewidth=LINE_POINTS * layer.width, linestyle=STROKES[layer.dash],
                label=layer.name.tex or None, zorder=3 if layer.role == "theory" else 2,
            )  # fmt: skip
        case Marks():
            _draw_marks(axes, layer)
        case OpenEnd():
            arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": 1.1, "mutation_scale": 8}
            end = layer.y * 1.13 if layer.is_high else layer.y / 1.13
            axes.annotate("", xy=(layer.x, end), xytext=(layer.x, layer.y), arrowprops=arrow)
            if layer.is_threshold:
                axes.plot([layer.x], [layer.y], marker="_", color=colour, markersize=9, markeredgewidth=1.6, zorder=3)
        case Rule():
            draw = axes.axvline if layer.axis == "x" else axes.axhline
            draw(layer.at, color=colour, linewidth=LINE_POINTS * layer.width, linestyle=STROKES[layer.dash])
            if layer.name.tex:
                place: Any = {"xycoords": ("data", "axes fraction"), "xytext": (2, -9), "textcoords": "offset points"}
                axes.annotate(layer.name.tex, (layer.at, 1), fontsize=8, **place)
        case Tiles():
            for place in layer.filled:
                low, high = layer.edges[place], layer.edges[place + 1]
                alpha = tile_opacity(layer.shares[place])
                axes.fill_between([layer.x_low, layer.x_high], low, high, color=colour, alpha=alpha, linewidth=0, zorder=1)
        case Span():
            axes.axvspan(layer.low, layer.high, color=colour, alpha=layer.opacity, linewidth=0)
        case _:
            assert_never(layer)


def _draw_marks(axes: Axes, marks: Marks) -> None:
    if not len(marks.x):
        return
    colour = marks.shade.light
    x, y = np.asarray(marks.x, dtype=float), np.asarray(marks.y, dtype=float)
    reach: dict[str, Any] = {}
    if marks.low is not None and marks.high is not None:
        middle = x if marks.interval_of == "x" else y
        reach[f"{marks.interval_of}err"] = np.maximum([middle - np.asarray(marks.low), np.asarray(marks.high) - middle], 0)
    look: dict[str, Any] = {"markeredgewidth": 0} if marks.opacity < 1 else {} if marks.size <= 6 else {
        "markerfacecolor": CARD.light if marks.hollow else colour, "markeredgecolor": colour if marks.hollow else CARD.light,
        "markeredgewidth": 1.1 if marks.hollow else 0.6,
    }  # fmt: skip
    axes.errorbar(
        x, y, **reach, color=colour, marker=paper_mark(marks.shape), alpha=marks.opacity,
        markersize=MARK_POINTS * marks.size, linewidth=LINE_POINTS * marks.width,
        linestyle=STROKES[marks.dash] if marks.dash else "none", elinewidth=1.1, capsize=2.5, capthick=1.1, zorder=3,
        label=marks.name.tex or None, **look,
    )  # fmt: skip
