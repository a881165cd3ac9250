"""The simulated trainer: its curves pass where they should, and its thresholds are those of what it draws."""

import math

import numpy as np
import pytest
from simulation import Curve, Exponential, FcnLine, Kinked, Logistic, Plateau, SimulatedCell, smooth_cell, stress_cell

from stsq_core.oracles import theory

LOG_TARGET = math.log(0.1)
CROSSING = math.log(100.0)
CURVES: list[Curve] = [
    Logistic.through(CROSSING, slope=3.0, log_target=LOG_TARGET),
    Exponential.through(CROSSING, slope=3.0, log_target=LOG_TARGET),
    Plateau.through(CROSSING, slope=3.0, log_target=LOG_TARGET, floor=0.02),
]


@pytest.mark.parametrize("curve", CURVES)
def test_a_curve_passes_the_target_with_its_slope_and_starts_at_the_zero_predictor(curve: Curve) -> None:
    near = curve.log_loss(CROSSING + np.array([-1e-5, 0.0, 1e-5]))
    assert near[1] == pytest.approx(LOG_TARGET, abs=1e-9)
    assert (near[2] - near[0]) / 2e-5 == pytest.approx(-3.0, rel=1e-3)
    assert curve.log_loss(np.array(-40.0)) == pytest.approx(0.0, abs=1e-6)
    assert np.all(np.diff(curve.log_loss(np.linspace(0, 8, 50))) <= 0)


def test_a_kinked_curve_changes_its_slope_at_the_kink_only() -> None:
    curve = Kinked(kink=CROSSING, height=-1.0, left=1.0, right=8.0)
    losses = curve.log_loss(CROSSING + np.array([-5.0, -0.5, 0.0, 0.5]))
    assert losses == pytest.approx([0.0, -0.5, -1.0, -5.0])


@pytest.mark.parametrize("success_rate", [0.3, 0.5, 0.8])
@pytest.mark.parametrize("curve", CURVES)
def test_the_threshold_is_where_the_drawn_seeds_reach_the_success_rate(curve: Curve, success_rate: float) -> None:
    cell = SimulatedCell(curve, noise=0.3, shift=0.05, lapse_rate=0.1, divergence_rate=0.05, stream=1)
    m_star = math.exp(cell.log_threshold(0.1, success_rate))
    num = 4000
    solved = [
        np.mean([cell.relative_loss(width, seed) <= 0.1 for seed in range(num)])
        for width in (math.floor(m_star), math.ceil(m_star))
    ]
    error = 4 * math.sqrt(success_rate * (1 - success_rate) / num)
    assert solved[0] <= success_rate + error
    assert solved[1] >= success_rate - error


def test_of_an_fcn_without_scatter_the_threshold_is_the_exact_bound() -> None:
    cell = SimulatedCell(FcnLine(T=32, q=3, d=4), noise=1e-3, shift=1e-6, lapse_rate=0.0, divergence_rate=0.0, stream=1)
    assert math.exp(cell.log_threshold(0.1)) == pytest.approx(theory.fcn_width_bound(0.1, T=32, q=3, d=4), rel=1e-3)


def test_a_seed_is_drawn_once_and_another_seed_or_cell_differs() -> None:
    cell, other = (smooth_cell(stream, slope=3.0, log_target=LOG_TARGET) for stream in (1, 2))
    assert cell.relative_loss(50, 7) == cell.relative_loss(50, 7)
    assert len({cell.relative_loss(50, seed) for seed in range(20)} | {other.relative_loss(50, 7)}) == 21


def test_seeds_lapse_and_diverge_as_often_as_told() -> None:
    cell = SimulatedCell(CURVES[0], noise=0.1, shift=0.02, lapse_rate=0.10, divergence_rate=0.05, stream=3)
    losses = np.array([cell.relative_loss(10_000, seed) for seed in range(4000)])
    assert np.mean(np.isnan(losses)) == pytest.approx(0.05, abs=0.014)
    assert np.mean(losses > 0.1) == pytest.approx(0.10, abs=0.019)


def test_a_success_rate_beyond_the_lapses_has_no_threshold() -> None:
    cell = SimulatedCell(CURVES[0], noise=0.1, shift=0.02, lapse_rate=0.2, divergence_rate=0.1, stream=3)
    with pytest.raises(ValueError, match="no width"):
        cell.log_threshold(0.1, 0.75)


@pytest.mark.parametrize("kind", ["lapses", "fcn_line", "kink"])
def test_stress_cells_have_thresholds_in_the_range_that_is_searched(kind: str) -> None:
    for stream in range(30):
        assert 1 < math.exp(stress_cell(stream, kind, log_target=LOG_TARGET).log_threshold(0.1)) < 8192
