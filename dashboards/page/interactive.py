"""The page's figures, as plotly specifications in the light theme's colours; the page's script swaps them for a dark page."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from dashboards.page.plain_figure import PlainFigure
from dashboards.plots import CellView, Line, Mark, Panel, Series
from dashboards.words import (
    CARD,
    FAINT,
    INK,
    MUTED,
    TARGET,
    loss_ticks,
    mark_shape,
    series_shade,
    tick_words,
    translucent,
    width_shade,
)

Spec = dict[str, Any]

FONT = '"Inter", system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif'


def plotly_script() -> str:
    """plotly.js itself, to be put into the page so that it needs no network."""
    return str(get_plotlyjs())


def threshold_plot(panel: Panel, *, level: float) -> Spec:
    """One panel of the threshold figure; what its lines and marks are stands below it, so that all panels are equally high."""
    figure = PlainFigure()
    for series in panel.series:
        for line in series.lines:
            _add_line(figure, line, series.shade.light)
        _add_marks(figure, series, level=level)
    figure.update_layout(
        base_layout(left=50, bottom=42),
        xaxis=_places_axis(panel) if panel.names else log_axis(panel.x_range, panel.x_ticks, f"<i>{panel.letter}</i>"),
        yaxis=log_axis(panel.y_range, panel.y_ticks, f"{panel.size.threshold_words} <i>{panel.size.letter}</i>*"),
        showlegend=False,
    )
    return spec_of(figure)


def _places_axis(panel: Panel) -> Spec:
    """An axis of named places."""
    return log_axis(panel.x_range, panel.x_ticks, "") | {"ticktext": list(panel.x_words), "automargin": True, "tickangle": -30}


def losses_plots(cells: Sequence[CellView]) -> list[Spec]:
    """Loss against width of cells that share their loss axis."""
    reach = _union(cell.loss_range for cell in cells)
    return [_losses_plot(cell, reach) for cell in cells]


def curves_plots(cells: Sequence[CellView]) -> list[Spec]:
    """Loss through training of cells that share their loss axis."""
    reach = _union(cell.curve_range for cell in cells)
    return [_curves_plot(cell, reach) for cell in cells]


def _losses_plot(cell: CellView, reach: tuple[float, float]) -> Spec:
    """One cell's loss against width: a dot a seed, the median as a line, the target, the exact floor, the interval."""
    colour = series_shade(cell.kind, 0).light
    figure = PlainFigure()
    if cell.floor is not None:
        figure.add_scatter(x=cell.floor[0], y=cell.floor[1], mode="lines", line=stroke(INK.light, 1.2, "dot"), hoverinfo="skip")
    figure.add_scatter(
        x=cell.dot_widths, y=cell.dot_losses, mode="markers", marker={"size": 5, "color": translucent(colour, 0.5)}, name="",
        hovertemplate=f"{cell.threshold.size.letter} = %{{x}}<br>relative loss %{{y:.4g}}",
    )  # fmt: skip
    figure.add_scatter(
        x=cell.median_widths, y=cell.median_losses, mode="lines", line=stroke(colour, 2), name="",
        hovertemplate=f"{cell.threshold.size.letter} = %{{x}}<br>median %{{y:.4g}}",
    )  # fmt: skip
    figure.add_hline(y=cell.target_loss, line=stroke(TARGET.light, 1.2, "dash"))
    threshold = cell.threshold
    if threshold.status == "found" and threshold.low is not None and threshold.high is not None:
        figure.add_vrect(x0=threshold.low, x1=threshold.high, fillcolor=translucent(colour, 0.16), line_width=0, layer="below")
    _set_small_axes(figure, log_axis(cell.width_range, cell.width_ticks, ""), reach)
    return spec_of(figure)


def _curves_plot(cell: CellView, reach: tuple[float, float]) -> Spec:
    """One cell's loss through training: the median over seeds of every width, narrow to wide in the ramp's colours."""
    figure = PlainFigure()
    for place, curve in enumerate(cell.curves):
        figure.add_scatter(
            x=curve.steps, y=curve.losses, mode="lines", line=stroke(width_shade(place, len(cell.curves)).light, 1.6),
            name="", hovertemplate=f"{cell.threshold.size.letter} = {curve.width}, step %{{x}}<br>%{{y:.4g}}",
        )  # fmt: skip
    figure.add_hline(y=cell.target_loss, line=stroke(TARGET.light, 1.2, "dash"))
    _set_small_axes(figure, base_axis() | {"nticks": 4, "rangemode": "tozero"}, reach)
    return spec_of(figure)


def _add_line(figure: go.Figure | PlainFigure, line: Line, colour: str) -> None:
    match line.role:
        case "law":
            if line.low is not None and line.high is not None:
                _add_band(figure, line.x, line.low, line.high, translucent(colour, 0.16))
            look = stroke(colour, 2)
        case "rival":
            if line.low is not None and line.high is not None:
                _add_band(figure, line.x, line.low, line.high, translucent(MUTED.light, 0.1))
            look = stroke(MUTED.light, 1.5, "dashdot")
        case "floor":
            look = stroke(INK.light, 1.5, "dash")
        case "relu":
            look = stroke(MUTED.light, 1.5, "dot")
    figure.add_scatter(
        x=line.x,
        y=line.y,
        mode="lines",
        line=look,
        name=line.name.html,
        hovertemplate=f"{line.name.html}<br>%{{y:.2f}}<extra></extra>",
    )


def _add_band(figure: go.Figure | PlainFigure, x: np.ndarray, low: np.ndarray, high: np.ndarray, colour: str) -> None:
    figure.add_scatter(
        x=np.concatenate([x, x[::-1]]), y=np.concatenate([low, high[::-1]]), fill="toself", fillcolor=colour,
        line={"width": 0}, mode="lines", hoverinfo="skip", showlegend=False,
    )  # fmt: skip


def _add_marks(figure: go.Figure | PlainFigure, series: Series, *, level: float) -> None:
    colour = series.shade.light
    for held_out in (False, True):
        found = [mark for mark in series.marks if mark.m is not None and mark.held_out is held_out]
        if held_out and not found:
            continue
        filled, edge = (CARD.light, {"width": 2, "color": colour}) if held_out else (colour, {"width": 1, "color": CARD.light})
        figure.add_scatter(
            x=[mark.x for mark in found], y=[mark.m for mark in found], mode="markers",
            name="held out of the fits" if held_out else f"{series.name}, {level:.0%} interval",
            text=[mark.text for mark in found], hovertemplate="%{text}<extra></extra>",
            marker={"symbol": mark_shape(series.kind)[0], "size": 8.5, "color": filled, "line": edge},
            error_y={
                "type": "data", "symmetric": False, "color": colour, "thickness": 1.8, "width": 5,
                "array": [mark.high - mark.m for mark in found if mark.m is not None],
                "arrayminus": [mark.m - mark.low for mark in found if mark.m is not None],
            },
        )  # fmt: skip
    for mark in series.marks:
        _add_open_ends(figure, mark, series)


def _add_open_ends(figure: go.Figure | PlainFigure, mark: Mark, series: Series) -> None:
    """Arrows where a threshold or an end of its interval lies beyond the widths that were tried."""
    for is_open, edge, symbol in ((mark.high_open, mark.high, "triangle-up"), (mark.low_open, mark.low, "triangle-down")):
        if is_open:
            figure.add_scatter(
                x=[mark.x], y=[edge], mode="markers", marker={"symbol": symbol, "size": 11, "color": series.shade.light},
                text=[mark.text], hovertemplate="%{text}<extra></extra>", showlegend=False,
            )  # fmt: skip


def _set_small_axes(figure: go.Figure | PlainFigure, x_axis: Spec, y_range: tuple[float, float]) -> None:
    figure.update_layout(
        base_layout(left=38, bottom=24), xaxis=x_axis, yaxis=log_axis(y_range, loss_ticks(*y_range), ""), showlegend=False
    )


def _union(ranges: Iterable[tuple[float, float]]) -> tuple[float, float]:
    lows, highs = zip(*ranges, strict=True)
    return min(lows), max(highs)


def base_layout(*, left: int, bottom: int) -> Spec:
    """What all figures of the page share."""
    return {
        "margin": {"l": left, "r": 8, "t": 8, "b": bottom},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 12, "color": INK.light},
        "hoverlabel": {"font": {"family": FONT, "size": 12}},
        "template": {},
        "dragmode": False,
    }


def base_axis() -> Spec:
    """What all axes share."""
    return {
        "gridcolor": translucent(FAINT.light, 0.5),
        "linecolor": FAINT.light,
        "tickfont": {"color": MUTED.light, "size": 11.5},
        "zeroline": False,
        "showline": True,
        "fixedrange": True,
    }


def log_axis(ends: tuple[float, float], ticks: Sequence[float], title: str) -> Spec:
    """A logarithmic axis with these ends and ticks."""
    return base_axis() | {
        "type": "log",
        "range": _log_range(ends),
        "tickvals": list(ticks),
        "ticktext": [tick_words(tick) for tick in ticks],
        "title": {"text": title, "standoff": 8, "font": {"size": 13}},
    }


def _log_range(ends: tuple[float, float]) -> list[float]:
    return [math.log10(ends[0]), math.log10(ends[1])]


def stroke(colour: str, width: float, dash: str = "solid") -> Spec:
    """A line's look."""
    return {"color": colour, "width": width, "dash": dash}


def spec_of(figure: go.Figure | PlainFigure) -> Spec:
    """The figure as plain JSON values: arrays as lists, so that a person can read them and a missing number is null."""
    spec = figure.to_plotly_json()
    return {"data": [_plain(trace) for trace in spec["data"]], "layout": _plain(spec["layout"])}


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {key: _plain(part) for key, part in value.items()}
        case list() | tuple() | np.ndarray():
            return [_plain(part) for part in value]
        case np.generic():
            return _plain(value.item())
        case float() if not math.isfinite(value):
            return None
        case float():
            return float(f"{value:.6g}")
    return value
