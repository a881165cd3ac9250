"""Which Ray a run joins, and the directory of one of our own; nothing here starts Ray."""

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from cluster.tune import ray_cluster as module
from cluster.tune.ray_cluster import check_answers, cluster_address
from stsq_core import UserError


def test_the_address_given_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cluster_address(None) is None
    assert cluster_address("auto") == "auto"
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    assert cluster_address(None) == "10.0.0.1:6379"
    assert cluster_address("local") is None


@pytest.mark.parametrize("address", ["http://head:8265", "https://head", "ray://head:10001"])
def test_what_cannot_drive_a_sweep_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(UserError, match=r"RAY_ADDRESS.*stsq job submit"):
        cluster_address(None)


def test_an_address_at_which_nobody_answers_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as probe:
        probe.bind(("", 0))  # Ray joins by the address of the machine
        probe.listen()
        address = "127.0.0.1:{1}".format(*probe.getsockname())
        monkeypatch.setenv("RAY_ADDRESS", address)
        monkeypatch.setattr(module, "ANSWER_TIMEOUT_S", 0.3)
        with pytest.raises(UserError, match=rf"no Ray cluster answers at '{address}': nothing came within 0\.3 s"):
            check_answers(None)
    with pytest.raises(UserError, match=f"no Ray cluster answers at '{address}': .*Connection refused"):
        check_answers(None)
    with pytest.raises(UserError, match="no Ray cluster answers at 'head': Invalid address"):
        check_answers("head")
    check_answers("local")


@pytest.mark.parametrize(("greeting", "is_head"), [
    (b"\0\0\x06\4\0\0\0\0\0\0\4\0\0\xff\xff", True), (b"HTTP/1.1 400 Bad Request\r\n\r\n", False), (b"", False),
])  # fmt: skip
def test_only_what_greets_as_a_head_does_is_one(greeting: bytes, is_head: bool) -> None:
    with socket.create_server(("", 0)) as listening:

        def greet() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(100)
                connection.sendall(greeting)

        threading.Thread(target=greet, daemon=True).start()
        address = f"127.0.0.1:{listening.getsockname()[1]}"
        if is_head:
            check_answers(address)
        else:
            with pytest.raises(UserError, match=r"no head of a Ray cluster.*HOST:6379.*stsq job submit SWEEP"):
                check_answers(address)


def test_a_long_root_gives_way_to_a_short_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.tempfile, "gettempdir", lambda: str(tmp_path / ("x" * 80)))
    assert module._root() == Path("/tmp")


@pytest.mark.ray
def test_a_ray_that_does_not_come_up_ends_the_run_in_a_line(tmp_path: Path) -> None:
    """The raylet is frozen as soon as it is there: `ray.init` would wait for it forever."""
    code = """
import os, signal, subprocess, threading, time
from cluster.tune import ray_cluster as module

def freeze():
    while True:
        found = subprocess.run(["pgrep", "-x", "-P", str(os.getpid()), "raylet"], capture_output=True, text=True).stdout.split()
        for pid in found:
            os.kill(int(pid), signal.SIGSTOP)
            print(pid, flush=True)
            return
        time.sleep(0.01)

module.START_PATIENCE_S = 8.0
threading.Thread(target=freeze, daemon=True).start()
with module.ray_cluster(None, num_cpus=1):
    print("started")
"""
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120, check=False
    )
    raylet = done.stdout.strip()
    assert raylet.isdecimal(), done
    assert done.returncode == 2, done
    assert (
        done.stderr.strip().splitlines()[-1].startswith("stsq: Ray did not start on this machine within 8 s: the same command")
    )
    state = Path(f"/proc/{raylet}/stat")
    assert (
        not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"
    )  # dead, if its new parent reads it or not
    assert not list(tmp_path.glob("stsq-ray-*"))
