"""Maximum likelihood of a law, many fits at once: normal errors in log m*, censored cells by the tail's probability.

A found cell has density `N(ln m*; ln law, s)`. Of a cell above (below) the widths tried only that is known, so it has the
probability that a measurement lies there: where the law is far beyond the widths, such a cell does not pull at all.

Source: Tobin 1958, doi:10.2307/1907382 (censored regression); Levenberg-Marquardt's damping for the ascent.
"""

import math
from dataclasses import dataclass

import numpy as np

from sweeps.laws.cells import ABOVE, FOUND
from sweeps.laws.families import Law, Tasks
from sweeps.laws.normal_tails import hazard, log_probability

MAX_STEPS = 80
HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)


@dataclass(frozen=True)
class Measurements:
    """Log m* of cells in many versions, each [fit, cell]: value or end of the range, side, standard deviation, and weight."""

    y: np.ndarray
    side: np.ndarray
    sd: np.ndarray
    weight: np.ndarray

    @classmethod
    def broadcast(cls, y: np.ndarray, side: np.ndarray, sd: np.ndarray, weight: np.ndarray | None = None) -> "Measurements":
        """Arrays that broadcast against one another; the weight is 1 where none is given."""
        weight = np.ones(1) if weight is None else weight
        return cls(*np.broadcast_arrays(*np.atleast_2d(y, side, sd, weight)))

    def log_likelihood(self, logs: np.ndarray) -> np.ndarray:
        """The log likelihood of a law's log widths [fit, cell], summed over cells: [fit]."""
        z = (logs - self.y) / self.sd
        each = -(z**2) / 2 - np.log(self.sd) - HALF_LOG_TAU
        censored = self.side != FOUND
        if censored.any():
            each[censored] = log_probability((np.sign(self.side) * z)[censored])
        total: np.ndarray = np.sum(self.weight * each, axis=-1)
        return total

    def slopes(self, logs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First derivative, and minus the second, of each cell's log likelihood by the law's log width, weighted."""
        z = (logs - self.y) / self.sd
        first, second = -z / self.sd, 1 / self.sd**2
        censored = self.side != FOUND
        if censored.any():
            sign = np.where(self.side == ABOVE, 1.0, -1.0)[censored]
            inward = sign * z[censored]
            rate, sd = hazard(inward), self.sd[censored]
            second = np.array(second)
            first[censored] = sign * rate / sd
            second[censored] = np.maximum(rate * (rate + inward), 0) / sd**2
        return self.weight * first, self.weight * second


def fitted(law: Law, tasks: Tasks, measured: Measurements, start: np.ndarray) -> np.ndarray:
    """The parameters of greatest likelihood, [fit, parameter], from a start that broadcasts to that shape."""
    theta = np.array(np.broadcast_to(start, (len(measured.y), len(law.letters))), dtype=float)
    logs, slopes = law.logs(theta, tasks)
    value = measured.log_likelihood(logs)
    damping = np.full(len(theta), 1e-4)
    for _ in range(MAX_STEPS):
        step = _step(measured, logs, slopes, damping)
        tried = theta + step
        tried_logs, tried_slopes = law.logs(tried, tasks)
        tried_value = measured.log_likelihood(tried_logs)
        better = tried_value >= value - 1e-12 * np.abs(value)
        done = np.all(np.abs(step) <= 1e-9 * (1 + np.abs(theta)), axis=-1) | (damping > 1e9)
        theta[better], value = tried[better], np.where(better, tried_value, value)
        logs = np.where(better[:, None], tried_logs, logs)
        slopes = np.where(better[:, None, None], tried_slopes, slopes)
        if done.all():
            break
        damping = np.where(better, damping / 10, damping * 10)
    return theta


def _step(measured: Measurements, logs: np.ndarray, slopes: np.ndarray, damping: np.ndarray) -> np.ndarray:
    """A damped Newton step; parameters are put to one scale first, so that a factor and an exponent are damped alike."""
    first, second = measured.slopes(logs)
    gradient = np.einsum("bn,bnp->bp", first, slopes)
    curvature = np.einsum("bn,bnp,bnr->bpr", second, slopes, slopes)
    scale = 1 / np.sqrt(np.maximum(np.einsum("bpp->bp", curvature), 1e-30))
    scaled = curvature * scale[:, :, None] * scale[:, None, :]
    damped = scaled + (damping[:, None, None] + 1e-12) * np.eye(slopes.shape[-1])
    solved: np.ndarray = np.linalg.solve(damped, (gradient * scale)[..., None])[..., 0] * scale
    return solved


def log_determinant(measured: Measurements, logs: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """Log determinant of the parameters' information matrix at each fit, [fit].

    Where a parameter hardly moves any cell (a law that starts at d, and thresholds about there) the matrix is singular to
    rounding at some of the fits: these count as the least of the others.
    """
    _, second = measured.slopes(logs)
    determinant: np.ndarray = np.linalg.slogdet(np.einsum("bn,bnp,bnr->bpr", second, slopes, slopes))[1]
    known = np.isfinite(determinant)
    return np.where(known, determinant, determinant[known].min() if known.any() else 0.0)
