"""Which Optuna sampler chooses the widths of a search: ours, or one of Optuna's, by one option."""

import math
from dataclasses import replace

from optuna.samplers import BaseSampler, GPSampler, GridSampler, RandomSampler, TPESampler
from optuna.trial import Trial

from sweeps.cells import SearchedCell
from sweeps.sampler import WIDTH, ThresholdSampler
from sweeps.schema import Criterion, SearchSettings

ROUND = "round"
"""A second parameter of grid searches: how often a width has come before. Optuna's grid takes each combination once."""

SPARE_ROUNDS = 100
"""Points that were stopped or lost take a place in Optuna's grid, which must not run out."""


def sampler_for(
    settings: SearchSettings, criterion: Criterion, cell: SearchedCell, *, num_points: int, low: int, high: int
) -> BaseSampler:
    """The sampler for the next round, among the sizes `low` to `high`, of a cell that has so many points.

    It is made anew for every round and seeded by the cell and the number of its points, so that a search that was killed goes
    on as it would have without.
    """
    seed = (int(cell.cell_id, 16) + num_points) % 2**32
    match settings.sampler:
        case "threshold":
            return ThresholdSampler(
                target_loss=criterion.target,
                success_rate=criterion.success_rate,
                level=criterion.level,
                tolerance=settings.tolerance,
                batch=settings.batch,
                cap=settings.cap,
                offset=cell.tolerance_offset(settings),
                seed=seed,
                only_told=True,  # a study of ours also fails the points that a session left
            )
        case "tpe":
            return TPESampler(seed=seed, n_startup_trials=settings.batch)
        case "gp":
            return GPSampler(seed=seed, n_startup_trials=settings.batch)
        case "random":
            return RandomSampler(seed=seed)
        case "grid":
            widths = replace(cell, low=low, high=high).even_widths(settings.batch)
            num_rounds = math.ceil(settings.cap / len(widths)) + SPARE_ROUNDS
            space = {WIDTH: list(widths), ROUND: list(range(num_rounds))}
            return GridSampler(space, seed=int(cell.cell_id, 16) % 2**32)


def suggest_width(trial: Trial, low: int, high: int, sampler: BaseSampler) -> int:
    """The width of a trial that was just asked for."""
    if isinstance(sampler, GridSampler):
        trial.suggest_int(ROUND, 0, 1_000_000)
    return trial.suggest_int(WIDTH, low, high, log=True)
