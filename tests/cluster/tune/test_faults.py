"""Faults on real Ray processes: workers that hang or are sent away, drained nodes, a lost head, storage that is away or full.

docs/faults.md says what is to happen; `chaos` kills at random.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from killer import in_mid_training
from own_task import held_text, plugin_text
from ray_nodes import RayNodes, kill

from sweeps.store.ledger import Ledger

pytestmark = pytest.mark.clusters

Write = Callable[..., Path]
Numbers = Callable[[Path], dict[str, tuple[object, ...]]]

QUIET = ("--wandb", "disabled", "--checkpoint-every", 0.2)
PATIENCE_S = 400


@pytest.fixture
def sweep(write_sweep: Write, small: dict[str, Any]) -> Path:
    """The small sweep, its transformers trained long enough to be met in mid-training."""
    small["trials"][0]["base"]["training"] |= {"steps": 100_000, "log_every": 1250}
    return write_sweep(small)


@pytest.fixture
def undisturbed(stsq: Any, sweep: Path, numbers: Numbers) -> dict[str, tuple[object, ...]]:
    """The numbers of the same sweep where nothing happens."""
    assert stsq.run("run", sweep, "--inline", *QUIET, "--out", "undisturbed", timeout_s=PATIENCE_S).code == 0
    return numbers(stsq.folder / "undisturbed")


@pytest.fixture
def nodes() -> Iterator[RayNodes]:
    """A head without a CPU, and one node that trains."""
    with RayNodes(head_cpus=0) as cluster:
        cluster.add()
        yield cluster


def one_in_training(run: Path, until: Any, *, other_than: int = 0) -> int:
    """A worker that trains a pack which has a saved state."""

    def found() -> int:
        return next((worker for worker in in_mid_training(run) if worker != other_than), 0)

    return int(until(found, timeout_s=PATIENCE_S, what="a worker in mid-training"))


def test_a_worker_that_hangs_is_ended_and_its_pack_goes_on(
    stsq: Any, sweep: Path, until: Any, numbers: Numbers, undisturbed: dict[str, tuple[object, ...]]
) -> None:
    run = stsq.folder / "runs/small"
    words = ("run", sweep, *QUIET, "--workers", 1, "--hung-after", 20)
    process = stsq.start(*words, "--set", "budget.retries=0")
    os.kill(one_in_training(run, until), signal.SIGSTOP)
    ended = stsq.wait(process, timeout_s=PATIENCE_S)
    assert ended.code == 1, ended
    reasons = {record.reason for record in Ledger(run / "ledger.jsonl").read() if record.status == "failed"}
    (reason,) = reasons
    assert "hung worker: no step for 2" in str(reason)
    assert "hung worker: no step for 2" in ended.out, "the failure table says it"

    process = stsq.start(*words, "--retry-failed")
    os.kill(one_in_training(run, until), signal.SIGSTOP)
    ended = stsq.wait(process, timeout_s=PATIENCE_S)
    assert ended.code == 0, ended
    assert "a worker was lost (hung worker: no step for 2" in ended.err
    found = {record.trial_id: (record.status, record.relative_loss) for record in Ledger(run / "ledger.jsonl").read()}
    assert found == {trial_id: (status, loss) for trial_id, (status, loss, *_) in undisturbed.items()}


def test_a_worker_that_must_end_saves_its_pack_which_goes_on_at_no_cost_in_retries(
    stsq: Any, sweep: Path, until: Any, numbers: Numbers, undisturbed: dict[str, tuple[object, ...]]
) -> None:
    run = stsq.folder / "runs/small"
    process = stsq.start(
        "run", sweep, "--wandb", "disabled", "--workers", 1, "--set", "budget.retries=0", "--checkpoint-every", 1
    )
    os.kill(one_in_training(run, until), signal.SIGTERM)
    ended = stsq.wait(process, timeout_s=PATIENCE_S)
    assert ended.code == 0, ended
    assert "a worker left a node that is taken away; its pack goes on elsewhere from its last checkpoint" in ended.err
    assert numbers(run) == undisturbed


def workers_of(node: subprocess.Popen[bytes], run: Path, *, training: bool) -> list[int]:
    """The workers on a node: those that hold a claim, or all from their start on."""
    if training:
        claims = [path.read_text() for path in run.glob("checkpoints/*.claim") if path.exists()]
        pids = [int(claim.split()[1]) for claim in claims if claim]
    else:
        named = {path: path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()}
        pids = [int(path.parent.name) for path, words in named.items() if words.startswith(b"ray::") and b"Trainable" in words]
    return [pid for pid in pids if Path(f"/proc/{pid}").exists() and os.getsid(pid) == os.getsid(node.pid)]


@pytest.mark.parametrize("training", [True, False])
def test_a_node_that_ends_its_workers_is_left_out_and_costs_no_trial(
    nodes: RayNodes, stsq: Any, write_sweep: Write, small: dict[str, Any], numbers: Numbers, training: bool
) -> None:
    small["trials"] = small["trials"][:1]
    small["trials"][0]["grid"] = {"model.positions.d_e": list(range(2, 14))}
    small["trials"][0]["base"]["training"] |= {"steps": 20_000, "log_every": 1000}
    sweep, run = write_sweep(small), stsq.folder / "runs/small"
    assert stsq.run("run", sweep, "--inline", *QUIET, "--out", "undisturbed", timeout_s=PATIENCE_S).code == 0
    ill, well = nodes.add(), nodes.nodes[0]
    process = stsq.start("run", sweep, *QUIET, "--address", nodes.address, **nodes.access)
    killed, held = set(), set()
    while process.poll() is None:
        with contextlib.suppress(OSError):  # one has ended by itself
            if len(killed) < 3:  # the healthy worker waits: it would train everything while others are killed and started
                for pid in set(workers_of(well, run, training=True)) - held:
                    os.kill(pid, signal.SIGSTOP)
                    held.add(pid)
            for pid in workers_of(ill, run, training=training) if held else ():
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            if len(killed) >= 3:
                for pid in held:
                    os.kill(pid, signal.SIGCONT)
        time.sleep(0.02)
    ended = stsq.wait(process, timeout_s=PATIENCE_S)
    assert ended.code == 0, ended.err
    assert len(killed) >= 3, ended.err
    assert ended.err.count("is left out for 10 minutes: it lost ") == 1, ended.err
    assert numbers(run) == numbers(stsq.folder / "undisturbed")


def test_a_frozen_node_keeps_no_pack_and_spoils_nothing_when_it_wakes(
    nodes: RayNodes, stsq: Any, sweep: Path, until: Any, numbers: Numbers, undisturbed: dict[str, tuple[object, ...]]
) -> None:
    """A worker that holds a claim is no loss of whoever waits for it: that one goes on after a minute."""
    run = stsq.folder / "runs/small"
    process = stsq.start("run", sweep, *QUIET, "--address", nodes.address, "--set", "budget.retries=1", **nodes.access)
    worker = one_in_training(run, until)
    os.kill(worker, signal.SIGSTOP)
    os.killpg(nodes.nodes[0].pid, signal.SIGSTOP)
    (claim,) = run.glob("checkpoints/*.claim")
    nodes.add()
    until(lambda: not claim.exists() or "claim 2" in claim.read_text(), timeout_s=PATIENCE_S, what="another worker's claim")
    os.kill(worker, signal.SIGCONT)
    os.killpg(nodes.nodes[0].pid, signal.SIGCONT)
    ended = stsq.wait(process, timeout_s=PATIENCE_S)
    assert ended.code == 0, ended
    assert "a pack was taken from a worker that was given up and did not end (process" in " ".join(ended.err.split())
    assert numbers(run) == undisturbed


def test_a_run_whose_workers_hang_and_then_are_gone_tells_both_stalls_and_goes_on(
    nodes: RayNodes, stsq: Any, sweep: Path, until: Any
) -> None:
    run, told = stsq.folder / "runs/small", stsq.folder / "told.jsonl"
    (stsq.folder / "tell.py").write_text(f"import sys\nwith open({str(told)!r}, 'a') as file: file.write(sys.stdin.read())\n")
    words = ("run", sweep, *QUIET, "--address", nodes.address, "--stalled-after", 15)
    process = stsq.start(*words, "--notify", f"{sys.executable} {stsq.folder / 'tell.py'}", **nodes.access)

    def verdicts() -> list[str]:
        return [json.loads(line)["verdict"] for line in told.read_text().splitlines()] if told.exists() else []

    def num(beginning: str) -> int:
        return sum(one.startswith(beginning) for one in verdicts())

    hung, gone = "no trial has ended and no step was trained for ", "no worker has had anything to train for "
    worker = one_in_training(run, until)
    os.kill(worker, signal.SIGSTOP)
    until(lambda: num(hung) == 1, timeout_s=PATIENCE_S, what="the notice of a stall")
    os.kill(worker, signal.SIGCONT)
    one_in_training(run, until)
    before = num(gone)  # the first worker may have taken more than the few seconds that are allowed here
    nodes.lose(nodes.nodes[0])
    until(lambda: num(gone) > before, timeout_s=PATIENCE_S, what="the notice that no worker is there")
    nodes.add()
    ended = stsq.wait(process, timeout_s=PATIENCE_S)
    assert ended.code == 0, ended
    assert verdicts()[-1] == "every trial ended as a result"


DRAIN = """
from ray._raylet import GcsClient
from ray.core.generated.autoscaler_pb2 import DrainNodeReason
(node,) = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
reason = DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
import time
accepted, why = GcsClient(address=ray.get_runtime_context().gcs_address).drain_node(node, reason, "spot", 2**31 * 1000)
print(accepted, why)
"""


def test_a_drained_node_gives_its_pack_to_another_at_no_cost_in_retries(
    nodes: RayNodes, stsq: Any, write_sweep: Write, small: dict[str, Any], until: Any, numbers: Numbers
) -> None:
    small["trials"] = small["trials"][1:]
    small["trials"][0]["base"]["task"]["kind"] = "held"
    small["trials"][0]["base"]["training"] |= {"steps": 3000, "log_every": 100}
    plugin, hold, run = stsq.folder / "held.py", stsq.folder / "hold", stsq.folder / "runs/small"
    plugin.write_text(held_text(hold))
    words = ("run", write_sweep(small), "--plugin", plugin, "--wandb", "disabled")
    assert stsq.run(*words, "--inline", "--out", "undisturbed", timeout_s=PATIENCE_S).code == 0
    hold.touch()
    words = (*words, "--address", nodes.address, "--set", "budget.retries=0", "--checkpoint-every", 1)
    process = stsq.start(*words, **nodes.access)
    worker = one_in_training(run, until)
    assert "True" in nodes.ask(DRAIN)
    until(lambda: worker not in in_mid_training(run), timeout_s=PATIENCE_S, what="the worker's leave")
    hold.unlink()
    nodes.add()
    ended = stsq.wait(process, timeout_s=PATIENCE_S)
    assert ended.code == 0, ended
    assert "a worker left a node that is taken away" in ended.err
    assert numbers(run) == numbers(stsq.folder / "undisturbed")


ASK_WHILE_ONE_GOES = """
import os, signal, threading, time
from cluster.tune.ray_cluster import ask_nodes, living_nodes

@ray.remote(num_cpus=0)
def slowly():
    time.sleep(6)
    return True

print(len(living_nodes()))
threading.Timer(3, os.killpg, (%d, signal.SIGKILL)).start()
print(len(list(ask_nodes(slowly, what="anything"))))
"""


def test_a_node_that_goes_while_it_is_asked_is_left_out(nodes: RayNodes) -> None:
    printed = nodes.ask(ASK_WHILE_ONE_GOES % nodes.add().pid)
    before, answered = (int(line) for line in printed.splitlines() if line.isdecimal())  # Ray has words of its own about it
    assert answered == before - 1 > 0


def test_a_lost_head_is_one_error_and_the_same_command_goes_on_when_it_is_back(
    nodes: RayNodes, stsq: Any, sweep: Path, until: Any, numbers: Numbers, undisturbed: dict[str, tuple[object, ...]]
) -> None:
    run = stsq.folder / "runs/small"
    words = ("run", sweep, *QUIET, "--address", nodes.address)
    process = stsq.start(*words, **nodes.access)
    one_in_training(run, until)
    kill(nodes.head)
    ended = stsq.wait(process, timeout_s=PATIENCE_S)
    assert ended.code == 2, ended
    (line,) = [line for line in ended.err.splitlines() if line.startswith("stsq:")]
    assert "the same command goes on" in line
    for node in list(nodes.nodes):
        nodes.lose(node)
    nodes.start_head()
    nodes.add()
    again = stsq.run(*words, timeout_s=PATIENCE_S, **nodes.access)
    assert again.code == 0, again
    assert numbers(run) == undisturbed


def test_storage_that_is_away_for_a_while_costs_no_trial(
    stsq: Any, sweep: Path, until: Any, numbers: Numbers, undisturbed: dict[str, tuple[object, ...]]
) -> None:
    run, away = stsq.folder / "runs/small", stsq.folder / "away"
    process = stsq.start("run", sweep, *QUIET, "--workers", 2)
    one_in_training(run, until)
    run.rename(away)  # as below a mount that went away
    time.sleep(20)
    assert process.poll() is None, stsq.wait(process)
    away.rename(run)
    ended = stsq.wait(process, timeout_s=PATIENCE_S)
    assert ended.code == 0, ended
    assert numbers(run) == undisturbed


FULL_DISK = """
mount -t tmpfs -o size=64k none disk || exit 99
python -m cluster run sweep.yaml --out disk/run --wandb disabled --workers 1 --checkpoint-every 0.2 2> first.err
echo $? > first.code
mount -o remount,size=64m disk
python -m cluster run sweep.yaml --out disk/run --wandb disabled --workers 1 2> second.err
echo $? > second.code
cp -r disk/run copied
"""


@pytest.mark.skipif(not shutil.which("unshare") or os.geteuid() != 0, reason="a small disk of one's own needs unshare and root")
def test_a_full_disk_is_one_error_and_the_same_command_goes_on_when_there_is_room(
    stsq: Any, sweep: Path, numbers: Numbers, undisturbed: dict[str, tuple[object, ...]]
) -> None:
    (stsq.folder / "disk").mkdir()
    script = FULL_DISK.replace("python", sys.executable)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], cwd=stsq.folder, env=environment, timeout=PATIENCE_S, check=False
    )
    if done.returncode == 99:
        pytest.skip("no file system can be mounted here")
    printed = {path.name: path.read_text() for path in stsq.folder.glob("*.err")}
    codes = [(stsq.folder / f"{which}.code").read_text().strip() for which in ("first", "second")]
    assert codes == ["2", "0"], printed
    (line,) = [line for line in printed["first.err"].splitlines() if line.startswith("stsq:")]
    assert "No space left on device; free some space" in line
    assert numbers(stsq.folder / "copied") == undisturbed


FILL = """
import numpy
held = [ray.put(numpy.zeros(2**20)) for _ in range(20)]
print("full", flush=True)
import time
time.sleep(100000)
"""


def test_a_full_object_store_hinders_nobody(
    stsq: Any, sweep: Path, numbers: Numbers, undisturbed: dict[str, tuple[object, ...]]
) -> None:
    """Packs and outcomes travel as a few kilobytes, in messages."""
    with RayNodes(head_cpus=1) as nodes:
        program = f"import ray\nray.init(address={nodes.address!r}, log_to_driver=False)\n{FILL}"
        filler = stsq.start(code=program, **nodes.access)
        assert any(line == "full\n" for line in filler.stdout)
        ended = stsq.run("run", sweep, *QUIET, "--address", nodes.address, timeout_s=PATIENCE_S, **nodes.access)
    assert ended.code == 0, ended
    assert numbers(stsq.folder / "runs/small") == undisturbed


HUNGRY = """
if Path(HUNGER).exists() and any(Path(HUNGER).parent.glob("runs/small/curves/*.jsonl")):
    Path(HUNGER).unlink()
    taken = []
    for _ in range(80):
        taken.append(b"x" * 2**27)
        time.sleep(0.2)
"""
"""Takes ten gigabytes, once, in training, where the file HUNGER exists."""


def test_a_worker_that_the_memory_monitor_ends_costs_its_pack_a_division_and_the_sweep_nothing(
    stsq: Any, write_sweep: Write, small: dict[str, Any], numbers: Numbers
) -> None:
    small["trials"] = small["trials"][1:]
    small["trials"][0] |= {"grid": {}, "seeds": 8}
    small["trials"][0]["base"]["task"]["kind"] = "hungry"
    plugin, hunger = stsq.folder / "hungry.py", stsq.folder / "hunger"
    plugin.write_text(plugin_text("hungry", HUNGRY.replace("HUNGER", repr(str(hunger)))))
    words = ("run", write_sweep(small), "--plugin", plugin, "--wandb", "disabled")
    assert stsq.run(*words, "--inline", "--out", "undisturbed").code == 0
    hunger.touch()
    memory = {line.split(":")[0]: int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines()}
    threshold = 1 - (memory["MemAvailable"] - 4e6) / memory["MemTotal"]
    monitor = {"RAY_memory_usage_threshold": str(threshold), "RAY_memory_monitor_refresh_ms": "100"}
    ended = stsq.run(*words, "--workers", 1, timeout_s=PATIENCE_S, **monitor)
    assert ended.code == 0, ended
    assert (
        "a worker was lost (out of memory: Ray's memory monitor ended it); its pack of 8 trials goes on in halves" in ended.err
    )
    assert "Traceback" not in ended.err
    assert "\x1b" not in ended.err, "no coloured lines of Ray's in a log"
    assert numbers(stsq.folder / "runs/small") == numbers(stsq.folder / "undisturbed")
