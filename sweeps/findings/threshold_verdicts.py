"""Verdicts on claims about thresholds: their order, their distance from values of others, and how fast they grow.

Everything is read off the thresholds' own intervals, or those of a law fitted to them, at the criterion's level. A censored
threshold counts by the side on which it lies; one that was not reached, or of which no trial gave a number, leaves its claim
open. So do seeds that cannot support an interval of the level. Cells that a sweep holds out of its laws enter no growth.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from sweeps.findings.claim_pairs import (
    Fields,
    claimed_fields,
    differing_fields,
    distinguishing,
    is_selected,
    letters_of,
    ratio_pairs,
)
from sweeps.findings.claim_results import Answer, ClaimSetting, Verdict, answer_of, leaf, sides, with_seeds
from sweeps.laws import by_regime, fitted_law, law_cells, letter_law, spelled
from sweeps.schema import (
    LawSettings,
    ThresholdClaim,
    ThresholdGrowth,
    ThresholdNear,
    ThresholdOrder,
    ThresholdRatio,
)
from sweeps.thresholds import WidthThreshold, attainable_level


class Bounds(NamedTuple):
    """A threshold's estimate with its interval: 0 and inf where an end is censored, nan where there is none."""

    value: float
    low: float
    high: float


def threshold_verdict(
    claim: ThresholdClaim, thresholds: Sequence[WidthThreshold], settings: LawSettings | None = None
) -> Verdict:
    """What came of a claim about thresholds; `settings` say which cells are held out of the laws."""
    held_out = (settings or LawSettings()).holds_out
    own = [threshold for threshold in thresholds if is_selected(threshold, claim)]
    letter = (own or thresholds)[0].size.letter if thresholds else "m"
    match claim:
        case ThresholdOrder():
            found, quantity = _order(claim, own), f"{letter}* over the one before it, by {leaf(claim.by)}"
            rule = f"above 1: {_ordered(claim.order)}"
        case ThresholdRatio():
            found, rule = _ratios(claim, own), sides(claim.at_least, claim.at_most)
            quantity = f"{letter}* of {claim.by} {claim.of} over {letter}* of {claim.over}"
        case ThresholdNear():
            found = [_near(claim, threshold, where) for threshold, where in zip(own, distinguishing(own), strict=True)]
            quantity = f"{letter}* over {claim.value:g} ({claim.source})"
            rule = f"within a factor of {claim.factor:g}"
        case ThresholdGrowth():
            fitted = [threshold for threshold in own if not held_out(threshold.config_sample)]
            found, rule = _growth(claim, fitted), sides(claim.at_least, claim.at_most)
            exponent = "b" if claim.law == "log" else "gamma"
            quantity = f"{exponent} in {letter_law(claim.law, claim.letter).formula}"
            quantity = spelled(quantity, own[0].size, own[0].config_sample.task) if own else quantity
    return Verdict(claim.name, claim.says, quantity, rule, tuple(found))


def threshold_ratio(of: WidthThreshold, over: WidthThreshold) -> Bounds:
    """The ratio of two thresholds of independent trials, with its interval: nan where there is none, 0 or inf where open."""
    return _quotient(bounds_of(of), bounds_of(over))


def bounds_of(threshold: WidthThreshold) -> Bounds:
    """The estimate and interval of a threshold, for comparisons."""
    low, high = threshold.low, threshold.high
    match threshold.status:
        case "found":
            left = 0.0 if threshold.low_censored else math.nan if low is None else low
            right = math.inf if threshold.high_censored else math.nan if high is None else high
            return Bounds(threshold.m_star or math.nan, left, right)
        case "above_range":
            left = 0.0 if threshold.low_censored else float(threshold.widths[-1] if low is None else low)
            return Bounds(math.inf, left, math.inf)
        case "below_range":
            right = math.inf if threshold.high_censored else float(threshold.widths[0] if high is None else high)
            return Bounds(0.0, 0.0, right)
        case _:
            return Bounds(math.nan, math.nan, math.nan)


def _ordered(values: Sequence[Any]) -> str:
    """Values as a sweep file has them, `<` between each two."""
    return " < ".join("null" if value is None else str(value) for value in values)


def _order(claim: ThresholdOrder, thresholds: Sequence[WidthThreshold]) -> list[ClaimSetting]:
    """A setting for each two neighbours of the order at each T, q and d: the ratio of the later to the earlier."""
    groups: dict[Fields, dict[object, list[WidthThreshold]]] = {}
    for threshold in thresholds:
        fields = claimed_fields(threshold)
        alike = groups.setdefault(tuple(item for item in letters_of(threshold) if item[0] != claim.by), {})
        if claim.by in fields:
            alike.setdefault(fields[claim.by], []).append(threshold)
    varying = {name for key in groups for name, value in key if len({dict(other)[name] for other in groups}) > 1}
    settings = []
    for key, alike in groups.items():
        shared = tuple(item for item in key if item[0] in varying)
        for first, second in pairwise(claim.order):
            earlier, later = (
                list(zip(cells, differing_fields(cells), strict=True))
                for cells in (alike.get(first, []), alike.get(second, []))
            )
            order = (claim.by, _ordered((first, second)))
            settings += [
                _ratio((*shared, *of_one, *of_two, order), claim.by, one, two)
                for one, of_one in earlier
                for two, of_two in later
            ] or [ClaimSetting((*shared, order), None, None, None, 0, "not enough data")]
    return settings


def _ratio(where: Fields, by: str, first: WidthThreshold, second: WidthThreshold) -> ClaimSetting:
    """How the second threshold compares with the first; their intervals do not meet where the ratio's lies beside 1."""
    one, two = bounds_of(first), bounds_of(second)
    num, both = min(first.num_seeds, second.num_seeds), (one.value, two.value)
    value = two.value / one.value if all(math.isfinite(own) and own > 0 for own in both) else None
    low, high = _divided(two.low, one.high), _divided(two.high, one.low)
    if math.isnan(low) or math.isnan(high):
        without = _without_number((((by, claimed_fields(threshold)[by]),), threshold) for threshold in (first, second))
        return ClaimSetting(where, value, None, None, num, "not enough data", without)
    answer: Answer = "holds" if low > 1 else "does not hold" if high < 1 else "not enough data"
    return _with_seeds(ClaimSetting(where, value, _shown(low), _shown(high), num, answer), (first, second))


def _ratios(claim: ThresholdRatio, thresholds: Sequence[WidthThreshold]) -> list[ClaimSetting]:
    """A setting for each pair of cells with equal tasks and models, with the interval of the ratio of independent estimates."""
    rule = (-math.inf if claim.at_least is None else claim.at_least, math.inf if claim.at_most is None else claim.at_most)
    settings = []
    for own, *pair in ratio_pairs(claim, thresholds):
        value, low, high = _quotient(*map(bounds_of, pair))
        without = _without_number(
            (((claim.by, value),), cell) for value, cell in zip((claim.of, claim.over), pair, strict=True)
        )
        answer = "not enough data" if math.isnan(low) or math.isnan(high) else answer_of(low, high, rule)
        num = min(threshold.num_seeds for threshold in pair)
        settings.append(_with_seeds(ClaimSetting(own, _shown(value), _shown(low), _shown(high), num, answer, without), pair))
    return settings or [ClaimSetting((), None, None, None, 0, "not enough data")]


def _quotient(one: Bounds, two: Bounds) -> Bounds:
    """The ratio of two independent estimates; its interval takes the distances of the ends in quadrature, in logarithms.

    This is the method of variance estimates recovery (Donner, Zou 2012, doi:10.1177/0962280210383483) for a difference of logs.
    Where an estimate is censored its interval is that of the ends.
    """
    if not all(math.isfinite(bounds.value) and bounds.value > 0 for bounds in (one, two)):
        return Bounds(math.nan, _divided(one.low, two.high), _divided(one.high, two.low))
    value = one.value / two.value
    down = math.hypot(_log_ratio(one.value, one.low), _log_ratio(two.high, two.value))
    up = math.hypot(_log_ratio(one.high, one.value), _log_ratio(two.value, two.low))
    return Bounds(value, value * math.exp(-down), value * math.exp(up))


def _log_ratio(above: float, below: float) -> float:
    return math.inf if below == 0 or math.isinf(above) else math.log(above / below)


def _near(claim: ThresholdNear, threshold: WidthThreshold, where: Fields) -> ClaimSetting:
    """The whole interval is held against the factor; an open end, or none, lies inside of no factor."""
    value, low, high = (end / claim.value for end in bounds_of(threshold))
    answer = answer_of(low, high, (1 / claim.factor, claim.factor))
    shown = (_shown(value) or None, _shown(low), _shown(high))
    note = _without_number([((), threshold)])
    return _with_seeds(ClaimSetting(where, *shown, threshold.num_seeds, answer, note), (threshold,))


def _growth(claim: ThresholdGrowth, thresholds: Sequence[WidthThreshold]) -> list[ClaimSetting]:
    """A setting for each regime: the law's rate with its interval over seeds and cells, left open where a cell is missing."""
    rule = (-math.inf if claim.at_least is None else claim.at_least, math.inf if claim.at_most is None else claim.at_most)
    regimes = by_regime(thresholds)
    told = differing_fields([members[0] for members in regimes])
    return [_rate(claim, members, own, rule) for members, own in zip(regimes, told, strict=True)]


def _rate(
    claim: ThresholdGrowth, members: Sequence[WidthThreshold], differing: Fields, rule: tuple[float, float]
) -> ClaimSetting:
    kind = ("model.kind", members[0].config_sample.model.kind)
    shared = set.intersection(*(set(letters_of(threshold)) for threshold in members))
    letters = (item for item in letters_of(members[0]) if item in shared)
    where: Fields = (kind, *(item for item in differing if item != kind), *letters)
    fitted = [threshold for threshold in members if threshold.is_bounded]
    num, cells = min((threshold.num_seeds for threshold in fitted), default=0), law_cells(members)
    law = fitted_law(letter_law(claim.law, claim.letter), cells)
    own = [tuple(item for item in fields if item not in shared) for fields in distinguishing(members)]
    without = _without_number(zip(own, members, strict=True))
    if law is None:
        return ClaimSetting(where, None, None, None, num, "not enough data", without)
    rate = law.parameters["b" if claim.law == "log" else "gamma"]
    if not rate.has_interval:
        return ClaimSetting(where, rate.value, None, None, num, "not enough data", without)
    answer = "not enough data" if without else answer_of(rate.low, rate.high, rule)
    return _with_seeds(ClaimSetting(where, rate.value, rate.low, rate.high, num, answer, without), fitted)


def _without_number(cells: Iterable[tuple[Fields, WidthThreshold]]) -> str:
    """Which cells have no threshold nor a side on which it lies, in words: `not reached: T=64, T=128; failed: T=256`."""
    named: dict[str, list[str]] = {}
    for fields, threshold in cells:
        if not threshold.is_bounded:
            words = " ".join(f"{leaf(name)}={value}" for name, value in fields)
            named.setdefault(threshold.status.replace("_", " "), []).append(words)
    return "; ".join(f"{status}: {', '.join(cells)}" if any(cells) else status for status, cells in named.items())


def _with_seeds(setting: ClaimSetting, thresholds: Sequence[WidthThreshold]) -> ClaimSetting:
    """Of a grid the interval rests on ranks or a bootstrap of its seeds; that of a search on a posterior over its points."""
    levels = [attainable_level(t.num_seeds, t.success_rate) for t in thresholds if t.search is None]
    return with_seeds(setting, level=thresholds[0].level, attainable=min(levels, default=1.0))


def _divided(above: float, below: float) -> float:
    """A ratio of thresholds: inf over 0, and nan where both ends are open."""
    if below == 0:
        return math.nan if above == 0 else math.inf
    return math.nan if math.isinf(above) and math.isinf(below) else above / below


def _shown(value: float) -> float | None:
    return value if math.isfinite(value) else None
