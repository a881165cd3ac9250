"""A sweep of 200 trials, ten times, on three real raylets: `make chaos`. In each round workers, a node and the driver are
killed, Ray's memory monitor takes a worker, a node ends its workers, and a node is frozen until its pack is another's.

    CHAOS_SEED=7 make chaos

Every trial ends exactly once in the ledger with the bits of an undisturbed inline run, and W&B's offline files hold one run a
trial with every step once. The seed, and what each round did, is printed.
"""

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from killer import VICTIMS, Killer
from ray_nodes import RayNodes
from wandb_files import read_run

from sweeps.store.journal import read_curves
from sweeps.store.run_directory import RunDirectory

pytestmark = pytest.mark.chaos

Numbers = Callable[[Path], dict[str, tuple[object, ...]]]

ROUNDS = 10
NUM_TRIALS = 200
PATIENCE_S = 600.0

SWEEP: dict[str, Any] = {
    "name": "chaos",
    "hypothesis": "Kills change no number.",
    "criterion": {"target_loss": 0.6},
    "trials": [
        {
            "name": "transformer",
            "base": {
                "task": {"kind": "stsq", "T": 6, "q": 2, "d": 2},
                "model": {"kind": "transformer", "positions": {"kind": "random_sign", "d_e": 8}},
                "optimizer": {"kind": "adam", "lr": 0.03},
                "training": {"objective": "population", "batch_size": 16, "steps": 80_000, "log_every": 4000},
                "evaluation": {"samples": 4096},
            },
            "grid": {"task.T": [6, 8, 10, 12, 14], "model.positions.d_e": [4, 8]},
            "seeds": 10,
        },
        {
            "name": "fcn",
            "base": {
                "task": {"kind": "stsq", "T": 4, "q": 2, "d": 2},
                "model": {"kind": "fcn", "width": 8, "tail_width": 16},
                "optimizer": {"kind": "adam", "lr": 0.01},
                "training": {"batch_size": 16, "steps": 150_000, "log_every": 7500},
                "evaluation": {"samples": 4096},
            },
            "grid": {"task.T": [4, 6, 8, 10, 12], "model.width": [4, 8]},
            "seeds": 10,
        },
    ],
}


@pytest.fixture(scope="module")
def memory() -> dict[str, int]:
    """What the system says of this machine's memory, in bytes."""
    return {line.split(":")[0]: 1024 * int(line.split()[1]) for line in Path("/proc/meminfo").read_text().splitlines()}


@pytest.fixture(scope="module")
def spare(memory: dict[str, int]) -> int:
    """Bytes until Ray's monitor takes a worker: what else runs on this machine may grow by as much before it disturbs."""
    return memory["MemAvailable"] // 2


@pytest.fixture(scope="module")
def nodes(memory: dict[str, int], spare: int) -> Iterator[RayNodes]:
    threshold = 1 - (memory["MemAvailable"] - spare) / memory["MemTotal"]
    monitor = {"RAY_memory_usage_threshold": str(threshold), "RAY_memory_monitor_refresh_ms": "100"}
    with RayNodes(head_cpus=1, **monitor) as cluster:
        cluster.add()
        cluster.add()
        yield cluster


def test_ten_rounds_of_kills_change_no_bit_and_lose_no_trial(
    nodes: RayNodes,
    spare: int,
    stsq: Any,
    write_sweep: Callable[..., Path],
    numbers: Numbers,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seed = int(os.environ.get("CHAOS_SEED") or random.randrange(10_000))
    rounds = int(os.environ.get("CHAOS_ROUNDS") or ROUNDS)
    sweep, undisturbed = write_sweep(SWEEP), stsq.folder / "undisturbed"
    assert stsq.run("run", sweep, "--inline", "--wandb", "disabled", "--out", undisturbed, timeout_s=PATIENCE_S).code == 0
    expected = numbers(undisturbed)
    assert len(expected) == NUM_TRIALS
    say(capsys, f"seed {seed} (CHAOS_SEED={seed} repeats it), {rounds} rounds of {NUM_TRIALS} trials on 3 nodes")
    hits = kills = 0
    for number in range(rounds):
        run = stsq.folder / f"round-{number}"
        words = ("run", sweep, "--address", nodes.address, "--out", run, "--wandb", "offline", "--checkpoint-every", 0.1)
        words += ("--set", "budget.retries=20")
        began = time.monotonic()
        start = partial(stsq.start, *words, **nodes.access)
        killer = Killer(seed + number, nodes, run, start, num_trials=NUM_TRIALS, spare=spare)
        killer.kill_all(patience_s=PATIENCE_S)
        ended = stsq.wait(killer.driver, timeout_s=PATIENCE_S)
        assert ended.code == 0, ended.err
        assert numbers(run) == expected
        assert curves_of(run) == curves_of(undisturbed)
        check_wandb_files(run)
        hits += killer.toll.hits
        kills += sum(killer.toll.killed.values())
        say(capsys, f"round {number + 1}: {killer.toll}; {time.monotonic() - began:.0f} s, every trial once and bit-equal")
        shutil.rmtree(run)
    least, most = (len(VICTIMS) - 2) * rounds, len(VICTIMS) * rounds
    assert kills >= least, f"only {kills} of {most} kills came before their run ended: give the sweep more steps"
    assert hits >= rounds, f"only {hits} kills in {rounds} rounds met a pack in mid-training: give the sweep more steps"


def check_wandb_files(run: Path) -> None:
    """One file a trial, which holds every step of its journal once and in order."""
    curves, seen = read_curves(RunDirectory(run)), set()
    for path in run.glob("wandb/offline-run-*/*.wandb"):
        output = read_run(path)
        trial_id = output.config["trial_id"]
        assert trial_id not in seen, f"two W&B files for trial {trial_id}"
        seen.add(trial_id)
        assert output.exit_code == 0
        assert [row["step"] for row in output.history] == curves[trial_id][0].tolist()
        assert [row["relative_loss"] for row in output.history] == curves[trial_id][1].tolist()
    assert seen == curves.keys()
    assert len(seen) == NUM_TRIALS


def curves_of(run: Path) -> dict[str, list[list[float]]]:
    return {trial_id: [part.tolist() for part in curve] for trial_id, curve in read_curves(RunDirectory(run)).items()}


def say(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with capsys.disabled():
        print(text, flush=True)
