"""The hazard of the normal tail against its definition, and far out where probabilities underflow."""

import math
from statistics import NormalDist

import numpy as np
import pytest
import scipy.special

from sweeps.laws.fit import hazard


def test_near_the_middle_it_is_the_definition() -> None:
    normal, z = NormalDist(), np.array([-5.0, -1, 0, 0.5, 3, 8])
    assert hazard(z) == pytest.approx([normal.pdf(x) / normal.cdf(x) for x in z])


def test_it_is_the_slope_of_the_log_probability_far_out() -> None:
    z = np.array([-19.5, -20.5, -40.0, -300.0])
    step = 1e-4
    slope = (scipy.special.log_ndtr(z + step) - scipy.special.log_ndtr(z - step)) / (2 * step)
    assert hazard(z) == pytest.approx(slope, rel=1e-5)


def test_far_out_nothing_overflows() -> None:
    assert hazard(np.array([-1e5, 1e5])) == pytest.approx([1e5, 0], rel=1e-4)
    assert math.isfinite(hazard(np.array([-1e7]))[0])
