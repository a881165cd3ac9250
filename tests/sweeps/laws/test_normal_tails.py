"""The normal tail against its definition, and smooth far out where probabilities underflow."""

import math
from statistics import NormalDist

import numpy as np
import pytest

from sweeps.laws.normal_tails import FAR, hazard, log_probability


def test_near_the_middle_they_are_the_definition() -> None:
    normal, z = NormalDist(), np.array([-5.0, -1, 0, 0.5, 3, 8])
    assert np.exp(log_probability(z)) == pytest.approx([normal.cdf(x) for x in z])
    assert hazard(z) == pytest.approx([normal.pdf(x) / normal.cdf(x) for x in z])


def test_the_series_continues_the_exact_value() -> None:
    ends = log_probability(np.array([FAR - 1e-6, FAR + 1e-6]))
    assert ends[0] == pytest.approx(ends[1], abs=1e-4)
    z = np.array([-19.5, -20.5, -40.0, -300.0])
    step = 1e-4
    slope = (log_probability(z + step) - log_probability(z - step)) / (2 * step)
    assert hazard(z) == pytest.approx(slope, rel=1e-5)


def test_far_out_nothing_overflows() -> None:
    z = np.array([-1e5, 1e5])
    assert np.all(np.isfinite(log_probability(z)))
    assert hazard(z) == pytest.approx([1e5, 0], rel=1e-4)
    assert log_probability(z)[1] == 0
    assert math.isfinite(hazard(np.array([-1e7]))[0])
