"""What every room's tests share: the order in which they run, and short ways to write a trial down."""

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from stsq_core import TrialConfig

if TYPE_CHECKING:
    from forked import Forge

os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache/d/numba"))
"""What one process compiles serves all, jobs and copies of the package included."""
os.environ.setdefault("OMP_NUM_THREADS", "1")
gc.set_threshold(20_000, 20, 20)
"""The collector's usual 700 make it look some thousand times a minute at objects that stay."""

MakeTrial = Callable[..., TrialConfig]

LONG = ("jobs", "ray", "browser", "slow")
"""Marks of tests that take long, the longest first."""
IN_PROCESSES = {"forge", "head"}
"""Fixtures whose tests start the product in processes of its own: they are slow."""
ONE_BY_ONE = {
    f"tests/{name}.py"
    for name in (
        "benchmarks/test_toy_sizes",
        "cluster/commands/test_session",
        "cluster/run/test_searches",
        "cluster/tune/test_tune_runner",
        "dashboards/publishing/test_beside_training",
        "dashboards/publishing/test_failures",
        "test_contributing",
    )
}
"""Files of long tests that share nothing: their tests go to the workers one by one, all others file by file."""
TOGETHER = {
    f"tests/{name}.py": what
    for what, names in {
        "head": ("cluster/jobs/test_control", "cluster/jobs/test_job_access"),
        "browser": ("dashboards/page/test_accessibility", "dashboards/page/test_browser", "dashboards/serving/test_live_page"),
    }.items()
    for name in names
}
"""Files whose tests use one Ray head, or one browser and its pages: they go to one worker."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with long tests come first: no worker is left with one when the others have ended."""
    ranks: dict[Any, int] = {}
    for item in items:
        if IN_PROCESSES & set(getattr(item, "fixturenames", ())):
            item.add_marker("slow")
        rank = next((place for place, mark in enumerate(LONG) if item.get_closest_marker(mark)), len(LONG))
        ranks[item.path] = min(rank, ranks.get(item.path, rank))
    items.sort(key=lambda item: ranks[item.path])


def pytest_collection_finish() -> None:
    """What is imported now stays: the collector need not look at it after every test."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """File by file to the workers in the order of the collection, but for those that are named above."""
    from xdist.scheduler import LoadScopeScheduling

    class Scheduling(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return nodeid if file in ONE_BY_ONE else TOGETHER.get(file, file)

    config.option.loadscopereorder = False
    return Scheduling(config, log)


@pytest.fixture(scope="session")
def forge() -> "Iterator[Forge]":
    """Starts `stsq` in processes of its own, as often as tests ask for one."""
    from forked import Forge

    started = Forge()
    yield started
    started.end()


def _transformer_data(*, T: int = 12, q: int = 3, d: int = 2, d_e: int = 16, **fields: Any) -> dict[str, Any]:
    """A transformer trial as a sweep file nests it; `fields` override by dotted name with `__` for the dots."""
    data: dict[str, Any] = {
        "task": {"kind": "stsq", "T": T, "q": q, "d": d},
        "model": {"kind": "transformer", "positions": {"kind": "random_sign", "d_e": d_e}},
        "optimizer": {"kind": "adam", "lr": 0.03},
        "training": {"objective": "population", "batch_size": 16, "steps": 20},
    }
    return _overridden(data, fields)


def _fcn_data(*, T: int = 4, q: int = 2, d: int = 2, width: int = 6, **fields: Any) -> dict[str, Any]:
    """A fully connected trial as a sweep file nests it."""
    data: dict[str, Any] = {
        "task": {"kind": "stsq", "T": T, "q": q, "d": d},
        "model": {"kind": "fcn", "width": width, "tail_width": 16},
        "optimizer": {"kind": "adam", "lr": 0.01},
        "training": {"batch_size": 16, "steps": 20},
    }
    return _overridden(data, fields)


def _overridden(data: dict[str, Any], fields: dict[str, Any]) -> dict[str, Any]:
    for name, value in fields.items():
        *path, last = name.split("__")
        place = data
        for key in path:
            place = place.setdefault(key, {})
        place[last] = value
    return data


@pytest.fixture
def transformer() -> MakeTrial:
    """Makes transformer trials: `transformer(T=32, training__objective="minibatch")`."""
    return lambda **fields: TrialConfig.model_validate(_transformer_data(**fields))


@pytest.fixture
def fcn() -> MakeTrial:
    """Makes fully connected trials: `fcn(width=8)`."""
    return lambda **fields: TrialConfig.model_validate(_fcn_data(**fields))


@pytest.fixture
def trial_data() -> Callable[..., dict[str, Any]]:
    """Makes trials as nested data, unchecked: `trial_data("fcn", width=0)`."""
    makers = {"transformer": _transformer_data, "fcn": _fcn_data}
    return lambda kind, **fields: makers[kind](**fields)
