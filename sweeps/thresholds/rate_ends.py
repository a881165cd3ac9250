"""Cells whose best learning rate near the threshold is the largest or the smallest that was tried, in words.

Beyond the end of the rates a better one may lie, with which a smaller size would do: the threshold is that of the rates tried.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np

from sweeps.thresholds.width_threshold import WidthThreshold

NEAR = math.log(1.25)
"""Sizes within this distance of a threshold, in log, are near it; the `NEAREST` ones always are."""

NEAREST = 3
End = Literal["largest", "smallest"]


def rate_end_lines(thresholds: Iterable[WidthThreshold]) -> tuple[str, ...]:
    """A sentence for each set of rates at an end of which the best one lies, with the number of cells in which it does."""
    by_rates: dict[tuple[float, ...], list[WidthThreshold]] = {}
    for threshold in thresholds:
        if threshold.status in ("found", "above_range"):
            by_rates.setdefault(_rates_of(threshold), []).append(threshold)
    return tuple(
        line for rates, own in by_rates.items() if len(rates) > 1 for line in _lines(rates, own, are_all=len(by_rates) == 1)
    )


def _lines(rates: tuple[float, ...], thresholds: Sequence[WidthThreshold], *, are_all: bool) -> Iterable[str]:
    num, ends = len({one.cell_id for one in thresholds}), [(rate_end(one), one.cell_id) for one in thresholds]
    among = f"{num} {'cell' if num == 1 else 'cells'}"
    if not are_all:
        among = f"the {among} with rates from {rates[0]:g} to {rates[-1]:g}"
    letter, further = thresholds[0].size.letter, {"largest": (rates[-1], "larger"), "smallest": (rates[0], "smaller")}
    for end, (rate, word) in further.items():
        if cells := {cell_id for own, cell_id in ends if own == end}:
            yield (
                f"The best learning rate is the {end} tried, {rate:g}, in {len(cells)} of {among}: "
                f"a {word} one might lower {letter}*."
            )


def rate_end(threshold: WidthThreshold) -> End | None:
    """The end of its rates that is the best one at most of the sizes near a threshold; None where it is none, or one rate."""
    points, rates = threshold.points, _rates_of(threshold)
    sizes, place = np.unique(points.widths[points.chosen], return_index=True)
    if len(rates) < 2 or not len(sizes):
        return None
    best = points.outcomes.trials.rates[points.chosen][place]
    distance = np.abs(np.log(sizes) - math.log(threshold.m_star or threshold.widths[-1]))
    near = best[distance <= max(NEAR, float(np.sort(distance)[min(NEAREST, len(sizes)) - 1]))]
    if 2 * np.count_nonzero(near == rates[-1]) > len(near):
        return "largest"
    return "smallest" if 2 * np.count_nonzero(near == rates[0]) > len(near) else None


def _rates_of(threshold: WidthThreshold) -> tuple[float, ...]:
    return tuple(np.unique(threshold.points.outcomes.trials.rates).tolist())
