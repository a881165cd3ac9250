"""Vega-Lite charts of the W&B boards, for what W&B's own panels do not draw: intervals, laws with bands, a target line a cell.

The charts of thresholds and losses carry their numbers, those of the paper's figures. The chart of statuses draws W&B's runs as
they are: there `${field:x}` stands for a column of W&B's query.
"""

import hashlib
import json
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dashboards.plots import CellView, Line, Mark, Panel, Series
from dashboards.publishing import CELL, STATUS
from dashboards.words import FAINT, INK, MUTED, TARGET, architecture_name, mark_shape, round_numbers, series_shade

Spec = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
RUNS = {"name": "wandb"}
"""The data that W&B puts in: a row a run."""

FONT = "Source Sans Pro, system-ui, sans-serif"
MAX_SMALL_PANELS = 24
MAX_TICKS = 6
SUBTITLE_LETTERS = 62
"""What fits on a line over a panel of the threshold chart."""

STATUS_COLOURS = {"finished": "#009e73", "diverged": "#d55e00", "failed": "#b3456f"}


@dataclass(frozen=True)
class Chart:
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


def threshold_chart(panels: Sequence[Panel], *, level: float) -> Chart:
    """Width threshold against T, both architectures side by side, with intervals, censored cells, laws and their bands."""
    title = f"Width thresholds with {level:.0%} intervals"
    drawn = [_threshold_panel(panel, level=level) for panel in panels]
    return Chart("thresholds", title, _whole(hconcat=drawn, resolve={"scale": {"color": "independent"}}))


def loss_chart(cells: Sequence[CellView]) -> Chart:
    """Loss against width, a small panel a cell: trials as dots, their median as a line, the target, the interval."""
    panels = [_loss_panel(cell) for cell in cells[:MAX_SMALL_PANELS]]
    return Chart("loss-against-width", "Loss against width by cell", _whole(concat=panels, columns=3))


def status_chart() -> Chart:
    """How many trials of each cell ended in which way."""
    cell, status = f"${{field:{CELL}}}", f"${{field:{STATUS}}}"
    spec = _whole(
        transform=[{"calculate": f"isValid(datum['{status}']) ? datum['{status}'] : 'training'", "as": "end"}],
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
    return Chart("statuses", "How trials ended, by cell", spec, config=(CELL,), summary=(STATUS,))


def _loss_panel(cell: CellView) -> Spec:
    colour, threshold = series_shade(cell.kind, 0).light, cell.threshold
    tried = tuple(dict.fromkeys(cell.median_widths))
    x = _log_axis(
        "m",
        f"{threshold.size.quantity} {threshold.size.letter}",
        cell.width_range,
        tried if len(tried) <= MAX_TICKS else cell.width_ticks,
    )
    y = _log_axis("loss", "relative loss", cell.loss_range, _few(round_numbers(*cell.loss_range)))
    point = {"x": x, "y": y, "tooltip": [{"field": "m"}, {"field": "loss"}]}
    dots, medians = _points(cell.dot_widths, cell.dot_losses), _points(cell.median_widths, cell.median_losses)
    layers = [
        _layer([{"loss": cell.target_loss}], {"type": "rule", "color": TARGET.light, "strokeDash": [4, 3]}, {"y": y}),
        _layer(dots, {"type": "point", "filled": True, "size": 16, "opacity": 0.5, "color": colour}, point),
        _layer(medians, {"type": "line", "color": colour, "strokeWidth": 1.6}, point),
    ]
    if threshold.status == "found" and threshold.low is not None and threshold.high is not None:
        interval, band = [{"m": threshold.low, "to": threshold.high}], {"type": "rect", "color": colour, "opacity": 0.16}
        layers.insert(0, _layer(interval, band, {"x": x, "x2": {"field": "to"}}))
    title = {"text": f"{architecture_name(cell.kind, short=True)}, {cell.name}", "fontSize": 11, "anchor": "start"}
    return {"title": title, "width": 230, "height": 150, "layer": layers}


def _few(ticks: Sequence[float]) -> Sequence[float]:
    return ticks[:: math.ceil(len(ticks) / MAX_TICKS)] if ticks else ticks


def _layer(rows: Sequence[Mapping[str, Any]], mark: Spec, encoding: Spec) -> Spec:
    return {"data": {"values": list(rows)}, "mark": mark, "encoding": encoding}


def _log_axis(field: str, title: str, ends: tuple[float, float], ticks: Sequence[float]) -> Spec:
    scale = {"type": "log", "domain": list(ends), "nice": False}
    axis = {"values": list(ticks), "format": "~g"}
    return {"field": field, "type": "quantitative", "title": title, "scale": scale, "axis": axis}


def _points(widths: Sequence[int], losses: Sequence[float]) -> list[dict[str, float]]:
    return [{"m": m, "loss": loss} for m, loss in zip(widths, _rounded(losses), strict=True)]


def _threshold_panel(panel: Panel, *, level: float) -> Spec:
    layers = [layer for series in panel.series for layer in _series_layers(series, level=level)]
    inks = {line.name.text: _ink(line, series.shade.light) for series in panel.series for line in series.lines}
    return {
        "title": {
            "text": panel.title,
            "subtitle": textwrap.wrap(panel.setting.replace("`", ""), SUBTITLE_LETTERS),
            "anchor": "start",
            "subtitleColor": MUTED.light,
        },
        "width": 360,
        "height": 300,
        "encoding": {
            "x": _log_axis("x", panel.letter, panel.x_range, panel.x_ticks),
            "y": _log_axis("y", f"{panel.size.threshold_words} {panel.size.letter}*", panel.y_range, panel.y_ticks),
            "color": {
                "type": "nominal",
                "title": None,
                "scale": {"domain": [*inks], "range": [*inks.values()]},
                "legend": {"orient": "bottom-right", "symbolType": "stroke", "symbolStrokeWidth": 2.5} if inks else None,
            },
        },
        "layer": layers,
    }


def _series_layers(series: Series, *, level: float) -> Iterable[Spec]:
    colour, name = series.shade.light, f"{series.name}, {level:.0%} interval"
    for line in series.lines:
        yield from _line_layers(line, colour)
    marks = [_mark_row(mark, name) for mark in series.marks]
    bars = {
        "data": {"values": marks},
        "mark": {"type": "rule", "color": colour, "strokeWidth": 1.6},
        "encoding": {"y": {"field": "low"}, "y2": {"field": "high"}},
    }
    points = {
        "data": {"values": [mark for mark in marks if mark["m"] is not None]},
        "mark": {
            "type": "point",
            "filled": True,
            "size": 70,
            "shape": mark_shape(series.kind)[0],
            "color": colour,
            "opacity": 1,
        },
        "encoding": {"y": {"field": "m"}, "tooltip": {"field": "text"}},
    }
    yield from (bars, points)
    for end, shape in (("high", "triangle-up"), ("low", "triangle-down")):
        if open_ends := [mark for mark in marks if mark[f"{end}_open"]]:
            yield {
                "data": {"values": open_ends},
                "mark": {"type": "point", "filled": True, "size": 90, "shape": shape, "color": colour, "opacity": 1},
                "encoding": {"y": {"field": end}, "tooltip": {"field": "text"}},
            }


def _ink(line: Line, colour: str) -> str:
    return {"law": colour, "rival": MUTED.light, "floor": INK.light, "relu": MUTED.light}[line.role]


def _line_layers(line: Line, colour: str) -> Iterable[Spec]:
    dash = {"law": None, "rival": [8, 3, 2, 3], "floor": [6, 3], "relu": [2, 3]}[line.role]
    low, high = (line.y, line.y) if line.low is None or line.high is None else (line.low, line.high)
    rows = [
        {"x": x, "y": y, "low": bottom, "high": top, "name": line.name.text}
        for x, y, bottom, top in zip(*(_rounded(column) for column in (line.x, line.y, low, high)), strict=True)
    ]
    if line.low is not None:
        yield {
            "data": {"values": rows},
            "mark": {"type": "area", "color": _ink(line, colour), "opacity": 0.16, "clip": True},
            "encoding": {"y": {"field": "low"}, "y2": {"field": "high"}},
        }
    yield {
        "data": {"values": rows},
        "mark": {"type": "line", "clip": True, "strokeWidth": 1.6, **({"strokeDash": dash} if dash else {})},
        "encoding": {"y": {"field": "y"}, "color": {"datum": line.name.text}, "tooltip": {"field": "name"}},
    }


def _mark_row(mark: Mark, name: str) -> dict[str, Any]:
    return {
        "series": name,
        "x": mark.x,
        "m": mark.m,
        "low": mark.low,
        "high": mark.high,
        "low_open": mark.low_open,
        "high_open": mark.high_open,
        "text": mark.text.replace("<br>", ", "),
    }


def _rounded(column: Iterable[float]) -> list[float]:
    return [float(f"{value:.6g}") for value in column]


def _whole(**parts: Any) -> Spec:
    """A chart with what all of them have in common."""
    axis = {"gridColor": "#eceef0", "domainColor": FAINT.light, "tickColor": FAINT.light, "labelColor": INK.light}
    look = {"font": FONT, "axis": axis | {"titleFontWeight": "normal"}, "view": {"stroke": None}, "legend": {"orient": "top"}}
    return {"$schema": SCHEMA, "data": RUNS, "config": look, **parts}
