"""The charts of thresholds: against a letter of the task with the laws fitted to them, by run, and through training.

The charts of one figure have logarithmic axes that span the same factor, so the slope on paper is the exponent, and the
slopes of two charts compare even where their settings do not.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Literal

import numpy as np

from dashboards.plots.chart import PLAIN, Axis, Chart, Layer, Letter, Line, Marks, OpenEnd, log_ends
from dashboards.plots.series import APART, Panel, Series, letter_of, names_of, numbers_of, panels_of, place_of
from dashboards.words import (
    INK,
    LINES,
    MUTED,
    Dash,
    Formula,
    Shade,
    architecture_name,
    end_words,
    fitted_formula,
    found_words,
    has_interval,
    interval_text,
    mark_shape,
    regime_words,
    round_numbers,
    series_shade,
    ticks_at,
)
from stsq_core.configs import Size
from stsq_core.oracles import theory
from sweeps.findings import Regime, State
from sweeps.laws import ScalingLaw, has_fcn_bound, spread_words
from sweeps.thresholds import WidthThreshold

NUM_LINE_POINTS = 65
FLOOR = Formula(*["exact floor of any such net"] * 3)
RELU = Formula("2Td, enough for zero loss", r"$2Td$, enough for zero loss", "2<i>Td</i>, enough for zero loss")
STEP = 2.0
"""From one named place of a logarithmic axis to the next, as a factor."""

MARGIN = 1.18
"""Room around the marks of a chart, as a factor."""

MARK_SIZE, TRIANGLE_SIZE = 8.5, 10.5
"""In pixels of the page: a triangle has less ink."""

MAX_RIVALS = 3
"""Series of a chart with grey laws; of more they are left out."""

HISTORY_MARGIN = 1.1
LEAST_HALF = 1.15
"""Half of the least range of sizes in a history, as a factor, so that a tight interval looks tight."""


def threshold_charts(regimes: Sequence[Regime]) -> tuple[Chart, ...]:
    """A chart for each panel of series. Small multiples of an architecture share their axes; others span the same factors."""
    panels = panels_of(regimes)
    families = [(panel.series[0].regime.kind, panel.letter) if panel.title else place for place, panel in enumerate(panels)]
    of_family: dict[object, list[float]] = {}
    for family, panel in zip(families, panels, strict=True):
        of_family.setdefault(family, []).extend(_places(panel).values())
    charts = [_chart(panel, log_ends(of_family[own], MARGIN)) for own, panel in zip(families, panels, strict=True)]
    fitted = []
    for family, chart in zip(families, charts, strict=True):
        alike = [other for own, other in zip(families, charts, strict=True) if own == family]
        if not chart.is_small:
            alike = [other for other in charts if other.x.label == chart.x.label]
        fit = _joined if chart.is_small else _widened
        x, y = fit(chart.x, [other.x for other in alike]), fit(chart.y, [other.y for other in alike], rounded=True)
        fitted.append(replace(chart, x=x, y=y))
    return tuple(fitted)


def settings_differ(regimes: Sequence[Regime]) -> str:
    """In words, in what the architectures' cells differ besides; empty when they can be compared cell by cell."""
    by_kind = {kind: [r for r in regimes if r.kind == kind] for kind in dict.fromkeys(r.kind for r in regimes)}
    if len(by_kind) < 2:
        return ""
    differing = []
    for name in ("q", "d", "T", "objective"):
        sets = {kind: sorted({_setting(t, name) for r in group for t in r.thresholds}) for kind, group in by_kind.items()}
        if len({tuple(found) for found in sets.values()}) > 1:
            listed = ", ".join(
                f"{', '.join(map(str, found))} for the {architecture_name(kind).lower()}" for kind, found in sets.items()
            )
            differing.append(f"`{name}` is {listed}" if len(name) == 1 else f"the {name} is {listed}")
    return "; ".join(differing)


def run_shade(place: int) -> Shade:
    """The colour of the place-th run of a comparison."""
    return LINES[place % len(LINES)]


def comparison_chart(kind: str, by_run: Sequence[tuple[str, Sequence[WidthThreshold]]]) -> Chart | None:
    """The thresholds of one architecture, a colour a run; None where none can be drawn. Censored ones are hollow."""
    drawn = [threshold for _, own in by_run for threshold in own if threshold.is_bounded]
    if not drawn:
        return None
    letter, layers = letter_of(threshold for _, own in by_run for threshold in own), list[Layer]()
    for place, (name, thresholds) in enumerate(by_run):
        shift = APART ** (place - (len(by_run) - 1) / 2)
        for is_found in (True, False):
            own = [one for one in thresholds if one.is_bounded and (one.m_star is not None) is is_found]
            ends = [interval_drawn(one) for one in own]
            if own:
                layers.append(
                    Marks(
                        [getattr(one.config_sample.task, letter) * shift for one in own],
                        [
                            one.m_star or (high if one.status == "above_range" else low)
                            for one, (low, high) in zip(own, ends, strict=True)
                        ],
                        run_shade(place),
                        mark_shape(kind),
                        9,
                        Formula.of(name),
                        low=[low for low, _ in ends],
                        high=[high for _, high in ends],
                        hollow=not is_found,
                        texts=tuple(f"{_mark_text(one)}<br>{name}" for one in own),
                    )
                )
    xs = [float(getattr(threshold.config_sample.task, letter)) for threshold in drawn]
    x_ends, y_ends = log_ends(xs, 1.2), log_ends((end for one in drawn for end in interval_drawn(one)), 1.2)
    x = Axis(Formula.of(f"${letter}$"), ends=x_ends, ticks=ticks_at(xs, x_ends))
    return Chart(architecture_name(kind), x, threshold_axis(drawn[0].size, y_ends), tuple(layers))


def history_chart(name: str, states: Sequence[State]) -> Chart:
    """The threshold of one cell with its interval against the number of trials that had ended."""
    thresholds, counts = [state.threshold for state in states], [state.num_ended for state in states]
    shade, letter = series_shade(thresholds[0].kind, 0), thresholds[0].size.letter
    lows, highs = zip(*(interval_drawn(threshold) for threshold in thresholds), strict=True)
    m_stars = [threshold.m_star or math.nan for threshold in thresholds]
    middle = math.sqrt(min(lows) * max(highs))
    half = max(math.sqrt(max(highs) / min(lows)) * HISTORY_MARGIN, LEAST_HALF)
    ends = middle / half, middle * half
    digits = max(0, 1 - math.floor(math.log10(ends[1] - ends[0])))
    ticks = tuple(round(size, digits) for size in (ends[0] * (ends[1] / ends[0]) ** share for share in (0.12, 0.5, 0.88)))
    return Chart(
        name,
        Axis(ends=(counts[0] / HISTORY_MARGIN, counts[-1] * HISTORY_MARGIN), ticks=(counts[0], counts[-1])),
        Axis(ends=ends, ticks=ticks),
        (
            *_interval_layers(states, shade),
            Marks(
                counts,
                m_stars,
                shade,
                size=5,
                dash="solid",
                width=2,
                texts=tuple(map(_interval_words, thresholds)),
                hover=f"{{x}} trials: {letter}* = {{y:.2f}}<br>{{text}}",
            ),
        ),
    )


def _interval_layers(states: Sequence[State], shade: Shade) -> Iterable[Layer]:
    """A band over each stretch of states that have an interval, and a bar where one stands between states that have none."""
    for has_one, own in groupby(states, lambda state: has_interval(state.threshold)):
        if not has_one:
            continue
        stretch = list(own)
        counts, m_stars = [state.num_ended for state in stretch], [state.threshold.m_star or math.nan for state in stretch]
        lows, highs = zip(*(interval_drawn(state.threshold) for state in stretch), strict=True)
        if len(stretch) > 1:
            yield Line(counts, m_stars, shade, width=0, low=lows, high=highs)
        else:
            yield Marks(counts, m_stars, shade, size=5, low=lows, high=highs, hover="")


def _interval_words(threshold: WidthThreshold) -> str:
    if not has_interval(threshold):
        return "no interval"
    low, high = interval_drawn(threshold)
    return f"interval {low:.1f} to {high:.1f}"


def interval_drawn(threshold: WidthThreshold) -> tuple[float, float]:
    """The interval of a threshold, to the edge of the sizes tried where it goes on beyond them."""
    narrowest, widest = float(min(threshold.widths)), float(max(threshold.widths))
    match threshold.status:
        case "above_range":
            return threshold.low or widest, widest
        case "below_range":
            return narrowest, threshold.high or narrowest
        case _:
            m_star = threshold.m_star or math.nan
            low = narrowest if threshold.low_censored else (threshold.low or m_star)
            return low, widest if threshold.high_censored else (threshold.high or m_star)


def _setting(threshold: WidthThreshold, name: str) -> int | str:
    config = threshold.config_sample
    return config.training.objective if name == "objective" else int(getattr(config.task, name))


def _places(panel: Panel) -> dict[str, float]:
    """Where the marks of a panel stand, by threshold."""
    return {own.key: place_of(own, panel.letter) * one.shift for one in panel.series for own in one.thresholds}


def _chart(panel: Panel, x_ends: tuple[float, float]) -> Chart:
    letter, series, places = panel.letter, panel.series, _places(panel)
    regimes = list({id(one.regime): one.regime for one in series}.values())
    shown = [place_of(own, letter) for one in series for own in one.thresholds]
    x = Axis(Formula.of(f"${regimes[0].letter(letter)}$"), ends=x_ends, ticks=tuple(shown))
    names = names_of(series)
    if names:
        series = tuple(
            replace(one, shade=series_shade(one.regime.kind, 0), shape=mark_shape(one.regime.kind)) for one in series
        )
        x, positions = _named_axis(names)
        places = {own.key: position for position, one in zip(positions, series, strict=True) for own in one.thresholds}
    layers: list[Layer] = [] if names else list(_lines(panel, x_ends))
    for one in series:
        level = "" if panel.title else f", {one.thresholds[0].level:.0%} interval"
        layers += series_marks(one, places, name="" if names else f"{one.name}{level}")
    heights = [y for one in series for threshold in one.thresholds for y in interval_drawn(threshold)]
    heights += [y for one in series for threshold in one.thresholds if (y := threshold.m_star)]
    heights += [
        float(y) for line in layers if isinstance(line, Line) and line.role != "rival" for y in (np.min(line.y), np.max(line.y))
    ]
    members = {id(regime): [own for one in series if one.regime is regime for own in one.thresholds] for regime in regimes}
    drawn = [replace(regime, thresholds=tuple(members[id(regime)])) for regime in regimes]
    words = dict.fromkeys(regime_words(regime, without=letter) for regime in drawn)
    return Chart(
        panel.title or _title([architecture_name(regime.kind) for regime in regimes]),
        x,
        threshold_axis(regimes[0].size, log_ends(heights, MARGIN)),
        tuple(layers),
        "" if panel.title else "; ".join(words) if len(words) <= 2 else f"{len(words)} settings",
        is_small=bool(panel.title),
    )


def _lines(panel: Panel, x_ends: tuple[float, float]) -> Iterable[Line]:
    """The lines of all series of a panel; of many series those alone that can be told apart."""
    for place, one in enumerate(panel.series):
        for line in series_lines(one, panel.letter, x_ends, place):
            if not panel.title:
                if line.role != "rival" or len(panel.series) <= MAX_RIVALS:
                    yield line
            elif line.role == "law":
                bare = replace(line, width=1.2, name=PLAIN)
                yield bare if len(panel.series) == 1 else replace(bare, low=None, high=None)
            elif line.role != "rival" and place == 0:  # the exact lines are those of all
                yield line


def _named_axis(names: Sequence[str]) -> tuple[Axis, tuple[float, ...]]:
    """The axis of series with one mark each, and their places."""
    if (numbers := numbers_of(names)) is not None:
        field, places = numbers
        return Axis(Formula.of(field), ends=log_ends(places, MARGIN), ticks=places), places
    places = tuple(STEP**place for place in range(len(names)))
    return Axis(ends=(STEP**-0.6, STEP ** (len(names) - 0.4)), ticks=places, words=tuple(map(Formula.of, names))), places


def threshold_axis(size: Size, ends: tuple[float, float]) -> Axis:
    return Axis(Formula.of(f"{size.threshold_words} ${size.letter}^*$"), ends=ends, ticks=round_numbers(*ends))


def _widened(axis: Axis, others: Sequence[Axis], *, rounded: bool = False) -> Axis:
    """The axis widened about its middle until it spans the factor of the widest, with ticks for its new ends."""
    ends = [other.ends for other in others if other.ends is not None]
    if axis.ends is None:
        return axis
    half = math.sqrt(max(high / low for low, high in ends))
    middle = math.sqrt(axis.ends[0] * axis.ends[1])
    wide = middle / half, middle * half
    ticks = round_numbers(*wide) if rounded else axis.ticks if axis.words else ticks_at(axis.ticks or (), wide)
    return replace(axis, ends=wide, ticks=ticks)


def _joined(axis: Axis, others: Sequence[Axis], *, rounded: bool = False) -> Axis:
    """The axis of all, with the ticks of all."""
    lows, highs = zip(*(other.ends for other in others if other.ends is not None), strict=True)
    wide = min(lows), max(highs)
    ticks = [tick for other in others for tick in other.ticks or ()]
    return replace(axis, ends=wide, ticks=round_numbers(*wide) if rounded else ticks_at(ticks, wide))


def _title(names: Sequence[str]) -> str:
    """The architectures of a chart: `Transformer, fully connected net and recurrent net`."""
    first, *others = dict.fromkeys(names)
    return spread_words([first, *(name if name.isupper() else f"{name[0].lower()}{name[1:]}" for name in others)])


def series_marks(series: Series, places: Mapping[str, float], *, name: str) -> Iterable[Layer]:
    """Found thresholds with their intervals, those held out of the fits hollow, and an arrow at every open end."""
    held_out = series.regime.held_out
    for is_held_out, words in ((False, name), (True, "held out of the fits")):
        own = [one for one in series.thresholds if one.m_star is not None and (one.cell_id in held_out) is is_held_out]
        if own or not is_held_out:
            yield Marks(
                [places[one.key] for one in own],
                [one.m_star or math.nan for one in own],
                series.shade,
                series.shape,
                TRIANGLE_SIZE if series.shape.startswith("triangle") else MARK_SIZE,
                name=Formula.of(words),
                low=[interval_drawn(one)[0] for one in own],
                high=[interval_drawn(one)[1] for one in own],
                hollow=is_held_out,
                texts=tuple(_mark_text(one) + ("<br>held out of the fits" if is_held_out else "") for one in own),
            )
    for one in series.thresholds:
        (low, high), x, is_threshold = interval_drawn(one), places[one.key], one.m_star is None
        if one.status == "above_range" or (not is_threshold and one.high_censored):
            yield OpenEnd(x, high, True, is_threshold, series.shade, _mark_text(one))
        if one.status == "below_range" or (not is_threshold and one.low_censored):
            yield OpenEnd(x, low, False, is_threshold, series.shade, _mark_text(one))


def _mark_text(threshold: WidthThreshold) -> str:
    narrowest, widest = min(threshold.widths), max(threshold.widths)
    match threshold.status:
        case "above_range":
            return f"{threshold.label}: above {widest:g}, {end_words(threshold, largest=True)}"
        case "below_range":
            return f"{threshold.label}: at or below {narrowest:g}, {end_words(threshold, largest=False)}"
        case _:
            interval = f"{threshold.level:.0%} interval {interval_text(threshold)}, {threshold.num_seeds} seeds"
            return f"{threshold.label}<br>{found_words(threshold)}<br>{interval}"


def series_lines(series: Series, letter: Letter, x_ends: tuple[float, float], place: int) -> Iterable[Line]:
    """The lines of a chart's place-th series; grey laws of several series differ in their dashes."""
    regime, x = series.regime, np.geomspace(*x_ends, NUM_LINE_POINTS)
    task: dict[str, np.ndarray] = {name: np.full_like(x, value) for name, value in series.letters.items()} | {letter: x}
    if regime.rival is not None:
        dashes: tuple[Dash, ...] = ("dashdot", "dashed" if has_fcn_bound(regime.thresholds[0]) else "dotted")
        yield replace(_law_line(regime.rival, "rival", MUTED, x, task), dash=dashes[place % 2])
    if regime.law is not None:
        yield _law_line(regime.law, "law", series.shade, x, task)
    if has_fcn_bound(regime.thresholds[0]):
        # The floor is defined for whole numbers, with at least q tokens.
        values = np.unique(np.clip(np.round(x), math.ceil(x[0]), math.floor(x[-1])))
        tasks = [{name: int(v) for name, v in (dict(series.letters) | {letter: value}).items()} for value in values.tolist()]
        tasks = [one for one in tasks if one["T"] >= one["q"]]
        floor = [theory.fcn_width_bound(regime.target_loss, T=one["T"], d=one["d"], q=one["q"]) for one in tasks]
        places = np.array([one[letter] for one in tasks], dtype=float)
        relu = np.array([2.0 * one["T"] * one["d"] for one in tasks])
        hover = "<br>{y:.2f}"
        yield Line(places, np.array(floor), INK, "dashed", name=FLOOR, hover=FLOOR.html + hover, role="floor")
        yield Line(places, relu, MUTED, "dotted", name=RELU, hover=RELU.html + hover, role="relu")


def _law_line(
    law: ScalingLaw, role: Literal["law", "rival"], shade: Shade, x: np.ndarray, task: Mapping[str, np.ndarray]
) -> Line:
    tasks, name = law.tasks(**task), fitted_formula(law)
    low, high = law.band(tasks) or (None, None)
    is_law = role == "law"
    return Line(
        x,
        law.line(tasks),
        shade,
        "solid",
        2 if is_law else 1.5,
        name,
        low,
        high,
        band_opacity=0.16 if is_law else 0.1,
        hover=f"{name.html}<br>{{y:.2f}}",
        role=role,
    )
