"""Runs packs on Ray Tune: its trials are workers, which pull the packs that our own queue chooses.

Tune starts the workers where the cluster has room, reports those that are lost and bounds how many there are. A pack is one
result of a worker: some 5 ms of the driver with a thousand workers, also after a hundred thousand packs (docs/scale.md).
"""

import importlib
import threading
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import ray

from cluster.environment import num_cores
from cluster.run import Runner, RunOptions, StopSignals, Work
from cluster.tune.metrics import Metrics, NoMetrics, RayMetrics
from cluster.tune.placement import WorkerSlot, slots_of, widest_room
from cluster.tune.ray_cluster import (
    check_alike,
    check_shared,
    cluster_address,
    living_nodes,
    ray_cluster,
    wait_for_gpu,
    wait_for_preloaded,
)
from cluster.tune.ray_private import cluster_id_at, forget_shutdown
from cluster.tune.watch import HeadWatch
from stsq_core.configs import UserError
from sweeps.cells import Room
from sweeps.store import RunDirectory, gc_paused

COUNT_SLOTS_EVERY_S = 5.0
"""How soon nodes that joined or left are noticed."""


MOST_AWAITED = 64
"""Workers beyond those that the nodes hold, where no upper limit is given: what an autoscaler sees as demand."""


class TuneRunner(Runner):
    """Trains on a Ray: the one named by `--address` or `RAY_ADDRESS`, else one that starts and ends with the run.

    Workers follow the cluster: their slots are counted anew every few seconds.
    """

    def __init__(
        self, run: RunDirectory, options: RunOptions, stop: StopSignals, *, sweep: str, notify: Callable[[str], None]
    ) -> None:
        self._run = run
        self._options = options
        self._stop = stop
        self._sweep = sweep
        self._notify = notify
        self._open = ExitStack()
        self._ending: threading.Thread | None = None
        self._metrics: Metrics = NoMetrics()
        self._counted: dict[WorkerSlot, int] = {}
        self._counted_until = 0.0
        self._avoided: set[str] = set()
        self._head: HeadWatch | None = None

    def __enter__(self) -> Self:
        address = cluster_address(self._options.address)
        self._notify("starting Ray (some ten seconds)" if address is None else f"joining the Ray cluster at {address}")
        # importing ray.tune takes seconds, and so does starting Ray: side by side
        threading.Thread(target=importlib.import_module, args=("cluster.tune.tune_packs",), daemon=True).start()
        with self._stop.polled(), gc_paused(), ExitStack() as opening:
            num_cpus, most = self._options.workers or num_cores(), self._options.max_workers
            on_cores = self._options.device != "cuda" and not any(Path("/dev").glob("nvidia[0-9]*"))
            preload = on_cores and (most is None or most >= num_cpus)
            opening.enter_context(ray_cluster(address, num_cpus=num_cpus, preload=preload))
            check_alike(accept=self._options.accept_versions)
            check_shared(self._run.path.resolve())
            if self._options.wait_for_gpus is not None:
                wait_for_gpu(self._options.wait_for_gpus, notify=self._notify, check=self._stop.check)
            num_nodes, slots = len(living_nodes()), self._count_slots()
            if address is not None:
                self._head = opening.enter_context(HeadWatch(ray.get_runtime_context().gcs_address, cluster_id_at))
                self._metrics = RayMetrics(sweep=self._sweep, run=str(self._run.path))
            self._stop.check()
            self._open = opening.pop_all()
        workers = " and ".join(_slot_words(slot, count) for slot, count in slots.items())
        self._notify(f"Ray is up: {workers} on {num_nodes} {'node' if num_nodes == 1 else 'nodes'}")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._head is not None and self._head.lost:
            forget_shutdown()
            return
        self._ending = threading.Thread(target=self._open.close)
        self._ending.start()

    def wait_for_end(self) -> None:
        if self._ending is not None:
            self._ending.join()

    @property
    def slots(self) -> int:
        return sum(self._counted.values())

    @property
    def room(self) -> Room:
        return widest_room(self._counted)

    def train(self, work: Work) -> None:
        """Train every pack of the queue that may start.

        Raises:
            UserError: the run directory cannot be written, or no worker starts.
        """
        with gc_paused():
            from cluster.tune.tune_packs import fit

        self._stop.install()  # Ray has taken the signals meanwhile
        with self._stop.polled():
            wait_for_preloaded(self._options.workers or num_cores(), check=self._stop.check)
            fit(work, self._count_slots, self._metrics, self._head, awaited=self._num_awaited)

    @property
    def _num_awaited(self) -> int:
        """Workers that may wait for nodes to come: on a cluster that others started, unless their number is given."""
        if self._head is None or self._options.workers is not None:
            return 0
        return self._options.max_workers or MOST_AWAITED

    def _count_slots(self, avoided: Collection[str] = ()) -> dict[WorkerSlot, int]:
        """The worker slots of each kind, as of a few seconds ago, without the nodes of these ids; empty where no other is left.

        Where the last GPU is gone they are those of before, since it may come again.
        """
        if time.monotonic() >= self._counted_until or set(avoided) != self._avoided:
            try:
                counted = slots_of(living_nodes(), self._options, avoided)
            except UserError:
                if not self._counted:
                    raise
                counted = self._counted
            if not counted:
                return {}
            self._counted, self._avoided = counted, set(avoided)
            self._counted_until = time.monotonic() + COUNT_SLOTS_EVERY_S
        return self._counted


def _slot_words(slot: WorkerSlot, count: int) -> str:
    """A kind of slot in words, such as `4 workers (a core each)`."""
    one = "a core" if not slot.gpu_share else "a GPU" if slot.gpu_share == 1 else f"{slot.gpu_share:g} of a GPU"
    return f"{count} {'worker' if count == 1 else 'workers'} ({one} each)"
