"""Drawings on the page, as plotly specifications: a figure a panel, and a figure a heat map."""

import re
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dashboards.page.interactive import Spec, base_axis, base_layout, spec_of, stroke
from dashboards.plots import Heat, Plot, PlotPanel, Trace
from dashboards.words import INK, MUTED, Dash, translucent

DASH: dict[Dash, str] = {"solid": "solid", "dashed": "dash", "dashdot": "dashdot", "dotted": "dot"}


def panel_spec(plot: Plot, panel: PlotPanel) -> Spec:
    """One panel of a plot; all of them share the range of the y axis."""
    figure = go.Figure()
    for trace in panel.traces:
        _add(figure, trace, points=plot.points)
    for x, name in panel.marks:
        figure.add_vline(x=x, line=stroke(MUTED.light, 1.1, "dot"), annotation={"text": html_label(name), "font": {"size": 11}})
    figure.update_layout(
        base_layout(left=54, bottom=44),
        xaxis=_axis(plot.x_label, log=plot.log_x) | (_ticks(plot) if plot.log_x else {}),
        yaxis=_axis(plot.y_label, log=plot.log_y) | _range(plot),
        legend={"orientation": "h", "y": -0.2, "yanchor": "top", "font": {"size": 11.5, "color": INK.light}},
        showlegend=True,
    )
    return spec_of(figure)


def heat_spec(heat: Heat, limit: float) -> Spec:
    """One heat map, zero in the middle of its colours."""
    rows, columns = heat.matrix.shape
    figure = go.Figure(
        go.Heatmap(
            z=np.round(heat.matrix.astype(float), 5), zmin=-limit, zmax=limit, colorscale="RdBu", reversescale=True,
            colorbar={"thickness": 10, "len": 0.9}, hovertemplate="row %{y}, column %{x}<br>%{z:.4f}<extra></extra>",
        )
    )  # fmt: skip
    for edge in heat.edges_x:
        figure.add_shape(type="line", x0=edge - 0.5, x1=edge - 0.5, y0=-0.5, y1=rows - 0.5, line=stroke(INK.light, 1))
    for edge in heat.edges_y:
        figure.add_shape(type="line", y0=edge - 0.5, y1=edge - 0.5, x0=-0.5, x1=columns - 0.5, line=stroke(INK.light, 1))
    figure.update_layout(base_layout(left=34, bottom=26), yaxis=base_axis() | {"autorange": "reversed"}, xaxis=base_axis())
    return spec_of(figure)


def html_label(text: str) -> str:
    """A label with formulas in dollars as plotly's HTML: `$T_{test}$` becomes an italic T with an index."""
    pieces = text.split("$")
    return "".join(_formula(piece) if place % 2 else piece for place, piece in enumerate(pieces))


def _formula(text: str) -> str:
    text = re.sub(r"_\{([^}]*)\}", r"<sub>\1</sub>", text)
    return re.sub(r"(?<![<\w/])([A-Za-z])(?![\w>])", r"<i>\1</i>", text)


def _add(figure: go.Figure, trace: Trace, *, points: bool) -> None:
    colour, name = trace.shade.light, html_label(trace.name)
    if trace.low is not None and trace.high is not None and not points:
        figure.add_scatter(
            x=np.concatenate([trace.x, trace.x[::-1]]), y=np.concatenate([trace.low, trace.high[::-1]]), fill="toself",
            fillcolor=translucent(colour, 0.16), line={"width": 0}, hoverinfo="skip", showlegend=False,
        )  # fmt: skip
    more: dict[str, Any] = {}
    if trace.low is not None and trace.high is not None and points:
        more["error_y"] = {
            "type": "data", "symmetric": False, "array": trace.high - trace.y, "arrayminus": trace.y - trace.low,
            "color": colour, "thickness": 1.3, "width": 4,
        }  # fmt: skip
    figure.add_scatter(
        x=trace.x, y=trace.y, mode="lines+markers" if points and trace.role == "data" else "lines", name=name,
        line=stroke(colour, 2 if trace.role == "data" else 1.6, DASH[trace.dash]), marker={"size": 6},
        hovertemplate=f"{name}<br>%{{x}}: %{{y:.4g}}<extra></extra>", **more,
    )  # fmt: skip


def _axis(title: str, *, log: bool) -> Spec:
    named = {"title": {"text": html_label(title), "standoff": 8, "font": {"size": 13}}}
    return base_axis() | named | ({"type": "log"} if log else {})


def _ticks(plot: Plot) -> Spec:
    return {"tickvals": list(plot.x_ticks), "ticktext": [f"{tick:g}" for tick in plot.x_ticks]}


def _range(plot: Plot) -> Spec:
    """The range of all panels, so that they compare at a glance."""
    ends = [
        end for panel in plot.panels for trace in panel.traces for end in (trace.low, trace.high, trace.y) if end is not None
    ]
    values = np.concatenate(ends) if ends else np.array([])
    values = values[np.isfinite(values) & ((values > 0) | (not plot.log_y))]
    if not len(values):
        return {}
    low, high = float(values.min()), float(values.max())
    if plot.log_y:
        low, high = np.log10(low), np.log10(high)
    margin = 0.05 * (high - low) or 0.5
    return {"range": [low - margin, high + margin]}
