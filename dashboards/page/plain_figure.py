"""A plotly figure as the plain specification that a page needs: plotly's own objects check every property, a tenth of a second
a figure, and a page has hundreds. What is drawn is tested in a browser.
"""

from typing import Any


class PlainFigure:
    """The part of `plotly.graph_objects.Figure` that the page's many small figures use, unchecked."""

    def __init__(self) -> None:
        self._data: list[dict[str, Any]] = []
        self._layout: dict[str, Any] = {}

    def add_scatter(self, **trace: Any) -> None:
        """A trace of lines or marks."""
        self._data.append({"type": "scatter", **trace})

    def add_shape(self, **shape: Any) -> None:
        """A line or rectangle."""
        self._layout.setdefault("shapes", []).append(shape)

    def add_hline(self, *, y: float, line: dict[str, Any]) -> None:
        """A line across at a height."""
        self.add_shape(type="line", xref="x domain", x0=0, x1=1, yref="y", y0=y, y1=y, line=line)

    def add_vrect(self, *, x0: float, x1: float, fillcolor: str, line_width: float, layer: str) -> None:
        """A band from one x to another."""
        line = {"width": line_width}
        self.add_shape(
            type="rect", xref="x", x0=x0, x1=x1, yref="y domain", y0=0, y1=1, fillcolor=fillcolor, line=line, layer=layer
        )

    def update_layout(self, layout: dict[str, Any], **more: Any) -> None:
        """Set parts of the layout."""
        self._layout |= layout | more

    def to_plotly_json(self) -> dict[str, Any]:
        """Traces and layout."""
        return {"data": self._data, "layout": self._layout}
