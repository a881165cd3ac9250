"""What the fits of scaling laws know of each cell: log m* with its standard deviation, or the side on which it is censored.

A cell's standard deviation and its replicates come from its threshold's own (a bootstrap over seeds, or a posterior), so that a
threshold known well counts for more. Cells that differ in something else than T, q and d belong to different regimes.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from stsq_core.configs import SAMPLES, WIDTH, Size, TrialConfig
from sweeps.cells import describe
from sweeps.laws.formulas import LETTERS, Tasks
from sweeps.schema import flattened, without_field
from sweeps.thresholds import WidthThreshold

LEAST_SD = 1e-3
"""Standard deviation of log m* below which no threshold is taken to be known: a tenth of a percent."""

USUAL_SD = 0.05
"""Standard deviation of log m* where no cell has one, as with one seed everywhere."""

MEDIAN_SCALE, MEDIAN_FREEDOM, MOST_FREEDOM = 0.95, 0.8, 8.0
"""A median's error over the standard deviation of its bootstrap replicates: scale, degrees of freedom per degree of the seeds,
and the most, as the bootstrap of a median converges slowly. (The central 68% of few values is too rough for a test.)"""

ABOVE, FOUND, BELOW = 1, 0, -1


@dataclass(frozen=True)
class LawCells:
    """Cells as columns [cell].

    `y` is log m* of a found cell (`side` FOUND), else the end of the widths tried beyond which it lies (ABOVE, BELOW). `sd` is
    the standard deviation of a measurement about the cell's true threshold. `noises` holds draws of that error, inf where a
    replicate lies beyond the widths tried; `low` and `high` are the logs of the least and the largest width.
    """

    thresholds: tuple[WidthThreshold, ...]
    tasks: Tasks
    side: np.ndarray
    y: np.ndarray
    sd: np.ndarray
    noises: tuple[np.ndarray, ...]
    low: np.ndarray
    high: np.ndarray

    def __len__(self) -> int:
        return len(self.thresholds)

    @property
    def found(self) -> np.ndarray:
        """A mask of the cells whose threshold was found."""
        mask: np.ndarray = self.side == FOUND
        return mask

    @cached_property
    def are_one_regime(self) -> bool:
        """Whether the cells differ in T, q and d only."""
        return len({regime_key(threshold.config_sample, self.size) for threshold in self.thresholds}) == 1

    @cached_property
    def errors(self) -> np.ndarray:
        """The standard deviation of each cell's error; where replicates lie beyond the widths tried, at least that of most."""
        found = []
        for threshold, noise, usual in zip(self.thresholds, self.noises, self.sd.tolist(), strict=True):
            finite = noise[np.isfinite(noise)]
            sd = float(np.std(finite)) if len(finite) else usual
            if len(finite) < len(noise):
                sd = max(sd, usual)
            found.append(max(sd * (1.0 if threshold.search is not None else MEDIAN_SCALE), LEAST_SD))
        return np.array(found)

    @cached_property
    def freedom(self) -> np.ndarray:
        """Degrees of freedom of each error's standard deviation."""
        num = np.array([max(1.0, threshold.num_seeds - 1.0) for threshold in self.thresholds])
        is_posterior = [threshold.search is not None for threshold in self.thresholds]
        return np.where(is_posterior, num, np.minimum(MEDIAN_FREEDOM * num, MOST_FREEDOM))

    @property
    def size(self) -> Size:
        """What the thresholds are about."""
        return self.thresholds[0].size

    @property
    def level(self) -> float:
        """The level of the cells' intervals, and of the laws'."""
        return self.thresholds[0].level


def law_cells(thresholds: Iterable[WidthThreshold]) -> LawCells | None:
    """The cells that a law can be fitted to; failed ones say nothing. None where no threshold was found."""
    own = tuple(threshold for threshold in thresholds if threshold.is_bounded)
    side = np.array([{"above_range": ABOVE, "below_range": BELOW}.get(t.status, FOUND) for t in own])
    if not np.any(side == FOUND):
        return None
    noises = [_noise(threshold) for threshold in own]
    known = [spread_of(noise) for noise in noises]
    usual = float(np.median([sd for sd in known if sd is not None] or [USUAL_SD]))
    low, high = (np.log([float(t.widths[end]) for t in own]) for end in (0, -1))
    found = np.array([math.nan if t.m_star is None else math.log(t.m_star) for t in own])
    return LawCells(
        thresholds=own,
        tasks=tasks_of([threshold.config_sample for threshold in own], own[0].target_loss),
        side=side,
        y=np.where(side == FOUND, found, np.where(side == ABOVE, high, low)),
        sd=np.maximum([usual if sd is None else sd for sd in known], LEAST_SD),
        noises=tuple(np.zeros(0) if sd is None else noise for noise, sd in zip(noises, known, strict=True)),
        low=low,
        high=high,
    )


def joined_cells(parts: Sequence[LawCells]) -> LawCells:
    """The cells of several families together."""
    T, q, d = (np.concatenate([getattr(own.tasks, letter) for own in parts]) for letter in LETTERS)
    tasks = Tasks(T, q, d, parts[0].tasks.target_loss)
    columns = {name: np.concatenate([getattr(own, name) for own in parts]) for name in ("side", "y", "sd", "low", "high")}
    thresholds, noises = (tuple(one for own in parts for one in getattr(own, name)) for name in ("thresholds", "noises"))
    return LawCells(thresholds=thresholds, tasks=tasks, noises=noises, **columns)


def tasks_of(configs: Sequence[TrialConfig], target_loss: float) -> Tasks:
    """The tasks of some cells as columns."""
    T, q, d = (np.array([float(getattr(config.task, letter)) for config in configs]) for letter in ("T", "q", "d"))
    return Tasks(T, q, d, target_loss)


def by_regime(thresholds: Iterable[WidthThreshold]) -> list[list[WidthThreshold]]:
    """The thresholds of each regime of cells, in the order of their first: of one target, and differing in T, q and d only.

    Where the thresholds are not of the width, whole numbers of task and model may differ too as long as the letters settle
    them (`d_e = floor(5 ln T)`), and so may the budget where samples are counted.
    """
    regimes: dict[tuple[str, float], list[WidthThreshold]] = {}
    for threshold in thresholds:
        key = regime_key(threshold.config_sample, threshold.size), threshold.target_loss
        regimes.setdefault(key, []).append(threshold)
    return [part for members in regimes.values() for part in _settled_by_letters(members)]


def _settled_by_letters(members: list[WidthThreshold]) -> list[list[WidthThreshold]]:
    """The members in parts, in each of which T, q and d settle all other whole numbers."""
    if members[0].size == WIDTH:
        return [members]
    numbers = [_numbers(threshold) for threshold in members]
    at: dict[tuple[int, ...], list[dict[str, int]]] = {}
    for threshold, own in zip(members, numbers, strict=True):
        at.setdefault(_letters(threshold), []).append(own)
    free = [name for name in numbers[0] if any(len({own.get(name) for own in alike}) > 1 for alike in at.values())]
    parts: dict[tuple[object, ...], list[WidthThreshold]] = {}
    for threshold, own in zip(members, numbers, strict=True):
        parts.setdefault(tuple(own.get(name) for name in free), []).append(threshold)
    return list(parts.values())


def _letters(threshold: WidthThreshold) -> tuple[int, ...]:
    task = threshold.config_sample.task
    return task.T, task.q, task.d


def _numbers(threshold: WidthThreshold) -> dict[str, int]:
    """The whole numbers of a cell that letters may settle, by dotted name."""
    fields = flattened(threshold.config_sample.model_dump(mode="json", include={"task", "model"}))
    steps = {"training.steps": threshold.config_sample.training.steps} if threshold.size == SAMPLES else {}
    letters = {f"task.{letter}" for letter in ("T", "q", "d")}
    own = {*letters, *threshold.size.fields(threshold.config_sample)}
    return {name: value for name, value in fields.items() if type(value) is int and name not in own} | steps


@lru_cache(maxsize=2**16)  # one config a cell
def regime_key(config: TrialConfig, size: Size = WIDTH) -> str:
    """Equal for configs that differ in T, q, d, size, seed and rate only; of other sizes than the width, also in whole numbers
    of task and model.
    """
    if size == WIDTH:
        return repr(regime_fields(config))
    fields = _beside_tasks(config)
    if size == SAMPLES:
        fields["training"].pop("steps")
    for name in size.fields(config):
        fields = without_field(fields, name)
    kept = {name: value for name, value in flattened(fields).items() if type(value) is not int or name.startswith("training.")}
    return repr(kept)


def regime_fields(config: TrialConfig) -> dict[str, object]:
    """What the cells of a regime of width thresholds have in common, by dotted name."""
    return flattened(without_field(_beside_tasks(config), f"model.{config.model.size_field}"))


def _beside_tasks(config: TrialConfig) -> dict[str, Any]:
    return config.model_dump(mode="json", exclude={"seed": True, "task": {"T", "q", "d"}, "optimizer": {"lr"}})


def regime_summary(config: TrialConfig, size: Size = WIDTH) -> str:
    """The words of `describe` that do not speak of T, q and d."""
    return " ".join(word for word in describe(config, size).split() if word[:2] not in ("T=", "q=", "d="))


def _noise(threshold: WidthThreshold) -> np.ndarray:
    """Draws of a found threshold's error in log m*, widened for its number of seeds; nothing where it has none."""
    if threshold.m_star is None or not len(threshold.replicates):
        return np.zeros(0)
    noise = np.asarray(threshold.replicates, dtype=float) - math.log(threshold.m_star)
    num = threshold.num_seeds
    if num < 2:  # replicates of one seed are all that seed, and say nothing
        return np.zeros(0) if len(np.unique(noise)) == 1 else noise
    return noise * math.sqrt(num / (num - 1))


def spread_of(noise: np.ndarray) -> float | None:
    """The standard deviation of a draw, from the central 68%: an infinite end is taken to lie as far as the other one."""
    if not len(noise):
        return None
    ordered = np.sort(noise)
    ends = [ordered[math.floor(share * (len(ordered) - 1))] for share in (0.16, 0.84)]
    reach = [abs(float(end)) for end in ends if math.isfinite(end)]
    return math.sqrt(sum(end**2 for end in reach) / len(reach)) if reach else None
