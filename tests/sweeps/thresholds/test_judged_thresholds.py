"""Thresholds of other numbers than the loss: made-up metrics with a known threshold, on a grid, in a search, in a re-check."""

import math
from dataclasses import replace

import numpy as np
import pytest

from stsq_core.configs.trial import TrialConfig
from sweeps.cells.recheck import recheck_trials
from sweeps.cells.trials import cell_of
from sweeps.findings.run_findings import read_findings
from sweeps.laws.line_ratios import has_fcn_bound
from sweeps.schema.spec import Criterion
from sweeps.store.outcomes import FAILED, Outcomes, is_solved
from sweeps.thresholds.recheck import Rechecks
from sweeps.thresholds.thresholds import width_thresholds

CODES = [4, 8, 16, 32, 64]


@pytest.fixture
def measured(transformer, record):
    """A transformer's record whose loss at T = 32 is 0.1 at a code length of `at`, and 0.1 at 8 in distribution."""

    def make(d_e: int, *, seed: int = 0, at: float = 20.0, T: int = 16, beside: str = "loss@T=32", **fields):
        def loss(at: float) -> float:
            return 0.1 * (at / d_e) ** 3 * (1 + 0.02 * (seed - 2))

        config = transformer(d_e, seed=seed, T=T, **fields)
        one = record(config, loss(8.0))
        return replace(one, metrics={"loss": loss(8.0), beside: loss(at), beside.replace("loss", "loss_stderr"): 0.003})

    return make


def grid(measured, **fields):
    return [measured(d_e, seed=seed, **fields) for d_e in CODES for seed in range(5)]


def test_the_threshold_is_where_the_metric_reaches_the_target(measured):
    records = grid(measured)
    own, (other,), (relative,) = (
        width_thresholds(records, Criterion(metric=metric)) for metric in ("loss", "loss@T=32", "loss@2T")
    )
    # Both lie on a line of slope -3 in log d_e; the interpolation is in log m, m = 4 + d_e, so that only the ends are exact.
    assert own[0].m_star == pytest.approx(12, rel=1e-9)
    low, high = 20.0, 36.0
    share = math.log((20 / 16) ** 3) / math.log((32 / 16) ** 3)
    assert other.m_star == pytest.approx(low * (high / low) ** share, rel=1e-9)
    assert relative.m_star == other.m_star
    assert (other.metric, other.measure) == ("loss@T=32", "relative loss at T = 32")
    assert other.points.outcomes.relative_loss_stderr.tolist() == [0.003] * 25


def test_a_number_that_grows_is_solved_at_one_minus_the_target(transformer, record):
    """Attention 1 - 1/d_e on the subset: the target 0.1 lies at d_e = 10."""
    records = [
        replace(record(transformer(d_e, seed=seed), 0.9), metrics={"attention_mass": 1 - 1 / d_e})
        for d_e in (5, 10, 20)
        for seed in range(5)
    ]
    (threshold,) = width_thresholds(records, Criterion(metric="attention_mass", target_loss=0.1))
    assert threshold.m_star == pytest.approx(14, rel=1e-6)
    assert not has_fcn_bound(threshold)


def test_twice_the_length_is_each_cells_own(measured):
    records = grid(measured) + grid(measured, T=32, at=40.0, beside="loss@T=64")
    first, second = width_thresholds(records, Criterion(metric="loss@2T"))
    assert 20 < first.m_star < 36 < second.m_star < 68


def test_judged_again_is_the_same_and_the_loss_is_left_alone(measured):
    outcomes = Outcomes.of(grid(measured))
    assert outcomes.judged_by("loss") is outcomes
    once = outcomes.judged_by("loss@2T")
    assert once == once.judged_by("loss@2T")
    assert once.relative_loss[0] == once[0].metrics["loss@T=32"] != outcomes.relative_loss[0]


def test_a_trial_without_the_metric_says_nothing(measured, record, transformer):
    records = [*grid(measured), record(transformer(64, seed=9), 0.001), record(transformer(64, seed=10), math.inf)]
    outcomes = Outcomes.of(records).judged_by("loss@T=32")
    assert outcomes.status[-2] == FAILED
    assert outcomes.reason[-2] == "its evaluation gave no loss@T=32"
    criterion = Criterion(metric="loss@T=32")
    assert [is_solved(one, criterion) for one in (records[0], records[24], *records[-2:])] == [False, True, None, False]
    assert is_solved(records[5], Criterion()) is True  # d_e = 8: 4% below the target in distribution, above it at T = 32
    assert is_solved(records[5], criterion) is False
    (threshold,) = width_thresholds(records, criterion)
    assert (threshold.num_failed, threshold.num_diverged) == (1, 1)


def test_a_note_names_what_is_judged(measured):
    records = [replace(one, metrics={"loss@T=32": 0.5}) for one in grid(measured)]
    (threshold,) = width_thresholds(records, Criterion(metric="loss@T=32"))
    assert threshold.status == "not_reached"
    assert "least relative loss at T = 32 0.5 at m = 8, not falling beyond" in threshold.note


def test_a_recheck_is_judged_by_the_metric_too(transformer, record):
    sample = transformer(16)
    trials = recheck_trials(cell_of(sample), sample, (0.03,), 40.0, Criterion().size)
    records = [replace(record(config, 0.5), metrics={"attention_mass": 0.95}) for config in trials]
    for metric, solved in (("loss", 0), ("attention_mass", len(trials))):
        outcomes = Outcomes.of(records).judged_by(metric)
        found = Rechecks(outcomes).of(cell_of(sample), sample, (0.03,), 40.0, Criterion(metric=metric))
        assert (found.num_solved, found.limit) == (solved, "steps" if solved else "width")


HUNT = """\
name: hunt
hypothesis: The least width lies somewhere.
criterion: {metric: loss@2T, target_loss: 0.1}
trials:
  - name: codes
    base:
      task: {kind: stsq, T: 16, q: 2, d: 2}
      model: {kind: transformer, positions: {kind: random_sign}}
      optimizer: {kind: adam, lr: 0.01}
      training: {objective: population, steps: 100}
      evaluation: {T_test: [32]}
    search: {low: 4, high: 256}
"""


@pytest.fixture
def hunted(hunt, record, simulated):
    """A search of the loss at 2T, whose threshold is 40, with losses in distribution that are all solved."""
    one = hunt(text=HUNT)
    plain = one._record

    def judged(config: TrialConfig, loss: float):
        return replace(plain(config, 0.001), metrics={"loss@T=32": loss, "loss_stderr@T=32": 0.01})

    one._record = judged
    return one


def test_a_search_looks_for_the_threshold_of_its_metric(hunted, simulated):
    search = hunted.go(simulated)
    assert search.finished
    (threshold,) = hunted.thresholds()
    assert threshold.m_star == pytest.approx(40, rel=0.1)
    assert threshold.search.reason == "precise"
    (study,) = hunted.studies()
    for trial in study.trials:
        assert trial.user_attrs["relative loss at 2T"] == trial.value
        assert "relative_loss" not in trial.user_attrs
    assert np.unique(read_findings(hunted.run.path).records.relative_loss).tolist() == [0.001]


def test_another_metric_judges_what_is_held_and_trains_only_what_it_lacks(hunted, simulated):
    hunted.go(simulated)
    num = len(hunted.asked)
    hunted.spec = hunted.spec.model_copy(update={"criterion": Criterion(target_loss=0.1)})
    search = hunted.go(simulated)
    assert search.finished
    (threshold,) = hunted.thresholds()
    assert threshold.status == "below_range"  # every loss in distribution is solved
    assert len({config.trial_id for config in hunted.asked}) == len(hunted.asked)
    (study,) = hunted.studies()
    assert {trial.value for trial in study.trials} == {0.001}
    back = hunted.spec.model_copy(update={"criterion": Criterion(metric="loss@2T", target_loss=0.1)})
    hunted.spec, num = back, len(hunted.asked)
    assert hunted.go(simulated).finished
    assert len(hunted.asked) == num
    assert hunted.thresholds()[0].m_star == pytest.approx(40, rel=0.1)
