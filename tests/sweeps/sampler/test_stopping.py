"""When a search ends: each reason on either side of its edge."""

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sweeps.sampler.posterior import ThresholdPosterior
from sweeps.sampler.stopping import Failed, StopRule, posterior_of, stop_reason

RULE = StopRule(level=0.9, tolerance=0.1, batch=8, cap=96)


def reason(
    *,
    below: float = 0.0,
    above: float = 0.0,
    never: float = 0.0,
    ends: tuple[float, float] = (10.0, 100.0),
    num: int = 10,
    trend: str = "falling",
    is_cut: bool = False,
    lone: int = 0,
    num_failed: int = 0,
    **rule: Any,
) -> str:
    """The stop reason of a posterior of which these numbers are known; `ends` are widths."""
    low, high = (math.log(end) if math.isfinite(end) else end for end in ends)
    posterior = SimpleNamespace(
        probability_below=below,
        probability_above=above,
        probability_not_reached=never,
        interval=lambda level: (low, high),
        widths=np.ones(num),
        log_losses=np.zeros(num),
        trend=trend,
        is_cut=is_cut,
        standing="above_range" if trend == "falling" or is_cut else "not_reached",
        lone_solved=np.ones(lone),
    )
    return stop_reason(posterior, replace(RULE, **rule), num_failed=num_failed)  # type: ignore[arg-type]


@pytest.mark.parametrize("level", [0.8, 0.9, 0.98])
def test_a_search_is_censored_when_the_whole_central_interval_lies_beyond_the_range(level: float) -> None:
    tail = (1 - level) / 2
    for side in ("above", "below"):
        assert reason(**{side: 1 - tail + 1e-9}, level=level) == f"{side}_range"
        assert reason(**{side: 1 - tail - 1e-9}, level=level) == ""


def test_one_that_was_lucky_at_the_lower_end_does_not_end_a_search_below_its_range() -> None:
    assert [reason(below=0.99, num=num) for num in (1, 7, 8)] == ["", "", "below_range"]
    assert reason(below=0.99, num=5, cap=5) == "below_range"


def test_what_is_not_within_the_range_is_above_it_only_where_the_loss_falls_at_its_end() -> None:
    for trend in ("turned", "flat"):
        assert reason(above=0.5, never=0.49, trend=trend) == "not_reached"
    assert reason(above=0.5, never=0.49) == "above_range"
    assert reason(above=0.5, never=0.4) == ""


def test_a_search_goes_on_while_the_trend_is_unclear_or_a_solved_point_stands_alone() -> None:
    assert reason(never=0.99, trend="unclear") == ""
    assert reason(never=0.99, trend="turned", lone=1) == reason(above=0.99, lone=1) == ""
    assert reason(never=0.99, trend="unclear", num=96) == "not_reached"
    assert reason(never=0.99, trend="unclear", is_cut=True) == "above_range"


def test_an_interval_is_not_precise_while_the_threshold_may_not_be_reached() -> None:
    assert reason(never=0.06, ends=(100.0, 101.0)) == ""
    assert reason(never=0.04, ends=(100.0, 101.0)) == "precise"


@pytest.mark.parametrize(
    ("points", "standing"),
    [
        # Quickstart's cell trained at a fixed rate: solved between 26 and 100, ever worse beyond.
        ({8: 0.7163, 16: 0.3461, 32: 0.0411, 64: 0.0511, 128: 0.1481, 256: 0.266, 512: 0.327, 1024: 0.3519}, "found"),
        ({8: 0.9, 16: 0.5, 32: 0.25, 64: 0.4, 128: 0.7, 256: 0.8, 512: 0.9, 1024: 0.9}, "not_reached"),
        ({8: 1.0, 16: 1.0, 32: 1.0, 64: 1.0, 128: 1.0, 256: 1.0, 512: 1.0, 1024: 1.0}, "not_reached"),
        ({8: 0.99, 16: 0.97, 32: 0.93, 64: 0.85, 128: 0.7, 256: 0.52, 512: 0.33, 1024: 0.19}, "above_range"),
    ],
)
def test_a_curve_that_turns_is_told_from_one_that_falls(points: dict[int, float], standing: str) -> None:
    """Four seeds a width, 1% apart."""
    widths = [width for width in points for _ in range(4)]
    losses = [math.log(loss) + 0.01 * seed for loss in points.values() for seed in range(4)]
    posterior = ThresholdPosterior(widths, losses, low=8, high=1024, log_target=math.log(0.1))
    assert posterior.standing == standing
    if standing == "found":
        assert 16 < math.exp(posterior.median) < 32


def test_points_that_fail_beyond_all_others_in_two_rounds_cut_the_range() -> None:
    widths, losses = np.array([2, 4, 8]), np.log([0.9, 0.8, 0.7])

    def made(*failed: tuple[int, int]) -> ThresholdPosterior:
        own = Failed(np.array([width for width, _ in failed], dtype=int), np.array([at for _, at in failed], dtype=int))
        return posterior_of(widths, losses, own, low=1, high=64, log_target=math.log(0.1), success_rate=0.5)

    assert (made((20, 0), (40, 0)).high, made((20, 0), (40, 0)).is_cut) == (64, False)
    assert (made((40, 0), (20, 1)).high, made((40, 0), (20, 1)).is_cut) == (19, True)
    assert made((4, 0), (4, 1)).high == 64  # a width at which others ended well says nothing
    assert (made((1, 0), (1, 1)).low, made((1, 0), (1, 1)).is_cut) == (2, False)
    assert max(made((40, 0), (20, 1)).next_widths(8)) <= 19


def test_failures_may_leave_one_width_of_the_range_at_either_end() -> None:
    for width, failed in ((64, 60), (2, 3)):
        posterior = posterior_of(
            np.array([width]),
            np.log([0.7]),
            Failed(np.array([failed, failed]), np.array([0, 1])),
            low=2,
            high=64,
            log_target=math.log(0.1),
            success_rate=0.5,
        )
        assert posterior.low <= width <= posterior.high
        assert all(posterior.low <= asked <= posterior.high for asked in posterior.next_widths(8))
        assert math.isfinite(posterior.probability_above)


def test_an_estimate_lies_within_the_widths_that_ended() -> None:
    posterior = ThresholdPosterior([4, 8, 12, 16], np.log([0.9, 0.6, 0.3, 0.15]), low=4, high=256, log_target=math.log(0.1))
    assert posterior.median == math.inf
    assert ThresholdPosterior([], [], low=4, high=256, log_target=math.log(0.1)).interval(0.9) != (math.inf, math.inf)


def test_a_round_without_one_loss_ends_a_search() -> None:
    def ended(num: int, num_failed: int) -> str:
        posterior = ThresholdPosterior([8] * num, [math.inf] * num, low=4, high=64, log_target=math.log(0.1))
        return stop_reason(posterior, RULE, num_failed=num_failed)

    assert (ended(0, 7), ended(0, 8)) == ("", "failed")
    assert (
        stop_reason(  # a small batch is no round over the whole range
            ThresholdPosterior([], [], low=4, high=64, log_target=math.log(0.1)),
            replace(RULE, batch=2),
            num_failed=2,
        )
        == ""
    )
    assert (ended(7, 0), ended(8, 0), ended(1, 7)) == ("", "diverged", "diverged")


def test_an_interval_is_precise_within_the_tolerance_of_its_middle() -> None:
    middle = 1000.0
    assert reason(ends=(middle / 1.1, middle * 1.1 - 1e-6)) == "precise"
    assert reason(ends=(middle / 1.1, middle * 1.1 + 1e-6)) == ""
    assert reason(ends=(middle / 1.1, middle * 1.1 - 1e-6), tolerance=0.05) == ""


@pytest.mark.parametrize("offset", [1, 4, 32, 1000])
def test_the_tolerance_is_of_the_width_less_the_offset(offset: int) -> None:
    """A code of length 1000 known to 10%, at whatever d: the width d + 1000 is known to less."""
    middle = 1000.0
    for miss, expected in ((-1e-6, "precise"), (1e-6, "")):
        ends = offset + middle / 1.1, offset + middle * 1.1 + miss
        assert reason(ends=ends, offset=offset) == expected
        assert reason(ends=ends) == "precise"
    assert reason(ends=(offset + 2.0, offset + 3.0 - 1e-6), offset=offset) == "precise"  # one unit is one unit of either
    assert reason(ends=(offset + 2.0, offset + 3.0 + 1e-6), offset=offset) == ""


def test_an_interval_of_one_unit_of_width_is_precise_however_wide_it_is_relatively() -> None:
    assert reason(ends=(2.0, 3.0 - 1e-9)) == "precise"
    assert reason(ends=(2.0, 3.0 + 1e-9)) == ""


def test_an_interval_with_an_open_end_is_not_precise() -> None:
    assert reason(ends=(10.0, math.inf)) == reason(ends=(-math.inf, 10.0)) == ""


def test_the_cap_is_reached_at_its_last_point_and_named_only_where_nothing_else_ends_the_search() -> None:
    assert [reason(num=num, cap=12) for num in (11, 12, 13)] == ["", "cap", "cap"]
    assert reason(num=12, cap=12, ends=(100.0, 101.0)) == "precise"


def test_a_solved_point_that_stands_alone_is_looked_into() -> None:
    """A valley about 27 in a range of 5 to 4383 that two rounds have hit once: the posterior takes it for a lapse."""
    widths = [5, 13, 13, 25, 35, 91, 240, 632, 1152, 1665, 2257, 3112, 4149, 4383, 4383, 4383]
    losses = [0.98, 0.27, 0.84, 0.25, 0.04, 0.18, 1.09, 0.91, 1.0, 1.12, 0.94, 0.79, 0.95, 0.98, 0.98, 1.0]

    def made(more: list[int], of: list[float]) -> ThresholdPosterior:
        return ThresholdPosterior([*widths, *more], np.log([*losses, *of]), low=5, high=4383, log_target=math.log(0.1))

    posterior = made([], [])
    assert posterior.probability_above + posterior.probability_not_reached > 0.95
    assert np.exp(posterior.lone_solved) == pytest.approx([35])
    assert stop_reason(posterior, RULE, num_failed=0) == ""
    assert sum(30 <= width <= 41 for width in posterior.next_widths(8)) >= 4
    assert len(made([31, 37, 40], [0.2, 0.3, 0.3]).lone_solved) == 0
