"""How sure a fitted law is: a bootstrap over seeds and cells, for its numbers, its line and its predictions.

A replicate is a sweep as it might have come out were the fitted law true: every cell deviates from the law by a draw of the
scatter (cells anew), its measurement errs by a draw from its own threshold's replicates (seeds anew), and the law is fitted
again. The scatter's size is drawn too, from its distribution given the cells, which gives the long tails that few cells
deserve. Cells are not drawn with replacement: of four to eight cells that draws the same few again, counts the seeds' noise
twice, and can leave a law undetermined; docs/laws.md compares the coverage of both.
"""

from dataclasses import dataclass

import numpy as np

from sweeps.laws.cells import ABOVE, BELOW, FOUND, LawCells
from sweeps.laws.families import Tasks
from sweeps.laws.fit import LawFit
from sweeps.laws.likelihood import Measurements, fitted

NUM_REPLICATES = 1000
LEAST_REPLICATES = 200
MAX_NUMBERS = 500_000
"""Replicates times cells that are fitted, so that hundreds of cells do not take seconds."""


@dataclass(frozen=True)
class Draws:
    """Replicates of a law: parameters as they are fitted [replicate, parameter], and the scatter [replicate]."""

    theta: np.ndarray
    scatters: np.ndarray


def draws_of(fit: LawFit) -> Draws | None:
    """Replicates of a fit, the same for the same cells; None where there are no more cells than parameters."""
    cells = fit.cells
    num = max(LEAST_REPLICATES, min(NUM_REPLICATES, MAX_NUMBERS // len(cells)))
    if int(cells.found.sum()) <= len(fit.law.letters):
        return None
    stream = np.random.default_rng([int(threshold.cell_id, 16) for threshold in cells.thresholds])
    scatters = fit.scatters.at(stream.random(num))
    y, side = _sweeps_anew(fit, scatters, stream)
    measured = Measurements.broadcast(y, side, fit.sd)
    return Draws(fitted(fit.law, cells.tasks, measured, fit.theta), scatters)


def line_draws(fit: LawFit, draws: Draws, tasks: Tasks) -> np.ndarray:
    """The law's log widths at tasks in each replicate, [replicate, task]."""
    return fit.law.logs(draws.theta, tasks)[0]


def cell_draws(fit: LawFit, draws: Draws, tasks: Tasks) -> np.ndarray:
    """Log thresholds that new cells at these tasks may have, [replicate, task]: the law's own uncertainty and the scatter."""
    stream = np.random.default_rng([int(threshold.cell_id, 16) for threshold in fit.cells.thresholds] + [1])
    deviations = stream.standard_normal((len(draws.theta), len(tasks)))
    return line_draws(fit, draws, tasks) + draws.scatters[:, None] * deviations


def ends(values: np.ndarray, *, level: float) -> tuple[np.ndarray, np.ndarray]:
    """The central interval of replicates along the first axis."""
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return low, high


def _sweeps_anew(fit: LawFit, scatters: np.ndarray, stream: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Measured log m*, or the end of the widths it lies beyond, with the side: [replicate, cell] each."""
    cells = fit.cells
    deviations = scatters[:, None] * stream.standard_normal((len(scatters), len(cells)))
    noise = np.stack([_noise(cells, place, len(scatters), stream) for place in range(len(cells))], axis=1)
    truth = fit.logs + deviations
    # A replicate that lies beyond the widths tried is censored as far from the truth as that end is from the threshold.
    reach = np.where(np.isposinf(noise), cells.high - cells.y, np.where(np.isneginf(noise), cells.low - cells.y, noise))
    y = truth + reach
    side = np.where(np.isposinf(noise), ABOVE, np.where(np.isneginf(noise), BELOW, FOUND))
    # A cell that was censored is censored again where its new measurement lies beyond the same end.
    again = ((cells.side == ABOVE) & (y > cells.high)) | ((cells.side == BELOW) & (y < cells.low))
    return np.where(again, cells.y, y), np.where(again, cells.side, side)


def _noise(cells: LawCells, place: int, num: int, stream: np.random.Generator) -> np.ndarray:
    own = cells.noises[place]
    drawn: np.ndarray = stream.choice(own, size=num) if len(own) else cells.sd[place] * stream.standard_normal(num)
    return drawn
