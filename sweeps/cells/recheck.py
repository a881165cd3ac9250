"""The trials of a re-check: a cell's own, with twice the steps, at a width a tenth below its threshold.

If they reach the target there, more steps would lower the threshold and the budget was the limit; if not, the width was.
"""

import hashlib

import numpy as np

from stsq_core.configs import SAMPLES, WIDTH, Size, TrialConfig, TrialFamily
from sweeps.cells.expansion import SEED_BITS
from sweeps.cells.trials import Trials

STEPS_FACTOR = 2
SHARE_BELOW = 0.1
"""How far below m* the re-check looks: the precision that a threshold is asked for by default, so that rounding is no
finding.
"""

NUM_SEEDS = 8


def twice_the_steps(config: TrialConfig) -> TrialConfig:
    """The same trial with twice the steps; its schedule stretches with them."""
    training = config.training.model_copy(update={"steps": STEPS_FACTOR * config.training.steps})
    return config.model_copy(update={"training": training})


def recheck_width(m_star: float, config: TrialConfig, size: Size = WIDTH) -> int | None:
    """The width, or other size, of the re-check; None where none lies that far below the threshold."""
    if size == SAMPLES:
        return None  # twice the steps is twice the budget, and no samples to a target lie below it
    width = int(m_star * (1 - SHARE_BELOW) + 1e-9)
    least = 1 + (config.model.offset(config.task) if size == WIDTH else 0)
    return width if width >= least else None


def recheck_trials(cell_id: str, sample: TrialConfig, rates: tuple[float, ...], m_star: float, size: Size = WIDTH) -> Trials:
    """The trials of a cell's re-check: `NUM_SEEDS` fresh seeds at every rate of the cell; none where there is no such width."""
    width = recheck_width(m_star, sample, size)
    if width is None:
        return Trials.of(())
    seeds = np.array([_seed(cell_id, number) for number in range(NUM_SEEDS)], dtype=np.int64)
    num = len(seeds) * len(rates)
    return Trials(
        [TrialFamily(twice_the_steps(sample), size)],
        np.zeros(num, dtype=np.int64),
        np.full(num, width, dtype=np.int64),
        np.tile(np.array(rates), len(seeds)),
        np.repeat(seeds, len(rates)),
    )


def _seed(cell_id: str, number: int) -> int:
    digest = hashlib.sha256(f"recheck {cell_id} {number}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - SEED_BITS)
