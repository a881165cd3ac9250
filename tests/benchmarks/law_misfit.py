"""How often a true law is said to misfit, at the level of 5%: of thresholds by posteriors of searches, or medians over seeds.

Twelve cells lie at d + 2.5 q ln T. A searched one has the posterior of 16 simulated trials at widths about its threshold; any
other the median of its seeds, 5% off each, with bootstrap medians. Run: python tests/benchmarks/law_misfit.py [--sweeps 200]
"""

import math
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
from gates import parser_of
from simulation import Logistic, SimulatedCell

from sweeps.laws.cells import law_cells
from sweeps.laws.fit import fit_law
from sweeps.laws.formulas import ATTENTION
from sweeps.laws.misfit import MISFIT_LEVEL, fit_test
from sweeps.sampler.posterior import ThresholdPosterior

TARGET, NUM_TRIALS, NUM_DRAWS, SEED_SD, SEEDS = 0.1, 16, 400, 0.05, (3, 5, 8, 16, 32)
TASKS = tuple((T, q, 4) for T in (8, 16, 32, 64, 128, 256) for q in (2, 3))


def posterior_of(truth: float, stream: int) -> tuple[float, np.ndarray]:
    """Log m* and its draws, of trials of a cell whose threshold is known."""
    draw = np.random.default_rng((stream, 6))
    curve = Logistic.through(
        math.log(truth), slope=math.exp(draw.uniform(math.log(2), math.log(6))), log_target=math.log(TARGET)
    )
    cell = SimulatedCell(curve, draw.uniform(0.1, 0.3), 0.03, 0.0, 0.0, stream)
    # Between whole widths the threshold is linear in log m: the curve moves until it is the truth.
    moved = SimulatedCell(
        Logistic(curve.scale * truth / math.exp(cell.log_threshold(TARGET)), curve.power),
        cell.noise,
        cell.shift,
        0.0,
        0.0,
        stream,
    )
    places = np.array([-0.9, 0.9, *(0.25 * draw.normal(size=NUM_TRIALS - 2))])
    widths = np.maximum(2, np.round(truth * np.exp(places))).astype(int)
    losses = [math.log(moved.relative_loss(int(width), seed)) for seed, width in enumerate(widths)]
    posterior = ThresholdPosterior(widths, losses, low=2, high=4096, log_target=math.log(TARGET))
    return posterior.median, posterior.samples(NUM_DRAWS, stream)


def median_of(truth: float, stream: int, num_seeds: int) -> tuple[float, np.ndarray]:
    """Log m* and its bootstrap medians, of seeds that are 5% off."""
    draw = np.random.default_rng((stream, 7))
    seeds = math.log(truth) + SEED_SD * draw.normal(size=num_seeds)
    return float(np.median(seeds)), np.median(seeds[draw.integers(num_seeds, size=(NUM_DRAWS, num_seeds))], axis=1)


def probability(tasks: tuple[tuple[int, int, int], ...], stream: int, num_seeds: int | None = None) -> float:
    """The test's p of the true law on one sweep; its cells are searched where no number of seeds is given."""
    cells: list[Any] = []
    for place, (T, q, d) in enumerate(tasks):
        truth, own = d + 2.5 * q * math.log(T), 1000 * stream + place
        log_m, draws = posterior_of(truth, own) if num_seeds is None else median_of(truth, own, num_seeds)
        config = SimpleNamespace(task=SimpleNamespace(T=T, q=q, d=d))
        cells.append(
            SimpleNamespace(
                cell_id=f"{own:x}", config_sample=config, status="found", is_bounded=True, m_star=math.exp(log_m),
                replicates=draws, num_seeds=num_seeds or NUM_TRIALS, widths=(2, 4096), target_loss=TARGET, level=0.9,
                search=object() if num_seeds is None else None,
            )
        )  # fmt: skip
    known = law_cells(cells)
    assert known is not None
    test = fit_test(fit_law(ATTENTION, known))
    assert test is not None
    return test.p


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--sweeps", type=int, default=200)
    args = parser.parse_args()
    num = 2 if args.toy else args.sweeps
    begin = time.perf_counter()
    for num_seeds in (None, *SEEDS):
        found = [probability(TASKS, stream, num_seeds) < MISFIT_LEVEL for stream in range(num)]
        words = f"posteriors of {NUM_TRIALS} trials" if num_seeds is None else f"medians of {num_seeds} seeds"
        print(f"{words:>24}: {np.mean(found):.1%} misfit", flush=True)
    print(f"{num} sweeps a line, {time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
