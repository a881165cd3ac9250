"""Laws: widths as their formulas say, exact derivatives, and only laws whose parameters the cells determine."""

import math

import numpy as np
import pytest

from stsq_core.oracles import theory
from sweeps.laws.formulas import (
    ATTENTION,
    ATTENTION_FACTOR,
    ATTENTION_FREE,
    ATTENTION_OFFSET,
    ATTENTION_RATIO,
    EXCESS_POWER,
    EXCESS_Q_POWER,
    FCN_LINE,
    LAWS,
    T_POWER,
    TD_POWER,
    Law,
    Tasks,
    applicable_laws,
    contains,
)

TASKS = Tasks(np.array([8.0, 16, 32, 100]), np.array([2.0, 3, 3, 5]), np.array([2.0, 4, 8, 3]), 0.1)


def tasks(T: list[float], q: list[float], d: list[float]) -> Tasks:
    return Tasks(np.array(T), np.array(q), np.array(d), 0.1)


@pytest.mark.parametrize(
    ("law", "theta", "formula"),
    [
        (ATTENTION, [2.5], lambda T, q, d: d + 2.5 * q * math.log(T)),
        (ATTENTION_OFFSET, [2.5, 7.0], lambda T, q, d: 2.5 * q * math.log(T) + 7),
        (ATTENTION_FACTOR, [0.8, 2.5], lambda T, q, d: 0.8 * d + 2.5 * q * math.log(T)),
        (ATTENTION_FREE, [0.8, 2.5, 3.0], lambda T, q, d: 0.8 * d + 2.5 * q * math.log(T) + 3),
        (ATTENTION_RATIO, [2.5], lambda T, q, d: d + 2.5 * q * math.log(T / q)),
        (EXCESS_POWER, [math.log(3), 0.4], lambda T, q, d: d + 3 * T**0.4),
        (EXCESS_Q_POWER, [math.log(3), 0.4], lambda T, q, d: d + 3 * q * T**0.4),
        (T_POWER, [math.log(3), 0.4], lambda T, q, d: 3 * T**0.4),
        (TD_POWER, [math.log(1.1), 0.95], lambda T, q, d: 1.1 * (T * d) ** 0.95),
        (FCN_LINE, [1.05], lambda T, q, d: 1.05 * theory.fcn_width_bound(0.1, T=int(T), d=int(d), q=int(q))),
    ],
)
def test_widths_are_the_formulas(law: Law, theta: list[float], formula: object) -> None:
    widths, _ = law.widths(np.array(theta), TASKS)
    expected = [formula(T, q, d) for T, q, d in zip(TASKS.T, TASKS.q, TASKS.d, strict=True)]  # type: ignore[operator]
    assert widths == pytest.approx(expected)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_derivatives_are_exact_and_batches_are_single_fits(law: Law) -> None:
    theta = law.start(10 + 3 * TASKS.T, TASKS)
    logs, slopes = law.logs(theta, TASKS)
    for place in range(len(theta)):
        step = 1e-6 * np.eye(len(theta))[place]
        slope = (law.logs(theta + step, TASKS)[0] - law.logs(theta - step, TASKS)[0]) / 2e-6
        assert slopes[:, place] == pytest.approx(slope, rel=1e-4, abs=1e-7)
    batch = law.logs(np.stack([theta, 1.01 * theta]), TASKS)
    assert batch[0].shape == (2, 4)
    assert batch[0][0] == pytest.approx(logs)
    assert np.broadcast_to(batch[1], (2, 4, len(theta)))[0] == pytest.approx(slopes)


def names(at: Tasks) -> set[str]:
    return {law.name for law in applicable_laws(at)}


def test_with_one_d_b_is_all_that_is_told_of_the_free_law() -> None:
    found = names(tasks([16, 32, 64, 128], [3, 3, 3, 3], [4, 4, 4, 4]))
    assert "attention_free" not in found
    assert "attention_offset" in found
    assert ATTENTION_OFFSET.reported == ("b",)


def test_with_several_d_and_q_all_that_differs_is_tried() -> None:
    found = names(tasks([16, 32, 64, 128, 16], [3, 3, 2, 3, 5], [4, 8, 4, 2, 6]))
    assert found == {law.name for law in LAWS} - {"attention_offset"}


def test_a_richer_law_contains_another_where_the_tasks_let_it() -> None:
    one_d, many = tasks([16, 32, 64], [3, 3, 3], [4, 4, 4]), tasks([16, 32, 64, 16], [3, 3, 2, 2], [4, 8, 4, 2])
    assert contains(ATTENTION_OFFSET, ATTENTION, one_d)
    assert not contains(ATTENTION_OFFSET, ATTENTION, many)
    assert contains(ATTENTION_FACTOR, ATTENTION, many)
    assert contains(ATTENTION_FREE, ATTENTION_FACTOR, many)
    assert not contains(ATTENTION_FREE, ATTENTION_RATIO, many)
    assert not contains(ATTENTION, ATTENTION_FACTOR, many)
    assert not contains(TD_POWER, ATTENTION, many)


def test_where_d_alone_varies_its_factor_is_free() -> None:
    found = names(tasks([12, 12, 12, 12], [2, 2, 2, 2], [1, 2, 4, 8]))
    assert "attention_factor" in found
    assert not found & {"attention_free", "attention_offset"}


def test_one_cell_determines_laws_of_one_number_only() -> None:
    assert names(tasks([16], [3], [4])) == {"attention", "attention_ratio", "fcn_line"}
    assert names(tasks([16, 16], [3, 3], [4, 8])) == {
        "attention",
        "attention_ratio",
        "fcn_line",
        "td_power",
        "attention_factor",
    }


def test_the_nets_line_can_be_drawn_a_little_beyond_all_tasks() -> None:
    """A figure's axis begins below the least T, q or d."""
    beyond = tasks([3.4, 6, 6], [4, 0.85, 2], [2, 2, 0.85])
    widths, _ = FCN_LINE.widths(np.array([1.0]), beyond)
    assert np.isfinite(widths).all()
    assert widths[1:] == pytest.approx([theory.fcn_width_bound(0.1, T=6, q=1, d=2), theory.fcn_width_bound(0.1, T=6, q=2, d=1)])
