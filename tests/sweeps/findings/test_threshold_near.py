"""Verdicts on thresholds beside a value of somebody else: the interval decides, and the value's source stands in the row."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import ValidationError

from stsq_core.configs.size import size_named
from sweeps.findings.threshold_verdicts import threshold_verdict
from sweeps.schema.claims import ThresholdNear
from sweeps.thresholds.width_threshold import WidthThreshold

Make = Callable[..., Any]


def near(*, value: float = 10, factor: float = 2, source: str = "our run of 2026-11-28", **where: Any) -> ThresholdNear:
    fields = {"name": "near", "says": "It is so.", "value": value, "factor": factor, "source": source, "where": where}
    return ThresholdNear.model_validate({"kind": "threshold_near", **fields})


@pytest.fixture
def measured(threshold: Make, transformer: Make) -> Callable[..., WidthThreshold]:
    """A threshold of five seeds with fields of its own."""
    return lambda **fields: replace(threshold(transformer(), [10.0]), **{"num_seeds": 5, **fields})


def test_rows_name_the_fields_that_tell_them_apart(threshold: Make, transformer: Make) -> None:
    thresholds = [threshold(transformer(d_e, query=query), [9.0, 11.0]) for d_e, query in ((16, "sum"), (20, "dual"))]
    printed = [dict(setting.fields) for setting in threshold_verdict(near(), thresholds).settings]
    letters = {"task.T": 16, "task.q": 3, "task.d": 4}
    assert printed == [letters | {"model.positions.query": query} for query in ("sum", "dual")]
    (alone,) = threshold_verdict(near(), thresholds[:1]).settings
    assert dict(alone.fields) == letters


def test_a_claim_that_selects_nothing_is_open_and_keeps_the_letter(threshold: Make, transformer: Make) -> None:
    counted = replace(threshold(transformer(), [9.0, 11.0]), size=size_named("training.num_samples"))
    verdict = threshold_verdict(near(**{"model.kind": "fcn"}), [counted])
    assert verdict.answer == "not enough data"
    assert verdict.quantity.startswith("n* over")


def test_the_row_says_whose_value_it_is(measured: Callable[..., WidthThreshold]) -> None:
    verdict = threshold_verdict(near(source="read off arXiv:2503.11272, figure 2"), [measured()])
    assert verdict.quantity == "m* over 10 (read off arXiv:2503.11272, figure 2)"
    assert verdict.rule == "within a factor of 2"
    with pytest.raises(ValidationError, match="source"):
        ThresholdNear.model_validate({"kind": "threshold_near", "name": "a", "says": "b", "value": 9})
    with pytest.raises(ValidationError, match="must say something"):
        near(source=" ")


@pytest.mark.parametrize(
    ("m_star", "low", "high", "answer"),
    [
        (12.27, 11.61, 15.45, "not enough data"),
        (12.27, 11.61, 12.5, "holds"),
        (12.27, 11.61, 12.51, "not enough data"),
        (8.5, 8.0, 9.0, "holds"),
        (8.5, 7.9, 9.0, "not enough data"),
        (14.0, 12.49, 15.0, "not enough data"),
        (14.0, 12.51, 15.0, "does not hold"),
        (7.0, 6.0, 7.99, "does not hold"),
    ],
)
def test_the_whole_interval_lies_inside_the_factor_or_outside_of_it(
    measured: Callable[..., WidthThreshold], m_star: float, low: float, high: float, answer: str
) -> None:
    (setting,) = threshold_verdict(near(factor=1.25), [measured(m_star=m_star, low=low, high=high)]).settings
    assert setting.answer == answer
    assert (setting.value, setting.low, setting.high) == pytest.approx((m_star / 10, low / 10, high / 10))


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({"low": None, "low_censored": True, "high": 12.0}, "not enough data"),
        ({"low": None, "low_censored": True, "high": 4.9}, "does not hold"),
        ({"low": 11.0, "high": None, "high_censored": True}, "not enough data"),
        ({"low": 20.1, "high": None, "high_censored": True}, "does not hold"),
        ({"low": None, "high": None}, "not enough data"),
        ({"status": "above_range", "m_star": None, "widths": (4, 19), "low": None}, "not enough data"),
        ({"status": "above_range", "m_star": None, "widths": (4, 21), "low": None}, "does not hold"),
        ({"status": "above_range", "m_star": None, "widths": (4, 21), "low": 18.0}, "not enough data"),
        ({"status": "above_range", "m_star": None, "widths": (4, 21), "low": None, "low_censored": True}, "not enough data"),
        ({"status": "below_range", "m_star": None, "widths": (5, 21), "high": None}, "not enough data"),
        ({"status": "below_range", "m_star": None, "widths": (4, 21), "high": None}, "does not hold"),
        ({"status": "below_range", "m_star": None, "widths": (4, 21), "high": None, "high_censored": True}, "not enough data"),
        ({"status": "not_reached", "m_star": None, "low": None, "high": None}, "not enough data"),
        ({"status": "failed", "m_star": None, "low": None, "high": None}, "not enough data"),
    ],
)
def test_an_open_end_is_no_bound_on_its_side(measured: Callable[..., WidthThreshold], fields: dict, answer: str) -> None:
    assert threshold_verdict(near(), [measured(**fields)]).answer == answer


@pytest.mark.parametrize(
    ("num_seeds", "success_rate", "answer", "note"),
    [
        (1, 0.5, "not enough data", "1 seed gives no interval, and a verdict needs 3 seeds"),
        (2, 0.5, "not enough data", "2 seeds give an interval of at most 50%, and a verdict needs 3 seeds"),
        (2, 0.8, "not enough data", "2 seeds give an interval of at most 32%, and a verdict needs 3 seeds"),
        (3, 0.5, "not enough data", "3 seeds give an interval of at most 75%"),
        (4, 0.5, "not enough data", "4 seeds give an interval of at most 87.5%"),
        (5, 0.5, "holds", ""),
        (10, 0.8, "not enough data", "10 seeds give an interval of at most 89.3%"),
        (11, 0.8, "holds", ""),
    ],
)
def test_a_grid_needs_seeds_that_support_the_level(
    measured: Callable[..., WidthThreshold], num_seeds: int, success_rate: float, answer: str, note: str
) -> None:
    (setting,) = threshold_verdict(near(), [measured(num_seeds=num_seeds, success_rate=success_rate)]).settings
    assert (setting.answer, setting.note, setting.num_seeds) == (answer, note, num_seeds)


def test_a_search_rests_on_its_posterior_and_not_on_ranks(measured: Callable[..., WidthThreshold]) -> None:
    """Eight points and a success rate of .9 support no rank interval of 90%."""
    assert threshold_verdict(near(), [measured(num_seeds=8, success_rate=0.9)]).answer == "not enough data"
    assert threshold_verdict(near(), [measured(num_seeds=8, success_rate=0.9, search=object())]).answer == "holds"
