"""Series of thresholds: cells that differ in one letter of the task alone, and the panels that they are drawn in.

The x axis is a letter that varies within families of cells; only where none does do their settings stand side by side.
Many series are drawn as small multiples: the fields in which they differ are compared within a panel while its series can
be told apart, and set the panels apart beyond that.
"""

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from dashboards.plots.chart import Letter
from dashboards.words import (
    LINES,
    SHAPES,
    Axes,
    Shade,
    architecture_name,
    axes_of,
    joined_words,
    mark_shape,
    series_shade,
    setting_words,
)
from sweeps.findings import Regime
from sweeps.laws import by_regime
from sweeps.thresholds import WidthThreshold

LETTERS: tuple[Letter, ...] = ("T", "q", "d")
MAX_SERIES = 6
"""Series in a panel; each has a shape and a colour of its own."""

APART = 1.035
"""Marks of neighbouring series or runs stand this factor apart along the axis, so that equal thresholds can be seen."""

SHARE_OF_GAP = 0.5
"""Of the gap between two places of the axis, the most that the marks at one place take up."""


@dataclass(frozen=True)
class Series:
    """The thresholds of a regime that differ in the letter of the x axis only; `letters` are their other letters.

    `shift` is the factor by which its marks stand beside those of others at the same place.
    """

    regime: Regime
    letters: Mapping[str, int]
    thresholds: tuple[WidthThreshold, ...]
    name: str
    shade: Shade
    shape: str
    shift: float = 1.0


@dataclass(frozen=True)
class Panel:
    """The series of one pair of axes. `title` is of a panel among small multiples, and empty elsewhere."""

    letter: Letter
    series: tuple[Series, ...]
    title: str = ""


def place_of(threshold: WidthThreshold, letter: Letter) -> float:
    """Where a threshold stands on the axis of a letter."""
    return float(getattr(threshold.config_sample.task, letter))


def letter_of(thresholds: Iterable[WidthThreshold]) -> Letter:
    """The letter that thresholds are drawn against: that along which most cells of their regimes lie, of several that of the
    longest rows, T where none does."""
    regimes = by_regime(thresholds)
    rows = {letter: [len(own) for members in regimes for own in _rows(members, letter).values()] for letter in LETTERS}
    return max(LETTERS, key=lambda letter: (sum(rows[letter]), -len(rows[letter])))


def panels_of(regimes: Sequence[Regime]) -> tuple[Panel, ...]:
    """The panels of a figure of all thresholds: of each letter along which cells lie that no letter before it shows."""
    letter, panels = letter_of(t for regime in regimes for t in regime.thresholds), list[Panel]()
    shown: set[str] = set()
    for own in (letter, *(other for other in LETTERS if other != letter)):
        series = series_of(regimes, own)
        if own != letter:
            rows = [one for one in series if len(one.thresholds) > 1]
            series = [one for one in rows if any(cell.key not in shown for cell in one.thresholds)]
        elif others := _along_others(regimes, own):
            series = [one for one in series if len(one.thresholds) > 1 or one.thresholds[0].key not in others]
        shown |= {cell.key for one in series for cell in one.thresholds}
        panels += _panels(series, own)
    return tuple(panels)


def series_of(regimes: Sequence[Regime], letter: Letter) -> list[Series]:
    """A series for each regime and combination of the other letters with a threshold to draw, named by what sets it apart."""
    axes = axes_of([threshold for regime in regimes for threshold in regime.thresholds])
    series: list[Series] = []
    for kind in dict.fromkeys(regime.kind for regime in regimes):
        of_kind = [
            (regime, dict(letters), members)
            for regime in regimes
            if regime.kind == kind
            for letters, members in sorted(_by_others(regime.thresholds, letter).items())
        ]
        for index, (regime, letters, members) in enumerate(of_kind):
            name = _name([own[:2] for own in of_kind], regime, letters, axes)
            drawn = sorted((one for one in members if one.is_bounded), key=lambda one: place_of(one, letter))
            series.append(Series(regime, letters, tuple(drawn), name, series_shade(kind, index), mark_shape(kind)))
    return [one for one in series if one.thresholds]


class Trait(NamedTuple):
    """What tells the series of one architecture apart: the words of each series, empty where it has no such field."""

    words: tuple[str, ...]
    is_letter: bool


def traits_of(series: Sequence[Series]) -> tuple[Trait, ...]:
    """The traits of series of one architecture: fields that part them alike are one, named by a kind where there is one."""
    regimes = [one.regime for one in series]
    axes = axes_of([threshold for regime in {id(own): own for own in regimes}.values() for threshold in regime.thresholds])
    values = [axes.values(regime.thresholds[0]) for regime in regimes]
    columns = {name: [own[name] for own in values] for name in axes.fields}
    columns |= {name: [one.letters.get(name) for one in series] for name in LETTERS}
    alike: dict[tuple[int, ...], list[str]] = {}
    for name, column in columns.items():
        spelled = [repr(value) for value in column]
        alike.setdefault(tuple(spelled.index(value) for value in spelled), []).append(name)
    traits = []
    for name in (min(names, key=lambda one: not one.endswith(".kind")) for pattern, names in alike.items() if any(pattern)):
        words = (
            f"{regime.letter(name)} = {value}" if name in LETTERS else "" if value is None else setting_words([(name, value)])
            for regime, value in zip(regimes, columns[name], strict=True)
        )
        traits.append(Trait(tuple(words), name in LETTERS))
    return tuple(traits)


def cells_of(series: Series, letter: Letter) -> tuple[WidthThreshold, ...]:
    """The thresholds of a series, and those of its cells of which no size is a threshold."""
    others = _by_others(series.regime.thresholds, letter)[tuple(series.letters.items())]
    return tuple(sorted((own for own in others if own.status != "failed"), key=lambda own: place_of(own, letter)))


def names_of(series: Sequence[Series]) -> tuple[str, ...]:
    """Names of the places of three or more series with one mark each; none where marks vary along a letter."""
    if len(series) < 3 or any(len(one.thresholds) > 1 for one in series):
        return ()
    parts = [one.name.split(", ") for one in series]
    start = 1 if len({own[0] for own in parts}) == 1 and all(len(own) > 1 for own in parts) else 0
    names = []
    for own in parts:
        # The least of the first parts of a name with which no other begins.
        tail, others = own[start:], [other[start:] for other in parts if other is not own]
        lengths = range(1, len(tail) + 1)
        length = next((n for n in lengths if all(other[:n] != tail[:n] for other in others)), len(tail))
        names.append(", ".join(tail[:length]))
    return tuple(names)


def numbers_of(names: Sequence[str]) -> tuple[str, tuple[float, ...]] | None:
    """The field in which alone places differ, with its numbers; None where they differ in anything else."""
    fields, values = zip(*(name.rpartition(" = ")[::2] for name in names), strict=True)
    if len(set(fields)) > 1 or not fields[0] or not all(re.fullmatch(r"\d+(\.\d+)?", value) for value in values):
        return None
    numbers = tuple(map(float, values))
    return (fields[0], numbers) if min(numbers) > 0 and len(set(numbers)) == len(numbers) else None


def _by_others(thresholds: Iterable[WidthThreshold], letter: Letter) -> dict[tuple[tuple[str, int], ...], list[WidthThreshold]]:
    """Thresholds by the letters of their task but one."""
    found: dict[tuple[tuple[str, int], ...], list[WidthThreshold]] = {}
    for threshold in thresholds:
        task = threshold.config_sample.task
        found.setdefault(tuple((name, getattr(task, name)) for name in LETTERS if name != letter), []).append(threshold)
    return found


def _rows(thresholds: Iterable[WidthThreshold], letter: Letter) -> dict[tuple[tuple[str, int], ...], list[WidthThreshold]]:
    """The thresholds that differ from others in this letter alone."""
    rows = _by_others(thresholds, letter)
    return {key: own for key, own in rows.items() if len({place_of(one, letter) for one in own}) > 1}


def _along_others(regimes: Sequence[Regime], letter: Letter) -> Collection[str]:
    """The cells that lie along another letter."""
    rows = [_rows(regime.thresholds, other) for regime in regimes for other in LETTERS if other != letter]
    return {threshold.key for own in rows for members in own.values() for threshold in members}


def _name(of_kind: Sequence[tuple[Regime, dict[str, int]]], regime: Regime, letters: dict[str, int], axes: Axes) -> str:
    """The architecture, with the letters and settings that distinguish a series from others of it."""
    several = [name for name in letters if len({own[name] for _, own in of_kind}) > 1]
    apart = [f"{regime.letter(name)} = {letters[name]}" for name in several]
    if len({id(one) for one, _ in of_kind}) > 1:
        apart += [setting.replace("=", " = ") for setting in axes.family_settings(*regime.thresholds)]
    return ", ".join([architecture_name(regime.kind), *apart])


def _panels(series: Sequence[Series], letter: Letter) -> list[Panel]:
    """One panel where all series share their other letters and objective, else one for each architecture; small multiples of
    those that have many series, with a look for each name over all panels.
    """
    settings = {(tuple(one.letters.items()), one.regime.sample.training.objective) for one in series}
    kinds = dict.fromkeys(one.regime.kind for one in series)
    groups = [[one for one in series if one.regime.kind == kind] for kind in kinds]
    if max(map(len, groups), default=0) <= MAX_SERIES or all(len(one.thresholds) == 1 for one in series):
        together = [list(series)] if (len(settings) == 1 and len(series) <= MAX_SERIES) or len(groups) == 1 else groups
        return [Panel(letter, _beside(_told_apart(own), letter)) for own in together if own]
    traits = [trait for own in groups for trait in traits_of(own)]
    are_letters = all(trait.is_letter for trait in traits)
    panels = [panel for own in groups for panel in _multiples(own, letter, letters_within=are_letters)]
    names = list(dict.fromkeys(one.name for panel in panels for one in panel.series))
    plain = {name: (series_shade(kind, 0), mark_shape(kind)) for kind in kinds if (name := architecture_name(kind)) in names}
    shades = [shade for shade in LINES if shade not in {own for own, _ in plain.values()}]
    shapes = [shape for shape in SHAPES if shape not in {own for _, own in plain.values()}]
    told = [name for name in names if name not in plain]
    looks = plain | {name: (shades[i % len(shades)], shapes[i % len(shapes)]) for i, name in enumerate(told)}
    return [
        replace(panel, series=tuple(replace(one, shade=looks[one.name][0], shape=looks[one.name][1]) for one in panel.series))
        for panel in panels
    ]


def _told_apart(series: Sequence[Series]) -> list[Series]:
    """Series with the colours of their architecture in order; those of a single one with a shape each."""
    nums: Counter[str] = Counter()
    shades = []
    for one in series:
        shades.append(series_shade(one.regime.kind, nums[one.regime.kind]))
        nums[one.regime.kind] += 1
    shapes = [one.shape for one in series]
    if len(nums) == 1 and len(series) <= len(SHAPES):
        shapes = list(dict.fromkeys((shapes[0], *SHAPES)))
    return [replace(one, shade=shade, shape=shape) for one, shade, shape in zip(series, shades, shapes, strict=False)]


def _multiples(series: Sequence[Series], letter: Letter, *, letters_within: bool) -> list[Panel]:
    """Panels of at most `MAX_SERIES` series, whose names are the traits that are compared within them."""
    traits, within = traits_of(series), list[Trait]()

    def parted() -> dict[tuple[str, ...], list[int]]:
        panels: dict[tuple[str, ...], list[int]] = {}
        outside = sorted((one for one in traits if one not in within), key=lambda one: not one.is_letter)
        for place in range(len(series)):
            panels.setdefault(tuple(trait.words[place] for trait in outside), []).append(place)
        return panels

    for trait in sorted(traits, key=lambda one: -len(set(one.words))):
        if trait.is_letter is not letters_within:
            continue
        within.append(trait)
        if max(map(len, parted().values())) > MAX_SERIES:
            within.pop()
    kind = architecture_name(series[0].regime.kind)
    told = [[trait.words[place] for trait in within if trait.words[place]] for place in range(len(series))]
    names = [joined_words(own) or kind for own in told]
    return [
        Panel(
            letter,
            _beside([replace(series[place], name=names[place]) for place in members], letter),
            joined_words([kind, *filter(None, outside)]),
        )
        for outside, members in sorted(parted().items(), key=lambda own: tuple(series[own[1][0]].letters.values()))
    ]


def _beside(series: Sequence[Series], letter: Letter) -> tuple[Series, ...]:
    """Series of the same letters side by side, so that equal thresholds do not hide each other."""
    if len({(one.regime.kind, tuple(one.letters.items())) for one in series}) == len(series):
        return tuple(series)
    places = sorted({place_of(threshold, letter) for one in series for threshold in one.thresholds})
    gap = min((math.log(high / low) for low, high in pairwise(places)), default=math.inf)
    step = min(math.log(APART), SHARE_OF_GAP * gap / max(1, len(series) - 1))
    middle = (len(series) - 1) / 2
    return tuple(replace(one, shift=math.exp(step * (place - middle))) for place, one in enumerate(series))
