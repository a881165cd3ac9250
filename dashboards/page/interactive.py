"""Charts as plotly specifications in the light theme's colours; the page's script swaps them on a dark page.

The specifications are plain dictionaries: plotly's own objects check every property, a tenth of a second a figure, and a page
has hundreds of figures.
"""

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, Literal, assert_never

import numpy as np
from plotly.colors import get_colorscale
from plotly.offline import get_plotlyjs

from dashboards.plots import Axis, Chart, Heat, Layer, Line, Marks, OpenEnd, Rule, Span, Tiles, tile_opacity
from dashboards.words import CARD, FAINT, INK, MUTED, Dash, tick_words, translucent

Spec = dict[str, Any]

FONT = '"Inter", system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif'
DASHES: dict[Dash, str] = {"solid": "solid", "dashed": "dash", "dashdot": "dashdot", "dotted": "dot"}
LEGENDS: dict[str, Spec] = {
    "above": {"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom", "font": {"size": 12}},
    "below": {"orientation": "h", "y": -0.2, "yanchor": "top", "font": {"size": 11.5, "color": INK.light}},
}
STRIPS = ((0.86, 1.0), (0.65, 0.81), (0.0, 0.6))
"""Parts of the height of three charts above each other."""


def plotly_script() -> str:
    """plotly.js itself, to be put into the page so that it needs no network."""
    return str(get_plotlyjs())


def plotly_spec(
    chart: Chart, *, legend: Literal["above", "below"] | None = None, small: bool = False, labels_inside: bool = False
) -> Spec:
    """A chart as a figure.

    Args:
        chart: what to draw.
        legend: where named layers are listed; None where the page lists them below the figure.
        small: leave out the labels of the axes, which the page's text gives.
        labels_inside: put the names on the y axis above their marks, so that narrow screens have room.
    """
    y_axis = _axis(chart.y, small=small)
    annotations = [note for layer in chart.layers for note in _rule_name(chart, layer)]
    if labels_inside:
        annotations += [_label_above(marks, words.html) for marks, words in zip(chart.marks, chart.y.words, strict=True)]
        y_axis |= {"range": [-0.5, len(chart.y.words) - 0.25], "showticklabels": False, "showline": False}
    left, bottom = (38, 24) if small else (12 if labels_inside else 54, 44)
    layout = _layout(left=left, bottom=bottom) | {
        "xaxis": _axis(chart.x, small=small)
        | ({"nticks": 4, "rangemode": "tozero"} if small and not chart.x.log else {})
        | (_named_below(chart.x) if chart.x.words else {}),
        "yaxis": y_axis,
        "shapes": [shape for layer in chart.layers for shape in _shapes(layer)],
        "annotations": annotations,
        "legend": LEGENDS[legend] if legend else {},
        "showlegend": legend is not None,
    }
    return _figure({"data": [trace for layer in chart.layers for trace in _traces(layer)], "layout": layout})


def plotly_strips(charts: Sequence[Chart]) -> Spec:
    """Three charts above each other over one x axis; lines and spans across x of the uppermost pass through all."""
    layout = _layout(left=54, bottom=44) | {"showlegend": False, "hovermode": "closest", "shapes": []}
    layout["xaxis"] = _axis(charts[-1].x) | {"anchor": "y"}
    data: list[Spec] = []
    for place, (chart, domain) in enumerate(zip(charts, STRIPS, strict=True)):
        y = ("y3", "y2", "y")[place]
        axis = _axis(chart.y) | {"domain": domain}
        if y != "y":
            axis["title"] |= {"font": {"size": 12, "color": MUTED.light}}
        layout[y.replace("y", "yaxis")] = axis
        data += [trace | {"yaxis": y} for layer in chart.layers for trace in _traces(layer)]
        layout["shapes"] += [shape for layer in chart.layers for shape in _shapes(layer, y=y, through=place == 0)]
    return _figure({"data": data, "layout": layout})


def heat_spec(heat: Heat, limit: float) -> Spec:
    """One heat map, zero in the middle of its colours."""
    rows, columns = heat.matrix.shape
    trace = {
        "type": "heatmap", "z": np.round(heat.matrix.astype(float), 5), "zmin": -limit, "zmax": limit,
        "colorscale": get_colorscale("RdBu"),
        "reversescale": True, "colorbar": {"thickness": 10, "len": 0.9, "outlinewidth": 0, "ticks": ""},
        "hovertemplate": "row %{y}, column %{x}<br>%{z:.4f}<extra></extra>",
    }  # fmt: skip
    line = _stroke(INK.light, 1)
    down, across = {"y0": -0.5, "y1": rows - 0.5}, {"x0": -0.5, "x1": columns - 0.5}
    shapes = [{"type": "line", "x0": edge - 0.5, "x1": edge - 0.5, **down, "line": line} for edge in heat.edges_x]
    shapes += [{"type": "line", "y0": edge - 0.5, "y1": edge - 0.5, **across, "line": line} for edge in heat.edges_y]
    axes = {"yaxis": _base_axis() | {"autorange": "reversed"}, "xaxis": _base_axis()}
    return _figure({"data": [trace], "layout": _layout(left=34, bottom=26) | axes | {"shapes": shapes}})


def _traces(layer: Layer) -> Iterable[Spec]:
    match layer:
        case Line():
            if layer.low is not None and layer.high is not None:
                x, low, high = (np.asarray(column) for column in (layer.x, layer.low, layer.high))
                yield {
                    "type": "scatter", "x": np.concatenate([x, x[::-1]]), "y": np.concatenate([low, high[::-1]]),
                    "fill": "toself", "fillcolor": translucent(layer.shade.light, layer.band_opacity), "line": {"width": 0},
                    "mode": "lines", "hoverinfo": "skip", "showlegend": False,
                }  # fmt: skip
            if layer.width:
                yield {
                    "type": "scatter", "x": layer.x, "y": layer.y, "mode": "lines", "name": layer.name.html,
                    "line": _stroke(layer.shade.light, layer.width, layer.dash), "showlegend": bool(layer.name.html),
                    **_hover(layer.hover),
                }  # fmt: skip
        case Marks():
            colour = translucent(layer.shade.light, layer.opacity) if layer.opacity < 1 else layer.shade.light
            edge = {"width": 2, "color": colour} if layer.hollow else {"width": 1, "color": CARD.light}
            marker: Spec = {"symbol": layer.shape, "size": layer.size, "color": CARD.light if layer.hollow else colour}
            trace: Spec = {
                "type": "scatter", "x": layer.x, "y": layer.y, "mode": "lines+markers" if layer.dash else "markers",
                "name": layer.name.html, "showlegend": bool(layer.name.html),
                "marker": marker | ({"line": edge} if layer.size > 6 else {}), **_hover(layer.hover),
            }  # fmt: skip
            if layer.dash:
                shade = translucent(layer.shade.light, layer.joined_opacity) if layer.joined_opacity < 1 else layer.shade.light
                trace["line"] = _stroke(shade, layer.width, layer.dash)
            if layer.texts:
                trace["text"] = layer.texts
            if layer.low is not None and layer.high is not None:
                middle = np.asarray(layer.x if layer.interval_of == "x" else layer.y, dtype=float)
                trace[f"error_{layer.interval_of}"] = {
                    "type": "data", "symmetric": False, "color": layer.shade.light, "thickness": 1.8, "width": 4,
                    "array": np.asarray(layer.high) - middle, "arrayminus": middle - np.asarray(layer.low),
                }  # fmt: skip
            yield trace
        case OpenEnd():
            yield {
                "type": "scatter", "x": [layer.x], "y": [layer.y], "mode": "markers", "text": [layer.text],
                "marker": {"symbol": f"triangle-{'up' if layer.is_high else 'down'}", "size": 11, "color": layer.shade.light},
                "showlegend": False, **_hover("{text}"),
            }  # fmt: skip
        case Tiles():
            for place in layer.filled:
                bottom, top = layer.edges[place], layer.edges[place + 1]
                yield {
                    "type": "scatter", "x": [layer.x_low, layer.x_high, layer.x_high, layer.x_low],
                    "y": [bottom, bottom, top, top],
                    "fill": "toself", "fillcolor": translucent(layer.shade.light, tile_opacity(layer.shares[place])),
                    "line": {"width": 0}, "mode": "lines", "hoveron": "fills", "text": layer.texts[place], "hoverinfo": "text",
                    "showlegend": False,
                }  # fmt: skip
        case Rule() | Span():
            return
        case _:
            assert_never(layer)


def _shapes(layer: Layer, *, y: str = "y", through: bool = False) -> Iterable[Spec]:
    """Lines and regions across a chart; `through` all strips of a figure where they are at values of x."""
    down = {"xref": "x", "yref": "paper" if through else f"{y} domain", "y0": 0, "y1": 1}
    match layer:
        case Rule(axis="x"):
            line = _stroke(layer.shade.light, layer.width, layer.dash)
            yield {"type": "line", **down, "x0": layer.at, "x1": layer.at, "line": line}
        case Rule():
            line = _stroke(layer.shade.light, layer.width, layer.dash)
            yield {
                "type": "line",
                "xref": "x domain",
                "x0": 0,
                "x1": 1,
                "yref": y,
                "y0": layer.at,
                "y1": layer.at,
                "line": line,
            }
        case Span():
            fill = {"fillcolor": translucent(layer.shade.light, layer.opacity), "line": {"width": 0}, "layer": "below"}
            yield {"type": "rect", **down, "x0": layer.low, "x1": layer.high, **fill}


def _rule_name(chart: Chart, layer: Layer) -> Iterable[Spec]:
    if isinstance(layer, Rule) and layer.axis == "x" and layer.name.html:
        # Annotations on a logarithmic axis are placed by the logarithm, unlike shapes.
        x = math.log10(layer.at) if chart.x.log else layer.at
        place = {"x": x, "xref": "x", "xanchor": "left", "y": 1, "yref": "y domain", "yanchor": "top"}
        yield place | {"text": layer.name.html, "showarrow": False, "font": {"size": 11}}


def _label_above(marks: Marks, label: str) -> Spec:
    ends = marks.x if marks.low is None or marks.high is None else (marks.low[0], marks.high[0])
    return {
        "x": (float(ends[0]) + float(ends[-1])) / 2, "y": float(marks.y[0]) + 0.22, "text": label, "showarrow": False,
        "yanchor": "bottom", "font": {"size": 12, "color": INK.light}, "bgcolor": translucent(CARD.light, 0.85),
    }  # fmt: skip


def _hover(template: str) -> Spec:
    if not template:
        return {"hoverinfo": "skip"}
    return {"hovertemplate": re.sub(r"\{(x|y|text)(:[^}]*)?\}", r"%{\1\2}", template) + "<extra></extra>"}


def _layout(*, left: int, bottom: int) -> Spec:
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


def _base_axis() -> Spec:
    return {
        "gridcolor": translucent(FAINT.light, 0.5),
        "linecolor": FAINT.light,
        "tickfont": {"color": MUTED.light, "size": 11.5},
        "ticks": "",
        "zeroline": False,
        "showline": True,
        "fixedrange": True,
    }


def _axis(axis: Axis, *, small: bool = False) -> Spec:
    title = "" if small else axis.label.html
    spec = _base_axis() | {"showgrid": axis.grid, "title": {"text": title, "standoff": 8, "font": {"size": 13}}}
    if axis.log:
        spec["type"] = "log"
    if axis.ends is not None:
        spec["range"] = [math.log10(end) for end in axis.ends] if axis.log else list(axis.ends)
    if axis.words and axis.ticks is not None:
        spec |= {"tickvals": axis.ticks, "ticktext": [word.html for word in axis.words], "automargin": True, "tickangle": -30}
    elif axis.ticks is not None:
        spec |= {"tickvals": axis.ticks, "ticktext": [tick_words(tick) for tick in axis.ticks]}
    if axis.ticks == ():
        spec |= {"showticklabels": False, "rangemode": "tozero"}
    if axis.percent and axis.ends is not None:
        spec |= {"tickformat": "+.0%" if axis.ends[1] > 0.05 else "+.1%", "nticks": 7}
    return spec


def _named_below(axis: Axis) -> Spec:
    """Names below an axis: a line for each setting, and all of them, where plotly hides one that would leave the figure."""
    return {"ticktext": [word.html.replace(", ", ",<br>") for word in axis.words], "ticklabeloverflow": "allow"}


def _stroke(colour: str, width: float, dash: Dash = "solid") -> Spec:
    return {"color": colour, "width": width, "dash": DASHES[dash]}


def _figure(spec: Spec) -> Spec:
    plain: Spec = _plain(spec)
    return plain


def _plain(value: Any) -> Any:
    """Plain JSON values: arrays as lists, numbers to six digits, what is not finite as null."""
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
