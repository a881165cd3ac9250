"""Every private name of Ray that the product reaches is where `ray_private` looks for it, and does what is expected of it.

Where one of these tests fails after an upgrade, Ray has moved the name: mend `cluster/tune/ray_private.py`, nothing else.
"""

import ast
import inspect
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray import cloudpickle
from ray.tune import tune
from ray.tune.experiment import Trial

from cluster.tune import ray_private
from cluster.tune.ray_cluster import PRELOADED_IN, ray_cluster, wait_for_preloaded

ROOT = Path(__file__).parents[3]


def private_reaches(path: Path) -> list[str]:
    """The names of Ray with a private part that a module imports or spells as an attribute."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "ray":
            found += [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            found.append(ast.unparse(node))
    return [name for name in found if name.startswith("ray.") and re.search(r"\._[a-z]", name)]


def test_only_one_module_reaches_private_names_of_ray() -> None:
    reaching = {path.name for path in (ROOT / "cluster").rglob("*.py") if private_reaches(path)}
    assert reaching == {"ray_private.py"}
    words = ("temporary_state", "pickled_error_file", "_do_request", "optional_deps")
    spelling = {path.name for path in (ROOT / "cluster").rglob("*.py") if any(word in path.read_text() for word in words)}
    assert spelling == {"ray_private.py"}


@pytest.mark.ray
def test_a_head_names_its_cluster_and_its_draining_nodes_and_the_dashboard_stays_away() -> None:
    with ray_cluster(None, num_cpus=1):
        address = ray.get_runtime_context().gcs_address
        cluster_id = ray_private.cluster_id_at(address)
        assert cluster_id is not None
        assert len(bytes.fromhex(cluster_id)) == 28
        assert ray_private.cluster_id_at(address) == cluster_id
        assert ray_private.draining_nodes() == set()


@pytest.mark.ray
def test_a_head_has_few_processes_and_its_first_one_loads_the_engine_and_is_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.tune.execution import class_cache

    class Worker:
        def loaded(self) -> tuple[int, bool]:
            return os.getpid(), "cluster.tune.trainable" in sys.modules and "torch" in sys.modules

    # what is tested is that it loads, not how soon it does on a busy machine
    monkeypatch.setattr("cluster.tune.ray_cluster.PRELOAD_PATIENCE_S", 300)
    get = class_cache._ActorClassCache.get
    try:
        with ray_cluster(None, num_cpus=1, preload=True):
            wait_for_preloaded(1, check=lambda: None)
            [mark] = Path(os.environ[PRELOADED_IN]).iterdir()
            worker = class_cache._ActorClassCache().get(Worker).options(num_cpus=1).remote()
            assert ray.get(worker.loaded.remote(), timeout=60) == (int(mark.name), True)
            from ray._private.worker import _global_node

            assert _global_node is not None
            assert set(_global_node.all_processes) == {"gcs_server", "raylet"}
    finally:
        class_cache._ActorClassCache.get = get
    assert PRELOADED_IN not in os.environ


def test_ray_starts_with_all_its_processes_elsewhere() -> None:
    from ray._private import node, parameter

    params, start = parameter.RayParams, node.Node.start_api_server
    with ray_private.few_processes():
        made = parameter.RayParams(include_dashboard=False)
        assert (made.no_monitor, made.include_log_monitor) == (True, False)
        assert node.Node.start_api_server is not start
    assert (parameter.RayParams, node.Node.start_api_server) == (params, start)


def test_what_ray_registers_for_the_exit_is_what_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    taken_back: list[Any] = []
    monkeypatch.setattr("atexit.unregister", taken_back.append)
    ray_private.forget_shutdown()
    from ray._private import worker

    assert taken_back == [worker.shutdown]
    assert "atexit.register(shutdown, " in inspect.getsource(worker)


def test_ray_asks_for_its_dashboard_by_the_name_that_is_hidden() -> None:
    from ray._private import utils

    assert "import ray.dashboard.optional_deps" in inspect.getsource(utils)
    name, before = "ray.dashboard.optional_deps", sys.modules.pop("ray.dashboard.optional_deps", None)
    try:
        with ray_private.dashboard_hidden(), pytest.raises(ImportError):
            __import__(name)
        assert name not in sys.modules
    finally:
        if before is not None:
            sys.modules[name] = before


def test_tune_tags_its_callbacks_by_the_function_that_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.air._internal import usage

    monkeypatch.setattr(usage, "tag_callbacks", usage.tag_callbacks)
    assert tune.air_usage is usage
    assert "air_usage.tag_callbacks(callbacks)" in inspect.getsource(tune)
    ray_private.skip_usage_tags()
    assert tune.air_usage.tag_callbacks([object()]) is False


def test_a_memory_kill_reaches_tune_as_the_loss_of_an_actor(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.air.execution._internal.actor_manager import RayActorManager

    taken: list[Exception] = []

    def take(self: Any, tracked_actor_task: Any, exception: Exception) -> None:
        taken.append(exception)

    own = inspect.signature(RayActorManager._actor_task_failed)
    assert list(own.parameters) == list(inspect.signature(take).parameters), "Tune calls it by these names"

    def killed(_: Any) -> None:
        raise ray.exceptions.OutOfMemoryError("killed")

    monkeypatch.setattr(RayActorManager, "_actor_task_failed", take)
    monkeypatch.setattr(Trial, "_get_default_result_or_future", Trial._get_default_result_or_future)  # put back at the end
    monkeypatch.setattr(ray, "get", killed)
    ray_private.take_memory_kills_as_losses()
    ray_private.take_memory_kills_as_losses()
    other = ValueError("boom")
    for error in (ray.exceptions.OutOfMemoryError("killed"), other):
        RayActorManager._actor_task_failed(None, tracked_actor_task=None, exception=error)  # type: ignore[arg-type]
    assert [type(error) for error in taken] == [ray_private.LostToMemoryError, ValueError]
    assert isinstance(taken[0], ray.exceptions.RayActorError)
    assert str(cloudpickle.loads(cloudpickle.dumps(taken[0]))) == "killed"
    trial = Trial("worker", stub=True)
    trial._default_result_or_future = ray.ObjectRef.nil()
    assert trial.last_result == {"trial_id": trial.trial_id}, "one that was killed before it reported anything"


def test_tune_looks_at_its_workers_from_another_one_on_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.air.execution._internal import actor_manager

    monkeypatch.setattr(actor_manager, "random", actor_manager.random)  # put back at the end
    assert inspect.getsource(actor_manager.RayActorManager.next).count("random.shuffle(") == 2
    ray_private.wait_without_shuffling()
    seen = set()
    for _ in range(200):
        futures = list("abcd")
        actor_manager.random.shuffle(futures)
        seen.add("".join(futures))
    assert seen == {"abcd", "bcda", "cdab", "dabc"}
    actor_manager.random.shuffle([])


def test_a_tune_trial_holds_its_actor_and_its_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Trial("worker", stub=True)
    actor = object()
    monkeypatch.setattr(trial.temporary_state, "ray_actor", actor)
    assert ray_private.actor_of(trial) is actor
    monkeypatch.setattr(trial, "storage", SimpleNamespace(trial_driver_staging_path="/nowhere"))
    assert trial.pickled_error_file is None
    assert ray_private.error_of(trial) is None
    path = tmp_path / "error.pkl"
    path.write_bytes(cloudpickle.dumps(ValueError("boom")))
    monkeypatch.setattr(Trial, "pickled_error_file", str(path))
    assert str(ray_private.error_of(trial)) == "boom"


def test_tunes_table_shows_settings_and_numbers_of_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    trial = Trial("nothing", trial_id="7", stub=True)
    monkeypatch.setattr(trial, "storage", SimpleNamespace(experiment_driver_staging_path="/nowhere"))
    trial.set_config({"T": 64, "code": "random_sign"})
    table = ray_private.progress_table([trial], ("T", "code"), ("median_loss",), max_rows=5)
    assert re.search(r"\| nothing_7 +\| PENDING +\| +\| +64 \| random_sign \|", table), table
    trial.run_metadata.last_result = {"median_loss": 0.25}
    assert " 0.25 |" in ray_private.progress_table([trial], ("T",), ("median_loss",), max_rows=5)


def test_ray_lists_what_it_would_upload_and_its_limit(tmp_path: Path) -> None:
    for name in ("kept.py", "deep/kept.txt", ".venv/lib.py", "ignored.txt", "hidden.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("four")
    (tmp_path / ".gitignore").write_text("ignored.txt\n")
    (tmp_path / ".rayignore").write_text("hidden.txt\n")
    sizes, limit = ray_private.packaged_files(tmp_path)
    assert {str(path): size for path, size in sizes.items()} == {
        "kept.py": 4,
        "deep/kept.txt": 4,
        ".gitignore": len("ignored.txt\n"),
        ".rayignore": len("hidden.txt\n"),
    }
    assert limit == 100 * 2**20


def test_a_job_client_answers_at_any_path() -> None:
    from ray.job_submission import JobSubmissionClient

    class Offline(JobSubmissionClient):  # type: ignore[misc]
        def __init__(self) -> None: ...

        def _do_request(self, method: str, endpoint: str, **options: Any) -> Any:
            assert (method, endpoint) == ("GET", "/api/version")
            raise ConnectionError

    own = inspect.signature(JobSubmissionClient._do_request)
    assert list(own.parameters)[:3] == ["self", "method", "endpoint"]
    assert own.parameters["kwargs"].kind is inspect.Parameter.VAR_KEYWORD
    assert ray_private.job_server_get(Offline(), "/api/version") == {}
