"""The phase diagram: the fraction of seeds solved over the width and a letter of the task, thresholds and laws over it.

Each panel is a series of cells that differ in that letter only. Between two neighbouring widths a tile has the fraction of the
trials there, at the chosen learning rates, that reach the target. Where widths are searched, trials are few and lie
where they say most, so the posterior's widths at which 1 and 9 in 10 seeds are solved are drawn as lines.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from dashboards.plots.chart import Axis, Chart, Layer, Letter, Line, Tiles, size_label
from dashboards.plots.charts_of_thresholds import series_lines, series_marks
from dashboards.plots.series import Series, cells_of, letter_of, place_of, series_of
from dashboards.words import INK, MUTED, Dash, Formula, architecture_name, round_numbers, ticks_at
from stsq_core.configs import SAMPLES
from sweeps.findings import Regime
from sweeps.sampler import ThresholdPosterior
from sweeps.store import FAILED
from sweeps.thresholds import WidthThreshold

MAX_PANELS = 12
LEAST_COLUMNS = 2
BIN = 2**0.25
"""The factor from one edge to the next where widths are scattered, as a search scatters them."""
ROUNDING = 1e-9
GAP = 0.985
"""Of a column's end to the middle between neighbours, as a factor."""
CONTOURS = ((0.1, "1 in 10 seeds solved"), (0.9, "9 in 10 seeds solved"))
DASHES: tuple[Dash, ...] = ("dotted", "dashdot")


def phase_diagrams(regimes: Sequence[Regime]) -> tuple[Chart, ...]:
    """A panel for each series of two cells or more of which a threshold can be drawn."""
    drawn = [regime for regime in regimes if any(t.is_bounded for t in regime.thresholds)]
    if not drawn or drawn[0].thresholds[0].size == SAMPLES:  # samples to a target are counted: no size of theirs is solved
        return ()
    letter = letter_of(threshold for regime in drawn for threshold in regime.thresholds)
    whole = [replace(one, thresholds=cells_of(one, letter)) for one in series_of(drawn, letter)]
    series = [one for one in whole if _num_columns(one, letter) >= LEAST_COLUMNS]
    charts = [_panel(one, letter) for one in series[:MAX_PANELS]]
    by_kind: dict[str, list[float]] = {}
    for one, chart in zip(series, charts, strict=False):
        by_kind.setdefault(one.regime.kind, []).extend(chart.y.ends or ())
    return tuple(
        replace(chart, y=_size_axis(one, (min(by_kind[one.regime.kind]), max(by_kind[one.regime.kind]))))
        for one, chart in zip(series, charts, strict=False)
    )


def _num_columns(series: Series, letter: Letter) -> int:
    return len({place_of(own, letter) for own in series.thresholds})


def _panel(series: Series, letter: Letter) -> Chart:
    places = {own.key: place_of(own, letter) for own in series.thresholds}
    edges = _column_edges(sorted(set(places.values())))
    tiles = [_tiles(own, *edges[places[own.key]], series) for own in series.thresholds]
    x_ends = min(low for low, _ in edges.values()), max(high for _, high in edges.values())
    lines = [replace(line, shade=INK) for line in series_lines(series, letter, x_ends, 0) if line.role in ("law", "floor")]
    drawn = tuple(own for own in series.thresholds if own.is_bounded)
    bounded = replace(series, thresholds=drawn, shade=INK)
    marks = list(series_marks(bounded, places, name=f"threshold, {drawn[0].level:.0%} interval"))
    layers: list[Layer] = [*tiles, *_contours(series, places), *lines, *marks]
    y_ends = min(float(column.edges[0]) for column in tiles), max(float(column.edges[-1]) for column in tiles)
    x = Axis(Formula.of(f"${series.regime.letter(letter)}$"), ends=x_ends, ticks=ticks_at(places.values(), x_ends))
    title = ", ".join([architecture_name(series.regime.kind), *series.name.split(", ")[1:]])
    return Chart(title, x, _size_axis(series, y_ends), tuple(layers))


def _size_axis(series: Series, ends: tuple[float, float]) -> Axis:
    return Axis(size_label(series.thresholds[0].size), ends=ends, ticks=round_numbers(*ends))


def _column_edges(places: Sequence[float]) -> dict[float, tuple[float, float]]:
    """The ends of the column about each place of a logarithmic axis, up to the middle between neighbours."""
    edges = _edges_between(np.array(places))
    return {place: (low / GAP, high * GAP) for place, (low, high) in zip(places, pairwise(edges.tolist()), strict=True)}


def _edges_between(values: np.ndarray) -> np.ndarray:
    """The geometric middles between neighbours, and as far beyond the first and the last."""
    middles = np.sqrt(values[:-1].astype(float) * values[1:])
    return np.concatenate([[values[0] ** 2 / middles[0]], middles, [values[-1] ** 2 / middles[-1]]])


def _tiles(threshold: WidthThreshold, x_low: float, x_high: float, series: Series) -> Tiles:
    """The column of a cell: every trial that ended at the chosen rates; a diverged one is unsolved, a failed one left out."""
    points = threshold.points.take(threshold.points.chosen)
    losses, is_known = points.outcomes.relative_loss, points.outcomes.status != FAILED
    widths, solved = points.widths[is_known], (losses <= threshold.target_loss)[is_known]
    edges = _bin_edges(widths) if threshold.search or len(np.unique(widths)) < 2 else _edges_between(np.unique(widths))
    bins = np.searchsorted(edges, widths, side="right") - 1
    nums = np.bincount(bins, minlength=len(edges) - 1)
    hits = np.bincount(bins, solved, minlength=len(edges) - 1)
    shares = np.where(nums > 0, hits / np.maximum(nums, 1), np.nan)
    texts = []
    for place, (num, hit) in enumerate(zip(nums.tolist(), hits.tolist(), strict=True)):
        own = widths[bins == place]
        words = f"{own.min()}" if num and own.min() == own.max() else f"{own.min()} to {own.max()}" if num else ""
        texts.append(f"{threshold.size.letter} = {words}: {hit:.0f} of {num} seeds solved")
    return Tiles(x_low, x_high, edges, shares, series.shade, tuple(texts))


def _bin_edges(widths: np.ndarray) -> np.ndarray:
    """Edges in equal ratios about widths that are scattered, the same ones in every column."""
    low, high = (math.floor(math.log(width) / math.log(BIN) + ROUNDING) for width in (widths.min(), widths.max()))
    edges: np.ndarray = BIN ** np.arange(low, high + 2) * (1 - ROUNDING)  # a width at an edge is above it
    return edges


def _contours(series: Series, places: Mapping[str, float]) -> Iterator[Line]:
    """Where the posteriors of searched cells have few and nearly all seeds solved, joined from cell to cell."""
    searched = [(places[own.key], own.search.posterior) for own in series.thresholds if own.search and own.search.posterior]
    for (share, words), dash in zip(CONTOURS, DASHES, strict=True):
        ends = [(place, _width_at(posterior, share)) for place, posterior in searched]
        known = [(place, width) for place, width in ends if math.isfinite(width)]
        if len(known) > 1:
            x, y = zip(*known, strict=True)
            yield Line(x, y, MUTED, dash, 1.2, Formula.of(words), hover=f"{words}<br>{{y:.1f}}", role="theory")


def _width_at(posterior: ThresholdPosterior, share: float) -> float:
    """The width at which this fraction of the seeds is solved, by the posterior's points; nan or inf beyond the range."""
    other = posterior.at_rate(share)
    return math.exp(other.median) if other.standing == "found" else math.nan
