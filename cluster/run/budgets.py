"""The time budget and the failure budget of a sweep, which all of its sessions share."""

import time
from collections.abc import Callable

from dashboards.words import searches_words
from sweeps.schedule import PackQueue
from sweeps.schema import Budget


class Budgets:
    """The budgets of a run: `allow` is whether another pack may start, `failures_spent` whether the sweep must stop at once.

    Args:
        spent_minutes: wall minutes of all earlier sessions; a monotonic clock adds those of this one.
    """

    def __init__(
        self, budget: Budget, queue: PackQueue, *, spent_minutes: float, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._budget = budget
        self._queue = queue
        self._spent_minutes = spent_minutes
        self._now = now
        self._began = now()

    def allow(self) -> bool:
        """Whether another pack may start."""
        return not self.time_spent and not self.failures_spent

    @property
    def minutes(self) -> float:
        """Wall minutes of all sessions of the run."""
        return self._spent_minutes + (self._now() - self._began) / 60

    @property
    def time_spent(self) -> bool:
        """Whether the time budget is used up."""
        return self._budget.minutes is not None and self.minutes >= self._budget.minutes

    @property
    def seconds_left(self) -> float | None:
        """Wall seconds until the time budget is used up; None without one."""
        return None if self._budget.minutes is None else 60 * (self._budget.minutes - self.minutes)

    @property
    def num_failed(self) -> int:
        """Failed trials of all sessions that are not being tried again."""
        return self._queue.failed_before + self._queue.failed

    @property
    def failures_spent(self) -> bool:
        """Whether as many trials have failed as the failure budget allows."""
        match self._budget.failures:
            case None:
                return False
            case float(share):
                return self.num_failed >= max(1.0, share * self._queue.total)
            case limit:
                return self.num_failed >= limit

    def words(self) -> str:
        """The budget that is spent, if one is, what is left untrained and how to go on, in words."""
        queue, more = self._queue, 2 * max(self._budget.minutes or 0, self.minutes)
        left = queue.total - queue.skipped - queue.done
        words = ", ".join(filter(None, [searches_words(queue.outlook), queue.progress]))
        searching = f" ({words})" if words else ""
        undone = f"{left} trials are untrained{searching}"
        if self.failures_spent:
            return (
                f"the sweep is stopped: {self.num_failed} trials have failed, and its failure budget is "
                f"{self._budget.failures:g} ({undone}): see why with `stsq show`, then run again with --retry-failed, or with "
                f"more (--set budget.failures={2 * self.num_failed})"
            )
        if not self.time_spent:
            return f"the run ended while {undone}, and no budget is spent: the same command goes on from here"
        return (
            f"the time budget of {self._budget.minutes:g} minutes is spent and {undone}: raise it "
            f"(--set budget.minutes={more:.2g}) and run again"
        )
