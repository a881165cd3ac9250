"""wandb's service is never given more runs than it has file descriptors for, and its end is bounded in time."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from wandb_files import read_run

from dashboards.publishing.client import KEPT_DESCRIPTORS, OPEN_DESCRIPTORS, SPARE_DESCRIPTORS, Service
from dashboards.publishing.process import offline_reason
from dashboards.publishing.publisher import publish
from dashboards.publishing.wandb_border import service_process
from sweeps.store.journal import read_curves
from sweeps.store.ledger import Ledger
from sweeps.store.run_directory import RunDirectory

pytestmark = pytest.mark.slow
MakeRun = Callable[..., RunDirectory]

PUBLISH_WITH_FEW_DESCRIPTORS = (
    "import resource, sys; from pathlib import Path; from dashboards.publishing.__main__ import main\n"
    "resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]),) * 2); sys.exit(main(sys.argv[2:]))"
)


@pytest.fixture
def limit_descriptors() -> Iterator[Callable[[int, int], None]]:
    """Pretends a limit without setting it."""
    patch = pytest.MonkeyPatch()
    yield lambda soft, hard: patch.setattr(resource, "getrlimit", lambda _kind: (soft, hard))
    patch.undo()


@pytest.mark.parametrize("limit", [256, 1024, 4096, 65_536, resource.RLIM_INFINITY])
def test_the_open_and_the_ended_runs_fit_in_the_limit(limit_descriptors: Callable[[int, int], None], limit: int) -> None:
    limit_descriptors(limit, limit)
    service = Service()
    num_ended = 0
    while not service.is_worn:
        service.ended()
        num_ended += 1
        assert num_ended <= 2000
    used = SPARE_DESCRIPTORS + OPEN_DESCRIPTORS * service.capacity + KEPT_DESCRIPTORS * num_ended
    assert service.capacity >= 1
    assert limit == resource.RLIM_INFINITY or used <= limit


@pytest.fixture
def thousand(make_run: MakeRun, small: dict[str, Any]) -> RunDirectory:
    """A run directory of 1,000 trials that have all ended."""
    return make_run(trials=[small | {"seeds": 250}])


def test_a_thousand_trials_offline_with_few_descriptors_lose_none(thousand: RunDirectory) -> None:
    command = [sys.executable, "-c", PUBLISH_WITH_FEW_DESCRIPTORS, "1024", str(thousand.path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    read = [read_run(path) for path in thousand.wandb.glob("offline-run-*/*.wandb")]
    curves = read_curves(thousand)
    assert len(read) == 1000
    assert {one.config["trial_id"] for one in read} == {record.trial_id for record in Ledger(thousand.ledger).read()}
    for one in read:
        steps, losses = curves[one.config["trial_id"]]
        assert [(row["step"], row["relative_loss"]) for row in one.history] == [*zip(steps, losses, strict=True)]


def test_as_many_open_trials_online_as_descriptors_lose_none(
    make_run: MakeRun, small: dict[str, Any], server: Any, assert_whole: Callable[..., None]
) -> None:
    """All 96 train at once when the publisher starts; they end while it streams as many as it may keep open, 24."""
    run = make_run(trials=[small | {"seeds": 24}])
    ledger = run.ledger.read_bytes()
    run.ledger.write_bytes(b"")
    publisher = [sys.executable, "-c", PUBLISH_WITH_FEW_DESCRIPTORS, "256", str(run.path)]
    with subprocess.Popen([*publisher, "--follow"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and sum(bool(one.rows) for one in [*server.runs.values()]) < 12:
            time.sleep(0.05)
        run.ledger.write_bytes(ledger)
        _, errors = process.communicate("")
    assert process.returncode == 0, errors
    for _ in range(20):  # on a busy machine the stand-in may be too slow for the client: then the rest is offline
        if offline_reason(run.path) is None:
            break
        subprocess.run([*publisher, "--mode", "online"], check=True, capture_output=True)
    assert_whole(run, server, resent=True)


def test_a_service_that_is_killed_costs_no_row(
    make_run: MakeRun, small: dict[str, Any], server: Any, assert_whole: Callable[..., None]
) -> None:
    """As when the machine runs out of memory."""
    run = make_run(trials=[small])
    ledger = run.ledger.read_bytes()
    run.ledger.write_bytes(b"")
    killed: list[int] = []

    def stop() -> bool:
        process = service_process()
        if not killed and process is not None and len(server.runs) == 4:
            killed.append(process.pid)
            os.kill(process.pid, signal.SIGKILL)
            run.ledger.write_bytes(ledger)
        return bool(killed)

    report = publish(run.path, stop=stop, poll_s=0.1)
    assert (report.mode, report.num_missing) == ("online", 0)
    assert_whole(run, server, resent=True)


SERVED_AND_KILLED = """
import os, signal, wandb
from dashboards.publishing.wandb_border import service_process
wandb.init(mode="offline", project="any")
print("service", service_process().pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_service_of_a_killed_publisher_ends_by_itself(tmp_path: Path) -> None:
    environment = os.environ | {"WANDB_SILENT": "true", "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run(
        [sys.executable, "-c", SERVED_AND_KILLED],
        cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL
    (service,) = (int(line.split()[1]) for line in killed.stdout.splitlines() if line.startswith("service "))
    state, deadline = Path(f"/proc/{service}/stat"), time.monotonic() + 60
    while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline, "wandb's service outlives its publisher"
        time.sleep(0.2)
