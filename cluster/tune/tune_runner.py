"""Runs packs on Ray Tune: its trials are workers, which pull the packs that our own queue chooses.

Tune starts the workers where the cluster has room, tells of those that are lost and bounds how many there are. A pack is one
result of a worker: some 5 ms of the driver with a thousand workers, also after a hundred thousand packs (docs/scale.md).
"""

import importlib
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import ray

from cluster.environment import num_cores
from cluster.run import Runner, RunOptions, StopSignals, Work
from cluster.tune.head_watch import HeadWatch, cluster_id_at, leave_behind
from cluster.tune.metrics import Metrics, NoMetrics, RayMetrics
from cluster.tune.nodes import check_alike
from cluster.tune.placement import Seat, seats_of, widest_room
from cluster.tune.ray_cluster import await_gpus, check_shared, cluster_address, nodes, ray_cluster
from stsq_core.configs import UserError
from sweeps.cells import Room
from sweeps.store import RunDirectory, gc_paused

SEATS_FRESH_S = 5.0
"""How soon nodes that came or went are noticed."""


class TuneRunner(Runner):
    """Trains on a Ray: the one named by `--address` or `RAY_ADDRESS`, else one of our own that ends with the run.

    Workers follow the cluster: seats are counted anew every few seconds.
    """

    def __init__(
        self, run: RunDirectory, options: RunOptions, stop: StopSignals, *, sweep: str, say: Callable[[str], None]
    ) -> None:
        self._run = run
        self._options = options
        self._stop = stop
        self._sweep = sweep
        self._say = say
        self._open = ExitStack()
        self._ending: threading.Thread | None = None
        self._metrics: Metrics = NoMetrics()
        self._known_seats: dict[Seat, int] = {}
        self._known_until = 0.0
        self._num_nodes = 0
        self._head: HeadWatch | None = None

    def __enter__(self) -> Self:
        address = cluster_address(self._options.address)
        threading.Thread(target=importlib.import_module, args=("cluster.tune.tune_packs",), daemon=True).start()
        with self._stop.polled(), gc_paused(), ExitStack() as opening:
            opening.enter_context(ray_cluster(address, num_cpus=self._options.workers or num_cores()))
            check_alike(accept=self._options.accept_versions)
            check_shared(self._run.path.resolve())
            if self._options.wait_for_gpus is not None:
                await_gpus(self._options.wait_for_gpus, say=self._say, check=self._stop.check)
            self._num_nodes = len([node for node in nodes() if node["Alive"]])
            self._known_seats = self.seats()
            if address is not None:
                self._head = opening.enter_context(HeadWatch(ray.get_runtime_context().gcs_address, cluster_id_at))
                self._metrics = RayMetrics(sweep=self._sweep, run=str(self._run.path))
            self._stop.check()
            self._open = opening.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._head is not None and self._head.lost:
            leave_behind()
            return
        self._ending = threading.Thread(target=self._open.close)
        self._ending.start()

    def wait_for_end(self) -> None:
        if self._ending is not None:
            self._ending.join()

    @property
    def slots(self) -> int:
        return sum(self._known_seats.values())

    @property
    def room(self) -> Room:
        return widest_room(self._known_seats)

    @property
    def told(self) -> str:
        workers = " and ".join(_words(seat, count) for seat, count in self._known_seats.items())
        return f"Ray is up: {workers} on {self._num_nodes} {'node' if self._num_nodes == 1 else 'nodes'}"

    def seats(self) -> dict[Seat, int]:
        """How many workers of each kind the cluster has place for, as of a few seconds ago."""
        if time.monotonic() >= self._known_until:
            self._known_seats = seats_of(nodes(), self._options) if not self._known_seats else self._renewed()
            self._known_until = time.monotonic() + SEATS_FRESH_S
        return self._known_seats

    def train(self, work: Work) -> None:
        """Train every pack of the queue that may start.

        Raises:
            UserError: the run directory cannot be written, or no worker starts.
        """
        with gc_paused():
            from cluster.tune.tune_packs import fit

        self._stop.install()  # Ray has taken the signals meanwhile
        with self._stop.polled():
            fit(work, self.seats, self._metrics, self._head)

    def _renewed(self) -> dict[Seat, int]:
        """The seats now; those of before where the last GPU is gone, since its node may come again."""
        try:
            return seats_of(nodes(), self._options)
        except UserError:
            return self._known_seats


def _words(seat: Seat, count: int) -> str:
    where = (
        f"{seat.gpu_share:g} of a GPU each"
        if 0 < seat.gpu_share < 1
        else {"gpu": "a GPU each", "core": "a core each"}[seat.kind]
    )
    return f"{count} {'worker' if count == 1 else 'workers'} ({where})"
