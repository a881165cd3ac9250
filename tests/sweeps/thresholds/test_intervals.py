import math

import numpy as np
import pytest

from sweeps.thresholds.resampling import attainable_level, expanded_tail, interval_of


@pytest.mark.parametrize(("num", "quantile"), [(3, 2.9200), (4, 2.3534), (5, 2.1318), (10, 1.8331), (31, 1.6973)])
def test_tails_are_those_of_t_quantiles(num, quantile):
    from statistics import NormalDist

    assert -NormalDist().inv_cdf(expanded_tail(0.9, num)) == pytest.approx(quantile * math.sqrt(num / (num - 1)), rel=1e-4)


def test_many_values_need_no_widening():
    assert expanded_tail(0.9, 200) == pytest.approx(0.05, abs=0.002)
    assert expanded_tail(0.9, 1000) == pytest.approx(0.05)


def test_what_few_values_can_reach():
    assert attainable_level(1, 0.5) == 0
    assert attainable_level(3, 0.5) == 0.75
    assert attainable_level(4, 0.5) == 0.875
    assert attainable_level(4, 0.9) == pytest.approx(1 - 0.9**4 - 0.1**4)


def test_infinite_replicates_stay_infinite():
    replicates = np.concatenate([np.full(100, -np.inf), np.zeros(800), np.full(100, np.inf)])
    assert interval_of(replicates, level=0.9, num=1000) == (-math.inf, math.inf)
    assert interval_of(replicates, level=0.5, num=1000) == (0.0, 0.0)
