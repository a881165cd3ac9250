"""Samples to a target as thresholds: medians, order statistics, censoring, and whether the interval holds what it says."""

import math
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import numpy as np
import pytest

from stsq_core import TrialConfig, TrialResult
from stsq_core.configs.errors import UserError
from sweeps.cells.loading import check_sweep
from sweeps.schema.spec import Criterion
from sweeps.schema.yaml_source import parse
from sweeps.store.ledger import LedgerRecord, record_of_failure, record_of_result
from sweeps.thresholds.crossings import log_median
from sweeps.thresholds.resampling import order_interval
from sweeps.thresholds.thresholds import width_thresholds
from sweeps.thresholds.width_threshold import WidthThreshold

CRITERION = Criterion(of="samples", target_loss=0.5)
EVERY, BATCH, STEPS = 10, 20, 1000
"""An evaluation every 200 samples, and a budget of 20,000."""


def trial(seed: int, *, lr: float = 0.01, T: int = 8) -> TrialConfig:
    return TrialConfig.model_validate(
        {
            "task": {"kind": "stsq", "T": T, "q": 2, "d": 2},
            "model": {"kind": "fcn", "width": 8},
            "optimizer": {"kind": "adam", "lr": lr},
            "training": {"steps": STEPS, "batch_size": BATCH},
            "evaluation": {"every": EVERY, "target": 0.5},
            "seed": seed,
        }
    )


def ended(config: TrialConfig, samples: float | None, *, status: str = "finished") -> LedgerRecord:
    """How a trial ended that drew so many samples to its target; None: it failed."""
    if samples is None:
        return record_of_failure(config, "worker lost", pack_id="0" * 16, device="cpu")
    loss, error = (None, None) if status == "diverged" else (0.4, 0.01)
    result = TrialResult(config, status, loss, error, STEPS, 1.0, metrics={"samples_to_target": samples})  # type: ignore[arg-type]
    return record_of_result(result, pack_id="0" * 16, device="cpu")


def found(records: Iterable[LedgerRecord], criterion: Criterion = CRITERION) -> WidthThreshold:
    (threshold,) = width_thresholds(records, criterion)
    return threshold


def of(samples: Iterable[float | None]) -> WidthThreshold:
    return found(ended(trial(seed), one) for seed, one in enumerate(samples))


@pytest.mark.parametrize(("num", "level", "rank", "given"), [(5, 0.9, 1, 0.9375), (8, 0.9, 2, 0.9297), (4, 0.9, 1, 0.875)])
def test_ranks_hold_the_median_as_often_as_binomial_counts_say(num: int, level: float, rank: int, given: float) -> None:
    assert order_interval(num, level) == (rank, pytest.approx(given, abs=1e-4))
    sides = list(product((0, 1), repeat=num))  # which values lie below the median
    held = [rank <= sum(side) <= num - rank for side in sides]
    assert given == pytest.approx(sum(held) / len(sides), abs=1e-4)


def test_the_median_of_five_with_the_least_and_the_largest() -> None:
    threshold = of([2000, 1000, 4000, 3000, 1200])
    assert (threshold.status, threshold.m_star, threshold.M) == ("found", 2000, 2000)
    assert (threshold.low, threshold.high) == (800, 4000)  # the least may have been reached up to an evaluation earlier
    assert threshold.size.letter == "n"
    assert "known to 200 samples, an evaluation every 10 steps of 20" in threshold.note
    assert "the interval between order statistics of 5 seeds has level 93.8%" in threshold.note


def test_replicates_spread_over_the_samples_between_two_evaluations() -> None:
    replicates = np.exp(of([2000] * 5).replicates)
    assert 1900 <= replicates.min() < 1905
    assert 2095 < replicates.max() <= 2100


def test_of_two_middle_ones_the_mean_of_logs() -> None:
    assert of([1000, 4000]).m_star == pytest.approx(2000)
    assert log_median(np.log([[1.0, 2.0, 8.0]])).tolist() == [math.log(2)]


@pytest.mark.parametrize(
    ("samples", "status", "low", "high_censored"),
    [
        ([1000, 2000, 3000, math.inf, 1500], "found", 800, True),
        ([1000, 2000, math.inf, math.inf, math.inf], "above_range", 800, True),
        ([1000, math.inf], "above_range", 800, True),
        ([math.inf] * 5, "above_range", 20_000, True),
    ],
)
def test_what_is_never_reached_is_censored_at_the_budget(
    samples: list[float], status: str, low: float, high_censored: bool
) -> None:
    threshold = of(samples)
    assert (threshold.status, threshold.low, threshold.high_censored) == (status, low, high_censored)
    assert threshold.high is None
    assert threshold.widths[-1] == 20_000
    assert (threshold.m_star is None) == (status != "found")


def test_a_diverged_trial_counts_by_what_it_had_reached_and_a_failed_one_not() -> None:
    records = [ended(trial(seed), 1000.0 * (seed + 1)) for seed in range(3)]
    lost = [*records, ended(trial(3), None)]
    assert found(lost).m_star == found(records).m_star == 2000
    assert found(lost).num_seeds == 3
    early = [*records, ended(trial(3), 200, status="diverged"), ended(trial(4), math.inf, status="diverged")]
    assert found(early).m_star == 2000
    assert found(early).num_diverged == 2
    assert of([None, None]).status == "failed"


def test_the_rate_is_that_of_the_least_median_never_the_best_of_a_seed() -> None:
    slow, fast = [3000, 3000, 200], [2000, 2000, 9000]
    records = [
        ended(trial(seed, lr=lr), own) for lr, samples in ((0.01, slow), (0.1, fast)) for seed, own in enumerate(samples)
    ]
    threshold = found(records)
    assert threshold.m_star == 2000
    assert {point.lr for point in threshold.points if point.chosen} == {0.1}


def test_a_target_that_is_met_before_training_is_below_the_range() -> None:
    assert of([0.0] * 5).status == "below_range"


def test_a_rank_whose_interval_has_exactly_the_level_is_taken() -> None:
    level = 1 - 2 * (1 + 8) / 2**8
    assert order_interval(8, level) == (2, pytest.approx(level))
    assert order_interval(8, level + 1e-9)[0] == 1


@pytest.mark.slow
@pytest.mark.parametrize(("num", "truth"), [(5, 0.9375), (8, 0.9297)])
def test_the_interval_holds_the_median_of_simulated_curves(num: int, truth: float) -> None:
    """Curves fall as exp(-n / scale) from 1, scales log-normal, and are looked at every 200 samples."""
    stream = np.random.default_rng(7)
    runs, true_median, held = 600, 4000 * math.log(2), 0
    for _ in range(runs):
        crossings = 4000 * math.log(2) * np.exp(0.4 * stream.standard_normal(num))
        threshold = of((np.ceil(crossings / (EVERY * BATCH)) * EVERY * BATCH).tolist())
        low = 0.0 if threshold.low is None else threshold.low
        held += low <= true_median <= (threshold.high or math.inf)
    assert held / runs >= truth - 3 * math.sqrt(truth * (1 - truth) / runs)


SWEEP = """\
name: counted
hypothesis: Samples grow.
criterion: {of: samples, target_loss: 0.5}
trials:
  - name: net
    base:
      task: {kind: stsq, T: 8, q: 2, d: 2}
      model: {kind: fcn, width: 8}
      optimizer: {kind: adam, lr: 0.01}
      training: {steps: 100}
      evaluation: {every: 10, target: 0.5}
    grid: {task.T: [4, 8]}
    seeds: 3
"""


def test_a_sweep_of_samples_has_a_cell_for_every_setting_of_the_width_too() -> None:
    from sweeps.cells.expanded_sweep import expand

    spec = check_sweep(parse(SWEEP.replace("grid: {", "grid: {model.width: [8, 16], "), "counted.yaml")).spec
    assert [(cell.widths, len(cell.trials)) for cell in expand(spec)] == [((6400,), 3)] * 4


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "target: 0.5}\n    grid",
            "target: 0.4}\n    grid",
            "which must be criterion.target_loss=0.5; got evaluation.target=0.4",
        ),
        ("evaluation: {every: 10, target: 0.5}", "evaluation: {every: 10}", "got evaluation.target=None"),
        ("of: samples", "of: sampels", "got 'sampels'; did you mean samples"),
        (
            "of: samples",
            "of: training.num_samples",
            "thresholds are of training.num_samples, and trials of group 'net' have no whole number there",
        ),
        ("of: samples,", "of: samples, success_rate: 0.8,", "the samples to a target are judged by their median over seeds"),
        ("seeds: 3", "search: {low: 4, high: 8}", "the samples to a target are counted, not chosen: leave search out"),
    ],
)
def test_what_cannot_be_counted_is_refused_at_its_line(old: str, new: str, message: str) -> None:
    assert old in SWEEP
    with pytest.raises(UserError) as caught:
        check_sweep(parse(SWEEP.replace(old, new), "counted.yaml"))
    assert message in str(caught.value)
    assert str(caught.value).startswith("counted.yaml:")


def test_laws_and_claims_read_thresholds_of_samples(record: Callable[..., Any]) -> None:
    """Counts that grow as (ln T)^3: the law finds it, and the claims say so."""
    from sweeps.findings.claim_verdicts import verdicts
    from sweeps.laws.comparison import compare_laws
    from sweeps.schema.spec import SweepSpec

    stream = np.random.default_rng(3)
    lengths = (4, 8, 16, 32, 64, 128)
    records = [
        ended(trial(seed, T=T), float(200 * round(150 * math.log(T) ** 3 * math.exp(0.05 * stream.standard_normal()) / 200)))
        for T in lengths
        for seed in range(5)
    ]
    thresholds = width_thresholds(records, CRITERION)
    (comparison,) = compare_laws(thresholds)
    law = comparison.law("log_power_T")
    assert law is not None
    assert law.formula == "n = c (ln T)^gamma"
    assert law.parameters["gamma"].low <= 3 <= law.parameters["gamma"].high
    assert comparison.standing(comparison.law("constant")) == "ruled out"  # type: ignore[arg-type]
    assert comparison.theory is None
    claims = [
        {"kind": "threshold_growth", "at_least": 1},
        {"kind": "threshold_growth", "at_most": 1},
        {"kind": "threshold_growth", "law": "power", "at_most": 5},
        {"kind": "threshold_order", "by": "task.T", "order": [4, 16, 64]},
        {"kind": "threshold_order", "by": "task.T", "order": [64, 16]},
        {"kind": "threshold_near", "source": "a paper", "value": 400, "factor": 3, "where": {"task.T": 4}},
        {"kind": "threshold_near", "source": "a paper", "value": 9e5, "where": {"task.T": 4}},
        {"kind": "threshold_near", "source": "a paper", "value": 9e5, "where": {"task.T": 5}},
        {
            "kind": "threshold_near",
            "source": "a paper",
            "value": 9e5,
            "where": {"model.answer_gap": None},
        },  # which these models do not have
        {"kind": "threshold_order", "by": "model.answer_gap", "order": [20.0, None]},
    ]
    named = [claim | {"name": f"c{place}", "says": "It is so."} for place, claim in enumerate(claims)]
    spec = check_sweep(parse(SWEEP, "counted.yaml")).spec.model_dump(mode="json") | {"claims": named}
    printed = verdicts(SweepSpec.model_validate(spec).claims, (), level=0.9, thresholds=thresholds)
    assert [verdict.answer for verdict in printed] == [
        "holds", "does not hold", "holds", "holds", "does not hold", "holds", "does not hold",
        "not enough data", "not enough data", "not enough data",
    ]  # fmt: skip
    assert printed[-1].rule == "above 1: 20.0 < null"
