"""The only place that reaches names of Ray that its public interface does not offer, each for want of a public one.

`tests/cluster/tune/test_ray_private.py` fails where a release of Ray moves one of them. Imports stand in the functions, because
workers and job commands load this module too and need few of them.
"""

import atexit
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ray

from stsq_core.configs import UserError

REQUEST_TIMEOUT_S = 10


def cluster_id_at(address: str) -> str | None:
    """The id of the cluster whose head is at HOST:PORT; None where the head does not answer now."""
    from ray._raylet import GcsClient  # type: ignore[attr-defined]  # compiled, its stubs are not whole

    try:
        return str(GcsClient(address=address).cluster_id.hex())
    except (RuntimeError, ray.exceptions.RayError):
        return None


def head_at(address: str) -> str:
    """The HOST:PORT of the head that `ray.init` would join at an address, such as `auto`.

    Raises:
        ConnectionError, ValueError: no head is found, or no such address can be.
    """
    from ray._private import services

    return str(services.canonicalize_bootstrap_address(address))


def forget_shutdown() -> None:
    """Let this process exit without shutting Ray down, which would wait for a lost head until Ray ends the process."""
    atexit.unregister(ray._private.worker.shutdown)


def kill_own_processes() -> None:
    """Kill what `ray.init` has started here, also while it has not returned."""
    if (node := ray._private.worker._global_node) is not None:
        node.kill_all_processes(check_alive=False, allow_graceful=False)


class LostToMemoryError(ray.exceptions.RayActorError):
    """Ray's memory monitor has ended a worker, as the loss of an actor, which Tune takes as such."""

    def __init__(self, message: str) -> None:
        super().__init__(error_msg=message)

    def __reduce__(self) -> tuple[Any, ...]:
        return LostToMemoryError, (self.error_msg,)


def take_memory_kills_as_losses() -> None:
    """Let Tune go on where Ray's memory monitor ends a worker in a call: its error is neither an actor's nor a task's, and Tune
    would raise for it; also where it asks one that has reported nothing yet for its first numbers.
    """
    from ray.air.execution._internal.actor_manager import RayActorManager
    from ray.tune.experiment import Trial

    take = RayActorManager._actor_task_failed
    if hasattr(take, "__wrapped__"):
        return

    @wraps(take)
    def failed(self: Any, tracked_actor_task: Any, exception: Exception) -> None:
        is_kill = isinstance(exception, ray.exceptions.OutOfMemoryError)
        take(self, tracked_actor_task, LostToMemoryError(str(exception)) if is_kill else exception)

    first_result = Trial._get_default_result_or_future

    @wraps(first_result)
    def first_result_if_any(self: Any) -> Any:
        try:
            return first_result(self)
        except ray.exceptions.OutOfMemoryError:
            self._default_result_or_future = None
            return None

    RayActorManager._actor_task_failed = failed  # type: ignore[method-assign]
    Trial._get_default_result_or_future = first_result_if_any  # type: ignore[method-assign]


def end_waiting(controller: Any, num: int) -> None:
    """End Tune trials that wait for room, the newest first; those that have an actor stay."""
    controller = controller._tune_controller
    pending = controller._actor_manager._pending_actors_to_attrs
    waiting = [trial for trial, actor in controller._trial_to_actor.items() if actor in pending]
    for trial in waiting[: -num - 1 : -1]:
        controller._unstage_trial_with_resources(trial)
        controller.stop_trial(trial)


def end_unused_actors(controller: Any) -> None:
    """End the actors that Tune keeps for trials to come."""
    controller._tune_controller._cleanup_cached_actors(force_all=True)


def draining_nodes() -> set[str]:
    """The ids of the nodes that are being taken away."""
    from ray._private.state import state

    return set(state.get_draining_nodes())


@contextmanager
def dashboard_hidden() -> Iterator[None]:
    """Let Ray start as it does where its dashboard is not installed: neither the driver nor Ray's agent then loads it."""
    name = "ray.dashboard.optional_deps"
    is_new = name not in sys.modules
    if is_new:
        sys.modules[name] = None  # type: ignore[assignment]  # Python's way to mark a module that cannot be imported
    try:
        yield
    finally:
        if is_new:
            del sys.modules[name]


@contextmanager
def few_processes() -> Iterator[None]:
    """Let Ray start a head without the processes that a run alone on its machine asks nothing of: autoscaler, API server and
    forwarder of logs, seconds of CPU time.
    """
    from ray._private import node, parameter

    module: Any = parameter
    head: Any = node.Node
    params, start = module.RayParams, head.start_api_server
    module.RayParams = partial(params, no_monitor=True, include_log_monitor=False)
    head.start_api_server = lambda self, **_: None
    try:
        yield
    finally:
        module.RayParams, head.start_api_server = params, start


def share_environment() -> None:
    """Let Tune's workers be processes that Ray has started already: they have the driver's environment.

    Tune gives every worker an environment of its own, with some of these variables again, so that it must be a new process.
    """
    from ray.tune.execution import class_cache

    cache: Any = class_cache._ActorClassCache
    cache.get = lambda self, trainable: self._cache.setdefault(trainable, ray.remote(trainable))


def rotate(items: list[Any]) -> None:
    """Let a list begin at a random place."""
    place = random.randrange(len(items) or 1)
    items[:] = items[place:] + items[:place]


def wait_without_shuffling() -> None:
    """Let Tune look at its workers from another one on each time. It would shuffle them all for each event: with 3,000 workers
    that was the most that a pack took of the driver.
    """
    from ray.air.execution._internal import actor_manager

    manager: Any = actor_manager
    manager.random = SimpleNamespace(shuffle=rotate)


def skip_usage_tags() -> None:
    """Keep Tune from tagging callbacks for usage statistics, which are off here: for it W&B's client loads, a second."""
    from ray.air._internal import usage

    usage.tag_callbacks = lambda callbacks: False


def actor_of(trial: Any) -> Any:
    """The actor of a Tune trial that has started."""
    return trial.temporary_state.ray_actor


def node_of_actor(actor_id: str) -> tuple[str, str] | None:
    """The id and the address of the node where an actor is, or was when it ended; None where Ray does not know."""
    from ray._private.state import state

    where = state.actor_table(actor_id).get("Address", {})
    return (where["NodeID"], where["IPAddress"]) if where.get("NodeID") else None


def error_of(trial: Any) -> Any:
    """The exception that ended a Tune trial, or None.

    It is read where the driver has just written it: `get_pickled_error` looks where the file will be copied later.
    """
    path = trial.pickled_error_file
    if path and Path(path).exists():
        return ray.cloudpickle.loads(Path(path).read_bytes())
    return trial.get_pickled_error()


def packaged_files(folder: Path) -> tuple[dict[Path, int], int]:
    """The files of a folder that Ray would upload, relative to it, with sizes in bytes; and the most bytes a job server takes.

    Ray leaves out what .gitignore and .rayignore name without a word, and refuses a package by its size only after packing it.
    """
    try:
        from ray._private import ray_constants
        from ray._private.runtime_env import packaging
    except ImportError as error:
        raise UserError(
            f"this release of Ray ({ray.__version__}) lists no upload as 2.60 does: install ray<2.61 ({error})"
        ) from None

    root, sizes = folder.resolve(), dict[Path, int]()
    default_excludes = list(ray_constants.get_runtime_env_default_excludes())

    def add(path: Path) -> None:
        if path.is_file():
            sizes[path.relative_to(root)] = path.stat().st_size
        elif not path.is_dir():  # Ray would wait for a pipe to be written to
            raise UserError(
                f"{path.relative_to(root)} in the working directory {folder} is neither a file nor a folder (a pipe, a "
                "socket, or a link to nothing): name it in .rayignore, or give another --working-dir"
            )

    excludes: list[Callable[[Path], bool]] = [packaging._get_excludes(root, default_excludes)]
    packaging._dir_travel(root, excludes, add, include_gitignore=True)
    return sizes, int(ray_constants.DASHBOARD_CLIENT_MAX_SIZE)


def job_server_get(client: Any, path: str) -> dict[str, Any]:
    """The JSON object that a job server answers at a path its client has no method for; empty where it does not answer."""
    try:
        found = client._do_request("GET", path, timeout=REQUEST_TIMEOUT_S).json()
    except (AttributeError, OSError, RuntimeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def progress_table(trials: Sequence[Any], settings: Sequence[str], numbers: Sequence[str], *, max_rows: int) -> str:
    """Tune's own table of its trials, with these of their settings and results as columns."""
    from ray.tune.progress_reporter import _trial_progress_str

    return str(
        _trial_progress_str(
            list(trials),
            metric_columns=list(numbers),
            parameter_columns=list(settings),
            max_column_length=40,
            force_table=True,
            max_rows=max_rows,
        )
    )
