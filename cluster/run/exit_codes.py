"""Exit codes of a run, for a shell, a scheduler or a Ray job; bad input is `cluster.environment.BAD_INPUT`."""

from collections.abc import Sequence

from sweeps.store import Results
from sweeps.thresholds import WidthThreshold

ALL_ENDED = 0
"""Every trial ended as a result; diverged trials and censored thresholds are results."""

SOME_FAILED = 1
"""A trial failed, or was not trained (a search was not finished) because the time budget or the failure budget was spent."""

NO_THRESHOLD = 3
"""Every trial ended as a result, but no cell has a threshold: no trial gave a number, or no width reached the target."""

STOPPED = 130
"""Stopped by a signal."""


def exit_code(results: Results, thresholds: Sequence[WidthThreshold], *, num_searching: int = 0) -> int:
    """The exit code of a sweep with these results and thresholds, so many searches of which have not finished."""
    num_failed = results.records.num_ended("failed") + results.rechecks.num_ended("failed")
    if len(results.records) < len(results.declared) or num_failed or num_searching:
        return SOME_FAILED
    if thresholds and all(threshold.status in ("failed", "not_reached", "not_solved") for threshold in thresholds):
        return NO_THRESHOLD
    return ALL_ENDED
