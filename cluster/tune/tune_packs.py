"""The run as Ray Tune sees it: a Tune trial is a worker. Each of the first thousands trains one pack, so that a Tune user finds
a trial a pack; later ones pull packs, and each result is the end of one.

Tune keeps every trial that it has had, so that with one a pack its memory grows with the number of packs (docs/scale.md).
Loaded by `tune_runner` while Ray starts, because importing `ray.tune` takes seconds.
"""

import logging
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.schedulers import FIFOScheduler
from ray.tune.search import Searcher
from ray.tune.stopper import NoopStopper, Stopper

from cluster.run import LOOK_EVERY_S, Order, Work
from cluster.tune.metrics import Metrics
from cluster.tune.node_losses import Node
from cluster.tune.placement import WorkerSlot
from cluster.tune.ray_cluster import living_nodes
from cluster.tune.ray_private import (
    LostToMemoryError,
    actor_of,
    end_unused_actors,
    end_waiting,
    error_of,
    node_of_actor,
    skip_usage_tags,
    take_memory_kills_as_losses,
    wait_without_shuffling,
)
from cluster.tune.records import EventFiles, ProgressTable, Rows
from cluster.tune.trainable import PackTrainable
from cluster.tune.watch import HeadWatch, Watchdog
from cluster.tune.worker_pool import OUT_OF_MEMORY, PREEMPTED, WorkerPool
from sweeps.cells import pack_row

MOST_SINGLE = 2000
"""Packs of a session that have a Tune trial each; docs/scale.md says what that costs."""

MOST_SESSIONS = 3
"""Sessions whose files Tune keeps in a run directory."""

LET_GO_AFTER_S = 10.0
"""How long a worker that no pack waits for is kept: the next packs may come in a moment."""


class WorkerSearcher(Searcher):
    """Starts a worker where there is a free slot and a pack that waits."""

    def __init__(self, pool: WorkerPool) -> None:
        super().__init__()
        self._pool = pool

    def suggest(self, trial_id: str) -> Any:
        """The slot of a new worker; None while Tune must ask again later, `FINISHED` when there will be none."""
        with aborting():
            if self._pool.over:
                return Searcher.FINISHED
            slot = self._pool.add_worker(trial_id)
            return None if slot is None else slot.as_config()

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        if not error:  # an error comes to `PoolCallback` next, with its cause
            self._pool.remove_worker(trial_id)

    def __deepcopy__(self, memo: dict[int, Any]) -> "WorkerSearcher":
        return self  # Tune copies its configuration, and there is one pool

    def __reduce__(self) -> tuple[Any, ...]:
        return Searcher, ()  # Tune pickles itself for a restore that the ledger makes needless

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the ledger is the state."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: the ledger is the state."""


class ReportStopper(Stopper):
    """Takes the reports of workers and stops those for which there is no pack; keeps the others' orders for `PoolCallback`."""

    def __init__(self, pool: WorkerPool) -> None:
        self._pool = pool
        self.orders: dict[str, Order] = {}

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        with aborting():
            order = self._pool.handle_report(trial_id, result)
        ended = self._pool.last_outcome
        if result.pop("outcome", None) and ended is not None:  # Tune keeps a row in place of the outcome
            ends = [(one.status, one.relative_loss) for one in ended.results]
            result |= pack_row(ended.pack, ends or [("failed", None)] * len(ended.pack.trials))
            result["config"] = {**result.get("config", {}), **pack_row(ended.pack)}
        if order is None:
            return True
        self.orders[trial_id] = order
        return False

    def stop_all(self) -> bool:
        """Whether workers that are still to start, or train for a sweep that is stopped, must end."""
        if not self._pool.over:
            return False
        self._pool.requeue_running()
        return True

    def __deepcopy__(self, memo: dict[int, Any]) -> "ReportStopper":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return NoopStopper, ()


class WorkerScheduler(FIFOScheduler):
    """Lets go of workers that no pack waits for: of those that wait for a node, and of processes that are kept for later.

    Tune starts all that it has by itself; the scheduler that this one extends would look at each of them at every step.
    """

    def __init__(self, pool: WorkerPool, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._pool = pool
        self._now = now
        self._ends_at, self._fewest, self._was_idle = self._interval()

    def choose_trial_to_run(self, tune_controller: Any) -> None:
        pool = self._pool
        self._fewest = min(self._fewest, pool.num_superfluous)
        self._was_idle &= not pool.work.queue.num_waiting
        if self._now() < self._ends_at:
            return
        if self._fewest:
            end_waiting(tune_controller, self._fewest)
        if self._was_idle and pool.awaited:
            end_unused_actors(tune_controller)
        self._ends_at, self._fewest, self._was_idle = self._interval()

    def _interval(self) -> tuple[float, int, bool]:
        """Its end, and to begin with: how few workers were superfluous all the time, and whether no pack ever waited."""
        return self._now() + LET_GO_AFTER_S, sys.maxsize, True

    def __deepcopy__(self, memo: dict[int, Any]) -> "WorkerScheduler":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return FIFOScheduler, ()


class PoolCallback(tune.Callback):
    """Sends orders to workers and losses of workers to the pool; at every step looks for a stop, a lost head, hung workers."""

    def __init__(
        self, pool: WorkerPool, orders: dict[str, Order], metrics: Metrics, watchdog: Watchdog, head: HeadWatch | None
    ) -> None:
        self._pool = pool
        self._orders = orders
        self._metrics = metrics
        self._watchdog = watchdog
        self._head = head
        self._looks_at = 0.0

    def setup(self, stop: Any = None, num_samples: Any = None, total_num_samples: Any = None, **info: Any) -> None:
        self._pool.work.stop.install()  # Tune has taken SIGUSR1 meanwhile

    def on_step_begin(self, iteration: int, trials: list[Any], **info: Any) -> None:
        self._pool.work.stop.check()
        self._metrics.publish()
        with aborting():
            if time.monotonic() >= self._looks_at:
                self._looks_at = time.monotonic() + LOOK_EVERY_S
                self._pool.work.check_files()
            if self._head is not None:
                self._head.check()
            for pack_id, seconds in self._watchdog.hung(self._pool.running).items():
                name = self._pool.running[pack_id]
                self._pool.mark_hung(name, f"no step for {seconds:.0f} s")
                self._watchdog.forget(pack_id)
                # Tune then reports it like any other lost worker
                ray.kill(actor_of(next(trial for trial in trials if trial.trial_id == name)))

    def on_trial_result(self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any) -> None:
        order = self._orders.pop(trial.trial_id, None)
        if order is not None:  # an actor runs its calls in order: it takes this before its next step
            trial.set_config({**trial.config, **pack_row(order.pack)})
            actor_of(trial).take.remote(order.as_json())

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        with aborting():
            node = node_of_lost(trial, self._pool.node_of(trial.trial_id))
            self._pool.handle_loss(trial.trial_id, *loss_cause(trial), node)

    def __deepcopy__(self, memo: dict[int, Any]) -> "PoolCallback":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return tune.Callback, ()


class Abort(BaseException):
    """Carries an error of the run itself (the disk is full) through Tune, which takes an `Exception` for a failed trial."""


@contextmanager
def aborting() -> Iterator[None]:
    """Let an error of the run itself pass through Tune."""
    try:
        yield
    except Exception as error:
        raise Abort from error


def loss_cause(trial: Any) -> tuple[str, str]:
    """The name and the first line of the error that ended a Tune trial."""
    error = error_of(trial)
    if error is None:
        return "unknown", "no cause was reported"
    if getattr(error, "preempted", False):
        return PREEMPTED, "the node was taken away"
    if isinstance(error, LostToMemoryError | ray.exceptions.OutOfMemoryError):
        return OUT_OF_MEMORY, "Ray's memory monitor ended it"
    if isinstance(error, ray.exceptions.RayTaskError):
        error = error.cause
    lines = str(error).strip().splitlines() or ["no message"]
    return type(error).__name__, lines[0]


def node_of_lost(trial: Any, reported: Node | None) -> Node | None:
    """The node where the worker of a Tune trial was lost, as it has reported or Ray knows; None where the node is gone."""
    actor_id = getattr(error_of(trial), "actor_id", None)
    if reported is None and actor_id:
        found = node_of_actor(actor_id)
        reported = found and Node(*found)
    is_there = reported is not None and any(node["NodeID"] == reported.node_id for node in living_nodes())
    return reported if is_there else None


def fit(
    work: Work,
    slots: Callable[[Collection[str]], Mapping[WorkerSlot, int]],
    metrics: Metrics,
    head: HeadWatch | None,
    *,
    awaited: int = 0,
) -> None:
    """Let workers on these slots, and on up to `awaited` that are still to come, train every pack of the queue that may start.

    Raises:
        UserError: the run directory cannot be written, no worker starts or stays on any node, or the cluster's head is lost.
    """
    try:
        fit_pool(WorkerPool(work, slots, awaited=awaited, num_single=MOST_SINGLE), metrics, head)
    except Abort as abort:
        raise abort.__cause__ or abort from None


def fit_pool(pool: WorkerPool, metrics: Metrics, head: HeadWatch | None) -> None:
    """Run Tune until the pool is over.

    Raises:
        Abort: an error of the run itself.
    """
    skip_usage_tags()
    take_memory_kills_as_losses()
    wait_without_shuffling()
    logging.getLogger("ray.tune").setLevel(logging.CRITICAL)  # a lost worker is one line of ours, not a traceback
    metrics.watch(pool)
    run, options = pool.work.run, pool.work.options
    name = new_session(run.ray)
    reports = ReportStopper(pool)
    watchdog = Watchdog(run, hung_after_s=options.hung_after_s, checkpoint_every_s=options.checkpoint_every_s)
    tune.Tuner(
        tune.with_resources(PackTrainable, _place),
        tune_config=tune.TuneConfig(
            search_alg=WorkerSearcher(pool),
            scheduler=WorkerScheduler(pool),
            num_samples=-1,
            reuse_actors=True,
            trial_name_creator=_trial_name,
            trial_dirname_creator=_trial_name,
        ),
        run_config=tune.RunConfig(
            name=name,
            storage_path=str(run.ray.resolve()),
            stop=reports,
            verbose=0,
            callbacks=[
                PoolCallback(pool, reports.orders, metrics, watchdog, head),
                *(Rows(), EventFiles(), ProgressTable(run.ray / name)),
            ],
            failure_config=tune.FailureConfig(max_failures=0),  # the pool counts losses, by pack
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
        ),
    ).fit()


def new_session(folder: Path) -> str:
    """A name for this session's files in Tune's folder, after those of the oldest sessions are removed, killed ones too."""
    others = sorted((path for path in folder.glob("*") if path.is_dir()), key=lambda path: path.stat().st_mtime)
    for former in others[: -(MOST_SESSIONS - 1)]:
        shutil.rmtree(former, ignore_errors=True)
    return f"{datetime.now(UTC):%Y-%m-%d_%H-%M-%S}-{secrets.token_hex(2)}"


def _place(config: dict[str, Any]) -> tune.PlacementGroupFactory:
    slot = WorkerSlot(**config)
    return tune.PlacementGroupFactory([slot.resources], **slot.where)


def _trial_name(trial: Any) -> str:
    return f"worker-{trial.trial_id}"
