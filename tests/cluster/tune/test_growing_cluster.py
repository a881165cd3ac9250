"""A cluster that grows under a sweep, on real Ray nodes: GPUs that come later, shared by workers; and what Prometheus reads.

The GPUs are Ray's logical ones: workers are placed by them, see that torch has none, and train on the CPU with packs for it.
"""

import json
import re
import signal
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from own_task import plugin_text
from ray_nodes import RayNodes

from cluster.tune.metrics import METRICS
from sweeps.store.live_training import read_training
from sweeps.store.run_directory import RunDirectory

pytestmark = pytest.mark.clusters

PATIENCE_S = 400
LINE = re.compile(r"(\w+)\{(.*)\} (\S+)")


@pytest.fixture
def nodes() -> Iterator[RayNodes]:
    with RayNodes(head_cpus=0) as cluster:
        yield cluster


def line_of(process: Any, beginning: str) -> str:
    """The next line on a process's standard error that begins so."""
    return next(line for line in process.stderr if line.startswith(beginning))


def workers_of(run: Path) -> set[str]:
    """Who trains now."""
    return {one.worker for one in read_training(RunDirectory(run), now=time.time())}


def numbers_at(nodes: RayNodes) -> dict[tuple[str, str], float]:
    """What the nodes' endpoints tell of stsq now, by name and the tag that is not the run's own."""
    ports = nodes.ask("print(*{node['MetricsExportPort'] for node in ray.nodes() if node['Alive']})").split()
    found = {}
    for port in ports:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
                text = answer.read().decode()
        except urllib.error.URLError:  # an agent that is still starting
            continue
        for name, tags, value in LINE.findall(text):
            labels = dict(re.findall(r'(\w+)="([^"]*)"', tags))
            if name.startswith("ray_stsq") and labels["sweep"] == "small":
                found[name, labels.get("status", labels.get("state", ""))] = float(value)
    return found


def test_workers_follow_the_gpus_that_come_and_prometheus_sees_them(
    stsq: Any, write_sweep: Callable[..., Path], small: dict[str, Any], until: Any, nodes: RayNodes
) -> None:
    small["trials"] = small["trials"][:1]
    small["trials"][0]["grid"]["task.T"] = [6, 7, 8, 9, 10, 11]  # a pack each at least, so that some wait for workers to come
    small["trials"][0]["base"]["training"] |= {"steps": 10**7, "log_every": 1000}
    run = stsq.folder / "runs/small"
    words = ("--address", nodes.address, "--wait-for-gpus", 10, "--gpus-per-worker", 0.5, "--wandb", "disabled")
    process = stsq.start("run", write_sweep(small), *words, **nodes.access)
    line_of(process, "the cluster has no GPU yet: waiting 10 minutes")

    nodes.add(num_cpus=2, num_gpus=1)
    assert line_of(process, "Ray is up") == "Ray is up: 2 workers (0.5 of a GPU each) on 2 nodes\n"
    until(lambda: len(workers_of(run)) == 2, timeout_s=PATIENCE_S, what="two workers that share a GPU")

    nodes.add(num_cpus=1, num_gpus=1)
    until(lambda: len(workers_of(run)) == 3, timeout_s=PATIENCE_S, what="a worker on the GPU that came later")

    def all_at_work() -> dict[tuple[str, str], float] | None:
        found = numbers_at(nodes)
        return found if found.get(("ray_stsq_packs", "in_flight")) == found.get(("ray_stsq_workers", "")) == 3 else None

    found = until(all_at_work, timeout_s=PATIENCE_S, what="three workers at work, as Prometheus reads it")
    assert {name for name, _ in found} == {metric.exported_name for metric in METRICS}
    assert sum(value for (name, _), value in found.items() if name == "ray_stsq_trials") == 24

    process.send_signal(signal.SIGINT)
    ended = stsq.wait(process, timeout_s=PATIENCE_S)
    assert ended.code == 130, ended
    assert "Traceback" not in ended.err


HELD = """
if Path({all!r}).exists() or (Path({last!r}).exists() and self.task.T == 15):
    time.sleep(0.1)
"""


@pytest.mark.parametrize("node", [{"CPU": 1}, {"CPU": 1, "GPU": 1}], ids=["cores", "GPUs"])
def test_nodes_are_asked_for_while_packs_wait_and_let_go_as_they_run_out(
    stsq: Any, write_sweep: Callable[..., Path], small: dict[str, Any], until: Any, node: dict[str, int]
) -> None:
    small["trials"] = small["trials"][:1]
    small["trials"][0]["grid"] = {"task.T": list(range(4, 16))}
    small["trials"][0]["seeds"] = 1
    small["trials"][0]["base"]["task"]["kind"] = "held"
    small["trials"][0]["base"]["training"] |= {"steps": 2000, "log_every": 100, "objective": "minibatch"}
    held, last, plugin, run = (stsq.folder / name for name in ("all", "last", "held.py", "runs/small"))
    plugin.write_text(plugin_text("held", HELD.format(all=str(held), last=str(last))))
    words = ("--plugin", plugin, "--max-workers", 3, "--wandb", "disabled", *(("--wait-for-gpus", 10) if "GPU" in node else ()))
    with RayNodes(head_cpus=0, node_types={"worker": node}) as nodes:

        def num_alive() -> int:
            return int(nodes.ask("print(sum(node['Alive'] for node in ray.nodes()) - 1)").split()[-1])

        process = stsq.start("run", write_sweep(small), "--address", nodes.address, *words, **nodes.access)
        line_of(process, "Ray is up")  # by then the plugin has been tried
        held.touch(), last.touch()
        until(lambda: process.poll() or len(workers_of(run)) == 3, timeout_s=PATIENCE_S, what="a worker on each of three nodes")
        assert process.poll() is None, process.communicate()
        # Ray may start a node too many for a request that it is just about to fulfil, and lets it go again.
        until(
            lambda: num_alive() == 3, timeout_s=PATIENCE_S, what="of the four that the cluster may have, the three of the bound"
        )
        assert len(workers_of(run)) == 3
        held.unlink()
        until(lambda: num_alive() == 1, timeout_s=PATIENCE_S, what="the end of the nodes that no pack needs")
        assert len(workers_of(run)) == 1
        last.unlink()
        ended = stsq.wait(process, timeout_s=PATIENCE_S)
    assert ended.code in (0, 3), ended
    ids = [line["trial_id"] for line in map(json.loads, (run / "ledger.jsonl").read_text().splitlines())]
    assert len(ids) == len(set(ids)) == 12


def test_a_gpu_that_never_comes_ends_the_wait(stsq: Any, write_sweep: Callable[..., Path], nodes: RayNodes) -> None:
    words = ("--address", nodes.address, "--wait-for-gpus", 0.01, "--wandb", "disabled")
    ended = stsq.run("run", write_sweep(), *words, timeout_s=PATIENCE_S, **nodes.access)
    assert ended.code == 2, ended
    assert "no GPU has come to the cluster in 0.01 minutes" in ended.err
