"""Laws of fixed thresholds against numbers recorded once: a changed prior, weight, scatter or bootstrap moves them."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sweeps.laws.cells import law_cells
from sweeps.laws.comparison import LawComparison
from sweeps.laws.formulas import ATTENTION, EXCESS_POWER, TD_POWER, Law
from sweeps.laws.scaling_law import fitted_law
from sweeps.thresholds.width_threshold import WidthThreshold


@pytest.fixture
def thresholds(threshold: Callable[..., WidthThreshold], transformer: Callable[..., Any]) -> list[WidthThreshold]:
    """Six cells: one without scatter over seeds, one of a single seed, one above and one below the widths tried."""
    lengths, found = (16, 24, 32, 64, 96, 128), []
    for place, T in enumerate(lengths):
        m_star = 4 + 2.5 * 3 * np.log(T) * (1 + 0.05 * np.sin(5.0 * place))
        spread = {0: 0.0, 3: 0.08}.get(place, 0.03)
        seeds = m_star * np.exp(spread * np.cos(np.arange(1 if place == 1 else 5)))
        if place in (2, 5):
            status, widths = ("below_range", (30, 64)) if place == 2 else ("above_range", (4, 35))
            found.append(threshold(transformer(T=T, q=3, d=4), status=status, widths=widths))
        else:
            found.append(threshold(transformer(T=T, q=3, d=4), seeds))
    return found


@pytest.mark.parametrize(
    ("law", "parameter", "interval", "scatter", "aicc", "loo_error", "prediction"),
    [
        (
            ATTENTION, 2.496802303, (2.424805092, 2.58624472), 0.01563310773, -16.01081081, 0.01555247614,
            (45.53563544, 43.04783773, 48.30019677),
        ),
        (
            EXCESS_POWER, 0.2937479754, (0.2430832914, 0.3515693926), 0.01851146599, -8.474416476, 0.01215016163,
            (50.84952447, 45.54316877, 58.00188232),
        ),
        (
            TD_POWER, 0.2553024718, (0.2102831728, 0.3076751405), 0.01885337652, -8.349742986, 0.01501653311,
            (50.18563884, 44.9052916, 56.96745648),
        ),
    ],
)  # fmt: skip
def test_a_law_is_that_of_the_record(
    thresholds: list[WidthThreshold],
    law: Law,
    parameter: float,
    interval: tuple[float, float],
    scatter: float,
    aicc: float,
    loo_error: float,
    prediction: tuple[float, float, float],
) -> None:
    fit = fitted_law(law, law_cells(thresholds))
    assert fit is not None
    own = fit.parameters[law.reported[-1]]
    assert own.value == pytest.approx(parameter, rel=1e-6)
    assert (own.low, own.high) == pytest.approx(interval, rel=1e-6)
    assert (fit.scatter, fit.aicc, fit.loo_error) == pytest.approx((scatter, aicc, loo_error), rel=1e-6)
    cell = fit.predict_cell(T=256, d=4, q=3)
    assert (cell.value, cell.low, cell.high) == pytest.approx(prediction, rel=1e-6)


def test_cells_of_one_seed_have_the_usual_error_of_the_record(
    threshold: Callable[..., WidthThreshold], transformer: Callable[..., Any]
) -> None:
    cells = [threshold(transformer(T=T, q=3, d=4), [4 + 2.5 * 3 * np.log(T)]) for T in (16, 32, 64)]
    law = fitted_law(ATTENTION, law_cells(cells))
    assert law is not None
    assert (law.parameters["b"].low, law.parameters["b"].high) == pytest.approx((2.314826209, 2.698035085), rel=1e-6)


def compared(*laws: tuple[float, float]) -> list[str]:
    """The standings of laws of these AICc and log likelihoods."""
    fitted: Any = [
        SimpleNamespace(name="", numbers={}, aicc=aicc, test=None, fit=SimpleNamespace(log_likelihood=likelihood))
        for aicc, likelihood in laws
    ]
    comparison = LawComparison("transformer", "cells", tuple(fitted), ())
    return [comparison.standing(law) for law in fitted]


def test_laws_within_four_in_aicc_are_as_good_and_beyond_ten_ruled_out() -> None:
    assert compared((20.0, 0.0), (24.0, -9.0), (24.01, -9.0), (30.0, -9.0), (30.01, -9.0)) == [
        "best",
        "as good",
        "less likely",
        "less likely",
        "ruled out",
    ]


def test_a_law_behind_by_its_further_numbers_alone_is_richer_than_needed() -> None:
    """Behind by more than four in AICc, and in twice the log likelihood by at most one; up to four it is less likely."""
    assert compared((20.0, 0.0), (26.0, -0.5), (26.0, -0.51), (40.0, -2.0), (40.0, -2.01), (40.0, 2.0), (40.0, 2.01)) == [
        "best",
        "richer than needed",
        "less likely",
        "less likely",
        "ruled out",
        "richer than needed",
        "as good",
    ]
