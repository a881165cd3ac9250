"""When a search ends: each reason on either side of its edge."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sweeps.thresholds.posterior import ThresholdPosterior
from sweeps.thresholds.search_state import stop_reason


def reason(
    *, below: float = 0.0, above: float = 0.0, ends: tuple[float, float] = (10.0, 100.0), num: int = 10, **rule: Any
) -> str:
    """The stop reason of a posterior of which these numbers are known; `ends` are widths."""
    low, high = (math.log(end) if math.isfinite(end) else end for end in ends)
    posterior = SimpleNamespace(
        probability_below=below, probability_above=above, interval=lambda level: (low, high), widths=np.ones(num)
    )
    return stop_reason(posterior, **{"level": 0.9, "tolerance": 0.1, "cap": 96} | rule)  # type: ignore[arg-type]


@pytest.mark.parametrize("level", [0.8, 0.9, 0.98])
def test_a_search_is_censored_when_the_whole_central_interval_lies_beyond_the_range(level: float) -> None:
    tail = (1 - level) / 2
    for side in ("above", "below"):
        assert reason(**{side: 1 - tail + 1e-9}, level=level) == f"{side}_range"
        assert reason(**{side: 1 - tail - 1e-9}, level=level) == ""


def test_censoring_agrees_with_the_interval_of_real_posteriors() -> None:
    """Unsolved points are added at the top of the range; the search ends at the very point at which the interval is beyond."""
    seen = set()
    for num in range(1, 9):
        posterior = ThresholdPosterior([64] * num, [-1.6] * num, low=4, high=64, log_target=math.log(0.1))
        is_beyond = posterior.interval(0.9)[0] == math.inf
        assert (stop_reason(posterior, level=0.9, tolerance=0.1, cap=96) == "above_range") == is_beyond
        seen.add(is_beyond)
    assert seen == {False, True}


def test_an_interval_is_precise_within_the_tolerance_of_its_middle() -> None:
    middle = 1000.0
    assert reason(ends=(middle / 1.1, middle * 1.1 - 1e-6)) == "precise"
    assert reason(ends=(middle / 1.1, middle * 1.1 + 1e-6)) == ""
    assert reason(ends=(middle / 1.1, middle * 1.1 - 1e-6), tolerance=0.05) == ""


def test_an_interval_of_one_unit_of_width_is_precise_however_wide_it_is_relatively() -> None:
    assert reason(ends=(2.0, 3.0 - 1e-9)) == "precise"
    assert reason(ends=(2.0, 3.0 + 1e-9)) == ""


def test_an_interval_with_an_open_end_is_not_precise() -> None:
    assert reason(ends=(10.0, math.inf)) == reason(ends=(-math.inf, 10.0)) == ""


def test_the_cap_is_reached_at_its_last_point_and_named_only_where_nothing_else_ends_the_search() -> None:
    assert [reason(num=num, cap=12) for num in (11, 12, 13)] == ["", "cap", "cap"]
    assert reason(num=12, cap=12, ends=(100.0, 101.0)) == "precise"
