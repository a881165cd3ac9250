"""A Ray to run on: the cluster that was named, or one of our own on this machine that ends with the run.

An own Ray has a temporary directory of its own with a short path (socket paths are limited to 107 bytes), no dashboard and a
small object store, since packs travel as a few kilobytes. Its directory is removed at the end; one that a killed run left is
removed by the next run.
"""

import contextlib
import fcntl
import gc
import logging
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.run import error_line
from stsq_core.configs import UserError
from sweeps.store import gc_paused

PREFIX = "stsq-ray-"
MAX_ROOT = 40
"""The longest root for an own Ray's directory: its sockets lie 60 characters deeper."""

OBJECT_STORE_BYTES = 100 * 2**20
PROBE_TIMEOUT_S = 120.0
NOTICE_S = 15.0
"""How long Ray may take to notice that a node is gone."""
GPU_POLL_S = 1.0

WORKER_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

QUIET = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",
    "TUNE_MAX_PENDING_TRIALS_PG": "1000",
    "TUNE_WARN_THRESHOLD_S": "3600",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "60",
}
"""The ledger is our record, so Tune need not write its own, and our stop is one exception, so Tune need not catch signals. We
say how many workers there are, so that Tune need not start them one after another."""


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
def ray_cluster(address: str | None, *, num_cpus: int) -> Iterator[None]:
    """Join `address`, or start a Ray of `num_cpus` slots; on leaving, disconnect or end what was started here.

    Raises:
        UserError: no cluster answers at the address, or Ray did not start.
    """
    os.environ.update({name: os.environ.get(name, value) for name, value in QUIET.items()})
    with _joined(address) if address else _started(num_cpus):
        yield


def check_shared(path: Path) -> None:
    """Make sure that every node sees the run directory.

    Raises:
        UserError: a node that does not, by name.
    """
    if num_nodes() < 2:
        return
    probe = path / f".probe-{secrets.token_hex(8)}"
    probe.write_text("seen")
    try:
        blind = [address for address, sees in answers(_sees, str(probe), what=f"whether it sees {path}") if not sees]
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


def num_nodes() -> int:
    """The nodes that are alive."""
    return sum(node["Alive"] for node in nodes())


def answers(question: Any, *arguments: object, what: str) -> Iterator[tuple[str, Any]]:
    """The address of every node that is alive, and its answer to a remote function; a node that goes meanwhile is left out.

    Raises:
        UserError: a node that is there could not say `what`.
    """
    asked = [(node, question.options(**_on(node)).remote(*arguments)) for node in nodes() if node["Alive"]]
    for node, answer in asked:
        address = str(node["NodeManagerAddress"])
        try:
            yield address, ray.get(answer, timeout=PROBE_TIMEOUT_S)
        except (ray.exceptions.RayError, TimeoutError) as error:
            if not _goes(node["NodeID"]):
                raise UserError(f"the node {address} could not say {what}: {error_line(error)}") from error


def _goes(node_id: str) -> bool:
    """Whether a node is gone, or is seen to go within the time that Ray takes to notice."""
    deadline = time.monotonic() + NOTICE_S
    while any(node["NodeID"] == node_id and node["Alive"] for node in nodes()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True


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
            except Exception as error:  # of a node that does not come up Ray says so in a bare one
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
    with gc_paused():
        ray.shutdown()


def _logging() -> dict[str, Any]:
    return {"log_to_driver": False, "logging_level": logging.ERROR}


def nodes() -> list[dict[str, Any]]:
    """The nodes of the cluster, those that are gone included, as Ray tells them."""
    told: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    return told


def await_gpus(minutes: float, *, say: Callable[[str], None], check: Callable[[], None]) -> None:
    """Wait until a node with a GPU has come; an autoscaler is told that one is wanted.

    Args:
        minutes: how long at most.
        say: is told once that there is something to wait for.
        check: may end the wait by raising.

    Raises:
        UserError: none has come in that time.
    """
    if has_gpu():
        return
    from ray.autoscaler.sdk import request_resources

    say(f"the cluster has no GPU yet: waiting {minutes:g} minutes at most for one to come")
    deadline = time.monotonic() + 60 * minutes
    request_resources(bundles=[{"CPU": 1, "GPU": 1}])
    try:
        while not has_gpu():
            check()
            if time.monotonic() > deadline:
                raise UserError(
                    f"no GPU has come to the cluster in {minutes:g} minutes: look at its autoscaler (`ray status`), "
                    "give --wait-for-gpus more, or train on cores with --device cpu"
                )
            time.sleep(GPU_POLL_S)
    finally:
        request_resources(bundles=[])


def has_gpu() -> bool:
    """Whether a living node of the cluster has a GPU."""
    return any(node["Alive"] and node["Resources"].get("GPU") for node in nodes())


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
