"""A Ray to run on, joined or started for the run, and the checks of its nodes before anything trains there.

A Ray of the run's own has a temporary directory with a short path (socket paths are limited to 107 bytes), no dashboard and a
small object store, since packs travel as a few kilobytes. The directory is removed at the end; one that a killed run left is
removed by the next run.
"""

import contextlib
import gc
import logging
import os
import secrets
import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.environment import BAD_INPUT, REQUIRED, ROOMS
from cluster.run import ACCEPT, VersionsDifferError, error_line, own_versions, release, sheltered
from cluster.tune.ray_private import dashboard_hidden, few_processes, head_at, kill_own_processes, share_environment
from stsq_core.configs import UserError
from sweeps.store import gc_paused, held_folder

PREFIX = "stsq-ray-"
MAX_ROOT = 40
"""The longest root for the temporary directory of a Ray that is started here: its sockets lie 60 characters deeper."""

OBJECT_STORE_BYTES = 100 * 2**20
PROBE_TIMEOUT_S = 120.0
START_PATIENCE_S = 300.0
"""How long Ray may take to start or to be joined: on a machine without a free core it has been seen to wait forever."""
DEATH_NOTICED_S = 15.0
"""How long Ray may take to notice that a node is gone."""
ANSWER_TIMEOUT_S = 10.0
"""How long what accepts connections at the address of a cluster may take to answer a greeting."""
SETTINGS_FRAME = b"\0\0\0\4\0\0\0\0\0"
SETTINGS_TYPE_AT = 3
HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SETTINGS_FRAME
"""With it a client opens a connection, and a server begins with a frame of the same type (RFC 9113, 3.4)."""
GPU_POLL_S = 1.0

MOST_PRELOADED = 16
"""Up to how many workers load the engine as soon as they are there; more would fill memory that few packs may need."""

PRELOADED: dict[str, Any] = {
    "preload_python_modules": ["cluster.tune.preloaded"],
    "idle_worker_killing_time_threshold_ms": 60_000,
}
"""Ray starts a process a core with itself; these settings let it load what a worker needs, and keep it for the run."""

PRELOADED_IN = "STSQ_PRELOADED_IN"
"""The environment variable that names the folder in which each of these processes says that it is ready, by a file."""

LOG = logging.getLogger(__name__)
PRELOAD_PATIENCE_S = 20.0
"""How long they are waited for; a worker that is asked for before they are ready is one process more."""

WORKER_ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

QUIET = {
    "RAY_AIR_NEW_OUTPUT": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # the ledger is the record, so Tune need not write its own
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_GLOBAL_CHECKPOINT_S": "3600",
    # a stop is one exception here (cluster/run/stop.py), so Tune need not catch signals
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    # the pool bounds the number of workers, so Tune need not start them one after another
    "TUNE_MAX_PENDING_TRIALS_PG": "1000",
    "TUNE_WARN_THRESHOLD_S": "3600",
    "TUNE_WARN_INSUFFICENT_RESOURCE_THRESHOLD_S": "60",
}


def cluster_address(address: str | None) -> str | None:
    """The cluster to join, None to start one: the address given, or `RAY_ADDRESS` as it is set inside a Ray job.

    Raises:
        UserError: an address that Tune cannot drive.
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


def check_answers(address: str | None) -> None:
    """Make sure that a head answers at the address of a cluster to join, within seconds: Ray waits for many minutes.

    Raises:
        UserError: nobody does, something else than a head of Ray does, or an address that Tune cannot drive.
    """
    named = cluster_address(address)
    if named is None:
        return
    try:
        host, _, port = head_at(named).rpartition(":")
        speaks = _speaks_grpc(host.strip("[]"), int(port))
    except TimeoutError as error:
        raise UserError(
            f"no Ray cluster answers at {named!r}: nothing came within {ANSWER_TIMEOUT_S:g} s; without one, "
            "leave out the address"
        ) from error
    except (OSError, ValueError) as error:
        raise UserError(f"no Ray cluster answers at {named!r}: {error}; without one, leave out the address") from error
    if not speaks:
        raise UserError(
            f"what answers at {named!r} is no head of a Ray cluster: give the address that `ray start --head` printed, such as "
            "HOST:6379; to send the sweep to a job server use `stsq job submit SWEEP --address http://HOST:8265`"
        )


def _speaks_grpc(host: str, port: int) -> bool:
    """Whether what accepts connections there answers the greeting of HTTP/2, in which a head of Ray is spoken to.

    Raises:
        OSError: nobody accepts connections, or nobody answers in time.
    """
    deadline = time.monotonic() + ANSWER_TIMEOUT_S
    with socket.create_connection((host, port), timeout=ANSWER_TIMEOUT_S) as connection:
        if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
            return True  # the greeting would need the cluster's certificates
        connection.sendall(HTTP2_GREETING)
        answer = b""
        while len(answer) < len(SETTINGS_FRAME):
            connection.settimeout(max(0.01, deadline - time.monotonic()))
            piece = connection.recv(64)
            if not piece:
                return False
            answer += piece
        return answer[SETTINGS_TYPE_AT] == SETTINGS_FRAME[SETTINGS_TYPE_AT]


@contextmanager
def ray_cluster(address: str | None, *, num_cpus: int, preload: bool = False) -> Iterator[None]:
    """Join `address`, or start a Ray of `num_cpus` cores; on leaving, disconnect or end what was started here.

    Args:
        address: of a cluster, as `cluster_address` finds it.
        num_cpus: cores of a Ray that is started here.
        preload: let a worker a core load the engine there while the driver gets ready.

    Raises:
        UserError: no cluster answers at the address, or Ray did not start.
    """
    os.environ.update({name: os.environ.get(name, value) for name, value in QUIET.items()})
    logging_options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    with contextlib.ExitStack() as opened:
        if address:
            opened.callback(_shut_down)
            try:
                # without a runtime environment: inside a job it would have to agree with the job's
                with _bounded(f"the Ray cluster at {address!r} took no driver"):
                    ray.init(address=address, **logging_options)
            except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
                raise UserError(f"no Ray cluster answers at {address!r}: {error}") from error
        else:
            os.environ.update({name: value for name, value in WORKER_ENVIRONMENT.items() if name not in os.environ})
            own: dict[str, Any] = {"num_cpus": num_cpus, "include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
            folder = opened.enter_context(held_folder(PREFIX, _root()))
            if preload and num_cpus <= MOST_PRELOADED:
                own["_system_config"] = PRELOADED
                os.environ[PRELOADED_IN] = str(folder / "preloaded")
                opened.callback(os.environ.pop, PRELOADED_IN, None)
                # These processes know no driver yet: here they find the module.
                paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
                root = str(Path(__file__).parents[2])
                os.environ["PYTHONPATH"] = os.pathsep.join(paths if root in paths else [*paths, root])
            opened.callback(_shut_down)
            try:
                with dashboard_hidden(), few_processes(), sheltered(), _bounded("Ray did not start on this machine", folder):
                    ray.init(address="local", _temp_dir=str(folder), **own, **logging_options)
            except Exception as error:  # Ray raises a bare one where a node does not come up
                raise UserError(f"Ray did not start on this machine: {error}; `stsq run --inline` does without") from error
        yield


@contextmanager
def _bounded(problem: str, folder: Path | None = None) -> Iterator[None]:
    """End this process, and the Ray that it starts in a folder, if the block takes longer than `START_PATIENCE_S`: a call that
    hangs in Ray's own code takes no exception.
    """

    def give_up() -> None:
        remedy = "the same command goes on once the machine has a core to spare, and with --inline it does without Ray"
        print(f"stsq: {problem} within {START_PATIENCE_S:.0f} s: {remedy}", file=sys.stderr, flush=True)
        if folder is not None:
            kill_own_processes()
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(BAD_INPUT)

    timer = threading.Timer(START_PATIENCE_S, give_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _shut_down() -> None:
    """Shut Ray down.

    A garbage collection that meets a reference of Ray's while its worker goes down, in whatever thread, ends the process with
    exit code 1; so garbage is collected before, and not meanwhile.
    """
    gc.collect()
    with gc_paused():
        ray.shutdown()


def _root() -> Path:
    """Where the temporary directory of a Ray may lie, so that the paths of its sockets are short."""
    root = Path(tempfile.gettempdir())
    return root if len(str(root)) <= MAX_ROOT else Path("/tmp")


def wait_for_preloaded(num_cpus: int, *, check: Callable[[], None]) -> None:
    """Wait until the processes of a Ray with `preload` are ready to be workers.

    Args:
        num_cpus: how many.
        check: may end the wait by raising.
    """
    folder = os.environ.get(PRELOADED_IN)
    if folder is None:
        return
    share_environment()
    deadline = time.monotonic() + PRELOAD_PATIENCE_S
    while sum(1 for _ in Path(folder).glob("*")) < num_cpus and time.monotonic() < deadline:
        check()
        time.sleep(0.05)
    if time.monotonic() >= deadline:
        LOG.warning(
            "Ray's first processes did not load the engine within %.0f s; workers load it when they start", PRELOAD_PATIENCE_S
        )


def living_nodes() -> list[dict[str, Any]]:
    """The nodes of the cluster that are alive, as Ray lists them."""
    return [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


def wait_for_gpu(minutes: float, *, notify: Callable[[str], None], check: Callable[[], None]) -> None:
    """Wait until a node with a GPU has joined; an autoscaler is asked for one.

    Args:
        minutes: how long at most.
        notify: called once, if there is something to wait for.
        check: may end the wait by raising.

    Raises:
        UserError: none has joined in that time.
    """
    if _has_gpu():
        return
    from ray.autoscaler.sdk import request_resources

    notify(f"the cluster has no GPU yet: waiting {minutes:g} minutes at most for one to come")
    deadline = time.monotonic() + 60 * minutes
    request_resources(bundles=[{"CPU": 1, "GPU": 1}])
    try:
        while not _has_gpu():
            check()
            if time.monotonic() > deadline:
                raise UserError(
                    f"no GPU has come to the cluster in {minutes:g} minutes: look at its autoscaler (`ray status`), "
                    "give --wait-for-gpus more, or train on cores with --device cpu"
                )
            time.sleep(GPU_POLL_S)
    finally:
        request_resources(bundles=[])


def _has_gpu() -> bool:
    return any(node["Resources"].get("GPU") for node in living_nodes())


def check_shared(path: Path) -> None:
    """Make sure that every node sees the run directory.

    Raises:
        UserError: the nodes that do not.
    """
    if len(living_nodes()) < 2:
        return

    @ray.remote(num_cpus=0)
    def is_file(path: str) -> bool:
        return Path(path).is_file()

    probe = path / f".probe-{secrets.token_hex(8)}"
    probe.write_text("seen")
    try:
        blind = [address for address, sees in ask_nodes(is_file, str(probe), what=f"whether it sees {path}") if not sees]
    finally:
        probe.unlink(missing_ok=True)
    if blind:
        raise UserError(
            f"the run directory {path} is not shared: the nodes {', '.join(blind)} do not see it, so workers there could not "
            "write their results; give a path on a file system that all nodes mount, with --out"
        )


def check_alike(*, accept: bool) -> None:
    """Make sure that every node, where there are several, has the packages that packs need and the driver's torch.

    Args:
        accept: let nodes train with another torch than the driver's.

    Raises:
        UserError: a node that lacks a package or could not answer; another torch.
    """
    if len(living_nodes()) < 2:
        return
    modules = (*ROOMS, *REQUIRED)

    @ray.remote(num_cpus=0)
    def look() -> tuple[str, list[str], str]:
        # nested, so that Ray sends its code: a node without our packages can run it too
        import importlib.metadata
        import importlib.util
        import sys

        lacking = [module for module in modules if importlib.util.find_spec(module) is None]
        return sys.executable, lacking, "" if "torch" in lacking else importlib.metadata.version("torch")

    here = own_versions()["torch"]
    for address, (interpreter, lacking, torch) in ask_nodes(look, what="what it has installed"):
        node = f"the node {address} ({interpreter})"
        if lacking:
            named = ", ".join(REQUIRED.get(module, f"stsq ({module})") for module in lacking)
            raise UserError(f"{node} lacks {named}: install the same environment on every node")
        if release(torch) != release(here) and not accept:
            raise VersionsDifferError(
                f"{node} has torch {torch} and the driver on {socket.gethostname()} has torch {here}: install torch=="
                f"{release(here)} on every node, {ACCEPT}"
            )


def ask_nodes(question: Any, *arguments: object, what: str) -> Iterator[tuple[str, Any]]:
    """The address of every living node and the result of a remote function there; a node that goes meanwhile is left out.

    Raises:
        UserError: a node that is still there could not say `what`.
    """
    asked = []
    for node in living_nodes():
        strategy = NodeAffinitySchedulingStrategy(str(node["NodeID"]), soft=False)
        asked.append((node, question.options(scheduling_strategy=strategy).remote(*arguments)))
    for node, answer in asked:
        address = str(node["NodeManagerAddress"])
        try:
            yield address, ray.get(answer, timeout=PROBE_TIMEOUT_S)
        except (ray.exceptions.RayError, TimeoutError) as error:
            if not _dies(node["NodeID"]):
                raise UserError(f"the node {address} could not say {what}: {error_line(error)}") from error


def _dies(node_id: str) -> bool:
    """Whether a node is gone, or goes within the time that Ray takes to notice."""
    deadline = time.monotonic() + DEATH_NOTICED_S
    while any(node["NodeID"] == node_id for node in living_nodes()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.5)
    return True
