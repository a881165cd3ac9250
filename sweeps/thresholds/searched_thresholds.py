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
from sweeps.thresholds.posterior import ThresholdPosterior
from sweeps.thresholds.search_points import CellPoints
from sweeps.thresholds.search_state import SearchState, state_of
from sweeps.thresholds.trend import short_words
from sweeps.thresholds.width_threshold import Points, WidthThreshold, notes_on_ends, threshold_of, widths_words

NUM_DRAWS = 2000
ROUNDING = 1e-9
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
    widths = np.unique(points.widths[points.evidence])
    draws, crossing = np.array([]), math.nan
    if state.posterior is not None and not is_short:
        draws, crossing = _estimate(points, state.posterior, criterion)
    # What is beyond the widths that ended well is known to lie there, and no more.
    draws, crossing = _within(draws, widths), float(_within(np.array(crossing), widths))
    ends = _ends(draws, crossing, widths, criterion, state)
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
        widths=tuple(widths.tolist()) or tuple(np.unique(points.widths).tolist()) or (cell.low, cell.high),
        num_seeds=int(np.count_nonzero(points.evidence)),
        points=Points.of(points.outcomes, chosen),
        notes=_notes(points, state, crossing, above),
        replicates=draws,
        again=above.again,
        search=state,
        is_reached=not is_short,
    )


def _within(log_widths: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """Log widths, infinite where they lie beyond all of `widths`."""
    if not len(widths):
        return log_widths
    least, most = np.log(widths[[0, -1]])
    return np.where(log_widths < least - ROUNDING, -np.inf, np.where(log_widths > most + ROUNDING, np.inf, log_widths))


def _estimate(points: CellPoints, posterior: ThresholdPosterior, criterion: Criterion) -> tuple[np.ndarray, float]:
    """Draws of log m*, and its estimate."""
    seed = int(points.cell.cell_id, 16)
    if criterion.statistic == "median":
        return posterior.samples(NUM_DRAWS, seed), posterior.median
    evidence = points.evidence
    crossings = isotonic_crossings(
        np.log(points.widths[evidence]), points.judged[evidence], log_target=math.log(criterion.target_loss), seed=seed
    )
    return crossings[1:], float(crossings[0])


def _ends(
    draws: np.ndarray, crossing: float, widths: np.ndarray, criterion: Criterion, state: SearchState
) -> tuple[float, float] | None:
    """The interval of log m*, ends possibly infinite. Of one wholly beyond the widths, the inner end is the last of them."""
    if math.isnan(crossing) or state.posterior is None:
        return None
    if criterion.statistic == "median":
        low, high = _within(np.array(state.posterior.interval(criterion.level)), widths).tolist()
    else:
        ordered = np.sort(draws)
        tail = math.floor((1 - criterion.level) / 2 * len(ordered))
        low, high = float(ordered[tail]), float(ordered[len(ordered) - 1 - tail])
    return min(low, crossing, math.log(widths[-1])), max(high, crossing, math.log(widths[0]))


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


def _notes(points: CellPoints, state: SearchState, crossing: float, above: _Above) -> Iterator[str]:
    """What a reader must know before using the number, in a few words each."""
    cell, size, widths = points.cell, points.cell.family.size, points.widths[points.evidence]
    noun, letter = size.noun, size.letter
    if state.reason in ("diverged", "failed") or state.posterior is None:
        yield f"not found: all {state.reason}" if state.reason else "not found yet: no point has given a loss"
        return
    if math.isnan(crossing):
        logs = np.log(points.widths[points.evidence])
        losses = points.judged[points.evidence]
        yield short_words(logs, losses, state.posterior.trend, letter=letter, sample=cell.family.sample)
    if crossing == math.inf:
        yield f"above {widths.max()}, the largest {noun} searched" + ("" if state.posterior.is_cut else " (try a larger high)")
    if crossing == -math.inf:
        yield f"at or below {widths.min()}, the least {noun} searched" + (" (try a smaller low)" if cell.low > 1 else "")
    if not state.finished:
        yield f"the search goes on: {state.num_points} points so far"
    if state.reason == "cap":
        yield f"stopped at the cap of {state.num_points} points before the interval was as narrow as asked"
    if above.again:
        where = widths_words(above.unsolved, letter)
        yield f"solved, then unsolved again at {where}: the least crossing is given"
    elif above.unsolved:
        missed = f"{len(above.unsolved)} of {above.num} points above the interval miss the target"
        yield f"{missed}, at {widths_words(above.unsolved, letter)}"
    yield from notes_on_ends(points.outcomes)
    used = np.unique(points.chosen[points.evidence])
    ends = {0, len(cell.rates) - 1}
    if len(cell.rates) > 2 and ends & set(used.tolist()):
        yield f"the best rate is at the end of the rates tried at some {cell.family.size.nouns}"
