"""Prometheus metrics of a run, at the endpoint that every node of a Ray cluster has (docs/metrics.md).

Each metric is tagged with the sweep and its run directory. The driver sets them every few seconds from counts that it keeps
anyway, so they cost training nothing; where a Ray exports no metrics, nobody reads them.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cluster.tune.worker_pool import WorkerPool

EVERY_S = 5.0

PREFIX = "ray_"
"""Ray's endpoint puts it before the name of every metric."""

TAGS = ("sweep", "run")


@dataclass(frozen=True)
class Metric:
    """A number that is exported, its help text, and its tag keys beside the run's."""

    name: str
    description: str
    tags: tuple[str, ...] = ()

    @property
    def exported_name(self) -> str:
        """Its name at the endpoint."""
        return PREFIX + self.name


TRIALS = Metric(
    "stsq_trials",
    "Trials by status: finished, diverged, failed, training, waiting, expected (searches have not asked for them yet).",
    ("status",),
)
SEARCHES = Metric("stsq_searches", "Searches of cells by state: done, searching.", ("state",))
PACKS = Metric("stsq_packs", "Packs by state: in_flight (a worker trains it), waiting.", ("state",))
WORKERS = Metric("stsq_workers", "Worker slots that the cluster offers to the run.")
RATE = Metric("stsq_model_steps_per_second", "Model-steps a second since training began (a step of a pack of 32 counts 32).")
MODEL_STEPS = Metric("stsq_model_steps", "Model-steps of the packs that ended in this session.")
RETRIES = Metric("stsq_retries", "Packs requeued in this session because their worker was lost.")
SECONDS_LEFT = Metric("stsq_seconds_left", "Estimated seconds to the end; -1 while there is no estimate.")
METRICS = (TRIALS, SEARCHES, PACKS, WORKERS, RATE, MODEL_STEPS, RETRIES, SECONDS_LEFT)


class Metrics(ABC):
    """Takes the numbers of a run while it trains."""

    @abstractmethod
    def watch(self, pool: WorkerPool) -> None:
        """Publish the numbers of this pool from now on."""

    @abstractmethod
    def publish(self) -> None:
        """Set the numbers, unless they were set a moment ago."""


class NoMetrics(Metrics):
    """For a Ray that exports none."""

    def watch(self, pool: WorkerPool) -> None: ...

    def publish(self) -> None: ...


class RayMetrics(Metrics):
    """Gauges in the driver of a cluster; all are gauges, because a counter would start anew with every session anyway."""

    def __init__(self, *, sweep: str, run: str) -> None:
        from ray.util.metrics import Gauge

        self._gauges: dict[Metric, Any] = {}
        for metric in METRICS:
            gauge = Gauge(metric.name, description=metric.description, tag_keys=(*TAGS, *metric.tags))
            # Ray takes ASCII only
            gauge.set_default_tags({"sweep": sweep, "run": run.encode("ascii", "backslashreplace").decode()})
            self._gauges[metric] = gauge
        self._pool: WorkerPool | None = None
        self._due_at = 0.0

    def watch(self, pool: WorkerPool) -> None:
        self._pool, self._due_at = pool, 0.0

    def publish(self) -> None:
        now = time.monotonic()
        if self._pool is None or now < self._due_at:
            return
        self._due_at = now + EVERY_S
        try:
            for (metric, tags), value in numbers_of(self._pool).items():
                self._gauges[metric].set(value, tags=dict(zip(metric.tags, tags, strict=True)))
        except Exception as error:  # whoever looks on ends no run
            self._pool.work.progress.note(f"no metrics for Ray from here on: {type(error).__name__}: {error}")
            self._pool = None


def numbers_of(pool: WorkerPool) -> Mapping[tuple[Metric, tuple[str, ...]], float]:
    """Every metric of a run, by the values of its own tags.

    Trials are those of all sessions; of those that the ledger held before, the diverged ones count as diverged.
    """
    queue, progress = pool.work.queue, pool.work.progress
    pace, outlook = progress.pace, queue.outlook
    ended, training = queue.num_ended, sum(len(pack.trials) for pack in queue.running)
    diverged, failed = queue.diverged_before + queue.diverged, queue.failed_before + queue.failed
    return {
        (TRIALS, ("finished",)): float(ended - diverged - failed),
        (TRIALS, ("diverged",)): float(diverged),
        (TRIALS, ("failed",)): float(failed),
        (TRIALS, ("training",)): float(training),
        (TRIALS, ("waiting",)): float(queue.num_open - training),
        (TRIALS, ("expected",)): float(outlook.num_trials),
        (SEARCHES, ("done",)): float(outlook.num_searches - outlook.num_searching),
        (SEARCHES, ("searching",)): float(outlook.num_searching),
        (PACKS, ("in_flight",)): float(len(queue.running)),
        (PACKS, ("waiting",)): float(queue.num_waiting),
        (WORKERS, ()): float(progress.num_workers),
        (RATE, ()): pace.model_steps_per_s,
        (MODEL_STEPS, ()): progress.model_steps_ended,
        (RETRIES, ()): float(pool.num_retries),
        (SECONDS_LEFT, ()): -1.0 if pace.seconds_left is None else pace.seconds_left,
    }
