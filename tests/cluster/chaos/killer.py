"""Who is killed when: a seeded order of victims, each taken in mid-run, and never two in one moment."""

import contextlib
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ray_nodes import RayNodes

Victim = Literal["worker", "node", "driver", "hungry worker", "ill node", "frozen node"]
VICTIMS: tuple[Victim, ...] = ("worker", "worker", "node", "driver", "hungry worker", "ill node", "frozen node")
"""What a round takes: the frozen node comes last, because a pack waits for it."""

ILL_NODE_ENDS = 3
"""Workers that a node ends before it is left out."""

HUNGER_BYTES = 2**28
"""How much memory is taken at a time."""


@dataclass
class Toll:
    """What a round's killer did: `hits` are workers that it took while their pack trained on from a saved state."""

    killed: dict[str, int] = field(default_factory=dict)
    hits: int = 0

    def __str__(self) -> str:
        printed = ", ".join(f"{count} {victim}{'s' if count > 1 else ''}" for victim, count in sorted(self.killed.items()))
        return f"killed {printed}; {self.hits} packs lost their worker in mid-training and had a state to go on from"


class Killer:
    """Takes one victim after another until a round's are done; `start` starts the driver and is called again after its death.

    The order, the trials that must have ended before each (so that kills spread over the run) and the pause after it are
    functions of `seed`; which process that hits is the run's own matter. `spare` is how many bytes of memory there are until
    Ray's monitor takes a worker.
    """

    def __init__(
        self, seed: int, nodes: RayNodes, run: Path, start: Callable[[], subprocess.Popen[str]], *, num_trials: int, spare: int
    ) -> None:
        draw = random.Random(seed)
        self.order: list[Victim] = [*draw.sample(VICTIMS[:-1], len(VICTIMS) - 1), VICTIMS[-1]]
        self._after = sorted(draw.randrange(int(0.5 * num_trials)) for _ in self.order)
        self._pauses = [draw.uniform(0.0, 1.0) for _ in self.order]
        self._draw, self._nodes, self._run, self._start, self._spare = draw, nodes, run, start, spare
        self.driver = start()
        self.toll = Toll()

    def kill_all(self, *, patience_s: float) -> None:
        """Take every victim of the round; the driver runs when this returns."""
        deadline = time.monotonic() + patience_s
        for victim, after, pause_s in zip(self.order, self._after, self._pauses, strict=True):
            while self._num_ended() < after or not (workers := in_mid_training(self._run)):
                assert time.monotonic() < deadline, f"no {victim} to kill after {after} trials within {patience_s} s"
                if self.driver.poll() is not None:
                    return  # the run ended before its time
                time.sleep(0.02)
            time.sleep(pause_s)
            self._deadline = deadline
            getattr(self, f"_kill_{victim.replace(' ', '_')}")(workers)
            self.toll.killed[victim] = self.toll.killed.get(victim, 0) + 1

    def _kill_worker(self, workers: list[int]) -> None:
        workers = in_mid_training(self._run) or workers
        if _killed(self._draw.choice(workers)):
            self.toll.hits += 1

    def _kill_node(self, workers: list[int]) -> None:
        """A node is lost with all that runs on it, and another one comes."""
        node = self._draw.choice(self._nodes.nodes)
        self.toll.hits += sum(_session_of(worker) == _session_of(node.pid) for worker in in_mid_training(self._run))
        self._nodes.lose(node)
        self._nodes.add()

    def _kill_driver(self, workers: list[int]) -> None:
        self.driver.send_signal(signal.SIGKILL)
        self.driver.communicate(timeout=30)
        self.driver = self._start()

    def _kill_hungry_worker(self, workers: list[int]) -> None:
        """Memory fills up until Ray's monitor ends a worker."""
        workers, taken = in_mid_training(self._run) or workers, []
        while all(map(_is_alive, workers)) and len(taken) * HUNGER_BYTES < 2 * self._spare and self.driver.poll() is None:
            taken.append(b"x" * HUNGER_BYTES)
            time.sleep(0.05)
        self.toll.hits += not all(map(_is_alive, workers))

    def _kill_ill_node(self, workers: list[int]) -> None:
        """A node ends each worker that trains there, until it is left out; then it is replaced."""
        node, killed = self._draw.choice(self._nodes.nodes), set[int]()
        while len(killed) < ILL_NODE_ENDS and self.driver.poll() is None and time.monotonic() < self._deadline:
            for worker in in_mid_training(self._run):
                if _session_of(worker) == _session_of(node.pid) and worker not in killed and _killed(worker):
                    killed.add(worker)
            time.sleep(0.02)
        self.toll.hits += len(killed)
        self._nodes.lose(node)
        self._nodes.add()

    def _kill_frozen_node(self, workers: list[int]) -> None:
        """A node stands still with a worker that holds a claim, wakes when another has taken the pack, and is lost."""
        while not (
            held := [
                (node, worker)
                for node in self._nodes.nodes
                for worker in in_mid_training(self._run)
                if _session_of(worker) == _session_of(node.pid)
            ]
        ):
            if self.driver.poll() is not None or time.monotonic() > self._deadline:
                return
            time.sleep(0.02)
        node, worker = self._draw.choice(held)
        os.kill(worker, signal.SIGSTOP)
        os.killpg(node.pid, signal.SIGSTOP)
        claims = [path for path in self._run.glob("checkpoints/*.claim") if _holder(path) == worker]
        self._nodes.add()
        while any(_holder(path) == worker for path in claims) and time.monotonic() < self._deadline:
            time.sleep(0.1)
        self.toll.hits += bool(claims)
        for resume in (os.kill, os.killpg):
            with contextlib.suppress(ProcessLookupError):
                resume(worker if resume is os.kill else node.pid, signal.SIGCONT)
        time.sleep(self._draw.uniform(0.0, 2.0))
        self._nodes.lose(node)

    def _num_ended(self) -> int:
        ledger = self._run / "ledger.jsonl"
        return ledger.read_bytes().count(b"\n") if ledger.exists() else 0


def in_mid_training(run: Path) -> list[int]:
    """The workers of a run whose packs have saved a state and have not ended."""
    workers = []
    for state in sorted(run.glob("checkpoints/*.state")):
        with contextlib.suppress(FileNotFoundError):  # the pack ended just now
            worker = _holder(state.with_suffix(".claim"))
            if worker is not None and _is_alive(worker):
                workers.append(worker)
    return workers


def _holder(claim: Path) -> int | None:
    """The process that holds a claim; None where nobody does."""
    try:
        printed = re.match(r"process (\d+)", claim.read_text())
    except FileNotFoundError:
        return None
    return int(printed.group(1)) if printed else None


def _is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _killed(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return -1
