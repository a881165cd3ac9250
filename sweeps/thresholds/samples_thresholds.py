"""Samples to a target: how many samples a cell's trials draw until their loss is at the target, as a threshold of the cell.

Definition. A trial's number n is its metric `samples_to_target`: batch times steps at the first evaluation whose fresh relative
loss is at most the target, infinite where the budget ends first. The threshold n* is the median of n over seeds, at the
learning rate with the least median; where half of the seeds or more do not get there, it lies above the budget.

Which trials count. A diverged trial counts by what it had reached before, a failed one (lost worker, out of memory) not at all.

Interval. The r-th least and the r-th largest of K values hold the median between them with a probability that depends on
nothing but K and r, whatever their distribution: `1 - 2 P(Binomial(K, 1/2) < r)`. The largest r that still gives the level is
taken; K = 5 gives [least, largest] and 93.75%. Its lower end is moved down by the samples between two evaluations, because the
target may have been reached at any time since the one before. Bootstrap replicates, for the laws, draw seeds jointly, choose
rates anew, and spread over as many samples.

Source: David and Nagaraja 2003, Order Statistics, section 7.1.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from stsq_core.configs import SAMPLES_TO_TARGET, TrialConfig
from sweeps.schema import Criterion
from sweeps.store import FAILED, Outcomes
from sweeps.thresholds.crossings import log_median
from sweeps.thresholds.resampling import order_interval
from sweeps.thresholds.width_threshold import Points, WidthThreshold, few_seeds, threshold_of

NUM_REPLICATES = 2000


@dataclass(frozen=True)
class _Counts:
    """Log samples to the target [rate, seed]: inf where never reached, nan where there is no number, -inf before training."""

    rates: tuple[float, ...]
    logs: np.ndarray

    @property
    def num_seeds(self) -> int:
        return int(self.logs.shape[-1])

    def medians(self, draws: np.ndarray) -> np.ndarray:
        """The least median over rates for each draw of seeds [replicate, seed]."""
        drawn = np.moveaxis(self.logs[:, draws], 1, 0)  # [replicate, rate, seed]
        least: np.ndarray = np.min(log_median(drawn), axis=-1)
        return least

    @property
    def chosen(self) -> int:
        """The place of the rate with the least median; of equal ones that with the most numbers."""
        medians = log_median(self.logs)
        known = np.count_nonzero(~np.isnan(self.logs), axis=-1)
        return int(np.argmax(np.where(medians == medians.min(), known, -1)))

    @property
    def judged(self) -> np.ndarray:
        """The log samples of each seed at the chosen rate, those without a number left out."""
        own = self.logs[self.chosen]
        kept: np.ndarray = own[~np.isnan(own)]
        return kept


def samples_threshold(
    cell_id: str, label: str, sample: TrialConfig, outcomes: Outcomes, criterion: Criterion
) -> WidthThreshold:
    """The samples that a cell needs to reach the target; `widths` are the first evaluation with samples, and the budget."""
    counts = _counts_of(outcomes)
    crossing = math.nan if counts is None else float(log_median(counts.judged))
    resolution, budget = resolution_of(sample), criterion.size.of(sample)
    rates = outcomes.trials.rates
    chosen = np.zeros(len(outcomes), dtype=bool) if counts is None else rates == counts.rates[counts.chosen]
    return threshold_of(
        cell_id,
        label,
        sample,
        outcomes,
        criterion,
        crossing=crossing,
        ends=None if counts is None else _ends(counts, criterion, resolution, budget),
        widths=(resolution, budget) if resolution < budget else (budget,),
        num_seeds=0 if counts is None else len(counts.judged),
        points=Points.of(outcomes, chosen),
        notes=_notes(outcomes, counts, sample, criterion, crossing),
        replicates=np.array([]) if counts is None else _replicates(counts, cell_id, resolution),
    )


def resolution_of(sample: TrialConfig) -> int:
    """Samples between two evaluations: how finely samples to the target are known."""
    return (sample.evaluation.every or sample.training.steps) * sample.batch


def samples_to_target(outcomes: Outcomes) -> np.ndarray:
    """The metric of each trial: inf where the target was never reached, nan where the trial failed or has no such metric."""
    samples = [(metrics or {}).get(SAMPLES_TO_TARGET, math.nan) for metrics in outcomes.metrics.tolist()]
    return np.where(outcomes.status == FAILED, np.nan, np.array(samples, dtype=float))


def _counts_of(outcomes: Outcomes) -> _Counts | None:
    """The counts of a cell; None where no trial gave one."""
    samples = samples_to_target(outcomes)
    known = ~np.isnan(samples)
    if not known.any():
        return None
    trials = outcomes.trials.take(known)
    rates, rate = np.unique(trials.rates, return_inverse=True)
    seeds, seed = np.unique(trials.seeds, return_inverse=True)
    logs = np.full((len(rates), len(seeds)), np.nan)
    with np.errstate(divide="ignore"):
        logs[rate, seed] = np.log(samples[known])
    return _Counts(tuple(rates.tolist()), logs)


def _ends(counts: _Counts, criterion: Criterion, resolution: int, budget: int) -> tuple[float, float] | None:
    """The interval's ends as logs, inf beyond the budget and -inf before the first evaluation; None for no interval."""
    if len(counts.judged) < 2:
        return None
    ordered = np.sort(counts.judged)
    rank, _ = order_interval(len(ordered), criterion.level)
    low, high = float(ordered[rank - 1]), float(ordered[len(ordered) - rank])
    if math.isfinite(low):
        before = round(math.exp(low)) - resolution
        low = math.log(before) if before > 0 else -math.inf
    return min(low, math.log(budget)), max(high, math.log(resolution))


def _replicates(counts: _Counts, cell_id: str, resolution: int) -> np.ndarray:
    """Replicates of log n* [NUM_REPLICATES] over draws of the seeds with replacement, spread over the resolution about them."""
    stream = np.random.default_rng(int(cell_id, 16))
    medians = counts.medians(stream.integers(counts.num_seeds, size=(NUM_REPLICATES, counts.num_seeds)))
    spread = (stream.random(NUM_REPLICATES) - 0.5) * resolution
    found = np.isfinite(medians)
    return np.where(found, np.log(np.maximum(np.exp(np.where(found, medians, 0.0)) + spread, 1.0)), medians)


def _notes(
    outcomes: Outcomes, counts: _Counts | None, sample: TrialConfig, criterion: Criterion, crossing: float
) -> Iterator[str]:
    """What a reader must know before using the number, in a few words each."""
    num_diverged, num_failed = outcomes.num_ended("diverged"), outcomes.num_ended("failed")
    if counts is None:
        yield "not found: all failed" if num_failed == len(outcomes) else "not found: no trial has samples_to_target"
        return
    judged, budget = counts.judged, criterion.size.of(sample)
    missed = int(np.count_nonzero(np.isposinf(judged)))
    if crossing == math.inf:
        yield f"above {budget}, the budget: {missed} of {len(judged)} seeds do not reach the target"
    elif missed:
        yield f"{missed} of {len(judged)} seeds do not reach the target within the budget of {budget} samples"
    if crossing == -math.inf:
        yield "at the target before training"
    if num_diverged:
        yield f"{num_diverged} of {len(outcomes)} trials diverged, and count by what they had reached before"
    if num_failed:
        yield f"{num_failed} of {len(outcomes)} trials failed and are left out"
    yield f"known to {resolution_of(sample)} samples, an evaluation every {sample.evaluation.every} steps of {sample.batch}"
    if (given := order_interval(len(judged), criterion.level)[1]) < criterion.level:
        yield few_seeds(len(judged), criterion)
    else:
        yield f"the interval between order statistics of {len(judged)} seeds has level {given:.1%}"
    if len(counts.rates) > 2 and counts.chosen in (0, len(counts.rates) - 1):
        yield "the best rate is at the end of the rates tried"
