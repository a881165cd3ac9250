import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from sweeps.thresholds.crossings import chosen_rates, least_crossing, reach_and_exceed

WIDTHS = (10, 20, 40)
TARGET = 0.1


def crossing(*seeds, success_rate=0.5, widths=WIDTHS):
    """The crossing as a width, from the losses of each seed at each width (None: no number)."""
    losses = np.array([[math.nan if loss is None else loss for loss in seed] for seed in seeds], dtype=float)
    where, again = least_crossing(
        np.log(widths), np.log(losses.T)[None], log_target=math.log(TARGET), success_rate=success_rate
    )
    return float(np.exp(where[0])), bool(again[0])


def test_one_seed_is_interpolated_in_log_loss_and_log_width():
    assert crossing([1.0, 0.01, 0.001])[0] == pytest.approx(10 * math.sqrt(2))
    assert crossing([1.0, 0.2, 0.05])[0] == pytest.approx(20 * math.sqrt(2))
    assert crossing([1.0, 0.1, 0.05])[0] == pytest.approx(20)


def test_nothing_is_extrapolated():
    assert crossing([0.9, 0.5, 0.2])[0] == math.inf
    assert crossing([0.05, 0.01, 0.001])[0] == 0
    assert crossing([0.1, 0.01, 0.001])[0] == 0


def test_divergence_and_worse_than_nothing_count_as_having_learned_nothing():
    assert crossing([math.inf, 0.01, 0.01]) == crossing([1.0, 0.01, 0.01]) == crossing([50.0, 0.01, 0.01])


def test_the_median_seed_decides():
    early, middle, late, never = [0.9, 0.01, 0.001], [0.9, 0.2, 0.05], [0.9, 0.5, 0.09], [0.9, 0.9, 0.9]
    assert crossing(early, middle, late)[0] == pytest.approx(crossing(middle)[0])
    pair = math.sqrt(crossing(middle)[0] * crossing(late)[0])
    assert crossing(early, middle, late, never)[0] == pytest.approx(pair)
    assert crossing(early, never)[0] == math.inf
    assert crossing(early, never, never)[0] == math.inf


def test_another_success_rate_asks_for_more_seeds():
    seeds = [[0.9, 0.2, 0.01], [0.9, 0.3, 0.01], [0.9, 0.4, 0.01], [0.9, 0.5, 0.01], [0.9, 0.9, 0.9]]
    assert crossing(*seeds, success_rate=0.7)[0] == pytest.approx(crossing(seeds[3])[0])
    assert crossing(*seeds, success_rate=0.9)[0] == math.inf
    assert crossing(*seeds, success_rate=0.1)[0] == pytest.approx(crossing(seeds[0])[0])


def test_a_success_rate_that_is_a_whole_number_of_seeds_asks_for_exactly_as_many():
    """Rounding moves k / n * n off k for some of these."""
    assert any(k / n * n != k for n in range(1, 200) for k in range(n))
    for n in range(1, 200):
        for k in range(1, n):
            assert reach_and_exceed(k / n, n) == (k, k + 1)


def test_a_lapse_of_one_seed_neither_moves_the_crossing_nor_raises_the_flag():
    seeds = [[0.9, 0.05, 0.01], [0.9, 0.04, 0.9], [0.9, 0.05, 0.01]]
    assert crossing(*seeds) == (pytest.approx(crossing(seeds[0])[0]), False)


def test_when_most_seeds_lapse_the_least_crossing_is_given_and_flagged():
    where, again = crossing([0.9, 0.05, 0.9], [0.9, 0.05, 0.9], [0.9, 0.05, 0.01])
    assert where == pytest.approx(crossing([0.9, 0.05, 0.9])[0])
    assert again
    assert crossing([0.05, 0.9, 0.01]) == (0, True)


def test_a_seed_solved_once_by_luck_does_not_pull_the_threshold_down():
    """Each seed is solved at one narrow width of its own: S never reaches one half there, though every seed has crossed."""
    widths = (10, 20, 30, 40, 50)
    lucky = [[0.05 if place == seed else 0.9 for place in range(4)] + [0.01] for seed in range(4)]
    assert crossing(*lucky, widths=widths)[0] > 40


def test_a_missing_number_is_passed_over():
    assert crossing([1.0, None, 0.01])[0] == pytest.approx(20)
    assert crossing([None, 0.05, 0.01])[0] == pytest.approx(20)
    assert crossing([1.0, 0.05, None]) == crossing([1.0, 0.05, 0.05])
    assert crossing([None, None, None])[0] == math.inf


@settings(deadline=None)
@given(st.lists(st.floats(2.0, 3.9), min_size=1, max_size=9), st.floats(0.05, 0.95), st.integers(3, 12))
def test_monotone_seeds_give_the_order_statistics_of_their_own_crossings(places, success_rate, num_widths):
    """Straight lines in log-log cross exactly at their places, so the threshold is the sample quantile of the places."""
    log_widths = np.linspace(1.9, 4.0, num_widths)
    losses = np.array([[-2.3 - 0.8 * (x - place) for place in places] for x in log_widths])
    where, again = least_crossing(log_widths, losses[None], log_target=-2.3, success_rate=success_rate)
    ordered = np.sort(places)
    low = ordered[math.ceil(success_rate * len(places) - 1e-9) - 1]
    high = ordered[math.floor(success_rate * len(places) + 1e-9)]
    assert where[0] == pytest.approx((low + high) / 2)
    assert not again[0]


def test_the_rate_of_a_width_has_the_least_median_and_missing_numbers_count_against_it():
    nan, inf = math.nan, math.inf
    losses = np.array(
        [
            [[-1.0, -1.0, 3.0], [-9.0, 0.0, 0.0]],  # one lucky seed does not choose the rate
            [[-1.0, inf, inf], [0.0, 0.0, 0.0]],
            [[-5.0, nan, nan], [-1.0, -1.0, nan]],
        ]
    )
    assert chosen_rates(losses).tolist() == [0, 1, 1]
