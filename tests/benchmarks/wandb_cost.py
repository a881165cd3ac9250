"""What publishing to W&B costs the process that trains, in CPU time, and what the publisher takes itself.

    python tests/benchmarks/wandb_cost.py [--pairs 12] [--trials 64] [--steps 200] [--size ordinary|small] [--beside] [--toy]

One process trains blocks of trials (T=50, q=3, d=5, batch 256; small: T=32, d=4, batch 64; a row at every step). In each pair
it trains the same block twice, in turns: once into a run directory that a publisher follows and writes offline, and once into
another while that publisher is stopped (SIGSTOP). So everything the publisher does falls into the first kind of block, and
nothing into the second. The CPU time of the process that trains is taken, of all its threads and of no other process.

Both work in turns on one CPU, so that CPU time counts work. On two hyperthreads of a core (`--beside`) whoever works on the
other slows the training, W&B or not: that is a price of the machine, and told apart in this way.

What else the machine does drifts, so the two blocks of a pair, which follow each other, are compared with each other: the
number is the median over pairs of published over plain, and the interval resamples pairs. Exits with 0 where it lies below 3%
and the publisher takes under 15 s for the trials of one block, 1 where it lies above, 3 undecided: give more pairs.
"""

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from end_to_end import sweep_of
from gates import Gates, parser_of
from overhead import SIZES
from peers.plain_tune import WIDTHS

from cluster.run.worker import Order, outcome_from_json, train_order
from dashboards import PublisherProcess
from stsq_core import TrialConfig
from sweeps import expand, load_sweep, make_packs
from sweeps.store.ledger import Ledger, record_of_result
from sweeps.store.run_directory import RunDirectory, create_or_open

GATE = 0.03
PUBLISHER_GATE_S = 15.0
LEVEL = 0.9
MET, MISSED, UNDECIDED = 0, 1, 3


@dataclass(frozen=True)
class Estimate:
    """The share by which publishing lengthens a block, and the interval of that at `LEVEL`."""

    share: float
    low: float
    high: float

    def verdict(self) -> int:
        """The exit code."""
        if self.high <= GATE:
            return MET
        return MISSED if self.low > GATE else UNDECIDED


def estimate(published: np.ndarray, plain: np.ndarray, *, num_resamples: int = 4000) -> Estimate:
    """From the CPU seconds of each pair's blocks, [pair] each."""
    ratios = published / plain
    resampled = ratios[np.random.default_rng(0).integers(0, len(ratios), size=(num_resamples, len(ratios)))]
    low, high = np.quantile(np.median(resampled, axis=1), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(np.median(ratios)) - 1, float(low) - 1, float(high) - 1)


def train_blocks(trials: int) -> None:
    """In the process that trains: for each run directory and block on standard input, train it and print the CPU seconds."""
    for line in sys.stdin:
        path, block = line.split()
        run = RunDirectory(Path(path))
        packs = make_packs(_configs(run, int(block), trials // len(WIDTHS)), slots=4)
        ledger = Ledger(run.ledger)
        began = time.process_time()
        for pack in packs:
            outcome = outcome_from_json(train_order(Order(pack, run.path, "cpu", False, 60.0).as_json()))
            printed = {"pack_id": pack.pack_id, "device": outcome.device}
            ledger.append(record_of_result(result, **printed) for result in outcome.results)
        print(time.process_time() - began, flush=True)


def _configs(run: RunDirectory, block: int, num_seeds: int) -> list[TrialConfig]:
    """The trials of a block: its seeds at every width."""
    (cell,) = expand(run.read_spec())
    seeds = np.unique(cell.trials.seeds)[block * num_seeds : (block + 1) * num_seeds]
    return list(cell.trials.take(np.isin(cell.trials.seeds, seeds)))


class Trainer:
    """The process that trains."""

    def __init__(self, trials: int) -> None:
        command = [sys.executable, __file__, "--train-blocks", "--trials", str(trials)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def train(self, run: RunDirectory, block: int) -> float:
        """CPU seconds that the process that trains takes for a block."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(run.path, block, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


class FollowedRun:
    """A run directory whose publisher works inside of `publishing` blocks only."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self._before = _seconds_of_children()
        self._publisher = PublisherProcess.start(run.path, mode="offline")
        while "W&B offline" not in (run.wandb / "publisher.log").read_text():
            assert self._publisher.process.poll() is None, (run.wandb / "publisher.log").read_text()
            time.sleep(0.05)
        ticks = Path(f"/proc/{self._publisher.process.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        self.start_s = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    @contextmanager
    def publishing(self) -> Iterator[None]:
        self._publisher.process.send_signal(signal.SIGCONT)
        yield
        self._publisher.process.send_signal(signal.SIGSTOP)

    def finish(self) -> float:
        """CPU seconds of the publisher; fails where a run file is missing."""
        self._publisher.process.send_signal(signal.SIGCONT)
        assert self._publisher.finish(timeout_s=600)
        num_files = len(list(self.run.wandb.glob("offline-run-*/*.wandb")))
        assert num_files == len(Ledger(self.run.ledger).trial_ids()), f"{num_files} run files"
        return _seconds_of_children() - self._before


def _seconds_of_children() -> float:
    """CPU seconds of the children that have ended: publishers, as the trainer is alive."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(pairs: int, trials: int, steps: int, size: str, folder: Path) -> tuple[np.ndarray, np.ndarray, float]:
    """CPU seconds of published and plain blocks, [pair] each, and of the publisher for the trials of one block."""
    sweep = folder / "sweep.yaml"
    printed: dict[str, Any] = sweep_of(trials * (pairs + 1), steps, SIZES[size]) | {"wandb": {"max_trial_runs": 1_000_000}}
    printed["trials"][0]["base"]["training"]["log_every"] = 1
    sweep.write_text(yaml.safe_dump(printed))
    spec = load_sweep(str(sweep))
    runs = [create_or_open(folder / name, spec) for name in ("plain", "followed")]
    for run in runs:
        run.make_rooms()
    plain, followed = runs[0], FollowedRun(runs[1])
    trainer = Trainer(trials)
    rows = []
    for pair in range(pairs + 1):
        seconds = {}
        for publish in (True, False) if pair % 2 else (False, True):
            with followed.publishing() if publish else nullcontext():
                seconds[publish] = trainer.train(followed.run if publish else plain, pair)
        rows.append((seconds[True], seconds[False]))
        print(f"pair {pair}: {seconds[True]:.2f} s published, {seconds[False]:.2f} s plain", flush=True)
    publisher_s = followed.start_s + (followed.finish() - followed.start_s) / (pairs + 1)
    trainer.close()  # after the publisher, whose CPU time is that of the children that have ended
    published_s, plain_s = np.array(rows[1:]).T  # the first compiles, and fills the caches
    return published_s, plain_s, publisher_s


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--size", choices=SIZES, default="ordinary")
    parser.add_argument("--beside", action="store_true", help="let the publisher work on another CPU than the training")
    parser.add_argument("--train-blocks", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.toy:
        args.pairs, args.trials, args.steps = 1, 8, 2
    if args.train_blocks:
        train_blocks(args.trials)
        return MET
    if not args.beside:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        published, plain, publisher_s = measure(args.pairs, args.trials, args.steps, args.size, Path(folder))
    found = estimate(published, plain)
    print(f"{args.trials} trials x {args.steps} steps ({args.size}), W&B offline, {args.pairs} pairs, median")
    print(f"training: {found.share:+.2%}, {LEVEL:.0%} interval {found.low:+.2%} to {found.high:+.2%} (gate {GATE:.0%})")
    print(f"publisher: {publisher_s:.1f} s of CPU for {args.trials} trials (gate {PUBLISHER_GATE_S:.0f} s)")
    gates = Gates("wandb_cost", toy=args.toy)
    share, bound = f"training beside the publisher, {args.pairs} pairs", 100 * GATE
    if found.verdict() == UNDECIDED:
        between = f"at most {bound:g}%: {100 * found.low:.1f} to {100 * found.high:.1f}%, give more --pairs"
        gates.undecided(share, 100 * found.share, between, "%")
    else:
        gates.at_most(share, 100 * (found.high if found.verdict() == MET else found.low), bound, "%")
    gates.at_most(f"publisher, {args.trials} trials, CPU", publisher_s, PUBLISHER_GATE_S, "s")
    return gates.end()


if __name__ == "__main__":
    sys.exit(main())
