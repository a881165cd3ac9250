"""Where the mean loss over seeds falls to the target: the criterion `statistic: mean`.

A seed that diverged, or did worse than the zero predictor, counts as the zero predictor's relative loss, 1: a mean must not
hang on how far a trial went astray. A grid has a mean at every width. A search has about one seed a width: there the mean is
taken to fall with the width (isotonic regression, Barlow et al. 1972, by pooling adjacent violators).
"""

import math

import numpy as np

MOST_LOSS = 1.0
NUM_REPLICATES = 500


def mean_crossing(log_widths: np.ndarray, log_losses: np.ndarray, *, log_target: float) -> tuple[np.ndarray, np.ndarray]:
    """The least width at which the mean loss is at most the target, log mean loss linear in log width, and whether it rises
    again.

    Args:
        log_widths: [width], increasing.
        log_losses: [replicate, width, seed]; inf where a trial diverged, nan where there is none.

    Returns:
        Log widths [replicate], -inf where the least width reaches the target and inf where none does; and flags [replicate].
    """
    losses = np.minimum(np.exp(log_losses), MOST_LOSS)
    known = ~np.isnan(losses)
    counts = known.sum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(np.where(known, losses, 0.0).sum(axis=-1) / counts)  # [replicate, width]
    logs = np.where(counts > 0, logs, np.inf)
    reached = logs <= log_target
    first = np.argmax(reached, axis=1)
    rows = np.arange(len(logs))
    before = np.maximum(first - 1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (logs[rows, before] - log_target) / (logs[rows, before] - logs[rows, first])
    share = np.where(np.isfinite(share), share, 1.0)
    between = log_widths[before] + (log_widths[first] - log_widths[before]) * share
    crossing = np.where(reached[:, 0], -np.inf, np.where(reached.any(axis=1), between, np.inf))
    return crossing, np.any(np.maximum.accumulate(reached, axis=1) & ~reached, axis=1)


def isotonic_crossings(log_widths: np.ndarray, log_losses: np.ndarray, *, log_target: float, seed: int) -> np.ndarray:
    """The crossing of the points [n], and of `NUM_REPLICATES` draws of them with replacement: log widths [1 + replicates]."""
    order = np.argsort(log_widths, kind="stable")
    x, losses = log_widths[order], np.minimum(np.exp(log_losses[order]), MOST_LOSS)
    draws = np.random.default_rng(seed).multinomial(len(x), np.full(len(x), 1 / len(x)), size=NUM_REPLICATES)
    weights = [np.ones(len(x)), *draws.astype(float)]
    return np.array([_isotonic_crossing(x, losses, own, log_target) for own in weights])


def _isotonic_crossing(x: np.ndarray, losses: np.ndarray, weights: np.ndarray, log_target: float) -> float:
    """Where the falling mean crosses the target: between the middles of its steps, log mean linear in log width."""
    steps: list[tuple[float, float, float]] = []  # weight, weighted loss, weighted place of each step
    for place, loss, weight in zip(x.tolist(), losses.tolist(), weights.tolist(), strict=True):
        if not weight:
            continue
        own = (weight, weight * loss, weight * place)
        while steps and steps[-1][1] * own[0] <= own[1] * steps[-1][0]:
            before = steps.pop()
            own = (own[0] + before[0], own[1] + before[1], own[2] + before[2])
        steps.append(own)
    before_x, before_log = -math.inf, math.inf
    for weight, loss, place in steps:
        now_x, now_log = place / weight, math.log(max(loss / weight, 1e-12))
        if now_log <= log_target:
            if before_log == math.inf:
                return -math.inf
            return before_x + (now_x - before_x) * (before_log - log_target) / (before_log - now_log)
        before_x, before_log = now_x, now_log
    return math.inf
