"""Runs packs on Ray Tune: one Tune trial a pack, chosen by our own queue, on workers that are used again.

Tune sees every pack, retries those whose worker was lost and bounds how many run at once. Its share is 21 to 28 ms a pack with
reused workers, against 1 ms for bare actors that pull packs (`python tests/benchmarks/tune_overhead.py --packs 200`, two cores)
and seconds of training.
"""

import importlib
import threading
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from cluster.nodes import check_alike
from cluster.options import RunOptions, num_cores
from cluster.ray_cluster import Resources, check_shared, cluster_address, gpu_bytes, ray_cluster
from cluster.runner import Runner, Work
from cluster.stop import StopSignals
from stsq_core import UserError
from stsq_core.devices import Device
from sweeps.collector import no_collection
from sweeps.packs import ANYWHERE, Room
from sweeps.run_directory import RunDirectory

PACKS_PER_GPU = 1


class TuneRunner(Runner):
    """Trains on a Ray: the one named by `--address` or `RAY_ADDRESS`, else one of our own that ends with the run."""

    def __init__(self, run: RunDirectory, options: RunOptions, stop: StopSignals) -> None:
        self._run = run
        self._options = options
        self._stop = stop
        self._open = ExitStack()
        self._ending: threading.Thread | None = None
        self._resources = Resources(0, 0, 0.0)
        self._share: dict[str, float] = {}
        self._room = ANYWHERE

    def __enter__(self) -> Self:
        address = cluster_address(self._options.address)
        threading.Thread(target=importlib.import_module, args=("cluster.tune_packs",), daemon=True).start()
        with self._stop.polled(), no_collection(), ExitStack() as opening:
            self._resources = opening.enter_context(ray_cluster(address, num_cpus=self._options.workers or num_cores()))
            check_alike(accept=self._options.accept_versions)
            check_shared(self._run.path.resolve())
            self._share = _share(self._options.device, self._resources)
            self._room = (
                Room("cuda", gpu_bytes() / PACKS_PER_GPU) if "gpu" in self._share else Room("cpu", self._resources.core_bytes)
            )
            self._stop.check()
            self._open = opening.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._ending = threading.Thread(target=self._open.close)
        self._ending.start()

    def wait_for_end(self) -> None:
        if self._ending is not None:
            self._ending.join()

    @property
    def slots(self) -> int:
        if self._options.workers:
            return self._options.workers
        if "gpu" in self._share:
            return max(1, round(self._resources.gpus / self._share["gpu"]))
        return max(1, self._resources.cpus)

    @property
    def room(self) -> Room:
        return self._room

    @property
    def told(self) -> str:
        nodes = self._resources.num_nodes
        return f"Ray is up: {self.slots} workers on {nodes} {'node' if nodes == 1 else 'nodes'}"

    def train(self, work: Work) -> None:
        """Train every pack of the queue that may start.

        Raises:
            UserError: the run directory cannot be written.
        """
        with no_collection():
            from cluster.tune_packs import fit

        self._stop.install()  # Ray has taken the signals meanwhile
        with self._stop.polled():
            fit(work, self._share, self.slots)


def _share(device: Device, resources: Resources) -> dict[str, float]:
    """What one pack takes: a GPU share where there are GPUs, else a core."""
    if device == "cuda" and not resources.gpus:
        raise UserError("--device cuda, but the Ray cluster has no GPU: use --device cpu, or a cluster with GPUs")
    if device == "cpu" or not resources.gpus:
        return {"cpu": 1}
    return {"cpu": 1, "gpu": 1 / PACKS_PER_GPU}
