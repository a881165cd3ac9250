"""The exit code of a run: what a shell, a scheduler or a Ray job is told about it."""

from collections.abc import Sequence

from sweeps.ledger import LedgerRecord
from sweeps.outcomes import Outcomes
from sweeps.thresholds import WidthThreshold

ALL_ENDED = 0
"""Every trial ended as a result; diverged trials and censored thresholds are results."""

SOME_FAILED = 1
"""A trial failed, or was not trained because the time budget was spent."""

BAD_INPUT = 2
"""Bad input, or an environment that cannot run it."""

NO_THRESHOLD = 3
"""Every trial ended as a result, but none gave a number in any cell."""

STOPPED = 130
"""Stopped by a signal."""


def exit_code(num_trials: int, records: Sequence[LedgerRecord], thresholds: Sequence[WidthThreshold]) -> int:
    """The exit code of a sweep of `num_trials` trials with these records and thresholds."""
    if len(records) < num_trials or Outcomes.of(records).num_ended("failed"):
        return SOME_FAILED
    if thresholds and all(threshold.status == "failed" for threshold in thresholds):
        return NO_THRESHOLD
    return ALL_ENDED
