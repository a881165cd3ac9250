"""One law fitted to one regime of cells: parameters, the scatter of cells about the law, AICc, leave-one-cell-out errors.

Model. `ln m*_i = ln law(task_i) + u_i + e_i`: `e_i` is the error of the measurement, with the standard deviation of the cell's
own threshold, and `u_i ~ N(0, scatter^2)` is how much cells differ from the law beyond it. A law that misfits needs scatter,
and so is never absurdly sure. The size of the scatter comes from its distribution given the residuals (restricted
likelihood, which makes up for the fitted parameters, times a half-Cauchy prior of scale `PRIOR_SCATTER`); parameters are fitted
at its median. AICc is taken at the scatter of greatest likelihood, counted as a parameter.

A found cell has density `N(ln m*; ln law, s)`. Of a cell above (below) the widths tried only that is known, so it has the
probability that a measurement lies there: where the law is far beyond the widths, such a cell does not pull at all. Many fits
are made at once, by Levenberg-Marquardt's damped ascent.

Sources: Tobin 1958, doi:10.2307/1907382 (censored regression); Akaike 1974 and Hurvich and Tsai 1989,
doi:10.1093/biomet/76.2.297 (AICc); Gelman 2006, doi:10.1214/06-BA117A (prior of a scale with few groups).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np
import scipy  # its submodules load when they are used

from sweeps.laws.cells import ABOVE, FOUND, LawCells
from sweeps.laws.formulas import Law, Tasks

PRIOR_SCATTER = 0.1
"""Scale of the half-Cauchy prior of the scatter in log m: cells may well differ from a law by 10%."""

SCATTERS = np.concatenate([[0.0], np.geomspace(1e-3, 1.5, 48)])
"""Standard deviations of ln m about a law that are considered."""

MAX_FOLDS = 64
"""Of more cells than this several are left out at a time."""

MAX_STEPS = 80
BLOCK = 32_768
"""Fits times cells whose likelihoods are computed at a time."""

HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Curvature:
    """The log likelihood at some parameters [fit], its gradient [fit, parameter], and minus its second derivatives."""

    value: np.ndarray
    gradient: np.ndarray
    second: np.ndarray

    def replaced(self, where: np.ndarray, other: "Curvature", kept: np.ndarray) -> "Curvature":
        """With some fits [fit] as in another, and of these only those that are `kept` [fit]."""
        return Curvature(
            np.where(where, other.value, self.value)[kept],
            np.where(where[:, None], other.gradient, self.gradient)[kept],
            np.where(where[:, None, None], other.second, self.second)[kept],
        )

    def log_determinant(self) -> np.ndarray:
        """Log determinant of the parameters' information matrix at each fit, [fit].

        Where a parameter hardly moves any cell (a law that starts at d, and thresholds about there) the matrix is singular to
        rounding at some of the fits: these count as the least of the others.
        """
        determinant: np.ndarray = np.linalg.slogdet(self.second)[1]
        known = np.isfinite(determinant)
        return np.where(known, determinant, determinant[known].min() if known.any() else 0.0)


@dataclass(frozen=True)
class Measurements:
    """Log m* of cells in many versions: value or end of the range, side, standard deviation, and weight.

    Each [fit, cell], or [1, cell] or [1, 1] where it is the same in all.
    """

    y: np.ndarray
    side: np.ndarray
    sd: np.ndarray
    weight: np.ndarray

    @classmethod
    def broadcast(cls, y: np.ndarray, side: np.ndarray, sd: np.ndarray, weight: np.ndarray | None = None) -> "Measurements":
        """Arrays that broadcast against one another; the weight is 1 where none is given."""
        return cls(*np.atleast_2d(y, side, sd, np.ones(1) if weight is None else weight))

    def __len__(self) -> int:
        return max(map(len, (self.y, self.side, self.sd, self.weight)))

    @cached_property
    def _columns(self) -> tuple[np.ndarray, ...]:
        return self.y, self.side, self.sd, self.weight, np.log(self.sd), 1 / self.sd**2

    def curvature(self, law: Law, tasks: Tasks, theta: np.ndarray, rows: np.ndarray | None = None) -> Curvature:
        """The log likelihood of a law at parameters [fit, parameter], of all fits or of some `rows`; a block at a time, which
        stays in the caches.
        """
        num = len(theta)
        rows = np.arange(num) if rows is None else rows
        block = max(1, BLOCK // len(tasks))
        blocks = [slice(start, start + block) for start in range(0, num, block)]
        parts = [self._block(law, tasks, theta[block], rows[block]) for block in blocks]
        return Curvature(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def _block(self, law: Law, tasks: Tasks, theta: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        y, side, sd, weight, log_sd, precision = (own if len(own) == 1 else own[rows] for own in self._columns)
        logs, slopes = law.logs(theta, tasks)
        z = (logs - y) / sd
        each = np.square(z)
        each *= -0.5
        each -= log_sd
        each -= HALF_LOG_TAU
        first, second = z / -sd, np.broadcast_to(precision, z.shape)
        censored = side != FOUND
        if censored.any():
            where = (slice(None), np.flatnonzero(censored[0])) if len(side) == 1 else censored
            if len(side) > 1:
                sd = np.broadcast_to(sd, z.shape)
            sign, sd = np.sign(side[where]), sd[where]
            inward = sign * z[where]
            tails = scipy.special.log_ndtr(inward)
            rate = hazard(inward, tails)
            second = np.array(second)
            each[where], first[where] = tails, sign * rate / sd
            second[where] = np.maximum(rate * (rate + inward), 0) / sd**2
        if (weight != 1).any():
            each, first, second = weight * each, weight * first, weight * second
        num = slopes.shape[-1]
        curvature = np.empty((len(z), num, num))
        for one, other in combinations_with_replacement(range(num), 2):
            np.einsum("bn,bn,bn->b", second, slopes[..., one], slopes[..., other], out=curvature[:, one, other])
            curvature[:, other, one] = curvature[:, one, other]
        return np.sum(each, axis=-1), np.einsum("bn,bnp->bp", first, slopes), curvature


def fitted(law: Law, tasks: Tasks, measured: Measurements, start: np.ndarray) -> np.ndarray:
    """The parameters of greatest likelihood, [fit, parameter], from a start that broadcasts to that shape.

    Each fit ends by itself, so that none depends on those beside it, and one that takes long makes no other be repeated.
    """
    theta = np.array(np.broadcast_to(start, (len(measured), len(law.letters))), dtype=float)
    here = measured.curvature(law, tasks, theta)
    damping, rows = np.full(len(theta), 1e-4), np.arange(len(theta))
    for _ in range(MAX_STEPS):
        step = _newton_step(here, damping)
        tried = theta[rows] + step
        there = measured.curvature(law, tasks, tried, rows)
        better = there.value >= here.value - 1e-12 * np.abs(here.value)
        goes_on = ~np.all(np.abs(step) <= 1e-9 * (1 + np.abs(theta[rows])), axis=-1) & (damping <= 1e9)
        theta[rows[better]] = tried[better]
        if not goes_on.any():
            break
        here, rows = here.replaced(better, there, goes_on), rows[goes_on]
        damping = np.where(better, damping / 10, damping * 10)[goes_on]
    return theta


def _newton_step(here: Curvature, damping: np.ndarray) -> np.ndarray:
    """A damped Newton step; parameters are put to one scale first, so that a factor and an exponent are damped alike."""
    scale = 1 / np.sqrt(np.maximum(np.einsum("bpp->bp", here.second), 1e-30))
    scaled = here.second * scale[:, :, None] * scale[:, None, :]
    damped = scaled + (damping[:, None, None] + 1e-12) * np.eye(scale.shape[-1])
    solved: np.ndarray = np.linalg.solve(damped, (here.gradient * scale)[..., None])[..., 0] * scale
    return solved


def hazard(z: np.ndarray, tails: np.ndarray | None = None) -> np.ndarray:
    """`phi(z) / Phi(z)`, the derivative of `ln Phi`, also far out where both underflow; `tails` are `ln Phi(z)` if known."""
    bounded = np.clip(z, -1e6, 38.0)
    tails = scipy.special.log_ndtr(bounded) if tails is None else tails
    if (beyond := bounded != z).any():
        tails = np.where(beyond, scipy.special.log_ndtr(np.where(beyond, bounded, 0.0)), tails)
    ratio: np.ndarray = np.exp(-(bounded**2) / 2 - tails) / math.sqrt(2 * math.pi)
    return ratio


@dataclass(frozen=True)
class Estimate:
    """A fitted number with its interval; nan ends where there are too few cells for one."""

    value: float
    low: float
    high: float

    @property
    def has_interval(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)


@dataclass(frozen=True)
class ScatterDistribution:
    """The distribution of the scatter given the cells: its cumulative probability at `SCATTERS`."""

    cumulative: np.ndarray

    def at(self, probability: np.ndarray | float) -> np.ndarray:
        """Quantiles of the scatter."""
        quantiles: np.ndarray = np.interp(probability, self.cumulative, SCATTERS)
        return quantiles


@dataclass(frozen=True)
class LawFit:
    """A law at its best parameters `theta` [parameter]; `logs` are its log widths [cell].

    `aicc` is inf with too few cells for one. `loo` are the errors in ln m* [cell] of predicting each cell from the others, nan
    where the others do not determine the law; a censored cell counts by how far the prediction lies inside the widths tried.
    """

    law: Law
    cells: LawCells = field(repr=False)
    theta: np.ndarray
    logs: np.ndarray
    scatter: float
    scatters: ScatterDistribution = field(repr=False)
    log_likelihood: float
    aicc: float
    loo: np.ndarray

    @property
    def loo_error(self) -> float:
        """Root mean square of the leave-one-out errors, as a factor less 1; nan where cells are too few."""
        return math.exp(math.sqrt(float(np.mean(self.loo**2)))) - 1 if np.all(np.isfinite(self.loo)) else math.nan

    @property
    def sd(self) -> np.ndarray:
        """Standard deviation of each cell about the law, scatter and measurement together."""
        together: np.ndarray = np.hypot(self.cells.sd, self.scatter)
        return together


def fit_law(law: Law, cells: LawCells) -> LawFit:
    """The fit of a law that the found cells determine."""
    likelihoods, densities = likelihoods_of(law, cells)
    scatters = _distribution(densities)
    scatter = float(scatters.at(0.5))
    best = fitted(law, cells.tasks, _at(cells, scatter), law.start(np.exp(cells.y), cells.tasks))
    return LawFit(
        law=law,
        cells=cells,
        theta=best[0],
        logs=law.logs(best, cells.tasks)[0][0],
        scatter=scatter,
        scatters=scatters,
        log_likelihood=float(likelihoods.max()),
        aicc=aicc_of(
            float(likelihoods.max()),
            num_parameters=len(law.letters) + 1,
            num_cells=len(cells),
            num_found=int(cells.found.sum()),
        ),
        loo=_leave_one_out(law, cells, scatter, best),
    )


def likelihoods_of(law: Law, cells: LawCells) -> tuple[np.ndarray, np.ndarray]:
    """The greatest log likelihood of a law at each of `SCATTERS`, and the restricted one."""
    sd = np.hypot(cells.sd, SCATTERS[:, None])  # [scatter, cell]
    measured = Measurements.broadcast(cells.y, cells.side, sd)
    theta = fitted(law, cells.tasks, measured, law.start(np.exp(cells.y), cells.tasks))
    best = measured.curvature(law, cells.tasks, theta)
    return best.value, best.value - best.log_determinant() / 2


def with_one_scatter(fits: Sequence[LawFit]) -> tuple[LawFit, ...]:
    """The parameters of a law in several families of cells that have the same scatter."""
    scatters = _distribution(np.sum([likelihoods_of(fit.law, fit.cells)[1] for fit in fits], axis=0))
    scatter = float(scatters.at(0.5))
    again = [fitted(fit.law, fit.cells.tasks, _at(fit.cells, scatter), fit.theta)[0] for fit in fits]
    return tuple(
        replace(fit, theta=theta, logs=fit.law.logs(theta, fit.cells.tasks)[0], scatter=scatter, scatters=scatters)
        for fit, theta in zip(fits, again, strict=True)
    )


def _at(cells: LawCells, scatter: float, weight: np.ndarray | None = None) -> Measurements:
    return Measurements.broadcast(cells.y, cells.side, np.hypot(cells.sd, scatter), weight)


def _distribution(log_densities: np.ndarray) -> ScatterDistribution:
    """The scatter's distribution from the restricted log likelihood at `SCATTERS`."""
    density = np.exp(log_densities - log_densities.max()) / (1 + (SCATTERS / PRIOR_SCATTER) ** 2)
    masses = np.diff(SCATTERS) * (density[1:] + density[:-1]) / 2
    cumulative = np.concatenate([[0.0], np.cumsum(masses)])
    return ScatterDistribution(cumulative / cumulative[-1])


def aicc_of(log_likelihood: float, *, num_parameters: int, num_cells: int, num_found: int) -> float:
    """Akaike's criterion corrected for few cells; inf where they are too few, or too few of them found.

    Censored cells alone tell no law from others: as many found ones as parameters, the scatter included, and one more it takes.
    """
    room = num_cells - num_parameters - 1
    if room < 1 or num_found < num_parameters + 1:
        return math.inf
    return 2 * num_parameters - 2 * log_likelihood + 2 * num_parameters * (num_parameters + 1) / room


def _leave_one_out(law: Law, cells: LawCells, scatter: float, start: np.ndarray) -> np.ndarray:
    """ln m* less its prediction from the other cells, [cell]; of very many cells, from those of the other folds."""
    num = len(cells)
    left_out = np.arange(num) % MAX_FOLDS == np.arange(min(num, MAX_FOLDS))[:, None]  # [fold, cell]
    theta = fitted(law, cells.tasks, _at(cells, scatter, 1.0 - left_out), start)
    fold = np.arange(num) % MAX_FOLDS
    errors = cells.y - law.logs(theta, cells.tasks)[0][fold, np.arange(num)]
    inside = np.where(cells.side == ABOVE, np.maximum(errors, 0), np.minimum(errors, 0))
    determined = np.array([law.is_identifiable(cells.tasks.take(cells.found & ~own)) for own in left_out])
    left: np.ndarray = np.where(determined[fold], np.where(cells.side == FOUND, errors, inside), math.nan)
    return left
