"""The width threshold of a cell whose widths were searched: the posterior over log m* of its points (module `posterior`).

Every point that ended counts, whoever asked for it, at the rate of its neighbourhood: diverged ones as lapses, failed ones
not at all. Whether a fraction of seeds above the threshold fails (lapses), or widths far above it do (evidence that is not
monotone), is noted and not hidden.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sweeps.cells import SearchedCell
from sweeps.schema import Criterion, SearchSettings
from sweeps.store import Outcomes
from sweeps.thresholds.crossings import isotonic_crossings
from sweeps.thresholds.search_points import CellPoints
from sweeps.thresholds.search_state import SearchState, state_of
from sweeps.thresholds.trend import short_words
from sweeps.thresholds.width_threshold import Points, WidthThreshold, notes_on_ends, threshold_of

NUM_DRAWS = 2000
WINDOW = 4
"""So many points of neighbouring widths above the interval, all but one of them unsolved, are no lapses any more."""

WIDEST = 2
"""Nor are so many of the widest points."""


def searched_threshold(
    cell: SearchedCell, label: str, outcomes: Outcomes, criterion: Criterion, settings: SearchSettings
) -> WidthThreshold:
    """The threshold of a searched cell, from its points."""
    points = CellPoints.of(cell, outcomes)
    state = state_of(points, criterion, settings)
    is_short = state.posterior is not None and state.posterior.standing == "not_reached"
    draws, crossing = (np.array([]), math.nan) if is_short else _estimate(points, state, criterion)
    ends = _ends(draws, crossing, cell, criterion, state)
    above = _above(points, ends, criterion)
    chosen = np.zeros(len(points.outcomes), dtype=bool)
    chosen[points.trials[np.arange(len(points.widths)), points.chosen][points.evidence]] = True
    return threshold_of(
        cell.cell_id,
        label,
        cell.family.sample,
        outcomes,
        criterion,
        crossing=crossing,
        ends=ends,
        widths=tuple(np.unique(points.widths).tolist()) or (cell.low, cell.high),
        num_seeds=int(np.count_nonzero(points.evidence)),
        points=Points.of(points.outcomes, chosen),
        notes=_notes(points, state, crossing, above),
        replicates=draws,
        again=above.again,
        search=state,
        is_reached=not is_short,
    )


def _estimate(points: CellPoints, state: SearchState, criterion: Criterion) -> tuple[np.ndarray, float]:
    """Draws of log m*, and its estimate; nan where there is none."""
    if state.posterior is None:
        return np.array([]), math.nan
    seed = int(points.cell.cell_id, 16)
    if criterion.statistic == "median":
        return state.posterior.samples(NUM_DRAWS, seed), state.posterior.median
    evidence = points.evidence
    crossings = isotonic_crossings(
        np.log(points.widths[evidence]), points.judged[evidence], log_target=math.log(criterion.target_loss), seed=seed
    )
    return crossings[1:], float(crossings[0])


def _ends(
    draws: np.ndarray, crossing: float, cell: SearchedCell, criterion: Criterion, state: SearchState
) -> tuple[float, float] | None:
    """The interval of log m*, ends possibly infinite. Of one wholly beyond the range, the inner end is the end of the range."""
    if math.isnan(crossing) or state.posterior is None:
        return None
    if criterion.statistic == "median":
        low, high = state.posterior.interval(criterion.level)
    else:
        ordered = np.sort(draws)
        tail = math.floor((1 - criterion.level) / 2 * len(ordered))
        low, high = float(ordered[tail]), float(ordered[len(ordered) - 1 - tail])
    return min(low, crossing, math.log(cell.high)), max(high, crossing, math.log(cell.low))


@dataclass(frozen=True)
class _Above:
    """The points above the interval: how many, the widths of those that are unsolved, and whether that is no lapse."""

    num: int = 0
    unsolved: tuple[int, ...] = ()
    again: bool = False


def _above(points: CellPoints, ends: tuple[float, float] | None, criterion: Criterion) -> _Above:
    """Lapses fall anywhere; several of the widest points in a row, or of a stretch of widths, do not."""
    if ends is None or not math.isfinite(ends[1]):
        return _Above()
    above = points.evidence & (np.log(points.widths) > ends[1])
    widths = points.widths[above]
    order = np.argsort(widths, kind="stable")
    unsolved = (points.judged[above] > math.log(criterion.target_loss))[order]
    stretches = np.convolve(unsolved, np.ones(WINDOW, dtype=int), mode="valid") if len(unsolved) >= WINDOW else np.zeros(1)
    again = bool((stretches >= WINDOW - 1).any()) or (len(unsolved) >= WIDEST and bool(unsolved[-WIDEST:].all()))
    return _Above(len(widths), tuple(widths[order][unsolved].tolist()), again)


def _widths_words(widths: tuple[int, ...], letter: str) -> str:
    distinct = sorted(set(widths))
    values = ", ".join(map(str, distinct)) if len(distinct) <= 3 else f"{distinct[0]} to {distinct[-1]}"
    return f"{letter} = {values}"


def _notes(points: CellPoints, state: SearchState, crossing: float, above: _Above) -> Iterator[str]:
    """What a reader must know before using the number, in a few words each."""
    cell, noun = points.cell, points.cell.family.size.noun
    if state.reason in ("diverged", "failed") or state.posterior is None:
        yield f"not found: all {state.reason}" if state.reason else "not found yet: no point has given a loss"
        return
    if math.isnan(crossing):
        logs = np.log(points.widths[points.evidence])
        yield short_words(logs, points.judged[points.evidence], state.posterior.trend, letter=cell.family.size.letter)
    if crossing == math.inf:
        yield f"above {cell.high}, the largest {noun} searched"
    if crossing == -math.inf:
        yield f"at or below {cell.low}, the least {noun} searched"
    if not state.finished:
        yield f"the search goes on: {state.num_points} points so far"
    if state.reason == "cap":
        yield f"stopped at the cap of {state.num_points} points before the interval was as narrow as asked"
    if above.again:
        where = _widths_words(above.unsolved, cell.family.size.letter)
        yield f"solved, then unsolved again at {where}: the least crossing is given"
    elif above.unsolved:
        missed = f"{len(above.unsolved)} of {above.num} points above the interval miss the target"
        yield f"{missed}, at {_widths_words(above.unsolved, cell.family.size.letter)}"
    yield from notes_on_ends(points.outcomes)
    used = np.unique(points.chosen[points.evidence])
    ends = {0, len(cell.rates) - 1}
    if len(cell.rates) > 2 and ends & set(used.tolist()):
        yield f"the best rate is at the end of the rates tried at some {cell.family.size.nouns}"
