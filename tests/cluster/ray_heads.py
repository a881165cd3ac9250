"""Ray heads of the tests' own, with token authentication, and ways to use them as users do."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
RAY = BIN / "ray"
START_PATIENCE_S = 300.0
START_TRIES = 4
"""`ray start` gives its own raylet 30 seconds, which is not much on a busy machine."""
PATIENT = {"RAY_JOB_STOP_WAIT_TIME_S": "600"}
"""Jobs end when they are done; how long that takes on a busy machine is not what is tested."""

Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Head:
    """A Ray head: its job server's address, its own (`gcs`), its other open `ports`, and what a client needs to use it."""

    address: str
    gcs: str
    ports: dict[str, int]
    access: dict[str, str]
    folder: Path

    def stsq(self, *words: object, code: Path = ROOT, **environment: str) -> Done:
        """Run `stsq` with access to this head, and with the project's code as it stands in the folder `code`."""
        command = [sys.executable, "-m", "cluster", *words, "--address", self.address]
        if "--" in words:  # what stands behind it is not for `stsq job`
            place = words.index("--")
            command = [sys.executable, "-m", "cluster", *words[:place], "--address", self.address, *words[place:]]
        return call(command, {**self.access, **PATIENT, **environment}, code=code)

    def num_nodes(self) -> int:
        """Nodes that are alive now, as the dashboard tells; 0 while it does not answer."""
        try:
            nodes = self._told("nodes?view=summary")["data"]["summary"]
        except OSError:
            return 0
        return sum(node["raylet"].get("state") == "ALIVE" for node in nodes)

    def has_ended(self, job_id: str) -> bool:
        """Whether a job has ended, asked without a process of its own, as one that waits asks again and again."""
        return self._told(f"api/jobs/{job_id}")["status"] in ("STOPPED", "SUCCEEDED", "FAILED")

    def _told(self, path: str) -> Any:
        request = urllib.request.Request(f"{self.address}/{path}")
        request.add_header("Authorization", f"Bearer {Path(self.access['RAY_AUTH_TOKEN_PATH']).read_text()}")
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)

    def ray(self, *words: object, **environment: str) -> Done:
        """Run `ray job ...` with access to this head, again where it asks for that, as it does while its agent starts."""
        verb, *rest = words
        for _ in range(START_TRIES * 10):
            done = call([RAY, "job", verb, "--address", self.address, *rest], {**self.access, **environment})
            if "please try again later" not in done.stdout + done.stderr:
                break
            time.sleep(2)
        return done


def call(command: list[object], access: dict[str, str], *, code: Path = ROOT, timeout_s: float = 900) -> Done:
    """Run a command with the project's code as it stands in the folder `code`, and with no Ray or token but those given."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "WANDB_"))}
    environment |= {"PYTHONPATH": str(code), **access}
    words = [str(word) for word in command]
    return subprocess.run(words, cwd=code, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def ray_head(**environment: str) -> Iterator[Head]:
    """A head whose token lies in a file; it knows how jobs are to be stopped, as the heads of the manifests do."""
    folder = Path("/tmp") / f"stsq-head-{secrets.token_hex(3)}"
    folder.mkdir()
    (folder / "token").write_text(secrets.token_hex(32))
    access = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(folder / "token")}
    ports = {name: free_port() for name in ("port", "dashboard-port", "dashboard-agent-listen-port", "ray-client-server-port")}
    options = {
        **ports,
        "node-ip-address": "127.0.0.1",
        "num-cpus": 2,
        "object-store-memory": 100 * 2**20,
        "temp-dir": folder / "r",
    }
    own = {"PATH": f"{BIN}:{os.environ['PATH']}", "RAY_JOB_STOP_SIGNAL": "SIGINT", **PATIENT}
    try:
        for left in reversed(range(START_TRIES)):
            with started(["--head", *_words(options)], access | own | environment) as process:
                if not came_up(ports["dashboard-port"], process) and left:
                    continue
                assert process.poll() is None, "ray start ended"
                yield Head(f"http://127.0.0.1:{ports['dashboard-port']}", f"127.0.0.1:{ports['port']}", ports, access, folder)
                return
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _words(options: dict[str, object]) -> list[str]:
    return [f"--{name}={value}" for name, value in options.items()]


@contextmanager
def started(
    words: list[str], environment: dict[str, str], *, before: tuple[str, ...] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """`ray start` with these words, ended by its own handle; `before` is what the command is run by."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "WANDB_"))}
    process = subprocess.Popen(
        [*before, str(RAY), "start", "--block", "--disable-usage-stats", *words],
        env=kept | {"RAY_USAGE_STATS_ENABLED": "0"} | environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


def came_up(port: int, process: subprocess.Popen[bytes]) -> bool:
    """Whether something listens at a port before the process ends, waited for with patience."""
    deadline = time.monotonic() + START_PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.2)
    return False


def copy_rooms(folder: Path) -> None:
    """Put the project's code into a folder, as a checkout holds it."""
    for room in ("stsq_core", "sweeps", "dashboards", "cluster", "stsq"):
        shutil.copytree(ROOT / room, folder / room, ignore=shutil.ignore_patterns("__pycache__"))
