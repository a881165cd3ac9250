"""Where the fraction of solved seeds reaches the success rate, whatever their losses: the criterion `statistic: solved`.

A loss that counts errors falls from far above the target to zero between two sizes, and where its line crosses the target then
says where the sizes stand and nothing of the threshold. Here no loss is interpolated. The fraction of solved seeds is taken to
grow with the size (isotonic regression, Barlow et al. 1972), its line in log size gives the estimate, and a replicate puts
the threshold anywhere between the two sizes that enclose it: an interval spans nearly a step of the grid at least, and its
level is that over thresholds anywhere between the sizes.
"""

import numpy as np


def solved_crossing(
    log_widths: np.ndarray,
    log_losses: np.ndarray,
    *,
    log_target: float,
    success_rate: float,
    stream: np.random.Generator | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """The size at which the isotonic fraction of solved seeds reaches the success rate, and whether it is lost again.

    Args:
        log_widths: [width], increasing.
        log_losses: [replicate, width, seed]; inf where a trial diverged, which is unsolved, nan where there is none.
        log_target: at most this log loss is solved.
        success_rate: between 0 and 1.
        stream: draws a place between the two enclosing sizes, for replicates; without it the line between them is followed.

    Returns:
        Log sizes [replicate], -inf where the least size reaches the success rate and inf where none does; and flags
        [replicate], where a fraction reaches it and that of the largest size that is known does not.
    """
    known = ~np.isnan(log_losses)
    counts = known.sum(axis=-1)
    solved = (known & (log_losses <= log_target)).sum(axis=-1)
    fractions = isotonic(solved, counts)
    # Rounding must not keep 8 of 10 from being 0.8.
    reached = fractions >= success_rate - 1e-9
    first = np.argmax(reached, axis=1)
    told = np.maximum.accumulate(np.where(counts > 0, np.arange(len(log_widths)), 0), axis=1)
    rows = np.arange(len(fractions))
    before = told[rows, np.maximum(first - 1, 0)]
    if stream is None:
        rise = fractions[rows, first] - fractions[rows, before]
        share = np.divide(success_rate - fractions[rows, before], rise, out=np.ones_like(rise), where=rise > 0)
        share = np.clip(share, 0, 1)
    else:
        share = stream.uniform(size=len(fractions))
    between = log_widths[before] + (log_widths[first] - log_widths[before]) * share
    crossing = np.where(reached[:, 0], -np.inf, np.where(reached.any(axis=1), between, np.inf))
    enough = (counts > 0) & (solved >= success_rate * counts - 1e-9)
    return crossing, enough.any(axis=1) & ~enough[rows, told[:, -1]]


def isotonic(solved: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The fractions solved / counts [replicate, width], made to grow with the width; 0 where nothing is known up to there.

    The value at a width is the greatest over starts at or before it, where something is known, of the least over ends at or
    after it of the fraction between.
    """
    num_widths = solved.shape[1]
    totals, seen = (np.pad(np.cumsum(values, axis=1), ((0, 0), (1, 0))) for values in (solved, counts))
    fitted = np.zeros(solved.shape)
    for start in range(num_widths):
        num = seen[:, start + 1 :] - seen[:, [start]]
        fractions = np.divide(totals[:, start + 1 :] - totals[:, [start]], num, out=np.full(num.shape, np.inf), where=num > 0)
        least = np.minimum.accumulate(fractions[:, ::-1], axis=1)[:, ::-1]
        fitted[:, start:] = np.maximum(fitted[:, start:], np.where(counts[:, [start]] > 0, least, 0.0))
    return fitted
