"""Whether a law fits: its residuals against the errors of the measurements alone, without the scatter that its fit allows for.

Null hypothesis: every threshold lies on the law, and errs by the standard deviation of its replicates. That is an estimate from
few seeds, so a standardised error has a Student distribution: of a posterior, as of a mean; of a bootstrapped median with fewer
degrees of freedom and a somewhat smaller scale, as simulated medians have. Statistics are simulated under it: the deviance of
the residuals, and their slope in the logarithm of each letter that varies. The least of their probabilities is compared with
the least of each simulation (Westfall and Young 1993), so that several statistics find a misfit no more often than one.

Cells without an interval of their own are left out, and so are censored ones, unless the law lies inside the widths tried.
"""

import math
from dataclasses import dataclass

import numpy as np

from sweeps.laws.fit import Estimate, LawFit, Measurements, fitted
from sweeps.laws.formulas import LETTERS

MISFIT_LEVEL = 0.05
"""Probability under the law below which it misfits."""

NUM_DRAWS, LEAST_DRAWS = 4000, 1000
MAX_NUMBERS = 2_000_000
"""Draws times cells that are simulated, so that hundreds of cells do not take seconds."""

SEPARABLE = 1e-4
"""Share of a slope in a letter that the law's own parameters must leave, for the slope to be estimated."""


@dataclass(frozen=True)
class ResidualSlope:
    """The slope of a law's residuals `ln(m* / law)` in the logarithm of a letter, with its interval at the cells' level.

    `direction` is `rise` or `fall`, None where a slope as large has a probability of `MISFIT_LEVEL` or more about a flat line.
    """

    letter: str
    slope: Estimate
    direction: str | None


@dataclass(frozen=True)
class FitTest:
    """The test of a law's fit: `p` is the probability of residuals as large, or of such a slope, were the law true."""

    p: float
    residual_slopes: tuple[ResidualSlope, ...]

    @property
    def misfits(self) -> bool:
        return self.p < MISFIT_LEVEL

    @property
    def words(self) -> str:
        """What is wrong with the fit, as `residuals fall with T`; empty where it does not misfit."""
        if not self.misfits:
            return ""
        told = [f"{slope.direction} with {slope.letter}" for slope in self.residual_slopes if slope.direction]
        return f"residuals {' and '.join(told)}" if told else "residuals are larger than the thresholds' intervals allow"

    @property
    def p_words(self) -> str:
        """The probability, as `p = 0.03` or `p < 0.001`."""
        return "p < 0.001" if self.p < 1e-3 else f"p = {self.p:.2g}"


def fit_test(fit: LawFit) -> FitTest | None:
    """The test of a fitted law; None where no more cells can be tested than the law has parameters."""
    cells, law = fit.cells, fit.law
    sd = cells.errors
    theta = fitted(law, cells.tasks, Measurements.broadcast(cells.y, cells.side, sd), fit.theta)
    logs, slopes = (one[0] for one in law.logs(theta, cells.tasks))
    z = (cells.y - logs) / sd
    tested = np.where(cells.found, [len(noise) > 0 for noise in cells.noises], cells.side * z > 0)
    if tested.sum() <= len(law.letters):
        return None
    basis = np.linalg.qr((slopes / sd[:, None])[tested])[0]
    freedom = cells.freedom[tested]
    stream = np.random.default_rng([*(int(threshold.cell_id, 16) for threshold in cells.thresholds), 2])
    num_draws = max(LEAST_DRAWS, min(NUM_DRAWS, MAX_NUMBERS // len(freedom)))
    errors = np.vstack([z[tested], stream.standard_t(freedom, size=(num_draws, len(freedom)))])
    residuals = errors - errors @ basis @ basis.T  # the measured ones first, then those of simulations
    statistics, found, tasks = [_deviance(residuals, freedom)], [], cells.tasks.take(tested)
    for letter in LETTERS:
        column = np.log(getattr(tasks, letter))
        column = (column - column.mean()) / sd[tested]
        free = column - basis @ (basis.T @ column)
        if free @ free > SEPARABLE * (column @ column) > 0:
            slopes_left = residuals @ free / (free @ free)
            statistics.append(np.abs(slopes_left))
            left = np.sum((residuals - slopes_left[:, None] * free) ** 2, axis=1)
            found.append(_residual_slope(letter, slopes_left, left, level=cells.level))
    return FitTest(_probability(np.stack(statistics, axis=1)), tuple(found))


def _deviance(residuals: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    """Minus twice the log likelihood of standardised residuals [draw, cell] under Student distributions, less its least."""
    total: np.ndarray = np.sum((freedom + 1) * np.log1p(residuals**2 / freedom), axis=1)
    return total


def _residual_slope(letter: str, slopes: np.ndarray, left: np.ndarray, *, level: float) -> ResidualSlope:
    """The measured slope, the first, judged by the simulated ones, which are widened by the sum of squares that it leaves."""
    slope = float(slopes[0])
    errors = slopes[1:] * math.sqrt(max(1.0, left[0] / float(np.median(left[1:])))) if left[0] > 1e-9 else slopes[1:]
    low, high = np.quantile(errors, [(1 - level) / 2, (1 + level) / 2])
    is_clear = np.mean(np.abs(errors) >= abs(slope)) < MISFIT_LEVEL
    return ResidualSlope(
        letter,
        Estimate(slope, slope - float(high), slope - float(low)),
        ("rise" if slope > 0 else "fall") if is_clear else None,
    )


def _probability(statistics: np.ndarray) -> float:
    """How often the least probability of several statistics [draw, statistic] is as small as that of the first draw."""
    above = len(statistics) - np.argsort(np.argsort(statistics, axis=0), axis=0)
    least = above.min(axis=1)
    return float(np.mean(least <= least[0]))
