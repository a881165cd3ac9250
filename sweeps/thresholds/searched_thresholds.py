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
from sweeps.sampler import WIDEST, SearchState, ThresholdPosterior, falling_side
from sweeps.schema import Criterion, SearchSettings
from sweeps.store import Outcomes
from sweeps.thresholds.crossings import isotonic_crossings
from sweeps.thresholds.missed import Missed
from sweeps.thresholds.search_points import CellPoints
from sweeps.thresholds.search_state import state_of
from sweeps.thresholds.width_threshold import (
    Points,
    WidthThreshold,
    notes_on_ends,
    notes_on_stretches,
    threshold_of,
    widths_words,
)

NUM_DRAWS = 2000
WINDOW = 4
"""So many points of neighbouring widths above the interval, all but one of them unsolved, are no lapses any more; nor are
`WIDEST` of the widest points."""


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
    is_open = _goes_on(state, settings) and (state.num_points < settings.batch or math.isinf(crossing))
    if is_open:
        draws, crossing = np.array([]), math.nan
    ends = _ends(draws, crossing, widths, criterion, state)
    above = _above(points, crossing, ends, criterion)
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
        notes=_notes(points, state, crossing, above, criterion, settings),
        replicates=draws,
        again=above.again,
        search=state,
        without="open" if is_open else "not_reached" if is_short else "failed",
    )


def _goes_on(state: SearchState, settings: SearchSettings) -> bool:
    """Whether the search has not ended: a few points of its first round, which lie as far apart as its range, tell no threshold
    yet, and what lies beyond its points it may say at its end. Where laws decide, a search has no end of its own.
    """
    return not state.finished and settings.decide is None


def _estimate(points: CellPoints, posterior: ThresholdPosterior, criterion: Criterion) -> tuple[np.ndarray, float]:
    """Draws of log m*, and its estimate."""
    seed = int(points.cell.cell_id, 16)
    if criterion.statistic == "median":
        return posterior.samples(NUM_DRAWS, seed), posterior.median
    log_widths, losses = np.log(points.widths[points.evidence]), points.judged[points.evidence]
    falling = falling_side(log_widths, losses)  # beyond its least value the loss may rise again
    crossings = isotonic_crossings(log_widths[falling], losses[falling], log_target=math.log(criterion.target), seed=seed)
    return crossings[1:], float(crossings[0])


def _ends(
    draws: np.ndarray, crossing: float, widths: np.ndarray, criterion: Criterion, state: SearchState
) -> tuple[float, float] | None:
    """The interval of log m*, ends possibly infinite. Of one wholly beyond the widths, the inner end is the last of them."""
    if math.isnan(crossing) or state.posterior is None:
        return None
    if criterion.statistic == "median":
        low, high = state.posterior.interval(criterion.level)
    else:
        ordered = np.sort(draws)
        tail = math.floor((1 - criterion.level) / 2 * len(ordered))
        low, high = float(ordered[tail]), float(ordered[len(ordered) - 1 - tail])
    return min(low, crossing, math.log(widths[-1])), max(high, crossing, math.log(widths[0]))


@dataclass(frozen=True)
class _Above:
    """The points above the interval, or where that is open above the estimate: how many, the widths of those that are unsolved,
    and whether that is no lapse.
    """

    num: int = 0
    unsolved: tuple[int, ...] = ()
    again: bool = False


def _above(points: CellPoints, crossing: float, ends: tuple[float, float] | None, criterion: Criterion) -> _Above:
    """Lapses fall anywhere; several of the widest points in a row, or of a stretch of widths, do not."""
    if ends is None or crossing == math.inf:
        return _Above()
    above = points.evidence & (np.log(points.widths) > (ends[1] if math.isfinite(ends[1]) else crossing))
    widths = points.widths[above]
    order = np.argsort(widths, kind="stable")
    unsolved = (points.judged[above] > math.log(criterion.target))[order]
    stretches = np.convolve(unsolved, np.ones(WINDOW, dtype=int), mode="valid") if len(unsolved) >= WINDOW else np.zeros(1)
    again = bool((stretches >= WINDOW - 1).any()) or (len(unsolved) >= WIDEST and bool(unsolved[-WIDEST:].all()))
    return _Above(len(widths), tuple(widths[order][unsolved].tolist()), again)


def _notes(
    points: CellPoints, state: SearchState, crossing: float, above: _Above, criterion: Criterion, settings: SearchSettings
) -> Iterator[str]:
    """What a reader must know before using the number, in a few words each."""
    cell, size, widths = points.cell, points.cell.family.size, points.widths[points.evidence]
    noun, letter = size.noun, size.letter
    if state.reason in ("diverged", "failed") or state.posterior is None:
        yield f"not found: all {state.reason}" if state.reason else "not found yet: no point has given a loss"
        return
    goes_on = _goes_on(state, settings)
    is_early = goes_on and state.num_points < settings.batch
    if is_early:
        yield f"not found yet: {state.num_points} of the first {settings.batch} points have ended"
    elif math.isnan(crossing) and goes_on and state.posterior.standing != "not_reached":
        reaching = points.judged[points.evidence] <= math.log(criterion.target)
        share = "all" if reaching.all() else "none" if not reaching.any() else f"{np.count_nonzero(reaching)}"
        where = (
            f"from {letter} = {widths.min()} to {widths.max()}"
            if len(set(widths.tolist())) > 1
            else f"at {letter} = {widths[0]}"
        )
        yield f"not found yet: {share} of the points so far, {where}, reach the target"
    elif math.isnan(crossing):
        missed = Missed(np.log(widths), points.judged[points.evidence], state.posterior.trend, by_width=False)
        yield missed.words(criterion, cell.family.sample, is_final=state.finished)
    if crossing == math.inf:
        can_grow = state.finished and not state.posterior.is_cut
        yield f"above {widths.max()}, the largest {noun} searched" + (" (try a larger high)" if can_grow else "")
    if crossing == -math.inf:
        can_shrink = state.finished and state.posterior.low == cell.low > cell.offset + 1
        yield f"at or below {widths.min()}, the least {noun} searched" + (" (try a smaller low)" if can_shrink else "")
    if goes_on and not is_early:
        yield f"the search is not finished: {state.num_points} {'point' if state.num_points == 1 else 'points'} so far"
    if state.reason == "cap" and state.num_points > settings.cap:
        yield f"{state.num_points} points of earlier searches are more than the cap of {settings.cap}: none was asked"
    elif state.reason == "cap":
        yield f"stopped at the cap of {state.num_points} points before the interval was as narrow as asked"
    if above.again:
        where = widths_words(above.unsolved, letter)
        yield f"solved, then unsolved again at {where}: the least crossing is given"
    elif above.unsolved:
        share = f"{len(above.unsolved)} of {above.num} points above the interval miss the target"
        yield f"{share}, at {widths_words(above.unsolved, letter)}"
    yield from notes_on_ends(points.outcomes)
    yield from notes_on_stretches(points.widths[points.complete], *points.ends, noun)
    used = np.unique(points.chosen[points.evidence])
    ends = {0, len(cell.rates) - 1}
    if len(cell.rates) > 2 and ends & set(used.tolist()):
        yield f"the best rate is at the end of the rates tried at some {cell.family.size.nouns}"
