"""Posteriors of fixed points against numbers recorded once: a changed prior, grid or likelihood moves them."""

import math

import numpy as np
import pytest

from sweeps.sampler.posterior import ThresholdPosterior


def points(num: int, *, crossing: float, slope: float, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """Points spread over the range, with scatter, lapses and diverged ones, all by formula."""
    place = np.arange(num)
    spread = np.log(low) + np.log(high / low) * ((place * 0.6180339887498949) % 1)
    widths = np.rint(np.exp(spread)).astype(int)
    losses = np.log(0.1) - slope * (np.log(widths) - np.log(crossing)) + 0.3 * np.sin(7.0 * place)
    losses = np.minimum(losses, 0.05 * np.cos(place))
    losses[place % 11 == 10] = -0.4
    losses[place % 29 == 28] = np.inf
    return widths, losses


@pytest.mark.parametrize(
    ("num", "crossing", "slope", "low", "high", "success_rate", "median", "interval", "beyond", "widths"),
    [
        (
            6,
            40,
            3.0,
            8,
            200,
            0.5,
            3.735373890,
            (3.401861173, 3.988880155),
            (0.000086452, 0.002491107, 0.005176993),
            [36, 39, 42, 45, 52],
        ),
        (24, 40, 4.0, 8, 200, 0.5, 3.691337886, (3.619830965, 3.789122430), (0, 0.000011655, 0), [38, 39, 40, 41, 43]),
        (24, 40, 4.0, 8, 200, 0.8, 3.722062032, (3.649963615, 3.840051137), (0, 0.012202614, 0), [39, 40, 41, 43, 45]),
        (
            300,
            60,
            2.0,
            4,
            2000,
            0.5,
            4.097490800,
            (4.048223892, 4.148543995),
            (0.000000000, -0.000000000, 0.000000000),
            [58, 59, 60, 61, 63],
        ),
        (
            10,
            260,
            5.0,
            8,
            250,
            0.5,
            math.inf,
            (math.inf, math.inf),
            (0.000001019, 0.875227391, 0.014182927),
            [200, 225, 235, 246, 250],
        ),
    ],
)
def test_a_posterior_is_that_of_the_record(num, crossing, slope, low, high, success_rate, median, interval, beyond, widths):
    posterior = ThresholdPosterior(
        *points(num, crossing=crossing, slope=slope, low=low, high=high),
        low=low,
        high=high,
        log_target=math.log(0.1),
        success_rate=success_rate,
    )
    assert posterior.median == pytest.approx(median, abs=2e-8)
    assert posterior.interval(0.9) == pytest.approx(interval, abs=2e-8)
    found = posterior.probability_below, posterior.probability_above, posterior.probability_not_reached
    assert found == pytest.approx(beyond, abs=2e-8)
    assert posterior.next_widths(5, shift=0.1) == widths
