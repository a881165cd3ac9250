"""How a cell's threshold narrowed down while its trials ended: the estimate after each pack, in the ledger's order."""

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass

import numpy as np

from sweeps.cells import cell_of_family
from sweeps.schema import Criterion
from sweeps.store import Outcomes
from sweeps.thresholds import WidthThreshold, width_thresholds

MAX_STATES = 8
"""States of a cell that are computed: the first and the last, and others at even ratios of the number of trials."""

MAX_TRIALS = 1500
"""A cell with more trials is not retraced: each of its states costs as much as its threshold."""

KnownThresholds = MutableMapping[tuple[tuple[str, ...], int, float], WidthThreshold]
"""Thresholds computed earlier, by the trials they rest on, how many of those failed, and the target; extended by
`interval_histories`."""


@dataclass(frozen=True)
class State:
    """The threshold of a cell as it was when `num_ended` of its trials had ended."""

    num_ended: int
    threshold: WidthThreshold


def interval_histories(
    thresholds: Sequence[WidthThreshold], records: Outcomes, criterion: Criterion, *, known: KnownThresholds
) -> dict[str, tuple[State, ...]]:
    """The states of each threshold by its key, oldest first, the last of which is its threshold now.

    Args:
        thresholds: those of the cells now.
        records: the outcomes that they rest on, in the order in which trials ended.
        criterion: what counts as solved.
        known: thresholds computed earlier.
    """
    families = {cell_of_family(family): place for place, family in enumerate(records.trials.families)}
    histories = {}
    for threshold in thresholds:
        own = np.flatnonzero(records.trials.family == families[threshold.cell_id])
        if len(own) <= MAX_TRIALS:
            own_target = criterion.of_target(threshold.target_loss)
            histories[threshold.key] = _states(threshold, records.take(own), own_target, known)
    return histories


def _states(threshold: WidthThreshold, records: Outcomes, criterion: Criterion, known: KnownThresholds) -> tuple[State, ...]:
    states = []
    for count in _counts(records.pack_id)[:-1]:
        some = records.take(np.arange(count))
        key = some.trial_ids, some.num_ended("failed"), criterion.target
        if key not in known:
            [known[key]] = width_thresholds(some, criterion)
        states.append(State(count, known[key]))
    return (*states, State(len(records), threshold))


def _counts(pack_ids: np.ndarray) -> list[int]:
    """How many trials had ended at the ends of packs, at most `MAX_STATES` of them."""
    ends = np.append(np.flatnonzero(pack_ids[1:] != pack_ids[:-1]) + 1, len(pack_ids))
    if len(ends) > MAX_STATES:
        wanted = np.geomspace(ends[0], ends[-1], MAX_STATES)
        ends = np.unique(ends[np.minimum(np.searchsorted(ends, wanted.round()), len(ends) - 1)])
    return [int(end) for end in ends]
