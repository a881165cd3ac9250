"""Thresholds: the width from which a cell's task is learned, with an interval, and an honest word where there is none.

Definition. With the learning rate chosen for each width, S(m) is the fraction of seeds whose relative loss is at most the
target. The threshold `m*` is the least m where S(m) reaches the success rate. It is estimated from a grid by each seed's own
crossings of the target loss, log loss interpolated linearly in log width between adjacent widths (module `crossings`), and
never extrapolated.

Which trials count. A diverged trial is an unsolved one. A failed one (lost worker, out of memory) says nothing about the
width: it is counted, and the seed's line is drawn past it; only at the least width, and where rates are chosen, does it count
as unsolved. The rate of a width is the one with the least median log
loss over seeds, never one for each seed. Sampling error of the final evaluation is part of the spread between seeds and not
added to it.

Interval. Seeds are drawn with replacement, jointly for all widths where the grid shares them, else within each width; rates
are chosen anew in each of `NUM_REPLICATES` replicates; percentiles are widened for the number of seeds (module `intervals`).
An end that lies beyond the widths tried is marked as censored and given no number.

A cell whose widths were searched has a posterior in place of both (module `searched_thresholds`). With `statistic: mean` the
threshold is where the mean loss crosses the target, another quantity (module `mean_crossing`); with `statistic: solved` it is
m*, but no loss between widths is made up (module `solved_fraction`).

Of another whole number than the width (a rank, a number of training samples) all is the same with that number in its place.
Samples to a target are another kind (module `samples_thresholds`).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stsq_core.configs import SAMPLES, TrialConfig
from sweeps.cells import SearchedCell, cell_of, distinct_labels
from sweeps.schema import Criterion, SearchSettings, SweepSpec, ThresholdClaim
from sweeps.store import FAILED, FINISHED, LEAST_LOSS, LedgerRecord, Outcomes, Results
from sweeps.thresholds.crossings import chosen_rates, least_crossing
from sweeps.thresholds.intervals import attainable_level, interval_of
from sweeps.thresholds.mean_crossing import mean_crossing
from sweeps.thresholds.recheck import NO_RECHECKS, Rechecks
from sweeps.thresholds.resampling import replicated_crossings
from sweeps.thresholds.samples_thresholds import samples_threshold
from sweeps.thresholds.searched_thresholds import searched_threshold
from sweeps.thresholds.solved_fraction import solved_crossing
from sweeps.thresholds.width_threshold import Point, Points, WidthThreshold, few_seeds, status_of, width_of

__all__ = ["Point", "Points", "WidthThreshold", "thresholds_of", "width_thresholds"]

NUM_REPLICATES = 2000
CHUNK_NUMBERS = 400_000
"""Numbers resampled at a time, so that a large cell fills neither memory nor caches."""


def thresholds_of(spec: SweepSpec, results: Results) -> tuple[WidthThreshold, ...]:
    """The thresholds of a run; none of a sweep that is shown by drawings, unless it claims something of them."""
    if spec.drawings and not any(isinstance(claim, ThresholdClaim) for claim in spec.claims):
        return ()
    rechecks = Rechecks(results.rechecks) if len(results.rechecks) else NO_RECHECKS
    return width_thresholds(results.records, spec.criterion, searched=results.searched, settings=spec.search, rechecks=rechecks)


def width_thresholds(
    records: Iterable[LedgerRecord],
    criterion: Criterion,
    *,
    searched: Sequence[SearchedCell] = (),
    settings: SearchSettings = SearchSettings(),  # noqa: B008  (frozen)
    rechecks: Rechecks = NO_RECHECKS,
) -> tuple[WidthThreshold, ...]:
    """The threshold of every cell that has records, transformers first, then by q, d and T.

    The same records and criterion give the same numbers, intervals included: each cell's draws are seeded by its name.
    """
    size = criterion.size
    outcomes = Outcomes.of(records, size)
    trials = outcomes.trials
    order = np.argsort(trials.family, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(trials.family[order])) + 1) if len(order) else []
    samples = [trials[int(own[0])] for own in members]
    cells = {cell.cell_id: cell for cell in searched}
    found = []
    for own, sample, label in zip(members, samples, distinct_labels(samples, size), strict=True):
        cell_id, taken = cell_of(sample, size), outcomes.take(own)
        if cell_id in cells:
            threshold = searched_threshold(cells[cell_id], label, taken, criterion, settings)
        elif size == SAMPLES:
            threshold = samples_threshold(cell_id, label, sample, taken, criterion)
        else:
            threshold = _threshold(cell_id, label, sample, taken, criterion)
        found.append(_rechecked(threshold, criterion, rechecks))
    return tuple(sorted(found, key=_order))


def _rechecked(threshold: WidthThreshold, criterion: Criterion, rechecks: Rechecks) -> WidthThreshold:
    rates = tuple(np.unique(threshold.points.outcomes.trials.rates).tolist())
    recheck = rechecks.of(threshold.cell_id, threshold.config_sample, rates, threshold.m_star, criterion)
    if recheck is None:
        return threshold
    return replace(threshold, recheck=recheck, note="; ".join(filter(None, [threshold.note, recheck.words])))


def _order(threshold: WidthThreshold) -> tuple[object, ...]:
    task = threshold.config_sample.task
    return threshold.kind != "transformer", task.q, task.d, task.T, threshold.label, threshold.cell_id


@dataclass(frozen=True)
class _Losses:
    """The losses of a cell. `log_losses` [width, rate, seed]: inf where diverged, nan where missing.

    `shared` where seeds are the same at all widths; else a column holds the i-th seed of each width.
    """

    widths: tuple[int, ...]
    rates: tuple[float, ...]
    log_losses: np.ndarray
    shared: bool

    @property
    def num_seeds(self) -> int:
        return int(self.log_losses.shape[-1])


@dataclass(frozen=True)
class _Estimate:
    """What the losses of a cell say: log m*, whether S falls below the success rate again, its replicates, the rates."""

    crossing: float
    again: bool
    replicates: np.ndarray
    chosen: dict[int, float]


def _estimate(losses: _Losses, criterion: Criterion, cell_id: str) -> _Estimate:
    crossings, again = _cross(losses, np.arange(losses.num_seeds)[None, None, :], criterion)
    chosen = {
        width: losses.rates[rate] for width, rate in zip(losses.widths, _rates(losses.log_losses, criterion), strict=True)
    }
    return _Estimate(float(crossings[0]), bool(again[0]), _bootstrap(losses, criterion, cell_id), chosen)


_NOTHING = _Estimate(math.nan, False, np.array([]), {})


def _threshold(cell_id: str, label: str, sample: TrialConfig, outcomes: Outcomes, criterion: Criterion) -> WidthThreshold:
    losses = _losses_of(outcomes)
    estimate = _estimate(losses, criterion, cell_id) if losses else _NOTHING
    status = status_of(estimate.crossing)
    m_star = width_of(estimate.crossing) if status == "found" else None
    low, high = _ends(estimate, losses, criterion)
    return WidthThreshold(
        cell_id=cell_id,
        label=label,
        config_sample=sample,
        status=status,
        m_star=m_star,
        M=None if m_star is None else math.ceil(m_star),
        low=low or None,
        high=None if high == math.inf else high,
        low_censored=low == 0,
        high_censored=high == math.inf,
        level=criterion.level,
        target_loss=criterion.target_loss,
        success_rate=criterion.success_rate,
        widths=tuple(np.unique(outcomes.trials.widths).tolist()),
        num_seeds=losses.num_seeds if losses else 0,
        num_trials=len(outcomes),
        num_diverged=outcomes.num_ended("diverged"),
        num_failed=outcomes.num_ended("failed"),
        crosses_more_than_once=estimate.again,
        points=_points(outcomes, estimate.chosen),
        note="; ".join(_notes(outcomes, losses, estimate, criterion)),
        replicates=estimate.replicates,
        statistic=criterion.statistic,
        size=criterion.size,
    )


def _losses_of(outcomes: Outcomes) -> _Losses | None:
    """The losses of a cell as an array; None where no trial finished."""
    told = outcomes.take(outcomes.status != FAILED)
    if not told.num_ended("finished"):
        return None
    widths, width = np.unique(told.trials.widths, return_inverse=True)
    rates, rate = np.unique(told.trials.rates, return_inverse=True)
    seeds, seed = np.unique(told.trials.seeds, return_inverse=True)
    pairs, pair = np.unique(width * len(seeds) + seed, return_inverse=True)
    shared = len(widths) == 1 or len(pairs) > len(seeds)
    if not shared:  # a column holds the i-th seed of each width
        seed = (np.arange(len(pairs)) - np.searchsorted(pairs, pairs // len(seeds) * len(seeds)))[pair]
    log_losses = np.full((len(widths), len(rates), int(seed.max()) + 1), np.nan)
    log_losses[width, rate, seed] = _log_losses(told)
    return _Losses(tuple(widths.tolist()), tuple(rates.tolist()), log_losses, shared)


def _log_losses(outcomes: Outcomes) -> np.ndarray:
    """Log losses, inf where a trial diverged."""
    known = (outcomes.status == FINISHED) & ~np.isnan(outcomes.relative_loss)
    logs = np.full(len(outcomes), np.inf)
    logs[known] = [math.log(max(loss, LEAST_LOSS)) for loss in outcomes.relative_loss[known].tolist()]
    return logs


def _bootstrap(losses: _Losses, criterion: Criterion, cell_id: str) -> np.ndarray:
    """Replicates of log m* [NUM_REPLICATES] over draws of the seeds with replacement."""
    stream = np.random.default_rng(int(cell_id, 16))
    num_widths, num_seeds = len(losses.widths), losses.num_seeds
    fast = losses.shared and criterion.statistic == "median"
    chunk = max(1, CHUNK_NUMBERS // (num_seeds if fast else losses.log_losses.size))
    replicates = []
    for start in range(0, NUM_REPLICATES, chunk):
        size = (1 if losses.shared else num_widths, min(chunk, NUM_REPLICATES - start), num_seeds)
        draws = stream.integers(num_seeds, size=size)
        replicates.append(_resampled(losses, draws[0], criterion) if fast else _cross(losses, draws, criterion, stream)[0])
    return np.concatenate(replicates)


def _resampled(losses: _Losses, draws: np.ndarray, criterion: Criterion) -> np.ndarray:
    return replicated_crossings(
        np.log(losses.widths),
        losses.log_losses,
        draws,
        log_target=math.log(criterion.target_loss),
        success_rate=criterion.success_rate,
    )


def _cross(
    losses: _Losses, draws: np.ndarray, criterion: Criterion, stream: np.random.Generator | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Log m* and the flag for each draw of seeds; `draws` is [width or 1, replicate, seed], `stream` is for replicates."""
    drawn = np.take_along_axis(losses.log_losses[:, :, None, :], draws[:, None], axis=-1)  # [width, rate, replicate, seed]
    drawn = np.moveaxis(drawn, 2, 0)  # [replicate, width, rate, seed]
    own = np.take_along_axis(drawn, _rates(drawn, criterion)[:, :, None, None], axis=2)[:, :, 0, :]
    log_widths, log_target = np.log(losses.widths), math.log(criterion.target_loss)
    if criterion.statistic == "mean":
        return mean_crossing(log_widths, own, log_target=log_target)
    if criterion.statistic == "solved":
        rate = criterion.success_rate
        return solved_crossing(log_widths, own, log_target=log_target, success_rate=rate, stream=stream)
    return least_crossing(log_widths, own, log_target=log_target, success_rate=criterion.success_rate)


def _rates(log_losses: np.ndarray, criterion: Criterion) -> np.ndarray:
    """The rate of each width, by its place."""
    return chosen_rates(log_losses, log_target=math.log(criterion.target_loss) if criterion.statistic == "solved" else None)


def _ends(estimate: _Estimate, losses: _Losses | None, criterion: Criterion) -> tuple[float | None, float | None]:
    """The interval's ends as widths: 0 or inf where an end lies beyond the range, None where there is no interval."""
    if losses is None or losses.num_seeds < 2:
        return None, None
    low, high = interval_of(estimate.replicates, level=criterion.level, num=losses.num_seeds)
    # Of an interval wholly beyond the range, the inner end is the last width that was tried.
    low = min(low, estimate.crossing, math.log(losses.widths[-1]))
    high = max(high, estimate.crossing, math.log(losses.widths[0]))
    return width_of(low), width_of(high)


def _points(outcomes: Outcomes, chosen: dict[int, float]) -> Points:
    trials = outcomes.trials
    order = np.lexsort((trials.seeds, trials.rates, trials.widths))
    rates = np.array([chosen.get(width, math.nan) for width in np.unique(trials.widths).tolist()])
    own = rates[np.unique(trials.widths, return_inverse=True)[1]] == trials.rates
    return Points(outcomes.take(order), own[order])


def _notes(outcomes: Outcomes, losses: _Losses | None, estimate: _Estimate, criterion: Criterion) -> Iterator[str]:
    """What a reader must know before using the number, in a few words each."""
    num_diverged, num_failed = outcomes.num_ended("diverged"), outcomes.num_ended("failed")
    if losses is None:
        ways = [way for way, count in (("diverged", num_diverged), ("failed", num_failed)) if count]
        yield f"not found: all {' or '.join(ways)}"
        return
    if estimate.crossing == math.inf:
        yield f"above {losses.widths[-1]}, the largest {criterion.size.noun} tried"
    if estimate.crossing == -math.inf:
        yield f"at or below {losses.widths[0]}, the least {criterion.size.noun} tried"
    if estimate.again and criterion.statistic == "solved":
        yield f"enough seeds are solved at a smaller {criterion.size.noun} and too few at the largest: the fraction is smoothed"
    elif estimate.again:
        yield f"solved, then unsolved again at a larger {criterion.size.noun}: the least crossing is given"
    if num_diverged:
        yield f"{num_diverged} of {len(outcomes)} trials diverged"
    if num_failed:
        yield f"{num_failed} of {len(outcomes)} trials failed and are left out"
    if attainable_level(losses.num_seeds, criterion.success_rate) < criterion.level:
        yield few_seeds(losses.num_seeds, criterion)
    edges = [width for width, rate in estimate.chosen.items() if rate in (losses.rates[0], losses.rates[-1])]
    if len(losses.rates) > 2 and edges:
        yield f"the best rate is at the end of the rates tried at {criterion.size.letter} = {', '.join(map(str, edges))}"
