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

Victim = Literal["worker", "node", "driver"]
VICTIMS: tuple[Victim, ...] = ("worker", "worker", "node", "driver")


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
    functions of `seed`; which process that hits is the run's own matter.
    """

    def __init__(
        self, seed: int, nodes: RayNodes, run: Path, start: Callable[[], subprocess.Popen[str]], num_trials: int
    ) -> None:
        draw = random.Random(seed)
        self.order: list[Victim] = draw.sample(VICTIMS, len(VICTIMS))
        self._after = sorted(draw.randrange(int(0.8 * num_trials)) for _ in self.order)
        self._pauses = [draw.uniform(0.0, 1.0) for _ in self.order]
        self._draw, self._nodes, self._run, self._start = draw, nodes, run, start
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
            getattr(self, f"_kill_{victim}")(workers)
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

    def _num_ended(self) -> int:
        ledger = self._run / "ledger.jsonl"
        return ledger.read_bytes().count(b"\n") if ledger.exists() else 0


def in_mid_training(run: Path) -> list[int]:
    """The workers of a run whose packs have saved a state and have not ended."""
    workers = []
    for state in sorted(run.glob("checkpoints/*.state")):
        with contextlib.suppress(FileNotFoundError):  # the pack ended just now
            printed = re.match(r"process (\d+)", state.with_suffix(".claim").read_text())
            if printed and Path(f"/proc/{printed.group(1)}").exists():
                workers.append(int(printed.group(1)))
    return workers


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
