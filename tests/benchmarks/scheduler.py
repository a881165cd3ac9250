"""A thousand workers and a hundred thousand packs: does the driver keep them busy, and in how much memory?

    python tests/benchmarks/scheduler.py [--workers 1000] [--packs 100000] [--mean 60] [--through tune|pool] [--toy]
    python tests/benchmarks/scheduler.py --one-trial-a-pack [--packs 20000]

The scheduler is the real one: queue, pool, orders, ledger on disk, progress line and watchdog, and with `--through tune`
metrics and Tune's controller, which waits on as many pending objects of a real Ray and sends its calls to a real actor. Only
the workers are made up: a pack takes a time drawn around its operations, with `--mean` seconds on average. Time is simulated,
but the driver's own is real (its CPU seconds and its waits for the disk): what its code takes passes for the workers as well,
so that a driver that is too slow leaves them idle here as it would in earnest.

Prints one line of JSON, and exits with 1 where the thousand workers are less than 95% busy or the driver takes 2 GiB.
`--one-trial-a-pack` measures what Tune alone takes for each of many trials that do nothing.
"""

import heapq
import itertools
import json
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import ray
import yaml
from gates import Gates, parser_of
from ray import tune
from ray.air.execution._internal.tracked_actor import TrackedActor
from ray.tune.execution import tune_controller
from ray.tune.search import Searcher
from rich.console import Console
from scale import sweep_of

from cluster.run.budgets import Budgets
from cluster.run.options import RunOptions
from cluster.run.progress_line import ProgressLine
from cluster.run.runner import Work
from cluster.run.stop import StopSignals
from cluster.tune import tune_packs
from cluster.tune.metrics import RayMetrics
from cluster.tune.placement import WorkerSlot
from cluster.tune.ray_cluster import ray_cluster
from cluster.tune.ray_private import rotate
from cluster.tune.worker_pool import WorkerPool
from stsq_core.configs.trial import NUMERICS, TrialConfig
from sweeps import expand, load_sweep
from sweeps.cells.packs import Room, trial_operations
from sweeps.schedule.queue import PackQueue
from sweeps.schedule.strategy import Grid
from sweeps.store.ledger import Ledger
from sweeps.store.run_directory import create_or_open

BUSY_GATE, MEMORY_GATE_GIB = 0.95, 2.0
START_S = 10.0
"""A worker's start: it imports torch, Numba and Ray Tune."""


class Clock:
    """Simulated seconds: the driver's real ones, and those that it would have waited.

    The driver's are those of its CPU and of its disk, so that other programs on this machine do not count.
    """

    def __init__(self) -> None:
        self._skipped = self._not_counted = self._disk_s = 0.0
        self._fsync, os.fsync = os.fsync, self._timed_fsync
        self._origin = time.process_time()

    def _timed_fsync(self, descriptor: int) -> None:
        began, began_cpu = time.perf_counter(), time.process_time()
        self._fsync(descriptor)
        self._disk_s += time.perf_counter() - began - (time.process_time() - began_cpu)

    def now(self) -> float:
        return self.driver_s + self._skipped

    @property
    def driver_s(self) -> float:
        """What the driver itself has taken."""
        return time.process_time() - self._origin + self._disk_s - self._not_counted

    def skip_to(self, moment: float) -> None:
        self._skipped += max(0.0, moment - self.now())

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """What the simulation itself does takes no time."""
        before = time.process_time()
        yield
        self._not_counted += time.process_time() - before


class Workers:
    """Packs in training: when each ends, and with what."""

    def __init__(self, clock: Clock, seconds_per_operation: float, pack: int = 1) -> None:
        self.clock, self.pack = clock, pack
        self.busy_s = 0.0
        self._ends: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._chance = random.Random(0)
        self._pace = seconds_per_operation

    def after(self, seconds: float, then: Callable[[], None]) -> None:
        heapq.heappush(self._ends, (self.clock.now() + seconds, next(self._order), then))

    def seconds_of(self, order: str) -> float:
        """Around what the pack's operations say, with a mean of that."""
        configs = json.loads(order)["configs"]
        operations = len(configs) * trial_operations([TrialConfig.model_validate(configs[0])])
        seconds = operations * self._pace * self._chance.lognormvariate(-0.125, 0.5)
        self.busy_s += seconds
        return seconds

    def next_event(self, patience_s: float) -> Callable[[], None] | None:
        """What happens next; None where that is later than the driver waits."""
        now = self.clock.now()
        if not self._ends or self._ends[0][0] > now + patience_s:
            self.clock.skip_to(now + patience_s)
            return None
        moment, _, then = heapq.heappop(self._ends)
        self.clock.skip_to(moment)
        return then


def answer_to(order: str) -> dict[str, Any]:
    """A worker's report of a pack that it has trained."""
    configs = json.loads(order)["configs"]
    result = {"status": "finished", "relative_loss": 0.5, "relative_loss_stderr": 0.01, "steps": 600, "seconds": 1.0}
    results = [result | {"metrics": {}} for _ in configs]
    fields = {"configs": configs, "numerics": NUMERICS, "device": "cpu", "results": results, "failure": None}
    return {"outcome": json.dumps(fields)}


def through_pool(pool: WorkerPool, workers: Workers, num_workers: int) -> None:
    """The pool alone: the least that any driver must do."""

    def report(name: str, answer: dict[str, Any]) -> None:
        order = pool.handle_report(name, answer)
        if order is None:
            pool.remove_worker(name)
            return
        text = order.as_json()
        with workers.clock.stopped():
            workers.after(workers.seconds_of(text), lambda: report(name, answer_to_later(text)))

    def answer_to_later(text: str) -> dict[str, Any]:
        with workers.clock.stopped():
            return answer_to(text)

    for place in range(num_workers):
        if pool.add_worker(str(place)) is not None:
            workers.after(START_S, lambda name=str(place): report(name, {"room": vars(Room(most=workers.pack))}))
    while not pool.over:
        if (event := workers.next_event(0.1)) is not None:
            event()


@ray.remote(num_cpus=0, max_concurrency=2000)
class Sink:
    """Takes what real workers would be sent, and never answers where an answer is to be waited for."""

    def take(self, text: str) -> None: ...

    async def forever(self) -> None:
        import asyncio

        await asyncio.Event().wait()


class Handle:
    """A worker as Tune holds it: what is called on it is sent to the sink, and an order is kept for the next step."""

    def __init__(self, sink: Any) -> None:
        self.order: str | None = None
        self.iteration = 0
        self._sink = sink
        self.take, self.get_auto_filled_metrics = Method(self._take), Method(self._tell)

    def _take(self, order: str) -> None:
        self.order = order
        self._sink.take.remote(order)

    def _tell(self, **_: Any) -> Any:
        return self._sink.take.remote("metrics")


class Method:
    """A method of a worker."""

    def __init__(self, remote: Callable[..., Any]) -> None:
        self.remote = remote


class SimulatedActors:
    """In place of Ray's manager of actors in Tune's controller: the same events, from simulated workers."""

    def __init__(self, workers: Workers, num_workers: int) -> None:
        self._workers = workers
        self._sink = Sink.remote()
        self._pending = [self._sink.forever.remote() for _ in range(num_workers)]
        self._ready = ray.put(None)
        self._ids = itertools.count()
        self._live_actors_to_ray_actors_resources: dict[TrackedActor, tuple[Handle, None]] = {}
        self.num_pending_actors = 0
        self.num_actor_tasks = 0

    @property
    def num_live_actors(self) -> int:
        return len(self._live_actors_to_ray_actors_resources)

    num_total_actors = num_live_actors

    def add_actor(
        self, cls: Any, resource_request: Any, kwargs: Any, on_start: Any, on_stop: Any, on_error: Any
    ) -> TrackedActor:
        actor = TrackedActor(next(self._ids), on_start=on_start, on_stop=on_stop, on_error=on_error)
        self._live_actors_to_ray_actors_resources[actor] = (Handle(self._sink), None)
        self._workers.after(START_S, lambda: on_start(actor) if self.is_actor_started(actor) else None)
        return actor

    def schedule_actor_task(
        self,
        tracked_actor: TrackedActor,
        method_name: str,
        args: Any = None,
        kwargs: Any = None,
        on_result: Any = None,
        on_error: Any = None,
        _return_future: bool = False,
    ) -> None:
        if on_result is None:
            return
        self._sink.take.remote(method_name)
        handle, _ = self._live_actors_to_ray_actors_resources[tracked_actor]
        with self._workers.clock.stopped():
            if method_name != "train":
                self._workers.after(0.001, lambda: on_result(tracked_actor, True))
                return
            order, handle.order = handle.order, None
            handle.iteration += 1
            seconds = 0.01 if order is None else self._workers.seconds_of(order)
            self._workers.after(seconds, lambda: on_result(tracked_actor, self._result(order, handle.iteration)))

    def next(self, timeout: float | None = None) -> bool:
        waited_on = [*self._pending[: self.num_live_actors], self._ready]
        rotate(waited_on)
        ray.wait(waited_on, num_returns=1, timeout=timeout)
        if (event := self._workers.next_event(timeout or 0.1)) is None:
            return False
        event()
        return True

    def _result(self, order: str | None, iteration: int) -> dict[str, Any]:
        with self._workers.clock.stopped():
            own = {"room": vars(Room(most=self._workers.pack))} if order is None else answer_to(order)
            return own | {"done": False, "training_iteration": iteration, "time_this_iter_s": 1.0, "time_total_s": 1.0}

    def remove_actor(self, tracked_actor: TrackedActor, kill: bool = False, stop_future: Any = None) -> bool:
        self._live_actors_to_ray_actors_resources.pop(tracked_actor, None)
        return False

    def is_actor_started(self, tracked_actor: TrackedActor) -> bool:
        return tracked_actor in self._live_actors_to_ray_actors_resources

    def is_actor_failed(self, tracked_actor: TrackedActor) -> bool:
        return False

    def clear_actor_task_futures(self, tracked_actor: TrackedActor) -> None: ...

    def get_live_actors_resources(self) -> dict[str, float]:
        return {"CPU": float(self.num_live_actors)}

    def cleanup(self) -> None: ...


def through_tune(pool: WorkerPool, workers: Workers, num_workers: int) -> None:
    """Tune's controller on top of the pool, as `stsq run` has it."""
    tune_controller.RayActorManager = lambda resource_manager: SimulatedActors(workers, num_workers)
    run = pool.work.run
    tune_packs.fit_pool(pool, RayMetrics(sweep="scheduler", run=str(run.path)), None)


def simulate(num_workers: int, num_packs: int, pack: int, mean_s: float, through: str) -> dict[str, Any]:
    """Run a sweep of that many packs and tell how it went."""
    with tempfile.TemporaryDirectory() as folder:
        sweep = Path(folder) / "sweep.yaml"
        sweep.write_text(yaml.safe_dump(sweep_of(max(1, pack * num_packs // 2000))))
        spec = load_sweep(str(sweep))
        run = create_or_open(Path(folder) / "run", spec)
        queue = PackQueue(Grid(expand(spec)), Ledger(run.ledger))
        queue.fit(room=Room(most=pack), slots=num_workers)
        clock = Clock()
        total = queue.num_waiting
        workers = Workers(clock, mean_s * total / queue.waiting_operations, pack)
        progress = ProgressLine(queue, run.curves, Console(file=StringIO()), num_workers=num_workers)
        budgets = Budgets(spec.budget, queue, spent_minutes=0.0)
        work = Work(queue, run, RunOptions(), progress, StopSignals(), retries=2, budgets=budgets)
        slots = {WorkerSlot("core"): num_workers}
        num_single = tune_packs.MOST_SINGLE if through == "tune" else 0  # the pool alone asks no new workers in their place
        pool = WorkerPool(work, lambda _: slots, num_single=num_single, now=clock.now)
        began, began_cpu = clock.now(), time.process_time()
        run.make_rooms()
        with progress:
            (through_tune if through == "tune" else through_pool)(pool, workers, num_workers)
        makespan, cpu_s = clock.now() - began, time.process_time() - began_cpu
        ended = sum(1 for _ in Ledger(run.ledger).lines())
        assert ended == queue.total == len(Ledger(run.ledger).trial_ids()), f"{ended} of {queue.total} trials ended"
    return {
        "through": through,
        "workers": num_workers,
        "packs": total,
        "trials": ended,
        "mean_s": mean_s,
        "makespan_s": round(makespan, 1),
        "busy": round(workers.busy_s / num_workers / makespan, 4),
        "driver_ms_a_pack": round(1e3 * workers.clock.driver_s / total, 2),
        "driver_busy": round(workers.clock.driver_s / makespan, 4),
        "cpu_s": round(cpu_s, 1),
        "memory_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 3),
    }


class Many(Searcher):
    """Trials that do nothing, and when each ended."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.left = count
        self.ended_at: list[float] = []

    def suggest(self, trial_id: str) -> Any:
        self.left -= 1
        return WorkerSlot("core").as_config() if self.left >= 0 else Searcher.FINISHED

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        self.ended_at.append(time.process_time())

    def save(self, checkpoint_path: str) -> None: ...

    def restore(self, checkpoint_path: str) -> None: ...


def one_trial_a_pack(num_packs: int, num_workers: int) -> dict[str, Any]:
    """What Tune takes for a trial that does nothing, the first of many and the last."""
    count, workers = Many(num_packs), Workers(Clock(), 0.0)
    tune_controller.RayActorManager = lambda resource_manager: SimulatedActors(workers, num_workers)
    with tempfile.TemporaryDirectory() as storage:
        tune.Tuner(
            tune.with_resources(tune_packs.PackTrainable, lambda config: WorkerSlot(**config).resources),
            tune_config=tune.TuneConfig(search_alg=count, num_samples=-1, max_concurrent_trials=num_workers, reuse_actors=True),
            run_config=tune.RunConfig(
                storage_path=storage,
                stop={"training_iteration": 1},
                verbose=0,
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            ),
        ).fit()
    ended, part = count.ended_at, len(count.ended_at) // 10
    first, last = ended[num_workers + part] - ended[num_workers], ended[-num_workers] - ended[-num_workers - part]
    fields = {"trials": len(ended), "workers": num_workers}
    fields |= {"first_tenth_ms": round(1e3 * first / part, 2), "last_tenth_ms": round(1e3 * last / part, 2)}
    return fields | {"memory_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 3)}


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--packs", type=int, default=100_000)
    parser.add_argument("--trials", type=int, default=8, help="in a pack")
    parser.add_argument("--mean", type=float, default=60.0, metavar="SECONDS")
    parser.add_argument("--through", choices=("tune", "pool"), default="tune")
    parser.add_argument("--one-trial-a-pack", action="store_true")
    args = parser.parse_args()
    if args.toy:
        args.workers, args.packs, args.trials, args.mean = 5, 250, 8, 1.0
    if args.through == "pool" and not args.one_trial_a_pack:
        fields = simulate(args.workers, args.packs, args.trials, args.mean, args.through)
    else:
        with ray_cluster(None, num_cpus=2):
            if args.one_trial_a_pack:
                print(json.dumps(one_trial_a_pack(args.packs, args.workers)))
                return 0
            fields = simulate(args.workers, args.packs, args.trials, args.mean, args.through)
    print(json.dumps(fields))
    gates, what = Gates("scheduler", toy=args.toy), f"{args.workers:,} workers, {args.packs:,} packs"
    gates.at_least(f"{what}, busy", 100 * fields["busy"], 100 * BUSY_GATE, "%")
    gates.at_most(f"{what}, driver's memory", fields["memory_gib"], MEMORY_GATE_GIB, "GiB")
    return gates.end()


if __name__ == "__main__":
    sys.exit(main())
