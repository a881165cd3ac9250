"""Scaling laws of width thresholds over cells, as records: `m = d + b q ln T`, `m = c (T d)^gamma` and their rivals.

A law is fitted by maximum likelihood to the logs of the thresholds (module `fit`), each cell weighted by its own interval,
censored cells by the side on which they lie. Which law holds is decided by comparing all of them on the same cells (module
`comparison`).

Intervals come from a bootstrap over seeds and cells. A replicate is a sweep as it might have come out were the fitted law true:
every cell deviates from the law by a draw of the scatter (cells anew), its measurement errs by a draw from its own threshold's
replicates (seeds anew), and the law is fitted again. The scatter's size is drawn too, from its distribution given the cells,
which gives the long tails that few cells deserve. Cells are not drawn with replacement: of four to eight cells that draws the
same few again, counts the seeds' noise twice, and can leave a law undetermined; docs/laws.md compares the coverage of both.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np

from stsq_core.configs import Size, TokenTask
from sweeps.laws.cells import ABOVE, BELOW, FOUND, LawCells, regime_summary
from sweeps.laws.fit import Estimate, LawFit, Measurements, fit_law, fitted
from sweeps.laws.formulas import FCN_LINE, TD_POWER, Law, Tasks, are_same
from sweeps.laws.misfit import FitTest, fit_test

OF_POPULATION = "with the population objective m = d + d_e by definition: a is no finding"
NUM_REPLICATES = 1000
LEAST_REPLICATES = 200
MAX_NUMBERS = 500_000
"""Replicates times cells that are fitted, so that hundreds of cells do not take seconds."""


@dataclass(frozen=True)
class Draws:
    """Replicates of a law: parameters as they are fitted [replicate, parameter], and the scatter [replicate]."""

    theta: np.ndarray
    scatters: np.ndarray


@dataclass(frozen=True)
class LawPoint:
    """One found cell under a law: `relative_residual` is m* over the law's value, less 1; `loo_residual` the same over the
    value that the other cells predict, nan where they determine none."""

    cell_id: str
    label: str
    task: TokenTask
    m_star: float
    predicted: float
    relative_residual: float
    loo_residual: float


@dataclass(frozen=True)
class ScalingLaw:
    """A law fitted to the thresholds of one regime of cells, which differ in T, q and d only.

    `scatter` is the standard deviation of ln m* about the law beyond the errors of the measurements; `aicc` is inf, and
    `loo_error` (root mean square error of predicting a cell from the others, as a fraction) nan, with too few cells.
    """

    regime: str
    kind: str
    parameters: Mapping[str, Estimate]
    level: float
    points: tuple[LawPoint, ...]
    num_censored: int
    note: str
    fit: LawFit = field(repr=False, compare=False)
    draws: Draws | None = field(repr=False, compare=False)

    @cached_property
    def test(self) -> FitTest | None:
        """Whether the law fits the thresholds within their own intervals, told in the letters of the task's paper.

        None where too few cells have one.
        """
        test, letters = fit_test(self.fit), self.task.letters
        if test is None:
            return None
        slopes = (replace(own, letter=letters.get(own.letter, own.letter)) for own in test.residual_slopes)
        return replace(test, residual_slopes=tuple(slopes))

    @property
    def name(self) -> str:
        """The law's name, as `formulas` has it."""
        return self.fit.law.name

    @property
    def formula(self) -> str:
        """The law's formula without numbers, in the letters of its size and task: `m = d + b q ln T`, `n = c N^gamma`."""
        return spelled(self.fit.law.formula, self.size, self.task)

    @property
    def size(self) -> Size:
        """What the thresholds are about."""
        return self.fit.cells.size

    @property
    def task(self) -> TokenTask:
        """One of the cells' tasks."""
        return self.fit.cells.thresholds[0].config_sample.task

    @property
    def scatter(self) -> float:
        return self.fit.scatter

    @property
    def aicc(self) -> float:
        return self.fit.aicc

    @property
    def loo_error(self) -> float:
        return self.fit.loo_error

    @property
    def num_cells(self) -> int:
        """Found cells that the fit rests on."""
        return len(self.points)

    @property
    def largest_residual(self) -> float:
        """The largest relative residual in absolute value."""
        return max(abs(point.relative_residual) for point in self.points)

    @cached_property
    def numbers(self) -> Mapping[str, float]:
        """All of the law's numbers, also those that are not reported."""
        return dict(zip(self.fit.law.letters, self.fit.law.natural(self.fit.theta).tolist(), strict=True))

    def predict(self, *, T: float, d: float, q: float) -> float:
        """The law's width at a task."""
        return float(self.line(self.tasks(T=T, d=d, q=q))[0])

    def predict_cell(self, *, T: float, d: float, q: float) -> Estimate:
        """The threshold that a new cell at a task is predicted to have, with its interval: the law's and the scatter's."""
        tasks = self.tasks(T=T, d=d, q=q)
        value = float(self.line(tasks)[0])
        if self.draws is None:
            return Estimate(value, math.nan, math.nan)
        low, high = (float(np.exp(end[0])) for end in ends(cell_draws(self.fit, self.draws, tasks), level=self.level))
        return Estimate(value, min(low, value), max(high, value))

    def line(self, tasks: Tasks) -> np.ndarray:
        """The law's widths at tasks [task]."""
        widths: np.ndarray = np.exp(self.fit.law.logs(self.fit.theta, tasks)[0])
        return widths

    def band(self, tasks: Tasks) -> tuple[np.ndarray, np.ndarray] | None:
        """The ends of the line's pointwise interval at tasks [task]; None where the law's numbers have none."""
        if self.draws is None:
            return None
        y = self.line(tasks)
        low, high = ends(line_draws(self.fit, self.draws, tasks), level=self.level)
        return np.minimum(np.exp(low), y), np.maximum(np.exp(high), y)

    def tasks(self, *, T: float | np.ndarray, d: float | np.ndarray, q: float | np.ndarray) -> Tasks:
        """Task letters as columns for this law."""
        columns = np.broadcast_arrays(*(np.atleast_1d(np.asarray(letter, dtype=float)) for letter in (T, q, d)))
        return Tasks(columns[0], columns[1], columns[2], self.fit.cells.tasks.target_loss)


def fitted_law(law: Law, cells: LawCells | None) -> ScalingLaw | None:
    """A law fitted to cells; None where they do not determine it, or one of them, found or censored, has no value under it."""
    if cells is None or not law.is_defined(cells.tasks) or not law.is_identifiable(cells.tasks.take(cells.found)):
        return None
    return law_of(fit_law(law, cells))


def distinct_laws(laws: Iterable[Law], cells: LawCells) -> list[ScalingLaw]:
    """The laws that the cells determine, fitted; of those that are one function on them the first, which notes the others."""
    kept: list[tuple[Law, list[str]]] = []
    for law in laws:
        if law.is_defined(cells.tasks) and law.is_identifiable(cells.tasks.take(cells.found)):
            same = next((others for own, others in kept if are_same(own, law, cells.tasks)), None)
            if same is None:
                kept.append((law, []))
            else:
                same.append(law.formula)
    chance = Chance.of(cells)
    return [law_of(fit_law(law, cells), chance, same=same) for law, same in kept]


def law_of(fit: LawFit, chance: "Chance | None" = None, *, same: Sequence[str] = ()) -> ScalingLaw:
    """A fitted law with its intervals; `same` are the formulas of laws that are the same function on its cells."""
    law, cells, draws = fit.law, fit.cells, draws_of(fit, chance)
    found = cells.thresholds[int(np.argmax(cells.found))]
    return ScalingLaw(
        regime=regime_summary(found.config_sample, found.size),
        kind=found.kind,
        parameters=MappingProxyType(_estimates(fit, draws)),
        level=cells.level,
        points=tuple(_point(fit, place) for place in np.flatnonzero(cells.found).tolist()),
        num_censored=int(np.sum(cells.side != FOUND)),
        note=spelled("; ".join([*_notes(law, cells), *_of_twins(law, same)]), found.size, found.config_sample.task),
        fit=fit,
        draws=draws,
    )


def _estimates(fit: LawFit, draws: Draws | None) -> dict[str, Estimate]:
    values = dict(zip(fit.law.letters, fit.law.natural(fit.theta).tolist(), strict=True))
    if draws is None:
        return {letter: Estimate(values[letter], math.nan, math.nan) for letter in fit.law.reported}
    lows, highs = ends(fit.law.natural(draws.theta), level=fit.cells.level)
    intervals = dict(zip(fit.law.letters, zip(lows.tolist(), highs.tolist(), strict=True), strict=True))
    return {
        letter: Estimate(values[letter], min(intervals[letter][0], values[letter]), max(intervals[letter][1], values[letter]))
        for letter in fit.law.reported
    }


def _point(fit: LawFit, place: int) -> LawPoint:
    threshold = fit.cells.thresholds[place]
    m_star, predicted = threshold.m_star or math.nan, math.exp(fit.logs[place])
    loo = math.exp(fit.loo[place]) - 1
    task = threshold.config_sample.task
    return LawPoint(threshold.cell_id, threshold.label, task, m_star, predicted, m_star / predicted - 1, loo)


def _notes(law: Law, cells: LawCells) -> Iterator[str]:
    num_found, samples = int(cells.found.sum()), [threshold.config_sample for threshold in cells.thresholds]
    censored = len(cells) - num_found
    if censored:
        yield f"{censored} censored threshold{'s count' if censored > 1 else ' counts'} by the side on which {_they(censored)}"
    if num_found < 2:
        yield "one cell gives no interval over cells"
    if num_found <= len(law.letters):
        passes = "no interval" if censored else "the fit passes through them and tests nothing"
        yield f"no more thresholds than numbers: {passes}"
    if not cells.are_one_regime:
        yield "the cells differ in more than T, q and d"
    if law.name == FCN_LINE.name:
        yield f"r is the target loss, {cells.tasks.target_loss:g}"
    if "a" in law.reported and any(sample.training.objective == "population" for sample in samples):
        yield OF_POPULATION
    if law.name == TD_POWER.name and len({sample.task.d for sample in samples}) == 1:
        yield "d is the same in all cells: gamma is the power of T alone"


def _of_twins(law: Law, same: Sequence[str]) -> Iterator[str]:
    if same:
        are = "are the same function" if len(same) > 1 else "is the same function"
        yield f"on these cells {spread_words(same)} {are} as {law.formula}"


def _they(count: int) -> str:
    return "they lie" if count > 1 else "it lies"


def spelled(formula: str, size: Size, task: TokenTask) -> str:
    """A formula whose left side `m` is the letter of the size, and whose T, q, d are those of the task's paper."""
    letters = {"m": size.letter} | task.letters
    return re.sub(r"\b[mTqd]\b", lambda found: letters.get(found[0], found[0]), formula)


def spread_words(labels: Sequence[str]) -> str:
    """A list of names as a sentence has it: `a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(labels[:-1]), labels[-1]] if len(labels) > 1 else list(labels))


@dataclass(frozen=True)
class Chance:
    """What chance decides in replicates of cells: where the scatter lies in its distribution [replicate], deviations from a
    law in units of the scatter, and errors of measurement, [replicate, cell] each."""

    scatters: np.ndarray
    deviations: np.ndarray
    noise: np.ndarray

    @classmethod
    def of(cls, cells: LawCells) -> "Chance":
        """The same for the same cells, whatever the law."""
        num = max(LEAST_REPLICATES, min(NUM_REPLICATES, MAX_NUMBERS // len(cells)))
        stream = np.random.default_rng([int(threshold.cell_id, 16) for threshold in cells.thresholds])
        return cls(stream.random(num), *_drawn(cells, num, stream))


def draws_of(fit: LawFit, chance: Chance | None = None) -> Draws | None:
    """Replicates of a fit, the same for the same cells; None where there are no more cells than parameters."""
    if int(fit.cells.found.sum()) <= len(fit.law.letters):
        return None
    chance = chance or Chance.of(fit.cells)
    return _draws(fit, fit.scatters.at(chance.scatters), chance.deviations, chance.noise)


def draws_at(fit: LawFit, scatters: np.ndarray, stream: np.random.Generator) -> Draws:
    """Replicates of a fit with these scatters."""
    return _draws(fit, scatters, *_drawn(fit.cells, len(scatters), stream))


def _draws(fit: LawFit, scatters: np.ndarray, deviations: np.ndarray, noise: np.ndarray) -> Draws:
    measured = Measurements.broadcast(*_sweeps_anew(fit, scatters[:, None] * deviations, noise), fit.sd)
    return Draws(fitted(fit.law, fit.cells.tasks, measured, fit.theta), scatters)


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


def _sweeps_anew(fit: LawFit, deviations: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Measured log m*, or the end of the widths it lies beyond, with the side: [replicate, cell] each."""
    cells = fit.cells
    truth, is_above, is_below = fit.logs + deviations, noise == np.inf, noise == -np.inf
    # A replicate that lies beyond the widths tried is censored as far from the truth as that end is from the threshold.
    reach = np.where(is_above, cells.high - cells.y, np.where(is_below, cells.low - cells.y, noise))
    y = truth + reach
    side = np.where(is_above, ABOVE, np.where(is_below, BELOW, FOUND))
    # A cell that was censored is censored again where its new measurement lies beyond the same end.
    again = ((cells.side == ABOVE) & (y > cells.high)) | ((cells.side == BELOW) & (y < cells.low))
    return np.where(again, cells.y, y), np.where(again, cells.side, side)


def _drawn(cells: LawCells, num: int, stream: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Standard normal deviations and errors of measurement, [replicate, cell] each."""
    deviations = stream.standard_normal((num, len(cells)))
    noise = [
        stream.choice(own, size=num) if len(own) else sd * stream.standard_normal(num)
        for own, sd in zip(cells.noises, cells.sd, strict=True)
    ]
    return deviations, np.stack(noise, axis=1)
