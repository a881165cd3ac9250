"""The test of a law's fit: a true law misfits at about the level of the test, a trend that the law does not have is told."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from law_misfit import TASKS, probability

from sweeps.laws import misfit
from sweeps.laws.cells import law_cells
from sweeps.laws.formulas import ATTENTION, ATTENTION_FREE, TD_POWER, Law
from sweeps.laws.misfit import FitTest
from sweeps.laws.scaling_law import fitted_law
from sweeps.thresholds.thresholds import WidthThreshold

Make = Callable[..., WidthThreshold]
LENGTHS = tuple((T, 3, 4) for T in (8, 16, 32, 64, 128, 256))
GRID = tuple((T, q, d) for T in (8, 16, 64) for q in (2, 3) for d in (2, 4))


def attention(T: float, q: float, d: float) -> float:
    return d + 2.5 * q * math.log(T)


@pytest.fixture
def tested(threshold: Make, transformer: Callable[..., object]) -> Callable[..., FitTest | None]:
    """The test of a law on medians over seeds at `formula(T, q, d)`, 5% off a seed."""

    def make(
        law: Law, tasks: Sequence[tuple[int, int, int]] = LENGTHS, formula: Callable[[float, float, float], float] = attention,
        *, num_seeds: int = 8, stream: int = 0, noise: float = 0.05,
    ) -> FitTest | None:  # fmt: skip
        draw = np.random.default_rng(stream)
        cells = [
            threshold(transformer(T=T, q=q, d=d), formula(T, q, d) * np.exp(noise * draw.normal(size=num_seeds)))
            for T, q, d in tasks
        ]
        fitted = fitted_law(law, law_cells(cells))
        assert fitted is not None
        return fitted.test

    return make


@pytest.mark.slow
@pytest.mark.parametrize(("tasks", "num_seeds"), [(LENGTHS, 5), (LENGTHS, 16), (GRID, 9), (GRID, 16)])
def test_a_true_law_misfits_no_more_often_than_twice_the_level(
    tested: Callable[..., FitTest | None], tasks: Sequence[tuple[int, int, int]], num_seeds: int
) -> None:
    """Of 200 sweeps; a share of 5% has a standard error of 1.5%."""
    tests = [tested(ATTENTION, tasks, num_seeds=num_seeds, stream=stream) for stream in range(200)]
    found = np.array([test.p for test in tests if test is not None])
    assert len(found) == 200
    assert np.mean(found < 0.05) <= 0.1
    assert np.mean(found < 0.01) <= 0.02
    if num_seeds > 5:  # with few seeds the test is careful
        assert 0.2 < np.mean(found < 0.5) < 0.65
    contained = [own.slope.low <= 0 <= own.slope.high for test in tests if test for own in test.residual_slopes]
    assert np.mean(contained) >= 0.83


@pytest.mark.slow
def test_known_errors_are_told_from_a_law_at_the_level(threshold: Make, transformer: Callable[..., object]) -> None:
    """Replicates of the true spread, as posteriors have: the share of misfits is that of the level."""
    shares = []
    for stream in range(200):
        draw, cells = np.random.default_rng(stream), []
        for T, q, d in LENGTHS:
            cells.append(threshold(transformer(T=T, q=q, d=d), attention(T, q, d) * np.exp(0.05 * draw.normal(size=64))))
        fitted = fitted_law(ATTENTION, law_cells(cells))
        assert fitted is not None
        assert fitted.test is not None
        shares.append(fitted.test.p)
    assert 0.01 <= np.mean(np.array(shares) < 0.05) <= 0.1


@pytest.mark.slow
def test_searched_thresholds_tell_a_true_law_no_more_often_than_the_level() -> None:
    """Posteriors of 16 simulated trials a cell, six cells, 40 sweeps; a share of 5% has a standard error of 3.4%."""
    found = np.array([probability(TASKS[::2], stream) for stream in range(40)])
    assert np.mean(found < 0.05) <= 0.1
    assert 0.1 <= np.mean(found < 0.5) <= 0.65


def test_a_posterior_counts_as_a_mean_and_a_median_as_less(threshold: Make, transformer: Callable[..., object]) -> None:
    """Of 16 trials 15 degrees of freedom and the posterior's own spread; of a median of 16 seeds at most 8, and 0.95 of it."""
    seeds = attention(16, 3, 4) * np.exp(0.05 * np.linspace(-1.5, 1.5, 16))
    median = threshold(transformer(T=16, q=3, d=4), seeds)
    searched = replace(median, search=object())  # type: ignore[arg-type]
    both = (median, replace(searched, cell_id="1"))
    cells, few = law_cells(both), law_cells([replace(one, num_seeds=5) for one in both])
    assert cells is not None
    assert few is not None
    assert (cells.freedom.tolist(), few.freedom.tolist()) == ([8, 15], [pytest.approx(3.2), 4])
    spread = np.std(median.replicates) * math.sqrt(16 / 15)
    assert cells.errors.tolist() == [pytest.approx(0.95 * spread), pytest.approx(spread)]


def test_a_factor_that_falls_with_t_is_a_trend(threshold: Make, transformer: Callable[..., object]) -> None:
    """b = 2.53, 2.45, 2.42, 2.36, 2.28, 2.21 with intervals of 2%."""
    factors = zip((8, 16, 32, 64, 128, 512), (2.53, 2.45, 2.42, 2.36, 2.28, 2.21), strict=True)
    seeds = np.exp(0.02 * np.linspace(-1.5, 1.5, 8))
    cells = [threshold(transformer(T=T, q=3, d=4), (4 + b * 3 * math.log(T)) * seeds) for T, b in factors]
    fitted = fitted_law(ATTENTION, law_cells(cells))
    assert fitted is not None
    assert fitted.test is not None
    assert fitted.test.misfits
    assert fitted.test.words == "residuals fall with T"
    (own,) = fitted.test.residual_slopes
    assert own.letter == "T"
    # ln b falls by 0.135 over ln 64, and d = 4 holds back a tenth of it.
    assert own.slope.low < -0.135 / math.log(64) * 0.85 < own.slope.high < 0


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        (lambda T, q, d: attention(T, q, d) * q**0.3, "residuals rise with q"),
        (lambda T, q, d: attention(T, q, d) * d**-0.1, "residuals fall with d"),
        (
            lambda T, q, d: attention(T, q, d) * (1.25 if (T, q, d) == (16, 3, 2) else 1),
            "residuals are larger than the thresholds' intervals allow",
        ),
    ],
)
def test_the_letter_of_a_misfit_is_told(
    tested: Callable[..., FitTest | None], formula: Callable[..., float], words: str
) -> None:
    tasks = [(T, q, d) for T in (16, 32, 64) for q in (2, 3) for d in (2, 8)]
    test = tested(ATTENTION, tasks, formula, noise=0.02)
    assert test is not None
    assert (test.misfits, test.words) == (True, words)


def test_of_very_many_cells_fewer_sweeps_are_simulated_and_the_answer_is_the_same(
    tested: Callable[..., FitTest | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    many = tested(TD_POWER, noise=0.2, num_seeds=5)
    monkeypatch.setattr(misfit, "MAX_NUMBERS", 6)
    few = tested(TD_POWER, noise=0.2, num_seeds=5)
    assert many is not None
    assert few is not None
    assert few.p * (1 + misfit.LEAST_DRAWS) == pytest.approx(round(few.p * 1001))
    assert many.p * (1 + misfit.NUM_DRAWS) == pytest.approx(round(many.p * 4001))
    assert many.p > 0.01
    assert few.p == pytest.approx(many.p, abs=0.06)  # four standard errors of a share of a thousand


def test_a_slope_that_the_law_has_itself_is_not_tested(tested: Callable[..., FitTest | None]) -> None:
    test = tested(TD_POWER)
    assert test is not None
    assert test.residual_slopes == ()


def test_no_more_cells_than_numbers_test_nothing(
    tested: Callable[..., FitTest | None], threshold: Make, transformer: Callable[..., object]
) -> None:
    assert tested(ATTENTION_FREE, GRID[:3]) is None
    single = [threshold(transformer(T=T, q=3, d=4), [attention(T, 3, 4)]) for T in (8, 16, 32)]
    law = fitted_law(ATTENTION, law_cells(single))
    assert law is not None
    assert law.test is None  # one seed has no interval


def test_a_censored_cell_counts_only_where_the_law_lies_inside_its_widths(
    threshold: Make, transformer: Callable[..., object]
) -> None:
    known = [threshold(transformer(T=T, q=3, d=4), attention(T, 3, 4) * np.exp(0.02 * np.linspace(-1.5, 1.5, 8))) for T in (8, 16, 32, 64)]  # fmt: skip  # noqa: E501
    m = attention(256, 3, 4)
    tests = []
    for widest in (0.7 * m, 1.5 * m):
        beyond = threshold(transformer(T=256, q=3, d=4), status="above_range", widths=(4, round(widest)))
        law = fitted_law(ATTENTION, law_cells([*known, beyond]))
        assert law is not None
        assert law.test is not None
        tests.append(law.test)
    assert [test.misfits for test in tests] == [False, True]


@pytest.mark.parametrize(("p", "words"), [(0.00024, "p < 0.001"), (0.0312, "p = 0.031"), (0.6, "p = 0.6")])
def test_a_probability_is_told_in_two_figures(p: float, words: str) -> None:
    assert FitTest(p, ()).p_words == words
