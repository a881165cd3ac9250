"""A Ray to run on: the cluster that was named, or one of our own on this machine that ends with the run.

An own Ray has a temporary directory of its own with a short path (socket paths are limited to 107 bytes), no dashboard and a
small object store, since packs travel as a few kilobytes. Its directory is removed at the end; one that a killed run left is
removed by the next run.
"""

import contextlib
import fcntl
import gc
import logging
import math
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from stsq_core import UserError
from stsq_core.devices import free_memory
from sweeps.collector import no_collection

PREFIX = "stsq-ray-"
MAX_ROOT = 40
"""The longest root for an own Ray's directory: its sockets lie 60 characters deeper."""

OBJECT_STORE_BYTES = 100 * 2**20
PROBE_TIMEOUT_S = 120.0

WORKER_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

QUIET = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",
    "TUNE_WARN_THRESHOLD_S": "3600",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "60",
}
"""The ledger is our record, so Tune need not write its own, and our stop is one exception, so Tune need not catch signals."""


@dataclass(frozen=True)
class Resources:
    """What the nodes of a cluster offer together; `core_bytes` is the memory beside a core, where it is least."""

    num_nodes: int
    cpus: int
    gpus: float
    core_bytes: float = math.inf


def cluster_address(address: str | None) -> str | None:
    """The cluster to join, None to start one: the address given, or `RAY_ADDRESS` as it is set inside a Ray job.

    Raises:
        UserError: the address of something that Tune cannot drive.
    """
    named = address or os.environ.get("RAY_ADDRESS") or "local"
    source = "--address" if address else "RAY_ADDRESS"
    if named == "local":
        return None
    if named.startswith(("http://", "https://")):
        raise UserError(
            f"{source} is the address of a job server: {named}; inside the cluster the address is HOST:6379, or 'auto'. "
            f"To send the sweep there use `stsq job submit SWEEP --address {named}`; to run on this machine unset RAY_ADDRESS"
        )
    if named.startswith("ray://"):
        raise UserError(
            f"{source} is a Ray Client address: {named}; a sweep is driven from inside the cluster. "
            "Use `stsq job submit SWEEP --address http://HOST:8265`"
        )
    return named


@contextmanager
def ray_cluster(address: str | None, *, num_cpus: int) -> Iterator[Resources]:
    """Join `address`, or start a Ray of `num_cpus` slots; on leaving, disconnect or end what was started here.

    Raises:
        UserError: no cluster answers at the address, or Ray did not start.
    """
    os.environ.update({name: os.environ.get(name, value) for name, value in QUIET.items()})
    with _joined(address) if address else _started(num_cpus):
        yield _resources()


def check_shared(path: Path) -> None:
    """Make sure that every node sees the run directory.

    Raises:
        UserError: a node that does not, by name.
    """
    nodes = [node for node in _nodes() if node["Alive"]]
    if len(nodes) < 2:
        return
    probe = path / f".probe-{secrets.token_hex(8)}"
    probe.write_text("seen")
    try:
        sees = [(node["NodeManagerAddress"], _sees.options(**_on(node)).remote(str(probe))) for node in nodes]
        blind = [address for address, answer in sees if not ray.get(answer, timeout=PROBE_TIMEOUT_S)]
    except ray.exceptions.RayError as error:
        raise UserError(f"could not ask every node of the cluster whether it sees {path}: {error}") from error
    finally:
        probe.unlink(missing_ok=True)
    if blind:
        raise UserError(
            f"the run directory {path} is not shared: the nodes {', '.join(blind)} do not see it, so workers there could not "
            "write their results; give a path on a file system that all nodes mount, with --out"
        )


@ray.remote(num_cpus=0)
def _sees(path: str) -> bool:
    return Path(path).is_file()


def _on(node: dict[str, Any]) -> dict[str, Any]:
    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(str(node["NodeID"]), soft=False)}


@contextmanager
def _joined(address: str) -> Iterator[None]:
    try:
        try:
            # with no runtime environment of ours: inside a job it would have to agree with the job's
            ray.init(address=address, **_logging())
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            raise UserError(f"no Ray cluster answers at {address!r}: {error}") from error
        yield
    finally:
        _leave()


@contextmanager
def _started(num_cpus: int) -> Iterator[None]:
    os.environ.update({name: value for name, value in WORKER_ENVIRONMENT.items() if name not in os.environ})
    own: dict[str, Any] = {"num_cpus": num_cpus, "include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    with _temporary_directory() as folder:
        try:
            try:
                with _no_dashboard():
                    ray.init(address="local", _temp_dir=str(folder), **own, **_logging())
            except (ConnectionError, RuntimeError, TimeoutError, ray.exceptions.RayError) as error:
                raise UserError(f"Ray did not start on this machine: {error}; `stsq run --inline` does without") from error
            yield
        finally:
            _leave()


@contextmanager
def _no_dashboard() -> Iterator[None]:
    """Let Ray start as it does where its dashboard is not installed: neither the driver nor Ray's agent then loads it."""
    name = "ray.dashboard.optional_deps"
    missing = name not in sys.modules
    if missing:
        sys.modules[name] = None  # type: ignore[assignment]  # Python's way to say that it cannot be imported
    try:
        yield
    finally:
        if missing:
            del sys.modules[name]


def _leave() -> None:
    """Shut Ray down.

    A collection that meets a reference of Ray's while its worker goes down, in whatever thread, ends the process with exit code
    1; so they are looked for before, and not meanwhile.
    """
    gc.collect()
    with no_collection():
        ray.shutdown()


def _logging() -> dict[str, Any]:
    return {"log_to_driver": False, "logging_level": logging.ERROR}


def _nodes() -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return nodes


def _resources() -> Resources:
    total: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
    nodes = [node["Resources"] for node in _nodes() if node["Alive"]]
    shares = [node["memory"] / node["CPU"] for node in nodes if node.get("memory") and node.get("CPU")]
    return Resources(len(nodes), int(total.get("CPU", 0)), float(total.get("GPU", 0)), min(shares, default=math.inf))


def gpu_bytes() -> float:
    """The memory that is free on a GPU, on the node of the cluster where it is least; inf where GPUs are too busy to tell.

    Raises:
        UserError: a node with GPUs could not answer, or its torch sees none.
    """
    nodes = [node for node in _nodes() if node["Alive"] and node["Resources"].get("GPU")]
    try:
        told = [_free_on_gpu.options(**_on(node)).remote() for node in nodes]
        return min(ray.get(told, timeout=PROBE_TIMEOUT_S), default=math.inf)
    except ray.exceptions.GetTimeoutError:
        return math.inf
    except (RuntimeError, ray.exceptions.RayError) as error:
        raise UserError(f"a node with GPUs could not tell how much memory is free on one: {error}; try --device cpu") from error


@ray.remote(num_cpus=0, num_gpus=1, max_calls=1)
def _free_on_gpu() -> float:
    return free_memory("cuda")


@contextmanager
def _temporary_directory() -> Iterator[Path]:
    """A short path, held by a file lock that falls with this process, so that others can tell a living run from a dead one."""
    root = Path(tempfile.gettempdir())
    if len(str(root)) > MAX_ROOT:
        root = Path("/tmp")
    _remove_dead(root)
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
    held = os.open(folder / "new", os.O_CREAT | os.O_RDWR)
    fcntl.flock(held, fcntl.LOCK_EX)
    (folder / "new").rename(folder / "held")
    try:
        yield folder
    finally:
        os.close(held)
        shutil.rmtree(folder, ignore_errors=True)


def _remove_dead(root: Path) -> None:
    """Remove directories whose run was killed; those of others, and of living runs, are left alone."""
    for held in root.glob(f"{PREFIX}*/held"):
        with contextlib.suppress(OSError), held.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(held.parent, ignore_errors=True)
