"""What a run tells Prometheus while it trains, through the endpoint that every node of a Ray cluster has (docs/metrics.md).

Each metric is tagged with the sweep and its run directory. They are set in the driver every few seconds, from counts that it
keeps anyway, so they cost nothing that training would notice; where a Ray exports no metrics, nobody reads them.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cluster.tune.worker_pool import Crew
from sweeps.schedule import PackQueue

EVERY_S = 5.0

PREFIX = "ray_"
"""Ray's endpoint puts it before the name of every metric."""

TAGS = ("sweep", "run")


@dataclass(frozen=True)
class Metric:
    """A number that is exported, its help text, and the tag keys it has beside the run's own."""

    name: str
    words: str
    tags: tuple[str, ...] = ()

    @property
    def exported_name(self) -> str:
        """Its name at the endpoint."""
        return PREFIX + self.name


TRIALS = Metric("stsq_trials", "Trials by status: finished, diverged, failed, training, waiting.", ("status",))
PACKS = Metric("stsq_packs", "Packs by state: in_flight (a worker trains it), waiting.", ("state",))
WORKERS = Metric("stsq_workers", "Places for workers that the cluster offers to the run.")
RATE = Metric("stsq_model_steps_per_second", "Model-steps a second since training began (a step of a pack of 32 counts 32).")
MODEL_STEPS = Metric("stsq_model_steps", "Model-steps of the packs that ended in this session.")
RETRIES = Metric("stsq_retries", "Packs given back to the queue in this session because their worker was lost.")
SECONDS_LEFT = Metric("stsq_seconds_left", "Estimated time to the end; -1 while nothing tells.")
METRICS = (TRIALS, PACKS, WORKERS, RATE, MODEL_STEPS, RETRIES, SECONDS_LEFT)


class Metrics(ABC):
    """Where the numbers of a run go while it trains."""

    @abstractmethod
    def watch(self, crew: Crew) -> None:
        """Tell of this crew and its work from now on."""

    @abstractmethod
    def publish(self) -> None:
        """Set the numbers, where it is time to."""


class NoMetrics(Metrics):
    """For a Ray that exports none."""

    def watch(self, crew: Crew) -> None: ...

    def publish(self) -> None: ...


class RayMetrics(Metrics):
    """Gauges in the driver of a cluster; all are gauges, because a counter would start anew with every session anyway."""

    def __init__(self, *, sweep: str, run: str) -> None:
        from ray.util.metrics import Gauge

        self._gauges: dict[Metric, Any] = {}
        for metric in METRICS:
            gauge = Gauge(metric.name, description=metric.words, tag_keys=(*TAGS, *metric.tags))
            gauge.set_default_tags({"sweep": sweep, "run": run})
            self._gauges[metric] = gauge
        self._crew: Crew | None = None
        self._due_at = 0.0

    def watch(self, crew: Crew) -> None:
        self._crew, self._due_at = crew, 0.0

    def publish(self) -> None:
        now = time.monotonic()
        if self._crew is None or now < self._due_at:
            return
        self._due_at = now + EVERY_S
        for (metric, tags), value in numbers_of(self._crew).items():
            self._gauges[metric].set(value, tags=dict(zip(metric.tags, tags, strict=True)))


def numbers_of(crew: Crew) -> Mapping[tuple[Metric, tuple[str, ...]], float]:
    """Every metric of a run, by the values of its own tags."""
    queue, progress = crew.work.queue, crew.work.progress
    pace = progress.pace
    return {
        **{(TRIALS, (status,)): float(number) for status, number in _trials_by_status(queue).items()},
        (PACKS, ("in_flight",)): float(len(queue.running)),
        (PACKS, ("waiting",)): float(queue.num_waiting),
        (WORKERS, ()): float(progress.num_workers),
        (RATE, ()): pace.model_steps_per_s,
        (MODEL_STEPS, ()): progress.model_steps_ended,
        (RETRIES, ()): float(crew.retries.total),
        (SECONDS_LEFT, ()): -1.0 if pace.seconds_left is None else pace.seconds_left,
    }


def _trials_by_status(queue: PackQueue) -> dict[str, int]:
    """Trials of all sessions; of those that the ledger held, the ones that diverged count as diverged."""
    training = sum(len(pack.trials) for pack in queue.running)
    diverged, failed = queue.diverged_before + queue.diverged, queue.failed_before + queue.failed
    ended = queue.skipped + queue.done
    return {
        "finished": ended - diverged - failed,
        "diverged": diverged,
        "failed": failed,
        "training": training,
        "waiting": queue.total - ended - training,
    }
