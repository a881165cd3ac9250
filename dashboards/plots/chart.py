"""One pair of axes as plain values, drawn alike by matplotlib (paper), plotly (page, notebooks) and Vega-Lite (W&B boards)."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dashboards.words import Dash, Formula, Shade
from stsq_core.configs import Size

Letter = Literal["T", "q", "d"]
Values = Sequence[float] | np.ndarray
PLAIN = Formula("", "", "")


@dataclass(frozen=True)
class Axis:
    """An axis. Without `ends` or `ticks` the library chooses them; `words` are names for the ticks in place of numbers."""

    label: Formula = PLAIN
    log: bool = True
    ends: tuple[float, float] | None = None
    ticks: tuple[float, ...] | None = None
    words: tuple[Formula, ...] = ()
    percent: bool = False
    grid: bool = True


@dataclass(frozen=True)
class Line:
    """A line, with a band from `low` to `high` where both are given. Named lines appear in legends.

    `hover` is the text at a point of the page's figures, with the fields {x} and {y}; widths are in pixels of the page.
    """

    x: Values
    y: Values
    shade: Shade
    dash: Dash = "solid"
    width: float = 1.5
    name: Formula = PLAIN
    low: Values | None = None
    high: Values | None = None
    opacity: float = 1.0
    band_opacity: float = 0.16
    hover: str = ""
    role: Literal["law", "rival", "floor", "relu", "theory", "data"] = "data"


@dataclass(frozen=True)
class Marks:
    """Marks with intervals from `low` to `high` along an axis; `dash` joins them by a line.

    `hover` as of a line, with the field {text} for a mark's own text. Hollow marks are held-out cells or censored thresholds.
    """

    x: Values
    y: Values
    shade: Shade
    shape: str = "circle"
    size: float = 8.5
    name: Formula = PLAIN
    low: Values | None = None
    high: Values | None = None
    interval_of: Literal["x", "y"] = "y"
    hollow: bool = False
    opacity: float = 1.0
    dash: Dash | None = None
    width: float = 1.2
    joined_opacity: float = 1.0
    texts: tuple[str, ...] = ()
    hover: str = "{text}"
    role: Literal["rival", "data"] = "data"


@dataclass(frozen=True)
class OpenEnd:
    """An arrow where a threshold, or an end of its interval, lies beyond the sizes that were tried."""

    x: float
    y: float
    is_high: bool
    is_threshold: bool
    shade: Shade
    text: str


@dataclass(frozen=True)
class Rule:
    """A straight line across the chart at a value of one axis, with a name beside it."""

    axis: Literal["x", "y"]
    at: float
    shade: Shade
    dash: Dash = "dashed"
    width: float = 1.2
    name: Formula = PLAIN


@dataclass(frozen=True)
class Span:
    """A shaded region between two values of x."""

    low: float
    high: float
    shade: Shade
    opacity: float = 0.16


@dataclass(frozen=True)
class Tiles:
    """A column of tiles from `x_low` to `x_high`: one between each two `edges` of y [n + 1], as deep in the shade as its share
    [n], 0 to 1; one without a share (nan) is left empty. `texts` are the tiles' own.
    """

    x_low: float
    x_high: float
    edges: Values
    shares: Values
    shade: Shade
    texts: tuple[str, ...]

    @property
    def filled(self) -> tuple[int, ...]:
        """The places of the tiles that have a share."""
        return tuple(place for place, share in enumerate(self.shares) if not math.isnan(share))


def tile_opacity(share: float) -> float:
    """How much of its shade a tile has: a tile of share 0 can still be told from an empty one."""
    return 0.06 + 0.54 * share


Layer = Line | Marks | OpenEnd | Rule | Span | Tiles


@dataclass(frozen=True)
class Chart:
    """One pair of axes with its layers, the lowest first; `note` is a line below the title. `is_small` is one of many with a
    legend in common.
    """

    title: str
    x: Axis
    y: Axis
    layers: tuple[Layer, ...]
    note: str = ""
    is_small: bool = False

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines of the chart."""
        return tuple(layer for layer in self.layers if isinstance(layer, Line))

    @property
    def marks(self) -> tuple[Marks, ...]:
        """The marks of the chart."""
        return tuple(layer for layer in self.layers if isinstance(layer, Marks))


def log_ends(values: Iterable[float], room: float) -> tuple[float, float]:
    """The ends of a logarithmic axis: the values with room around them, as a factor."""
    known = [value for value in values if math.isfinite(value)]
    return min(known) / room, max(known) * room


def size_label(size: Size) -> Formula:
    """The label of an axis of sizes: `width $m$`."""
    return Formula.of(f"{size.axis} ${size.letter}$" if size.axis and len(size.letter) == 1 else size.quantity)
