"""How often 90% intervals of fitted laws hold the truth, on synthetic cells: ours, and drawing cells with replacement.

Thresholds lie at a law, off by a scatter a cell and by 5% a seed; each cell's threshold is the median of its seeds, its
replicates are bootstrap medians. Run: python tests/benchmarks/law_coverage.py [--sweeps 300] [--toy]
"""

import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from gates import parser_of

from sweeps.laws.cells import LEAST_SD, LawCells, spread_of
from sweeps.laws.fit import LawFit, Measurements, fit_law, fitted
from sweeps.laws.formulas import ATTENTION, TD_POWER, Law, Tasks
from sweeps.laws.scaling_law import Draws, cell_draws, draws_of, ends

LEVEL, NUM_SEEDS, SEED_SD, NUM_PAIRS = 0.9, 5, 0.05, 400
LENGTHS = {4: (16, 32, 64, 128), 6: (16, 24, 32, 48, 64, 128), 9: (8, 12, 16, 24, 32, 48, 64, 96, 128)}


@dataclass(frozen=True)
class Case:
    """A law with its true numbers; `place` is the number that is scored."""

    law: Law
    theta: np.ndarray
    place: int
    letter: str


CASES = (
    Case(ATTENTION, np.array([2.5]), 0, "b"),
    Case(TD_POWER, np.array([np.log(1.1), 0.95]), 1, "gamma"),
)


def made_cells(case: Case, tasks: Tasks, scatter: float, stream: np.random.Generator) -> LawCells:
    """One sweep's cells."""
    truth = case.law.logs(case.theta, tasks)[0] + scatter * stream.normal(size=len(tasks))
    seeds = truth[:, None] + SEED_SD * stream.normal(size=(len(tasks), NUM_SEEDS))
    y = np.median(seeds, axis=1)
    draws = stream.integers(NUM_SEEDS, size=(len(tasks), 500, NUM_SEEDS))
    replicates = np.median(np.take_along_axis(seeds[:, None, :], draws, axis=2), axis=2)
    noises = (replicates - y[:, None]) * np.sqrt(NUM_SEEDS / (NUM_SEEDS - 1))
    thresholds: Any = tuple(SimpleNamespace(cell_id=f"{stream.integers(2**40):x}", level=LEVEL) for _ in y)
    sd = np.maximum([spread_of(own) or 0.0 for own in noises], LEAST_SD)
    return LawCells(thresholds, tasks, np.zeros(len(y), dtype=int), y, sd, tuple(noises), y - 1, y + 1)


def pairs_interval(fit: LawFit, stream: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The interval from cells drawn with replacement and a replicate of each: what ours replaces."""
    cells, num = fit.cells, len(fit.cells)
    counts = np.array([np.bincount(draw, minlength=num) for draw in stream.integers(num, size=(NUM_PAIRS, num))], dtype=float)
    noise = np.stack([stream.choice(own, size=NUM_PAIRS) for own in cells.noises], axis=1)
    measured = Measurements.broadcast(cells.y + noise, cells.side, fit.sd, counts)
    theta = fitted(fit.law, cells.tasks, measured, fit.theta)
    determined = np.sum(counts > 0, axis=1) >= len(fit.law.letters)
    return ends(fit.law.natural(theta[determined]), level=LEVEL)


def foretold(fit: LawFit, draws: Draws, case: Case, truth: float) -> bool:
    """Whether a new cell at twice the largest T lies in its predicted interval."""
    low, high = ends(cell_draws(fit, draws, twice_as_long(fit.cells.tasks)), level=LEVEL)
    return bool(low[0] <= truth <= high[0])


def twice_as_long(tasks: Tasks) -> Tasks:
    return Tasks(np.array([2 * tasks.T.max()]), tasks.q[:1], tasks.d[:1], tasks.target_loss)


def coverage(case: Case, lengths: tuple[int, ...], scatter: float, num: int) -> np.ndarray:
    """Shares of sweeps whose interval holds the number: ours, with replacement, and of a new cell's threshold."""
    stream = np.random.default_rng(0)
    T = np.array(lengths, dtype=float)
    tasks = Tasks(T, np.full(len(T), 3.0), np.full(len(T), 4.0), 0.1)
    number = case.law.natural(case.theta)[case.place]
    hits = []
    for _ in range(num):
        fit = fit_law(case.law, made_cells(case, tasks, scatter, stream))
        draws = draws_of(fit)
        assert draws is not None
        ways = ends(fit.law.natural(draws.theta), level=LEVEL), pairs_interval(fit, stream)
        new = case.law.logs(case.theta, twice_as_long(tasks))[0][0] + scatter * stream.normal()
        hits.append(
            [*(low[case.place] <= number <= high[case.place] for low, high in ways), foretold(fit, draws, case, float(new))]
        )
    shares: np.ndarray = np.mean(hits, axis=0)
    return shares


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--sweeps", type=int, default=300)
    args = parser.parse_args()
    num = 2 if args.toy else args.sweeps
    begin = time.perf_counter()
    print(f"{'cells':>5} {'scatter':>8} {'number':>7} {'ours':>6} {'with replacement':>17} {'a new cell at 2 T':>18}")
    for count, lengths in LENGTHS.items():
        for scatter in (0.0, 0.05, 0.1):
            for case in CASES:
                ours, pairs, cell = coverage(case, lengths, scatter, num)
                print(f"{count:>5} {scatter:>8.0%} {case.letter:>7} {ours:>6.0%} {pairs:>17.0%} {cell:>18.0%}", flush=True)
    print(f"{num} sweeps a line, {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
