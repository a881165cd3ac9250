"""Sweeps as Ray jobs: a real head with token authentication, real submissions, by `ray` and by `stsq`."""

import copy
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.jobs

Numbers = Callable[[Path], dict[str, tuple[object, ...]]]

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
RAY = BIN / "ray"


@dataclass(frozen=True)
class Head:
    """A Ray head of the test's own, and what a client needs to use it."""

    address: str
    access: dict[str, str]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    access = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    folder = Path("/tmp") / f"stsq-head-{secrets.token_hex(3)}"
    port = free_port()
    options = {
        "port": free_port(),
        "dashboard-port": port,
        "dashboard-agent-listen-port": free_port(),
        "ray-client-server-port": free_port(),
        "node-ip-address": "127.0.0.1",
        "num-cpus": 2,
        "object-store-memory": 100 * 2**20,
        "temp-dir": folder,
    }
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "WANDB_"))}
    environment |= access | {"PATH": f"{BIN}:{os.environ['PATH']}", "RAY_USAGE_STATS_ENABLED": "0"}
    command = [
        str(RAY),
        "start",
        "--head",
        "--block",
        "--disable-usage-stats",
        *(f"--{name}={value}" for name, value in options.items()),
    ]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        wait_for_port(port, process)
        yield Head(f"http://127.0.0.1:{port}", access)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert process.poll() is None, "ray start ended"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError("the head did not start")


@pytest.fixture
def package(tmp_path: Path, small: dict[str, Any]) -> Path:
    """A working directory to upload: the project's rooms, a sweep, one that fails, and one that takes long."""
    folder = tmp_path / "package"
    for room in ("stsq_core", "sweeps", "dashboards", "cluster"):
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "small.yaml").write_text(yaml.safe_dump(small))
    failing = copy.deepcopy(small)
    failing["trials"] = failing["trials"][1:]
    failing["trials"][0]["grid"]["model.width"] = [10**14]
    (folder / "failing.yaml").write_text(yaml.safe_dump(failing))
    slow = copy.deepcopy(small)
    slow["trials"][0] |= {"grid": {}, "seeds": 1}  # one long pack, so that the other worker ends some trials
    slow["trials"][0]["base"]["training"] |= {"steps": 500_000, "log_every": 100}
    (folder / "slow.yaml").write_text(yaml.safe_dump(slow))
    return folder


def call(
    command: list[object], access: dict[str, str], *, code: Path = ROOT, timeout_s: float = 240
) -> subprocess.CompletedProcess[str]:
    """Run a command with the project's code as it stands in the folder `code`."""
    words, environment = [str(word) for word in command], {**os.environ, **access, "PYTHONPATH": str(code)}
    return subprocess.run(words, cwd=code, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False)


def stsq(*words: object) -> list[object]:
    return [sys.executable, "-m", "cluster", *words]


def test_ray_job_submit_runs_a_sweep(head: Head, package: Path, tmp_path: Path, numbers: Numbers) -> None:
    out = tmp_path / "run"
    submit = [RAY, "job", "submit", "--address", head.address, "--working-dir", package, "--"]
    done = call([*submit, "python", "-m", "cluster", "run", "small.yaml", "--out", out], head.access)
    assert done.returncode == 0, done
    assert "succeeded" in done.stdout
    assert len(numbers(out)) == 8
    assert (out / "report/index.html").exists()
    assert len(list(out.glob("wandb/offline-run-*/*.wandb"))) == 8
    inline = call(
        stsq("run", package / "small.yaml", "--inline", "--wandb", "disabled", "--out", tmp_path / "inline"), {}, code=package
    )
    assert inline.returncode == 0
    assert numbers(out) == numbers(tmp_path / "inline")


def test_stsq_job_submit_follows_and_takes_the_exit_code(head: Head, package: Path, tmp_path: Path, numbers: Numbers) -> None:
    words = ("job", "submit", package / "failing.yaml", "--address", head.address, "--working-dir", package, "--follow")
    done = call(stsq(*words, "--submission-id", "failing", "--", "--out", tmp_path / "run", "--wandb", "disabled"), head.access)
    assert done.returncode == 1, done
    assert "out of memory" in done.stdout
    assert {status for status, *_ in numbers(tmp_path / "run").values()} == {"failed"}
    status = call(stsq("job", "status", "failing", "--address", head.address), head.access)
    assert status.stdout.startswith("FAILED"), status
    assert status.returncode == 1, status


def test_a_job_is_stopped_in_order_and_goes_on(head: Head, package: Path, tmp_path: Path, until: Any, numbers: Numbers) -> None:
    out = tmp_path / "run"
    words = (
        "job",
        "submit",
        package / "slow.yaml",
        "--address",
        head.address,
        "--working-dir",
        package,
        "--submission-id",
        "slow",
    )
    submitted = call(stsq(*words, "--", "--out", out, "--wandb", "disabled"), head.access)
    assert submitted.stdout.strip() == "slow", submitted
    until(lambda: (out / "ledger.jsonl").exists(), timeout_s=120, what="the first result")
    stopped = call(stsq("job", "stop", "slow", "--address", head.address), head.access)
    assert stopped.stdout.strip() == "STOPPED", stopped
    assert "stopped by SIGINT" in call(stsq("job", "logs", "slow", "--address", head.address), head.access).stdout
    done = numbers(out)
    assert done
    again = call(stsq("run", package / "small.yaml", "--inline", "--wandb", "disabled", "--out", out), {}, code=package)
    assert again.returncode == 0, again
    assert done.items() <= numbers(out).items()


def test_a_head_that_asks_for_a_token_is_told_in_one_message(head: Head, package: Path) -> None:
    words = ("job", "submit", package / "small.yaml", "--address", head.address, "--working-dir", package)
    done = call(stsq(*words), {"RAY_AUTH_MODE": "disabled"})
    assert done.returncode == 2, done
    assert "RAY_AUTH_TOKEN" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [("status", "nothing"), ("logs", "nothing", "--follow"), ("stop", "nothing")])
def test_an_unknown_job_is_told_in_one_message(head: Head, words: tuple[str, ...]) -> None:
    done = call(stsq("job", *words, "--address", head.address), head.access)
    assert done.returncode == 2, done
    assert "nothing" in done.stderr
    assert "Traceback" not in done.stderr
