"""The points of a searched cell: what each (width, seed) came to at every learning rate, and the rate that it is judged by.

A point is evidence once all of its rates have ended and none of them failed (a lost worker). Its rate is that of its
neighbourhood: the one with the least median log loss over the points of about its width, never the best of the one seed, which
would be biased. A point that diverged at that rate is evidence of failing.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from stsq_core.configs import WIDTH
from sweeps.cells import SearchedCell, point_seed
from sweeps.store import DIVERGED, FAILED, FINISHED, LEAST_LOSS, LedgerRecord, Outcomes

NEIGHBOURS = 5
"""The least number of points by which a rate is chosen."""

NEAR = math.log(1.25)
"""Points within this distance in log width belong to the neighbourhood, however many they are."""


@dataclass(frozen=True)
class CellPoints:
    """The points of one cell by width and seed, as far as they have ended.

    `log_losses` [point, rate]: inf where the trial diverged, nan where it failed. `trials` [point, rate] are places in
    `outcomes`, -1 where the trial has not ended.
    """

    cell: SearchedCell
    outcomes: Outcomes
    widths: np.ndarray
    seeds: np.ndarray
    log_losses: np.ndarray
    trials: np.ndarray

    @classmethod
    def of(cls, cell: SearchedCell, outcomes: Outcomes) -> "CellPoints":
        """The points among the outcomes of the cell's own trials; widths beyond its range and other rates are left out."""
        trials = outcomes.trials
        rate = np.searchsorted(cell.rates, trials.rates)
        known = np.array(cell.rates)[np.minimum(rate, len(cell.rates) - 1)] == trials.rates
        outcomes = outcomes.take(known & (trials.widths >= cell.low) & (trials.widths <= cell.high))
        trials = outcomes.trials
        pairs, point = np.unique(np.stack([trials.widths, trials.seeds]), axis=1, return_inverse=True)
        places = np.full((pairs.shape[1], len(cell.rates)), -1, dtype=np.int64)
        places[point.ravel(), np.searchsorted(cell.rates, trials.rates)] = np.arange(len(outcomes))
        log_losses = np.append(_log_losses(outcomes), np.nan)[places]
        return cls(cell, outcomes, pairs[0], pairs[1], log_losses, places)

    @property
    def complete(self) -> np.ndarray:
        """Whether every rate of a point has ended, [point]."""
        return np.asarray((self.trials >= 0).all(axis=1))

    @cached_property
    def known(self) -> np.ndarray:
        """Whether every rate of a point has ended well or diverged, [point]."""
        return np.asarray(self.complete & ~np.isnan(self.log_losses).any(axis=1))

    @property
    def num_complete(self) -> int:
        return int(np.count_nonzero(self.complete))

    @cached_property
    def chosen(self) -> np.ndarray:
        """The place of each point's rate among the cell's rates, [point]."""
        chosen = np.zeros(len(self.widths), dtype=np.int64)
        if len(self.cell.rates) == 1 or not self.known.any():
            return chosen
        known, logs = self.log_losses[self.known], np.log(self.widths[self.known])
        for width in np.unique(self.widths).tolist():
            distance = np.abs(logs - math.log(width))
            reach = max(NEAR, float(np.sort(distance)[min(NEIGHBOURS, len(distance)) - 1]))
            chosen[self.widths == width] = np.argmin(np.median(known[distance <= reach], axis=0))
        return chosen

    @property
    def judged(self) -> np.ndarray:
        """The log loss of each point at its rate, [point]."""
        return np.asarray(self.log_losses[np.arange(len(self.widths)), self.chosen])

    @property
    def evidence(self) -> np.ndarray:
        """Which points say something about the threshold, [point]: a failed rate might have been the best one."""
        return self.known

    @property
    def ends(self) -> tuple[np.ndarray, list[str | None]]:
        """How each complete point ended, as a place in `STATUSES`, and the reason of one that failed."""
        trials = self.trials[self.complete]
        failed = self.outcomes.status[trials] == FAILED
        ends = np.where(self.known, np.where(np.isfinite(self.judged), FINISHED, DIVERGED), FAILED)[self.complete]
        reasons = self.outcomes.reason[trials[np.arange(len(trials)), np.argmax(failed, axis=1)]]
        return ends, reasons.tolist()

    def rounds(self, *, batch: int, seed: int) -> np.ndarray:
        """The round in which each point was asked [point], by the number of its seed; -1 of points of other sources."""
        numbers = {point_seed(self.cell.cell_id, number, seed=seed): number for number in range(2 * len(self.widths) + batch)}
        return np.array([numbers.get(own, -batch) // batch for own in self.seeds.tolist()], dtype=np.int64)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The (width, seed) of each point."""
        return tuple(zip(self.widths.tolist(), self.seeds.tolist(), strict=True))


def _log_losses(outcomes: Outcomes) -> np.ndarray:
    logs = np.full(len(outcomes), np.nan)
    logs[outcomes.status == DIVERGED] = np.inf
    finished = outcomes.status == FINISHED
    logs[finished] = np.log(np.maximum(outcomes.relative_loss[finished], LEAST_LOSS))
    assert not np.isfinite(logs[outcomes.status == FAILED]).any()
    return logs


def outcomes_by_cell(cells: Sequence[SearchedCell], records: Iterable[LedgerRecord]) -> dict[str, Outcomes]:
    """The outcomes of each searched cell, all of one size, among any records; of other cells none."""
    size = cells[0].family.size if cells else WIDTH
    outcomes = Outcomes.of(records, size)
    keys = {cell.family.key: cell.cell_id for cell in cells}
    families: dict[str, list[int]] = {}
    for place, family in enumerate(outcomes.trials.families):
        if (cell_id := keys.get(family.key)) is not None:
            families.setdefault(cell_id, []).append(place)
    return {cell_id: outcomes.take(np.isin(outcomes.trials.family, places)) for cell_id, places in families.items()}
