"""The mean-loss criterion, against means worked out by hand, for grids and for searches."""

import math

import numpy as np
import pytest

from sweeps.schema.spec import Criterion
from sweeps.thresholds.crossings import isotonic_crossings, mean_crossing
from sweeps.thresholds.thresholds import width_thresholds

LOG_TARGET = math.log(0.1)
MEAN = Criterion(target_loss=0.1, statistic="mean")


def crossing(widths, losses):
    found, again = mean_crossing(np.log(widths), np.log(np.array([losses])), log_target=LOG_TARGET)
    return math.exp(found[0]), bool(again[0])


def test_the_log_mean_is_linear_in_log_width_between_widths():
    width, again = crossing([8, 16], [[0.2, 0.2], [0.02, 0.08]])
    share = math.log(0.2 / 0.1) / math.log(0.2 / 0.05)
    assert width == pytest.approx(8 * 2**share)
    assert not again


def test_one_seed_that_learns_nothing_moves_the_mean_and_not_the_median(cell_records):
    records = cell_records([8, 16, 32], range(5), lambda m, seed: 1.0 if (m, seed) == (16, 0) else 1.6 / m)
    (median,) = width_thresholds(records, Criterion(target_loss=0.12))
    (mean,) = width_thresholds(records, Criterion(target_loss=0.12, statistic="mean"))
    assert median.m_star == pytest.approx(1.6 / 0.12)
    assert mean.m_star > 16
    assert (median.statistic, mean.statistic) == ("median", "mean")


def test_a_seed_that_diverged_or_went_astray_counts_as_the_zero_predictor():
    assert crossing([8, 16], [[0.5, 0.5], [np.inf, 0.01]]) == (math.inf, False)
    assert crossing([8, 16], [[0.5, 0.5], [50.0, 0.01]]) == crossing([8, 16], [[0.5, 0.5], [1.0, 0.01]])


def test_ends_are_censored_and_a_mean_that_rises_again_is_flagged():
    assert crossing([8, 16], [[0.05], [0.01]])[0] == 0
    assert crossing([8, 16, 32], [[0.5], [0.05], [0.2]])[1]


def test_isotonic_means_pool_points_that_rise_and_cross_between_their_middles():
    widths, losses = np.array([8.0, 16.0, 16.0, 32.0]), np.array([0.4, 0.1, 0.3, 0.025])
    found = isotonic_crossings(np.log(widths), np.log(losses), log_target=LOG_TARGET, seed=1)
    share = math.log(0.2 / 0.1) / math.log(0.2 / 0.025)
    assert math.exp(found[0]) == pytest.approx(16 * 2**share)
    assert len(found) == 501


def test_a_mean_exactly_at_the_target_reaches_it():
    losses = np.log([[[0.5, 0.5], [0.4, 0.4]]])
    assert mean_crossing(np.log([10.0, 20.0]), losses, log_target=math.log(0.5))[0].tolist() == [-math.inf]


def test_a_pool_far_below_the_target_counts_by_its_own_loss():
    widths, losses = np.log([10.0, 20.0]), np.log([1.0, 1e-8])
    where = isotonic_crossings(widths, losses, log_target=LOG_TARGET, seed=0)[0]
    assert math.exp(where) == pytest.approx(10 * 2 ** (1 / 8))


def test_isotonic_means_agree_with_a_threshold_that_is_known(simulated, fcn):
    rng = np.random.default_rng(0)
    widths = rng.integers(30, 55, size=80)
    losses = np.array([simulated(fcn(int(width), seed=seed)) for seed, width in enumerate(widths)])
    found = np.exp(isotonic_crossings(np.log(widths), np.log(losses), log_target=LOG_TARGET, seed=1))
    low, high = np.quantile(found[1:], [0.05, 0.95])
    assert low <= 40.5 <= high
    assert found[0] == pytest.approx(40.5, rel=0.08)


def test_a_search_has_a_mean_threshold_too(hunt, simulated):
    one = hunt("criterion.statistic=mean")
    one.go(simulated)
    (threshold,) = one.thresholds()
    assert threshold.statistic == "mean"
    assert threshold.status == "found"
    assert threshold.low <= threshold.m_star <= threshold.high
    assert threshold.m_star == pytest.approx(40, rel=0.15)
