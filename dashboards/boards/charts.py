"""Vega-Lite charts of the W&B boards, for what W&B's own panels do not draw: intervals, laws with bands, a target line a cell.

The charts of thresholds and losses carry their numbers, those of the paper's figures. The chart of statuses draws W&B's runs as
they are: there `${field:x}` stands for a column of W&B's query.
"""

import hashlib
import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

from dashboards.plots import Axis, Chart, Layer, Line, Marks, OpenEnd, Rule, Span, Tiles, tile_opacity
from dashboards.publishing import CELL, STATUS, TRIAL_ID
from dashboards.words import FAINT, INK, MUTED, Dash

Spec = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
RUNS = {"name": "wandb"}
"""The data that W&B puts in: a row a run."""

FONT = "Source Sans Pro, system-ui, sans-serif"
MAX_SMALL_PANELS = 24
SUBTITLE_LETTERS = 62
"""What fits on a line over a panel of the threshold chart."""

DASHES: dict[Dash, list[int]] = {"solid": [], "dashed": [6, 3], "dashdot": [8, 3, 2, 3], "dotted": [2, 3]}
STATUS_COLOURS = {"finished": "#009e73", "diverged": "#d55e00", "failed": "#b3456f"}


@dataclass(frozen=True)
class BoardChart:
    """A chart to register with W&B, and the columns that it asks of each run's config and summary."""

    kind: str
    title: str
    spec: Spec
    config: tuple[str, ...] = ()
    summary: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name in W&B: another chart has another name, so that a board never shows a chart that was changed under it."""
        digest = hashlib.sha256(json.dumps(self.spec, sort_keys=True).encode()).hexdigest()[:10]
        return f"stsq-{self.kind}-{digest}"

    @property
    def fields(self) -> dict[str, str]:
        """The column of W&B's query that each `${field:x}` stands for: the field's own name."""
        return {name: name for name in (*self.config, *self.summary)}

    def filled(self, rows: Sequence[Mapping[str, Any]]) -> Spec:
        """The chart as W&B draws it over these rows."""
        text = json.dumps(self.spec)
        for name, column in self.fields.items():
            text = text.replace(f"${{field:{name}}}", column)
        filled: Spec = json.loads(text)
        return filled | {"datasets": {"wandb": [dict(row) for row in rows]}}


def threshold_chart(charts: Sequence[Chart], *, level: float) -> BoardChart:
    """Width thresholds, a panel a chart, with intervals, censored cells, laws and their bands."""
    if charts[0].is_small:
        colours = {name: colour for chart in charts for name, colour in _colours(chart).items()}
        legend = {"orient": "top", "columns": 3, "labelLimit": 400}
        panels = [_panel(chart, width=250, height=190, colours=colours, legend=legend) for chart in charts]
        whole = _whole(concat=panels, columns=3)
    else:
        panels = [_panel(chart, width=360, height=300, subtitle=chart.note) for chart in charts]
        whole = _whole(hconcat=panels, resolve={"scale": {"color": "independent"}})
    return BoardChart("thresholds", f"Width thresholds with {level:.0%} intervals", whole)


def phase_chart(charts: Sequence[Chart]) -> BoardChart:
    """The fraction of seeds solved over the width and a letter of the task, a panel a series of cells."""
    panels = [_panel(chart, width=300, height=260) for chart in charts]
    whole = _whole(concat=panels, columns=2, resolve={"scale": {"color": "independent"}})
    return BoardChart("phase-diagram", "Phase diagram: fraction of seeds solved", whole)


def loss_chart(charts: Sequence[Chart]) -> BoardChart:
    """Loss against width, a small panel a cell: trials as dots, their median as a line, the target, the interval."""
    panels = []
    for chart in charts[:MAX_SMALL_PANELS]:
        layers = tuple(layer for layer in chart.layers if not (isinstance(layer, Line) and layer.role == "floor"))
        panels.append(_panel(replace(chart, layers=layers), width=230, height=150))
    return BoardChart("loss-against-width", "Loss against width by cell", _whole(concat=panels, columns=3))


def status_chart(*, with_searches: bool = False) -> BoardChart:
    """How many trials of each cell ended in which way; `with_searches` leaves out the runs that show a search."""
    cell, status, trial = f"${{field:{CELL}}}", f"${{field:{STATUS}}}", f"${{field:{TRIAL_ID}}}"
    trials_alone = [{"filter": f"isValid(datum['{trial}'])"}] if with_searches else []
    ends = {"calculate": f"isValid(datum['{status}']) ? datum['{status}'] : 'training'", "as": "end"}
    spec = _whole(
        transform=[*trials_alone, ends],
        width=420,
        mark={"type": "bar", "height": {"band": 0.7}},
        encoding={
            "y": {"field": cell, "type": "nominal", "title": None, "axis": {"labelLimit": 320}},
            "x": {"aggregate": "count", "title": "trials", "axis": {"tickMinStep": 1}},
            "color": {
                "field": "end",
                "title": "status",
                "scale": {
                    "domain": [*STATUS_COLOURS, "training"],
                    "range": [*STATUS_COLOURS.values(), FAINT.light],
                },
            },
        },
    )
    config = (CELL, TRIAL_ID) if with_searches else (CELL,)
    return BoardChart("statuses", "How trials ended, by cell", spec, config=config, summary=(STATUS,))


def _colours(chart: Chart) -> dict[str, str]:
    """The colours of its legend by name: of small multiples marks are named, and elsewhere lines."""
    named: list[Line | Marks] = [*chart.lines, *(chart.marks if chart.is_small else ())]
    return {layer.name.text: layer.shade.light for layer in named if layer.name.text}


def _panel(
    chart: Chart,
    *,
    width: int,
    height: int,
    subtitle: str = "",
    colours: Mapping[str, str] | None = None,
    legend: Mapping[str, Any] | None = None,
) -> Spec:
    """One pair of axes; `colours` and `legend` are those of several that share them."""
    title: Spec = {"text": chart.title, "anchor": "start"}
    if subtitle:
        title |= {"subtitle": textwrap.wrap(subtitle.replace("`", ""), SUBTITLE_LETTERS), "subtitleColor": MUTED.light}
    else:
        title["fontSize"] = 11
    colours = _colours(chart) if colours is None else colours
    scale = {"domain": [*colours], "range": [*colours.values()]}
    legend = legend or {"orient": "bottom-right", "symbolType": "stroke", "symbolStrokeWidth": 2.5}
    x, y = _axis("x", chart.x), _axis("y", chart.y)
    layers = [part for layer in chart.layers for part in _layers(layer, x, y, named_marks=chart.is_small)]
    panel = {"title": title, "width": width, "height": height, "layer": layers}
    if colours:
        panel["encoding"] = {"color": {"type": "nominal", "title": None, "scale": scale, "legend": legend}}
    return panel


def _axis(field: str, axis: Axis) -> Spec:
    ticks: Spec = {}
    if axis.ticks is not None:
        ticks = {"values": list(axis.ticks), "format": "~g"}
    if axis.words and axis.ticks is not None:
        names = {f"{tick:g}": word.text for tick, word in zip(axis.ticks, axis.words, strict=True)}
        ticks = {"values": list(axis.ticks), "labelExpr": f"({json.dumps(names)})[format(datum.value, '~g')]"}
    scale = {"type": "log" if axis.log else "linear", "nice": False} | ({"domain": list(axis.ends)} if axis.ends else {})
    return {"field": field, "type": "quantitative", "title": axis.label.text or None, "scale": scale, "axis": ticks}


def _layers(layer: Layer, x: Spec, y: Spec, *, named_marks: bool) -> Iterable[Spec]:
    colour = layer.shade.light
    match layer:
        case Line():
            dash = {"strokeDash": DASHES[layer.dash]} if layer.dash != "solid" else {}
            mark = {"type": "line", "clip": True, "strokeWidth": 1.6, **dash}
            if layer.low is not None and layer.high is not None:
                area = {"type": "area", "color": colour, "opacity": layer.band_opacity, "clip": True}
                band = _rows(x=layer.x, low=layer.low, high=layer.high)
                yield _layer(band, area, {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}})
            rows = _rows(x=layer.x, y=layer.y)
            if layer.name.text:
                yield _layer(rows, mark, {"x": x, "y": y, "color": {"datum": layer.name.text}})
            else:
                yield _layer(rows, mark | {"color": colour}, {"x": x, "y": y, "tooltip": [{"field": "x"}, {"field": "y"}]})
        case Marks():
            columns: dict[str, Any] = {"x": layer.x, "y": layer.y}
            if layer.low is not None and layer.high is not None:
                columns |= {"low": layer.low, "high": layer.high}
            rows = _rows(**columns)
            tooltip: Any = [{"field": "x"}, {"field": "y"}]
            if layer.texts:
                rows = [row | {"text": text.replace("<br>", ", ")} for row, text in zip(rows, layer.texts, strict=True)]
                tooltip = {"field": "text"}
            if "low" in columns:
                bar = {"type": "rule", "color": colour, "strokeWidth": 1.6}
                yield _layer(rows, bar, {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}})
            size = layer.size**2 if layer.size > 6 else 16
            mark = {"type": "point", "filled": not layer.hollow, "size": size, "shape": layer.shape, "color": colour}
            entry: Spec = {"color": {"datum": layer.name.text}} if named_marks and layer.name.text else {}
            yield _layer(rows, mark | {"opacity": layer.opacity}, {"x": x, "y": y, "tooltip": tooltip, **entry})
        case OpenEnd():
            shape = f"triangle-{'up' if layer.is_high else 'down'}"
            mark = {"type": "point", "filled": True, "size": 90, "shape": shape, "color": colour, "opacity": 1}
            row = {"x": layer.x, "y": layer.y, "text": layer.text.replace("<br>", ", ")}
            yield _layer([row], mark, {"x": x, "y": y, "tooltip": {"field": "text"}})
        case Rule():
            mark = {"type": "rule", "color": colour, "strokeDash": [4, 3]}
            yield _layer([{layer.axis: layer.at}], mark, {layer.axis: x if layer.axis == "x" else y})
        case Tiles():
            rows = [
                {"x": layer.x_low, "to": layer.x_high, "y": float(layer.edges[place]), "high": float(layer.edges[place + 1]),
                 "opacity": round(tile_opacity(layer.shares[place]), 3), "text": layer.texts[place]}
                for place in layer.filled
            ]  # fmt: skip
            opacity = {"field": "opacity", "type": "quantitative", "scale": None}
            across = {"x": x, "x2": {"field": "to"}, "y": y, "y2": {"field": "high"}}
            yield _layer(rows, {"type": "rect", "color": colour}, across | {"opacity": opacity, "tooltip": {"field": "text"}})
        case Span():
            mark = {"type": "rect", "color": colour, "opacity": layer.opacity}
            yield _layer([{"x": layer.low, "to": layer.high}], mark, {"x": x, "x2": {"field": "to"}})
        case _:
            assert_never(layer)


def _layer(rows: Sequence[Mapping[str, Any]], mark: Spec, encoding: Spec) -> Spec:
    return {"data": {"values": list(rows)}, "mark": mark, "encoding": encoding}


def _rows(**columns: Iterable[float]) -> list[dict[str, Any]]:
    """Rows of numbers to six digits, but thresholds and their intervals whole."""
    exact = "low" in columns and "y" in columns
    rounded = {name: [float(v) if exact else float(f"{v:.6g}") for v in column] for name, column in columns.items()}
    return [dict(zip(rounded, row, strict=True)) for row in zip(*rounded.values(), strict=True)]


def _whole(**parts: Any) -> Spec:
    """A chart with what all of them have in common."""
    axis = {"gridColor": "#eceef0", "domainColor": FAINT.light, "tickColor": FAINT.light, "labelColor": INK.light}
    look = {"font": FONT, "axis": axis | {"titleFontWeight": "normal"}, "view": {"stroke": None}, "legend": {"orient": "top"}}
    return {"$schema": SCHEMA, "data": RUNS, "config": look, **parts}
