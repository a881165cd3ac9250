"""What every figure shows, as plain values: paper and page draw the same panels, so that they cannot disagree.

A panel of the threshold figure has logarithmic axes that span the same factor in every panel, so the slope on the page is the
exponent, and slopes of two panels compare even where their settings do not.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from dashboards.words import (
    Axes,
    Formula,
    Shade,
    architecture_name,
    axes_of,
    end_words,
    fitted_formula,
    found_words,
    interval_text,
    regime_words,
    round_numbers,
    series_shade,
    tick_words,
    ticks_at,
)
from stsq_core.configs import Size
from stsq_core.oracles import theory
from sweeps.findings import Regime
from sweeps.laws import ScalingLaw, has_fcn_bound, spread_words
from sweeps.thresholds import WidthThreshold

Axis = Literal["T", "q", "d"]

NUM_LINE_POINTS = 65
FLOOR = Formula(*["exact floor of any such net"] * 3)
RELU = Formula("2Td, enough for zero loss", r"$2Td$, enough for zero loss", "2<i>Td</i>, enough for zero loss")
STEP = 2.0
"""From one named place of a logarithmic axis to the next, as a factor."""

MARGIN = 1.18
"""Room around the marks of a panel, as a factor."""


@dataclass(frozen=True)
class Mark:
    """One cell's threshold: found at `m` with interval `low..high`, or censored at the edge of the widths that were tried.

    `low_open` and `high_open` say that the interval goes on beyond the widths tried; its end is then the edge. No law was
    fitted to a cell that is `held_out`.
    """

    cell_id: str
    x: float
    m: float | None
    low: float
    high: float
    low_open: bool
    high_open: bool
    text: str
    held_out: bool = False


@dataclass(frozen=True)
class Line:
    """A curve over the panel's x: a fitted law with its band, the law that theory expects of the other architecture, the exact
    floor, or the width where a ReLU layer reaches zero."""

    role: Literal["law", "rival", "floor", "relu"]
    name: Formula
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None


@dataclass(frozen=True)
class Series:
    """Cells that differ in the panel's x only, with the lines that belong to them."""

    kind: str
    name: str
    shade: Shade
    marks: tuple[Mark, ...]
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Panel:
    """One pair of axes of the threshold figure: thresholds of a size against a letter of the task, as its paper spells it.

    Where settings are compared that have one cell each, every series has a place of its own, and `names` tells the places.
    """

    title: str
    setting: str
    axis: Axis
    letter: str
    size: Size
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    series: tuple[Series, ...]
    names: tuple[str, ...] = ()

    @property
    def against(self) -> str:
        """What the thresholds stand against."""
        return "setting" if self.names else self.letter

    @property
    def x_ticks(self) -> tuple[float, ...]:
        """The measured values where they are few, else round numbers; the places of named series."""
        if self.names:
            return tuple(STEP**place for place in range(len(self.names)))
        return ticks_at((mark.x for series in self.series for mark in series.marks), self.x_range)

    @property
    def y_ticks(self) -> tuple[float, ...]:
        """Round widths."""
        return round_numbers(*self.y_range)

    @property
    def x_words(self) -> tuple[str, ...]:
        """What stands at each tick of x."""
        return self.names or tuple(tick_words(tick) for tick in self.x_ticks)


def threshold_panels(regimes: Sequence[Regime]) -> tuple[Panel, ...]:
    """The panels of the threshold figure: one an architecture, or a single one where all cells share q, d and objective."""
    drawn = [regime for regime in regimes if any(t.status != "failed" for t in regime.thresholds)]
    groups = (
        [drawn]
        if _comparable(drawn)
        else [[r for r in drawn if r.kind == kind] for kind in dict.fromkeys(r.kind for r in drawn)]
    )
    panels = [_panel(group) for group in groups if group]
    return _equal_spans(panels)


def settings_differ(regimes: Sequence[Regime]) -> str:
    """In words, in what the architectures' cells differ besides; empty when they can be compared cell by cell."""
    by_kind = {kind: [r for r in regimes if r.kind == kind] for kind in dict.fromkeys(r.kind for r in regimes)}
    if len(by_kind) < 2:
        return ""
    differing = []
    for name in ("q", "d", "T", "objective"):
        sets = {kind: sorted({_setting(t, name) for r in group for t in r.thresholds}) for kind, group in by_kind.items()}
        if len({tuple(found) for found in sets.values()}) > 1:
            told = ", ".join(f"{_listed(found)} for the {architecture_name(kind).lower()}" for kind, found in sets.items())
            differing.append(f"`{name}` is {told}" if len(name) == 1 else f"the {name} is {told}")
    return "; ".join(differing)


def _setting(threshold: WidthThreshold, name: str) -> int | str:
    config = threshold.config_sample
    return config.training.objective if name == "objective" else int(getattr(config.task, name))


def mark_of(threshold: WidthThreshold, axis: Axis, *, held_out: bool = False) -> Mark | None:
    """A threshold as a mark; None for one that failed, which has no place in a figure."""
    x = float(getattr(threshold.config_sample.task, axis))
    narrowest, widest = float(min(threshold.widths)), float(max(threshold.widths))
    cell, label, m = threshold.cell_id, threshold.label, threshold.m_star
    match threshold.status:
        case "failed":
            return None
        case "above_range":
            told = f"{label}: above {widest:g}, {end_words(threshold, largest=True)}"
            return Mark(cell, x, None, threshold.low or widest, widest, False, True, told, held_out)
        case "below_range":
            high = threshold.high or narrowest
            told = f"{label}: at or below {narrowest:g}, {end_words(threshold, largest=False)}"
            return Mark(cell, x, None, narrowest, high, True, False, told, held_out)
        case "found" if m is not None:
            low = narrowest if threshold.low_censored else (threshold.low or m)
            high = widest if threshold.high_censored else (threshold.high or m)
            text = f"{label}<br>{found_words(threshold)}<br>{threshold.level:.0%} interval {interval_text(threshold)}, "
            text += f"{threshold.num_seeds} seeds" + ("<br>held out of the fits" if held_out else "")
            return Mark(cell, x, m, low, high, threshold.low_censored, threshold.high_censored, text, held_out)
    raise ValueError(f"threshold status {threshold.status!r} with m* = {m}")


def _comparable(regimes: Sequence[Regime]) -> bool:
    tasks = {
        (t.config_sample.task.q, t.config_sample.task.d, t.config_sample.training.objective)
        for r in regimes
        for t in r.thresholds
    }
    return len(tasks) == 1


def _panel(regimes: Sequence[Regime]) -> Panel:
    axis = axis_of([threshold for regime in regimes for threshold in regime.thresholds])
    places = [float(getattr(t.config_sample.task, axis)) for regime in regimes for t in regime.thresholds]
    x_range = (min(places) / MARGIN, max(places) * MARGIN)
    series: list[Series] = []
    axes = axes_of([threshold for regime in regimes for threshold in regime.thresholds])
    for kind in dict.fromkeys(regime.kind for regime in regimes):
        of_kind = [(regime, letters) for regime in regimes if regime.kind == kind for letters in _letters(regime, axis)]
        series += [
            _series(regime, letters, axis, x_range, shade=series_shade(kind, index), name=_name(of_kind, regime, letters, axes))
            for index, (regime, letters) in enumerate(of_kind)
        ]
    names = _names(series)
    if names:
        series = [_placed(one, STEP**place, series_shade(one.kind, 0)) for place, one in enumerate(series)]
        x_range = (STEP**-0.6, STEP ** (len(names) - 0.4))
    heights = [y for one in series for mark in one.marks for y in (mark.low, mark.high, mark.m or mark.low)]
    heights += [float(y) for one in series for line in one.lines if line.role != "rival" for y in (line.y.min(), line.y.max())]
    words = dict.fromkeys(regime_words(regime, without=axis) for regime in regimes)
    return Panel(
        title=_title([architecture_name(regime.kind) for regime in regimes]),
        setting="; ".join(words) if len(words) <= 2 else f"{len(words)} settings",
        axis=axis,
        letter=regimes[0].letter(axis),
        size=regimes[0].size,
        x_range=x_range,
        y_range=(min(heights) / MARGIN, max(heights) * MARGIN),
        series=tuple(series),
        names=names,
    )


def _names(series: Sequence[Series]) -> tuple[str, ...]:
    """The settings of series that have one mark each, three or more of them; nothing where marks lie along a letter."""
    if len(series) < 3 or any(len(one.marks) > 1 for one in series):
        return ()
    parts = [one.name.split(", ") for one in series]
    start = 1 if len({own[0] for own in parts}) == 1 and all(len(own) > 1 for own in parts) else 0
    return tuple(_shortest(own[start:], [other[start:] for other in parts if other is not own]) for own in parts)


def _shortest(parts: Sequence[str], others: Sequence[Sequence[str]]) -> str:
    """The least of the first parts of a name with which no other begins."""
    lengths = range(1, len(parts) + 1)
    length = next((n for n in lengths if all(other[:n] != parts[:n] for other in others)), len(parts))
    return ", ".join(parts[:length])


def _placed(series: Series, x: float, shade: Shade) -> Series:
    return replace(series, shade=shade, marks=tuple(replace(mark, x=x) for mark in series.marks), lines=())


def _title(names: Sequence[str]) -> str:
    """The architectures of a panel: `Transformer, fully connected net and recurrent net`."""
    first, *others = dict.fromkeys(names)
    return spread_words([first, *(name if name.isupper() else f"{name[0].lower()}{name[1:]}" for name in others)])


def axis_of(thresholds: Iterable[WidthThreshold]) -> Axis:
    """The letter that varies: T if it does, else q, else d."""
    tasks = [threshold.config_sample.task for threshold in thresholds]
    names: tuple[Axis, ...] = ("T", "q", "d")
    return next((name for name in names if len({getattr(task, name) for task in tasks}) > 1), "T")


def _letters(regime: Regime, axis: Axis) -> list[dict[str, int]]:
    """The combinations of the other letters of the task: a series each."""
    found = {
        tuple((name, getattr(t.config_sample.task, name)) for name in ("T", "q", "d") if name != axis)
        for t in regime.thresholds
    }
    return [dict(pairs) for pairs in sorted(found)]


def _series(
    regime: Regime, letters: dict[str, int], axis: Axis, x_range: tuple[float, float], *, shade: Shade, name: str
) -> Series:
    tasks = {t.cell_id: t.config_sample.task for t in regime.thresholds}
    members = [t for t in regime.thresholds if all(getattr(tasks[t.cell_id], name) == value for name, value in letters.items())]
    marks = [mark for t in members if (mark := mark_of(t, axis, held_out=t.cell_id in regime.held_out))]
    return Series(
        kind=regime.kind,
        name=name,
        shade=shade,
        marks=tuple(sorted(marks, key=lambda mark: mark.x)),
        lines=tuple(_lines(regime, letters, axis, x_range)),
    )


def _name(of_kind: Sequence[tuple[Regime, dict[str, int]]], regime: Regime, letters: dict[str, int], axes: Axes) -> str:
    """The architecture with what sets a series apart from the others of it: letters of the task, and settings."""
    told = []
    if len({tuple(own.items()) for _, own in of_kind}) > 1:
        told += [f"{regime.letter(name)} = {value}" for name, value in letters.items()]
    if len({id(one) for one, _ in of_kind}) > 1:
        told += [setting.replace("=", " = ") for setting in axes.family_settings(*regime.samples)]
    return ", ".join([architecture_name(regime.kind), *told])


def _lines(regime: Regime, letters: dict[str, int], axis: Axis, x_range: tuple[float, float]) -> Iterable[Line]:
    x = np.geomspace(*x_range, NUM_LINE_POINTS)
    task: dict[str, np.ndarray] = {name: np.full_like(x, value) for name, value in letters.items()} | {axis: x}
    if regime.rival is not None:
        yield _law_line("rival", regime.rival, x, task)
    if regime.law is not None:
        yield _law_line("law", regime.law, x, task)
    if has_fcn_bound(regime.thresholds[0]):
        whole = [dict(zip(task, (int(v) for v in values), strict=True)) for values in zip(*_whole(task, axis), strict=True)]
        places = np.array([one[axis] for one in whole], dtype=float)
        floor = [theory.fcn_width_bound(regime.target_loss, T=one["T"], d=one["d"], q=one["q"]) for one in whole]
        yield Line("floor", FLOOR, places, np.array(floor))
        yield Line("relu", RELU, places, np.array([2.0 * one["T"] * one["d"] for one in whole]))


def _law_line(role: Literal["law", "rival"], law: ScalingLaw, x: np.ndarray, task: Mapping[str, np.ndarray]) -> Line:
    tasks = law.tasks(**task)
    low, high = law.band(tasks) or (None, None)
    return Line(role, fitted_formula(law), x, law.line(tasks), low, high)


def _whole(task: dict[str, np.ndarray], axis: Axis) -> list[np.ndarray]:
    """The whole-numbered tasks along an axis: the floor is defined for those, with at least q tokens."""
    values = np.unique(np.clip(np.round(task[axis]), math.ceil(task[axis][0]), math.floor(task[axis][-1])))
    columns = {name: np.full_like(values, column[0]) for name, column in task.items()} | {axis: values}
    possible = columns["T"] >= columns["q"]
    return [columns[name][possible] for name in task]


def _equal_spans(panels: Sequence[Panel]) -> tuple[Panel, ...]:
    """The panels with their ranges widened about the middle until all span the same factors."""
    if not panels:
        return ()
    x_span = max(panel.x_range[1] / panel.x_range[0] for panel in panels)
    y_span = max(panel.y_range[1] / panel.y_range[0] for panel in panels)
    return tuple(
        replace(panel, x_range=_widened(panel.x_range, x_span), y_range=_widened(panel.y_range, y_span)) for panel in panels
    )


def _widened(ends: tuple[float, float], span: float) -> tuple[float, float]:
    middle = math.sqrt(ends[0] * ends[1])
    return middle / math.sqrt(span), middle * math.sqrt(span)


def _listed(values: Sequence[object]) -> str:
    return ", ".join(str(value) for value in values)
