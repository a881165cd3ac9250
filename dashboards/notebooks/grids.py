"""Several of the page's figures as one plotly figure, in rows and columns, with a title over each."""

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dashboards.page import Spec
from dashboards.words import CARD, INK


@dataclass(frozen=True)
class Titled:
    """One figure of the page and the title that stands over it."""

    title: str
    spec: Spec


def grid(figures: Sequence[Titled], *, columns: int, size: tuple[int, int], x: str = "", y: str = "") -> go.Figure:
    """One figure of several, each of a width and height in pixels; `x` and `y` label the outer axes of those that share them.

    Without a figure, words say that there is nothing to draw yet.
    """
    if not figures:
        return go.Figure(layout={"annotations": [{"text": "nothing to draw yet", "showarrow": False}], "height": 120})
    columns = min(columns, len(figures))
    rows = -(-len(figures) // columns)
    whole = make_subplots(rows, columns, subplot_titles=[figure.title for figure in figures], vertical_spacing=0.3 / rows)
    for place, figure in enumerate(figures):
        _place(whole, figure.spec, place)
        last = place + columns >= len(figures)
        labels = {"xaxis": x if last else "", "yaxis": y if place % columns == 0 else ""}
        whole.update_layout({_name(axis, place): {"title": {"text": text}} for axis, text in labels.items() if text})
    font = {"family": figures[0].spec["layout"].get("font", {}).get("family"), "color": INK.light, "size": 12}
    legend = {"orientation": "h", "yanchor": "top", "y": -0.16}
    width, height = size
    shown = {"width": width * columns, "height": height * rows + 90, "font": font, "legend": legend}
    whole.update_layout(**shown, paper_bgcolor=CARD.light, plot_bgcolor=CARD.light, margin={"l": 60, "r": 20, "t": 50, "b": 60})
    whole.update_annotations(font={"size": 13})
    return whole


def _place(whole: go.Figure, spec: Spec, place: int) -> None:
    """Draw a figure's traces, shapes and axes at a place of the whole one."""
    x, y = _reference("x", place), _reference("y", place)
    for trace in spec["data"]:
        in_legend = spec["layout"].get("showlegend", False) and trace.get("showlegend", True)
        whole.add_trace({**trace, "xaxis": x, "yaxis": y, "showlegend": in_legend})
    for shape in spec["layout"].get("shapes", ()):
        references = {name: _moved(shape.get(name, name[0]), place) for name in ("xref", "yref")}
        whole.add_shape({**shape, **references})
    for axis in ("xaxis", "yaxis"):
        own = {key: value for key, value in spec["layout"].get(axis, {}).items() if key not in ("domain", "anchor")}
        whole.update_layout({_name(axis, place): own})


def _moved(reference: str, place: int) -> str:
    """`y domain` of the third place is `y3 domain`."""
    return _reference(reference[0], place) + reference[1:]


def _reference(letter: str, place: int) -> str:
    return letter if place == 0 else f"{letter}{place + 1}"


def _name(axis: str, place: int) -> str:
    return axis if place == 0 else f"{axis}{place + 1}"
