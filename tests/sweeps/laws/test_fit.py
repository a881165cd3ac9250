"""Fits of laws: exact on exact data, weighted by intervals, censored cells pull as they should, intervals cover."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from sweeps.laws import fit
from sweeps.laws.cells import law_cells
from sweeps.laws.fit import Curvature, Measurements, fit_law
from sweeps.laws.formulas import ATTENTION, ATTENTION_FREE, LAWS, TD_POWER, Law
from sweeps.laws.scaling_law import ScalingLaw, draws_of, fitted_law
from sweeps.thresholds.thresholds import WidthThreshold

Make = Callable[..., WidthThreshold]
TASKS = ((16, 3, 4), (24, 2, 8), (32, 5, 4), (48, 3, 2), (64, 3, 16), (128, 2, 6))


def attention(T: float, q: float, d: float) -> float:
    return d + 2.5 * q * math.log(T)


@pytest.fixture
def cells(
    threshold: Make, transformer: Callable[..., object], fcn: Callable[..., object]
) -> Callable[..., list[WidthThreshold]]:
    """Thresholds at `formula(T, q, d)`, off by `scatter` a cell and by `noise` a seed."""

    def make(
        formula: Callable[[float, float, float], float] = attention,
        tasks: Sequence[tuple[int, int, int]] = TASKS,
        *,
        kind: str = "transformer",
        scatter: float = 0.0,
        noise: float = 0.0,
        num_seeds: int = 5,
        stream: int = 0,
    ) -> list[WidthThreshold]:
        draw = np.random.default_rng(stream)
        made, thresholds = {"transformer": transformer, "fcn": fcn}[kind], []
        for T, q, d in tasks:
            centre = math.log(formula(T, q, d)) + scatter * draw.normal()
            values = np.exp(centre + noise * draw.normal(size=num_seeds))
            thresholds.append(threshold(made(T=T, q=q, d=d), values.tolist()))
        return thresholds

    return make


def fitted(law: Law, thresholds: Sequence[WidthThreshold]) -> ScalingLaw:
    found = fitted_law(law, law_cells(thresholds))
    assert found is not None
    return found


def test_a_fit_that_takes_long_repeats_no_other(cells: Callable[..., list[WidthThreshold]], monkeypatch: Any) -> None:
    """Of a hundred, one is far from where all begin; each has the numbers that it has alone."""
    measured, computed = law_cells(cells()), list[int]()
    of_all = Measurements.curvature

    def counted(self: Measurements, law: Law, tasks: Any, theta: np.ndarray, *rows: Any) -> Curvature:
        computed.append(len(theta))
        return of_all(self, law, tasks, theta, *rows)

    monkeypatch.setattr(Measurements, "curvature", counted)
    y = np.tile(measured.y, (100, 1))
    y[:99] += np.linspace(-1e-3, 1e-3, 99)[:, None]
    y[99] += 3
    begun = ATTENTION.start(np.exp(measured.y), measured.tasks)
    together = fit.fitted(ATTENTION, measured.tasks, Measurements.broadcast(y, measured.side, measured.sd), begun)
    assert computed[:2] == [100, 100]
    assert computed[-1] == 1
    for place in (0, 42, 99):
        alone = Measurements.broadcast(y[place], measured.side, measured.sd)
        assert fit.fitted(ATTENTION, measured.tasks, alone, begun)[0] == pytest.approx(together[place], rel=1e-12)


@pytest.mark.parametrize(
    ("name", "numbers", "formula"),
    [
        ("attention", {"b": 2.5}, attention),
        ("attention_free", {"a": 0.7, "b": 2.5, "c": 3.0}, lambda T, q, d: 0.7 * d + 2.5 * q * math.log(T) + 3),
        ("attention_ratio", {"b": 3.5}, lambda T, q, d: d + 3.5 * q * math.log(T / q)),
        ("excess_power", {"c": 4.0, "gamma": 0.5}, lambda T, q, d: d + 4 * T**0.5),
        ("excess_q_power", {"c": 2.0, "gamma": 0.3}, lambda T, q, d: d + 2 * q * T**0.3),
        ("T_power", {"c": 4.0, "gamma": 0.5}, lambda T, q, d: 4 * T**0.5),
        ("td_power", {"c": 1.1, "gamma": 0.95}, lambda T, q, d: 1.1 * (T * d) ** 0.95),
    ],
)
def test_exact_data_give_exact_numbers(
    cells: Callable[..., list[WidthThreshold]], name: str, numbers: dict[str, float], formula: Callable[..., float]
) -> None:
    law = fitted(next(law for law in LAWS if law.name == name), cells(formula))
    assert {letter: estimate.value for letter, estimate in law.parameters.items()} == pytest.approx(numbers, rel=1e-6)
    assert law.scatter < 0.005
    assert law.largest_residual < 1e-6
    assert law.loo_error < 1e-6


def test_a_cell_counts_by_its_own_interval(
    cells: Callable[..., list[WidthThreshold]], threshold: Make, transformer: Callable[..., object]
) -> None:
    sure = cells(noise=0.01)
    off = threshold(
        transformer(T=96, q=3, d=4), [attention(96, 3, 4) * 1.3 * factor for factor in (0.97, 0.99, 1.0, 1.01, 1.03)]
    )
    vague = threshold(transformer(T=96, q=3, d=4), [attention(96, 3, 4) * 1.3 * factor for factor in (0.5, 0.7, 1.0, 1.4, 2.0)])
    without = fitted(ATTENTION, sure).parameters["b"].value
    pulled, hardly = (fitted(ATTENTION, [*sure, one]).parameters["b"].value for one in (off, vague))
    assert without < hardly < pulled
    assert hardly - without < 0.2 * (pulled - without)


def test_a_misfitting_law_is_not_sure(cells: Callable[..., list[WidthThreshold]]) -> None:
    thresholds = cells(lambda T, q, d: T * d, [(T, 2, 2) for T in (4, 8, 12, 16, 24)], kind="fcn", noise=0.01)
    law = fitted(ATTENTION, thresholds)
    assert law.scatter > 0.2
    b = law.parameters["b"]
    assert (b.high - b.low) / b.value > 0.4
    assert fitted(TD_POWER, thresholds).scatter < 0.02


def test_censored_cells_pull_only_where_the_law_disagrees(
    cells: Callable[..., list[WidthThreshold]], threshold: Make, transformer: Callable[..., object]
) -> None:
    known = cells(noise=0.03)
    m = attention(256, 3, 4)
    task = transformer(T=256, q=3, d=4)
    tried = {name: (4, 8, round(m * factor)) for name, factor in (("far below", 0.3), ("above", 1.5))}
    agrees = threshold(task, status="above_range", widths=tried["far below"])
    disagrees = threshold(task, status="above_range", widths=tried["above"])
    b = fitted(ATTENTION, known).parameters["b"].value
    assert fitted(ATTENTION, [*known, agrees]).parameters["b"].value == pytest.approx(b, rel=1e-6)
    assert fitted(ATTENTION, [*known, disagrees]).parameters["b"].value > b * 1.01
    below = threshold(task, status="below_range", widths=(round(m * 0.7), 500, 1000))
    assert fitted(ATTENTION, [*known, below]).parameters["b"].value < b * 0.99
    law = fitted(ATTENTION, [*known, disagrees])
    assert (law.num_cells, law.num_censored) == (len(known), 1)


def test_leaving_censored_cells_out_would_bend_the_law(
    cells: Callable[..., list[WidthThreshold]], threshold: Make, fcn: Callable[..., object]
) -> None:
    """Widths were tried up to 60, so that the upper half of noisy cells is censored: gamma must not shrink for that."""
    draw, printed, gammas = np.random.default_rng(2), [], []
    for _ in range(20):
        printed = []
        for T in (4, 6, 8, 12, 16, 20, 24, 28, 32):
            values = 2 * T * np.exp(0.15 * draw.normal() + 0.03 * draw.normal(size=5))
            m = float(np.median(values))
            found = m < 50
            printed.append(
                threshold(
                    fcn(T=T, d=2), values.tolist() if found else (), status="found" if found else "above_range", widths=(4, 50)
                )
            )
        both = fitted(TD_POWER, printed), fitted(TD_POWER, [one for one in printed if one.m_star is not None])
        gammas.append([law.parameters["gamma"].value for law in both])
    respected, left_out = np.mean(gammas, axis=0)
    assert abs(respected - 1) < abs(left_out - 1)
    assert respected == pytest.approx(1, abs=0.06)


@pytest.mark.slow
@pytest.mark.parametrize(("scatter", "least", "most"), [(0.02, 0.88, 1.0), (0.06, 0.84, 0.97)])
def test_intervals_of_b_and_gamma_cover_at_about_their_level(
    cells: Callable[..., list[WidthThreshold]], scatter: float, least: float, most: float
) -> None:
    """90% intervals of six cells with five seeds; where the scatter is small its prior makes them a little wide."""
    num, hits = 150, {"b": 0, "gamma": 0, "cell": 0}
    tasks = [(T, 3, 4) for T in (16, 24, 32, 48, 64, 128)]
    for stream in range(num):
        law = fitted(ATTENTION, cells(attention, tasks, scatter=scatter, noise=0.05, stream=stream))
        hits["b"] += law.parameters["b"].low <= 2.5 <= law.parameters["b"].high
        new = attention(256, 3, 4) * math.exp(scatter * np.random.default_rng(10_000 + stream).normal())
        predicted = law.predict_cell(T=256, d=4, q=3)
        hits["cell"] += predicted.low <= new <= predicted.high
        power = fitted(
            TD_POWER, cells(lambda T, q, d: 1.1 * (T * d) ** 0.95, tasks, scatter=scatter, noise=0.05, stream=stream)
        )
        hits["gamma"] += power.parameters["gamma"].low <= 0.95 <= power.parameters["gamma"].high
    assert all(least <= hit / num <= most for hit in hits.values()), hits


def test_no_more_cells_than_numbers_give_no_interval(cells: Callable[..., list[WidthThreshold]]) -> None:
    fit = fit_law(ATTENTION_FREE, law_cells(cells()[:3]))  # type: ignore[arg-type]
    assert draws_of(fit) is None
    assert math.isnan(fit.loo_error)
    law = fitted(ATTENTION_FREE, cells()[:3])
    assert math.isnan(law.parameters["a"].low)
    assert math.isnan(law.predict_cell(T=64, d=4, q=3).low)
    assert law.band(law.tasks(T=64.0, d=4.0, q=3.0)) is None
    assert "tests nothing" in law.note


def test_one_seed_everywhere_is_no_reason_to_be_sure(cells: Callable[..., list[WidthThreshold]]) -> None:
    law = fitted(ATTENTION, cells(scatter=0.03, num_seeds=1))
    b = law.parameters["b"]
    assert b.high - b.low > 0.05


def test_cells_that_all_failed_or_are_censored_have_no_law(threshold: Make, transformer: Callable[..., object]) -> None:
    assert law_cells([]) is None
    assert law_cells([threshold(transformer(), status="failed"), threshold(transformer(T=32), status="above_range")]) is None


def test_many_cells_are_fitted_within_memory(cells: Callable[..., list[WidthThreshold]]) -> None:
    tasks = [(T, q, d) for T in range(16, 56) for q in (2, 3) for d in (2, 4, 8)]
    law = fitted(ATTENTION_FREE, cells(attention, tasks, noise=0.05, scatter=0.05))
    assert law.parameters["b"].low < 2.5 < law.parameters["b"].high
    assert math.isfinite(law.loo_error)
