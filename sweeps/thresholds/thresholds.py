"""Thresholds: the width from which a cell's task is learned, with an interval, and an honest word where there is none.

Definition. With the learning rate chosen for each width, S(m) is the fraction of seeds whose relative loss is at most the
target. The threshold `m*` is the least m where S(m) reaches the success rate; module `crossings` has it for every criterion.
A criterion's `metric` puts another number of the trials in the place of the loss, here and in searches.

Which trials count. A diverged trial is an unsolved one. A failed one (lost worker, out of memory) says nothing about the
width: it is counted, and all else is as if it had never been declared. The rate of a width is the one with the least median log
loss over seeds, never one for each seed. Sampling error of the final evaluation is part of the spread between seeds and not
added to it.

Interval. Seeds are drawn with replacement, jointly for all widths where the grid shares them, else within each width; rates
are chosen anew in each of `NUM_REPLICATES` replicates; percentiles are widened for the number of seeds (module
`resampling`).
An end that lies beyond the widths tried is marked as censored and given no number.

A cell whose widths were searched has a posterior in place of both (module `searched_thresholds`). Of another whole number than
the width (a rank, a number of training samples) all is the same with that number in its place. Samples to a target are another
kind (module `samples_thresholds`).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from stsq_core.configs import SAMPLES, WIDTH, Transformer, TrialConfig
from sweeps.cells import SearchedCell, cell_of_family, distinct_labels
from sweeps.sampler import trend_of_widths
from sweeps.schema import Criterion, SearchSettings, SweepSpec
from sweeps.store import FAILED, FINISHED, LEAST_LOSS, LedgerRecord, Outcomes, Results
from sweeps.thresholds.missed import Missed
from sweeps.thresholds.recheck import NO_RECHECKS, Rechecks
from sweeps.thresholds.resampling import NO_ESTIMATE, CellLosses, GridEstimate, attainable_level, estimate, interval_of
from sweeps.thresholds.samples_thresholds import samples_threshold
from sweeps.thresholds.searched_thresholds import searched_threshold
from sweeps.thresholds.width_threshold import (
    Point,
    Points,
    WidthThreshold,
    few_seeds,
    notes_on_ends,
    notes_on_stretches,
    threshold_of,
    widths_words,
)

__all__ = ["Point", "Points", "WidthThreshold", "thresholds_of", "width_thresholds"]


def thresholds_of(spec: SweepSpec, results: Results) -> tuple[WidthThreshold, ...]:
    """The thresholds of a run; none of a sweep that is not about them."""
    if not spec.has_thresholds:
        return ()
    again = results.rechecks.judged_by(spec.criterion.metric)
    rechecks = Rechecks(again) if len(again) else NO_RECHECKS
    return width_thresholds(results.records, spec.criterion, searched=results.searched, settings=spec.search, rechecks=rechecks)


def width_thresholds(
    records: Iterable[LedgerRecord],
    criterion: Criterion,
    *,
    searched: Sequence[SearchedCell] = (),
    settings: SearchSettings = SearchSettings(),  # noqa: B008  (frozen)
    rechecks: Rechecks = NO_RECHECKS,
) -> tuple[WidthThreshold, ...]:
    """The threshold of every cell that has records, of several targets one each; transformers first, then by q, d and T.

    The same records and criterion give the same numbers, intervals included: each cell's draws are seeded by its name.
    """
    size = criterion.size
    outcomes = Outcomes.of(records, size).judged_by(criterion.metric)
    trials = outcomes.trials
    order = np.lexsort((outcomes.status == FAILED, trials.family))  # so that no failed trial stands for its cell
    members = np.split(order, np.flatnonzero(np.diff(trials.family[order])) + 1) if len(order) else []
    samples = [trials[int(own[0])] for own in members]
    cells = {cell.cell_id: cell for cell in searched}
    found: list[tuple[WidthThreshold, ...]] = []
    for own, sample, label in zip(members, samples, distinct_labels(samples, size), strict=True):
        cell_id, taken = cell_of_family(trials.families[trials.family[own[0]]]), outcomes.take(own)
        of_cell = []
        for one in criterion.each:
            if cell_id in cells:
                threshold = searched_threshold(cells[cell_id], label, taken, one, settings)
            elif size == SAMPLES:
                threshold = samples_threshold(cell_id, label, sample, taken, one)
            else:
                threshold = _grid_threshold(cell_id, label, sample, taken, one)
            of_cell.append(threshold if rechecks is NO_RECHECKS else _rechecked(threshold, one, rechecks))
        found.append(tuple(_of_several(threshold, len(of_cell)) for threshold in of_cell))
    return tuple(threshold for of_cell in sorted(found, key=lambda own: _order(own[0])) for threshold in of_cell)


def _of_several(threshold: WidthThreshold, num_targets: int) -> WidthThreshold:
    """A threshold whose label names its target where its cell has one for each of several."""
    if num_targets == 1:
        return threshold
    return replace(threshold, num_targets=num_targets, label=f"{threshold.label} target_loss={threshold.target_loss:g}")


def _rechecked(threshold: WidthThreshold, criterion: Criterion, rechecks: Rechecks) -> WidthThreshold:
    outcomes = threshold.points.outcomes
    rates = tuple(np.unique(outcomes.trials.rates[outcomes.status != FAILED]).tolist())
    recheck = rechecks.of(threshold.cell_id, threshold.config_sample, rates, threshold.m_star, criterion)
    if recheck is None:
        return threshold
    return replace(threshold, recheck=recheck, note="; ".join(filter(None, [threshold.note, recheck.words])))


def _order(threshold: WidthThreshold) -> tuple[object, ...]:
    task, model = threshold.config_sample.task, threshold.config_sample.model
    return not isinstance(model, Transformer), task.q, task.d, task.T, threshold.label, threshold.cell_id


def _grid_threshold(cell_id: str, label: str, sample: TrialConfig, outcomes: Outcomes, criterion: Criterion) -> WidthThreshold:
    losses = _losses_of(outcomes)
    found = estimate(losses, criterion, seed=int(cell_id, 16)) if losses else NO_ESTIMATE
    widths, place = np.unique(outcomes.trials.widths, return_inverse=True)
    rates = np.array([found.chosen.get(width, math.nan) for width in widths.tolist()])
    judged = _judged(losses, found) if losses else np.empty((0, 0))
    has_one_width = criterion.size == WIDTH and sample.model.is_sized_by_task
    short = _short_words(losses, judged, found, criterion, sample) if losses and not has_one_width else ""
    threshold = threshold_of(
        cell_id,
        label,
        sample,
        outcomes,
        criterion,
        crossing=math.nan if short else found.crossing,
        ends=None if short else _ends(found, losses, criterion),
        widths=losses.widths if losses else tuple(widths.tolist()),
        num_seeds=losses.num_seeds if losses else 0,
        points=Points.of(outcomes, rates[place] == outcomes.trials.rates),
        notes=([short] if short else [])
        + list(_notes(outcomes, losses, judged, found, criterion, sample, says_where=not (short or has_one_width))),
        replicates=np.array([]) if short else found.replicates,
        again=found.again,
        without="not_reached" if short else "failed",
    )
    return _at_its_width(threshold, judged, criterion) if has_one_width and threshold.status != "failed" else threshold


def _at_its_width(threshold: WidthThreshold, judged: np.ndarray, criterion: Criterion) -> WidthThreshold:
    """What came of a model at the one width that its task leaves it; `judged` are the log losses, [1, seed]."""
    known = judged[~np.isnan(judged)]
    num_solved = int((known <= math.log(criterion.target)).sum())
    parts = "T + d = " if threshold.config_sample.model.offset(threshold.config_sample.task) else ""
    loss = f"median {criterion.measure} {math.exp(float(np.median(known))):.2g} there"
    words = f"m = {parts}{threshold.widths[0]} is the only width: {loss}, {num_solved} of {len(known)} seeds solved"
    return replace(
        threshold,
        status="solved" if threshold.status == "below_range" else "not_solved",
        low=None,
        high=None,
        low_censored=False,
        high_censored=False,
        note="; ".join(filter(None, [words, threshold.note])),
        replicates=np.array([]),
    )


def _judged(losses: CellLosses, found: GridEstimate) -> np.ndarray:
    """The log losses at the rate of each width, [width, seed]."""
    chosen = [losses.rates.index(found.chosen[width]) for width in losses.widths]
    return losses.log_losses[np.arange(len(losses.widths)), chosen]


def _short_words(losses: CellLosses, judged: np.ndarray, found: GridEstimate, criterion: Criterion, sample: TrialConfig) -> str:
    """Why no width reaches the target, where the loss does not fall at the largest ones; empty elsewhere."""
    if found.crossing != math.inf:
        return ""
    log_widths, known = np.log(losses.widths), ~np.isnan(judged)
    trend = trend_of_widths(log_widths, judged)
    if trend == "falling":
        return ""
    places, _ = np.nonzero(known)
    return Missed(log_widths[places], judged[known], trend, by_width=True).words(criterion, sample, is_final=True)


def _least_size(criterion: Criterion, sample: TrialConfig) -> int:
    """The least size that a trial may have."""
    return 1 + (sample.model.offset(sample.task) if criterion.size == WIDTH else 0)


def _unsolved_again(losses: CellLosses, judged: np.ndarray, found: GridEstimate, criterion: Criterion) -> list[int]:
    """The widths above the least crossing at which fewer seeds than the success rate reach the target."""
    num_solved, num = (judged <= math.log(criterion.target)).sum(axis=1), (~np.isnan(judged)).sum(axis=1)
    is_again = (np.log(losses.widths) > found.crossing) & (num_solved < criterion.success_rate * num)
    return [width for width, again in zip(losses.widths, is_again.tolist(), strict=True) if again]


def _losses_of(outcomes: Outcomes) -> CellLosses | None:
    """The losses of a cell as an array; None where no trial finished."""
    ended = outcomes.take(outcomes.status != FAILED)
    if not ended.num_ended("finished"):
        return None
    widths, width = np.unique(ended.trials.widths, return_inverse=True)
    rates, rate = np.unique(ended.trials.rates, return_inverse=True)
    seeds, seed = np.unique(ended.trials.seeds, return_inverse=True)
    pairs, pair = np.unique(width * len(seeds) + seed, return_inverse=True)
    shared = len(widths) == 1 or len(pairs) > len(seeds)
    if not shared:  # a column holds the i-th seed of each width
        seed = (np.arange(len(pairs)) - np.searchsorted(pairs, pairs // len(seeds) * len(seeds)))[pair]
    log_losses = np.full((len(widths), len(rates), int(seed.max()) + 1), np.nan)
    log_losses[width, rate, seed] = _log_losses(ended)
    return CellLosses(tuple(widths.tolist()), tuple(rates.tolist()), log_losses, shared)


def _log_losses(outcomes: Outcomes) -> np.ndarray:
    """Log losses, inf where a trial diverged."""
    known = (outcomes.status == FINISHED) & ~np.isnan(outcomes.relative_loss)
    logs = np.full(len(outcomes), np.inf)
    logs[known] = [math.log(max(loss, LEAST_LOSS)) for loss in outcomes.relative_loss[known].tolist()]
    return logs


def _ends(found: GridEstimate, losses: CellLosses | None, criterion: Criterion) -> tuple[float, float] | None:
    """The interval of log m*, ends possibly infinite; None where one seed gives no interval."""
    if losses is None or losses.num_seeds < 2:
        return None
    low, high = interval_of(found.replicates, level=criterion.level, num=losses.num_seeds)
    # Of an interval wholly beyond the range, the inner end is the last width that was tried.
    return min(low, found.crossing, math.log(losses.widths[-1])), max(high, found.crossing, math.log(losses.widths[0]))


def _notes(
    outcomes: Outcomes,
    losses: CellLosses | None,
    judged: np.ndarray,
    found: GridEstimate,
    criterion: Criterion,
    sample: TrialConfig,
    *,
    says_where: bool,
) -> Iterator[str]:
    """What a reader must know before using the number, in a few words each."""
    if losses is None:
        ways = [way for way in ("diverged", "failed") if outcomes.num_ended(way)]
        yield f"not found: all {' or '.join(ways)}"
        return
    if found.crossing == math.inf and says_where:
        larger = " (try larger ones)" if losses.widths[-1] == outcomes.trials.widths.max() else ""
        yield f"above {losses.widths[-1]}, the largest {criterion.size.noun} tried{larger}"
    if found.crossing == -math.inf and says_where:
        can_shrink = losses.widths[0] == outcomes.trials.widths.min() > _least_size(criterion, sample)
        smaller = " (try smaller ones)" if can_shrink else ""
        yield f"at or below {losses.widths[0]}, the least {criterion.size.noun} tried{smaller}"
    # The mean may miss the target again at a width at which most seeds reach it.
    widths = _unsolved_again(losses, judged, found, criterion) if found.again else []
    where = widths_words(widths, criterion.size.letter) if widths else f"a larger {criterion.size.noun}"
    if found.again and criterion.statistic == "solved":
        yield f"enough seeds are solved at a smaller {criterion.size.noun} and too few at {where}: the fraction is smoothed"
    elif found.again:
        yield f"solved, then unsolved again at {where}: the least crossing is given"
    yield from notes_on_ends(outcomes)
    yield from notes_on_stretches(outcomes.trials.widths, outcomes.status, outcomes.reason.tolist(), criterion.size.noun)
    if attainable_level(losses.num_seeds, criterion.success_rate) < criterion.level:
        yield few_seeds(losses.num_seeds, criterion)
    edges = [width for width, rate in found.chosen.items() if rate in (losses.rates[0], losses.rates[-1])]
    if len(losses.rates) > 2 and edges:
        yield f"the best rate is at the end of the rates tried at {criterion.size.letter} = {', '.join(map(str, edges))}"
