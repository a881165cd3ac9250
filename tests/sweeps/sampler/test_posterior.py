"""The posterior of a threshold: its laws, and its coverage on cells whose threshold is known."""

import math

import numpy as np
import pytest
from simulation import smooth_cell

from sweeps.sampler.posterior import MOST_POINTS, ThresholdPosterior

LOG_TARGET = math.log(0.1)
LOW, HIGH = 4, 4096


def posterior_of(widths: np.ndarray, log_losses: np.ndarray, *, low: int = LOW, high: int = HIGH, success_rate: float = 0.5):
    return ThresholdPosterior(widths, log_losses, low=low, high=high, log_target=LOG_TARGET, success_rate=success_rate)


def points_of(
    *, m_star: float = 100.0, slope: float = 3.0, noise: float = 0.2, num: int = 24, spread: float = 0.5, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Widths about m* and log losses of a power law, without lapses."""
    stream = np.random.default_rng(seed)
    widths = np.rint(m_star * np.exp(spread * stream.uniform(-1, 1, size=num))).astype(int)
    losses = LOG_TARGET - slope * np.log(widths / m_star) + noise * stream.normal(size=num)
    return widths, np.minimum(losses, 0)


def test_without_evidence_widths_are_log_even_and_both_ends_are_reached() -> None:
    assert posterior_of([], [], low=4, high=256).next_widths(7) == [4, 8, 16, 32, 64, 128, 256]


def test_the_order_of_the_points_does_not_matter() -> None:
    widths, losses = points_of()
    order = np.random.default_rng(1).permutation(len(widths))
    levels = np.linspace(0.01, 0.99, 9)
    first, second = posterior_of(widths, losses), posterior_of(widths[order], losses[order])
    assert np.array_equal(first.quantiles(levels), second.quantiles(levels))


def test_only_ratios_of_widths_matter() -> None:
    widths, losses = points_of()
    here = posterior_of(widths, losses).quantiles([0.05, 0.5, 0.95])
    there = posterior_of(8 * widths, losses, low=8 * LOW, high=8 * HIGH).quantiles([0.05, 0.5, 0.95])
    assert there - here == pytest.approx(math.log(8), abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("factor", [0.8, 0.9, 1.0])
def test_a_solved_point_below_the_estimate_does_not_raise_it_nor_an_unsolved_one_above_lower_it(
    seed: int, factor: float
) -> None:
    """But for what a surprising point says of the noise and the lapse rate: less than a twentieth of the interval."""
    widths, losses = points_of(seed=seed)
    before = posterior_of(widths, losses)
    solved = posterior_of([*widths, round(math.exp(before.median) * factor)], [*losses, LOG_TARGET - 0.3])
    unsolved = posterior_of([*widths, round(math.exp(before.median) / factor)], [*losses, LOG_TARGET + 0.3])
    allowed = np.diff(before.interval(0.9))[0] / 20
    assert solved.median <= before.median + allowed
    assert unsolved.median >= before.median - allowed


def test_the_lower_the_loss_of_a_point_near_the_threshold_the_lower_the_estimate() -> None:
    widths, losses = points_of()
    medians = [posterior_of([*widths, 100], [*losses, LOG_TARGET + shift]).median for shift in (-0.2, -0.1, 0.0, 0.1, 0.2)]
    assert medians == sorted(medians)


def test_more_points_make_the_interval_narrower() -> None:
    lengths = [np.diff(posterior_of(*points_of(num=num)).interval(0.9))[0] for num in (8, 32, 96)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[-1] < lengths[0] / 2


@pytest.mark.parametrize("lapse", [math.inf, math.nan, 0.0])
def test_a_lapse_far_above_the_threshold_hardly_moves_it(lapse: float) -> None:
    widths, losses = points_of(num=32)
    with_lapse = posterior_of([*widths, 2000], [*losses, lapse])
    assert with_lapse.median == pytest.approx(posterior_of(widths, losses).median, abs=0.02)
    assert with_lapse.probability_above < 0.01


def test_mass_beyond_the_range_is_kept() -> None:
    widths = np.geomspace(LOW, HIGH, 8).astype(int)
    below, above = posterior_of(widths, np.full(8, -4.0)), posterior_of(widths, np.full(8, -0.02))
    assert below.probability_below > 0.95
    assert below.median == -math.inf
    assert above.probability_above > 0.95
    assert above.interval(0.9) == (math.inf, math.inf)


def test_where_all_points_diverge_no_width_is_the_threshold() -> None:
    posterior = posterior_of(np.geomspace(LOW, HIGH, 16).astype(int), np.full(16, np.nan))
    assert posterior.probability_above > 0.95


def test_seeds_that_diverge_at_small_widths_only_leave_the_threshold_beyond_them() -> None:
    """Most seeds diverge at 7, all others learn there a little, and every seed is solved from 8 on: not half of them lapse."""
    widths = [6] * 4 + [7] * 21 + [8] * 8 + list(range(9, 80))
    losses = [math.nan] * 19 + [math.log(0.13)] * 6 + [math.log(0.005)] * (len(widths) - 25)
    posterior = posterior_of(widths, losses, low=6, high=130)
    assert posterior.standing == "found"
    assert 7 < math.exp(posterior.median) < 8


def test_the_success_rate_is_a_quantile_over_seeds() -> None:
    """For noise of 0.3 and a slope of 3, 90% of the seeds are solved 1.28 * 0.3 / 3 above the median's threshold in log m."""
    widths, losses = points_of(num=120, noise=0.3, seed=3)
    median, most = (posterior_of(widths, losses, success_rate=rate).median for rate in (0.5, 0.9))
    assert most - median == pytest.approx(1.2816 * 0.3 / 3, rel=0.4)
    few = posterior_of(widths, losses, success_rate=0.1).median
    assert few < median < most


def test_a_success_rate_that_lapses_may_forbid_is_not_sure_to_be_reached() -> None:
    assert posterior_of(*points_of(), success_rate=0.97).probability_above > 0.1


def test_samples_follow_the_quantiles() -> None:
    posterior = posterior_of(*points_of())
    samples = posterior.samples(4000, seed=0)
    assert np.array_equal(samples, posterior.samples(4000, seed=0))
    assert np.quantile(samples, [0.05, 0.5, 0.95]) == pytest.approx(posterior.quantiles([0.05, 0.5, 0.95]), abs=0.01)


def test_what_is_in_flight_is_not_asked_again() -> None:
    posterior = posterior_of(*points_of(num=12, noise=0.3))
    whole = posterior.next_widths(8)
    assert posterior.next_widths(5, whole[:3]) == whole[3:]
    assert posterior.next_widths(5, [*whole[:2], whole[6]]) == [*whole[2:6], whole[7]]


def test_of_very_many_points_the_nearest_count() -> None:
    widths, losses = points_of(num=3 * MOST_POINTS)
    far = np.repeat([5, 3000], 500)
    both = posterior_of([*widths, *far], [*losses, *np.repeat([0.0, -5.0], 500)])
    assert np.array_equal(both.quantiles([0.05, 0.5, 0.95]), posterior_of(widths, losses).quantiles([0.05, 0.5, 0.95]))


@pytest.mark.slow
@pytest.mark.parametrize("slope", [1.0, 3.0, 10.0])
def test_intervals_of_dense_evidence_cover(slope: float) -> None:
    """96 points each about the thresholds of 40 cells with other curves than the estimator's: 90% intervals miss at most 10,
    which they do in one of 1,000 such tests.
    """
    missed = 0
    for stream in range(40):
        cell = smooth_cell(500 + stream, slope=slope, log_target=LOG_TARGET)
        truth = cell.log_threshold(0.1)
        spread = np.random.default_rng(stream).normal(scale=0.5 / slope, size=96)
        widths = np.maximum(np.rint(np.exp(truth + spread)), 2).astype(int)
        losses = [math.log(cell.relative_loss(int(width), seed)) for seed, width in enumerate(widths)]
        low, high = posterior_of(widths, losses, low=2, high=8192).interval(0.9)
        missed += not low <= truth <= high
    assert missed <= 10


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"low": 0}, "low=0"),
        ({"low": 9, "high": 8}, "high=8"),
        ({"log_target": 0.5}, "below 1"),
        ({"success_rate": 1.0}, "success_rate"),
    ],
)
def test_impossible_questions_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ThresholdPosterior([], [], **({"low": 4, "high": 8, "log_target": LOG_TARGET} | settings))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_another_fraction_of_the_seeds_is_that_of_the_same_points_weighed_once(
    rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that the points say is kept: of which only the side of the target is known, and what has learned nothing."""
    widths = np.array([8, 12, 16, 20, 24, 28, 32, 48])
    losses = 2.0 * np.log(20 / widths) + np.log(0.1) + 0.1 * np.cos(widths)
    known = {"low": 4, "high": 64, "log_target": math.log(0.1), "by_sign": widths == 48, "log_ceiling": 0.3}
    one = ThresholdPosterior(widths, losses, success_rate=0.4, **known)
    one.quantiles([0.5])
    afresh = ThresholdPosterior(widths, losses, success_rate=rate, **known)
    expected = afresh.quantiles([0.05, 0.5, 0.95])
    monkeypatch.setattr("sweeps.sampler.posterior.weigh", None)
    other = one.at_rate(rate)
    assert other.quantiles([0.05, 0.5, 0.95]).tolist() == expected.tolist()
    assert (other.standing, other.log_ceiling, other.success_rate) == (afresh.standing, 0.3, rate)
    assert other.next_widths(4) == afresh.next_widths(4)
    assert one.success_rate == 0.4
    with pytest.raises(ValueError, match="between 0 and 1"):
        one.at_rate(1.0)
