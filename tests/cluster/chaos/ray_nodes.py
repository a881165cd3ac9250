"""A cluster of real Ray processes on this machine: a head and nodes that can be killed, drained, replaced and restarted.

Each node is a `ray start --block` in a session of its own, so that killing the session is what the loss of a machine is to the
others: raylet, agent and workers go at once. All share a token, a head's port and a temporary directory of their own.
"""

import contextlib
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[3]
RAY = Path(sys.executable).parent / "ray"
PATIENCE_S = 180.0
STARTS = 5
STORE_BYTES = 100 * 2**20
MOST_NODES = 4
OF_THE_PROVIDER = dict.fromkeys(("use_node_id_as_ip", "disable_node_updaters", "disable_launch_config_check"), True)
COMMANDS = (
    "initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands", "head_start_ray_commands",
    "worker_start_ray_commands", "cluster_synced_files",
)  # fmt: skip
"""What the autoscaler's configuration must hold, and its provider here has no use for."""

PATIENT = {
    "RAY_health_check_period_ms": "1000",
    "RAY_health_check_timeout_ms": "20000",
    "RAY_raylet_start_wait_time_s": "170",
}
"""A lost node is noticed within seconds, and a busy machine is given time."""


class RayNodes:
    """A head with `head_cpus` and, once they are added, nodes of one CPU; ends what it started.

    `access` is the environment that a client needs, `address` the one that it joins. With `node_types` Ray's autoscaler adds
    nodes of these types, names to resources, as they are asked for, by its provider that starts them on this machine.
    """

    def __init__(self, *, head_cpus: int = 1, node_types: dict[str, dict[str, int]] | None = None, **environment: str) -> None:
        self.access = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        self.folder = Path("/tmp") / f"stsq-nodes-{secrets.token_hex(3)}"
        self._logs = Path(tempfile.mkdtemp(prefix="stsq-nodes-logs-"))
        self._num_started = 0
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.nodes: list[subprocess.Popen[bytes]] = []
        self._head_cpus = head_cpus
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "WANDB_"))}
        self._environment = kept | self.access | PATIENT | environment
        self._environment |= {"RAY_USAGE_STATS_ENABLED": "0", "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        self._head_options = self._autoscaling(node_types) if node_types else {}
        self.head = self.start_head()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in [*self.nodes, self.head]:
            kill(process)
        for folder in (self.folder, self._logs):
            shutil.rmtree(folder, ignore_errors=True)

    def start_head(self) -> subprocess.Popen[bytes]:
        """Start the head, or another one at the same address after the first was killed; returns once it is up."""
        options = {"port": self.port, "node-ip-address": "127.0.0.1", "include-dashboard": "false", "temp-dir": self.folder}
        options |= self._head_options
        self.head = self._started("--head", num_cpus=self._head_cpus, **options)
        return self.head

    def _autoscaling(self, node_types: dict[str, dict[str, int]]) -> dict[str, object]:
        """The options of a head that starts and ends nodes of these types, up to `MOST_NODES`."""
        head = {"resources": {"CPU": self._head_cpus}, "node_config": {}, "max_workers": 0}
        types = {
            name: {
                "resources": given | {"object_store_memory": STORE_BYTES},
                "node_config": {},
                "min_workers": 0,
                "max_workers": MOST_NODES,
            }
            for name, given in node_types.items()
        }
        config = {
            "cluster_name": "fake",
            "max_workers": MOST_NODES,
            "idle_timeout_minutes": 0.1,
            "upscaling_speed": 10.0,
            "provider": {"type": "fake_multinode", "gcs_address": self.address, "launch_multiple": True, **OF_THE_PROVIDER},
            "available_node_types": {"ray.head.default": head} | types,
            "head_node_type": "ray.head.default",
            **{name: {} for name in ("auth", "docker", "file_mounts")},
            **{name: [] for name in COMMANDS},
        }
        path = self._logs / "autoscaling.json"
        path.write_text(json.dumps(config))
        self._environment |= {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
        return {"autoscaling-config": path}

    def add(self, *, num_cpus: int = 1, **options: object) -> subprocess.Popen[bytes]:
        """Start another node, with more options of `ray start` where they are given; returns once it is up."""
        options = {name.replace("_", "-"): value for name, value in options.items()}
        node = self._started(f"--address={self.address}", num_cpus=num_cpus, **{"node-ip-address": "127.0.0.1", **options})
        self.nodes.append(node)
        return node

    def lose(self, node: subprocess.Popen[bytes]) -> None:
        """Kill a node and all that runs on it."""
        kill(node)
        self.nodes.remove(node)

    def ask(self, code: str) -> str:
        """What a program prints that has joined the cluster."""
        program = f"import ray\nray.init(address={self.address!r}, log_to_driver=False, logging_level='ERROR')\n{code}"
        words = [sys.executable, "-c", program]
        environment = self._environment
        return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout

    def _started(self, *words: str, num_cpus: int, **options: object) -> subprocess.Popen[bytes]:
        """A node that is up; Ray gives one half a minute to start, which a busy machine may not keep the first time."""
        for _ in range(STARTS):
            process, printed = self._start(*words, num_cpus=num_cpus, **options)
            deadline = time.monotonic() + PATIENCE_S
            while b"Ray runtime started" not in printed.read_bytes():
                if process.poll() is not None or time.monotonic() > deadline:
                    break
                time.sleep(0.1)
            else:
                return process
            kill(process)
        raise AssertionError(f"no node started in {STARTS} tries: {printed.read_text()}")

    def _start(self, *words: str, num_cpus: int, **options: object) -> tuple[subprocess.Popen[bytes], Path]:
        options |= {"num-cpus": num_cpus, "object-store-memory": STORE_BYTES, "dashboard-agent-listen-port": free_port()}
        options |= {
            "include-log-monitor": "false",
            "min-worker-port": 0,
            "max-worker-port": 0,
        }  # any free one, since nodes share this machine
        flags = [f"--{name}={value}" for name, value in options.items()]
        self._num_started += 1
        printed = self._logs / f"{self._num_started}.log"
        with printed.open("wb") as log:
            process = subprocess.Popen(
                [str(RAY), "start", *words, "--block", "--disable-usage-stats", *flags],
                env=self._environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        return process, printed


def kill(process: subprocess.Popen[bytes]) -> None:
    """End a process started in a session of its own, and all of that session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
