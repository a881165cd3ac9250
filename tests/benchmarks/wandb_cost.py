"""What publishing to W&B costs the process that trains, in CPU time, and what the publisher takes itself.

    python tests/benchmarks/wandb_cost.py [--pairs 12] [--trials 64] [--steps 200]

One process trains the same block of trials again and again (T=50, q=3, d=5, batch 256, a row at every step): in each pair once
with a publisher that follows its run directory and writes offline, and once with none, in turns. Its own CPU time is taken, of
all its threads and of no other process; the publisher has loaded before the block begins, and works all through it.

Other work on the machine only ever adds CPU time (caches, clock speeds), so each side is judged by the lower quartile of its
blocks; a block is never shortened, so the publisher's whole work is in every one. The interval resamples pairs. Exits with 0
where it lies below 3% (and the publisher took under 15 s for each block), 1 where it lies above, 3 where it does not decide:
more pairs do.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import yaml
from end_to_end import sweep_of

from cluster.worker import Order, outcome_from_json, train_order
from dashboards import PublisherProcess
from sweeps import expand, load_sweep, make_packs
from sweeps.ledger import Ledger, record_of_result
from sweeps.run_directory import RunDirectory, create_or_open

SIZE = {"T": 50, "q": 3, "d": 5, "batch": 256}
SHARE = 0.25
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
    pairs = np.random.default_rng(0).integers(0, len(plain), size=(num_resamples, len(plain)))
    ratios = np.quantile(published[pairs], SHARE, axis=1) / np.quantile(plain[pairs], SHARE, axis=1) - 1
    low, high = np.quantile(ratios, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(np.quantile(published, SHARE) / np.quantile(plain, SHARE) - 1), float(low), float(high))


def train_blocks() -> None:
    """In the process that trains: for each run directory on standard input, train its sweep and print the CPU seconds."""
    for line in sys.stdin:
        run = RunDirectory(Path(line.strip()))
        configs = [config for cell in expand(run.read_spec()) for config in cell.configs]
        packs = make_packs(configs, slots=4)
        ledger = Ledger(run.ledger)
        began = time.process_time()
        for pack in packs:
            outcome = outcome_from_json(train_order(Order(pack, run.path, "cpu", False, 60.0).as_json()))
            told = {"pack_id": pack.pack_id, "device": outcome.device}
            ledger.append(record_of_result(result, **told) for result in outcome.results)
        print(time.process_time() - began, flush=True)


class Trainer:
    """The process that trains."""

    def __init__(self, sweep: Path, folder: Path) -> None:
        self._spec = load_sweep(str(sweep))
        self._folder = folder
        self._num_blocks = 0
        command = [sys.executable, __file__, "--train-blocks"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def block(self, *, publish: bool) -> tuple[float, float]:
        """CPU seconds of the process that trains, and of the publisher; fails where a run file is missing."""
        self._num_blocks += 1
        run = create_or_open(self._folder / f"block-{self._num_blocks}", self._spec)
        if not publish:
            return self._train(run), 0.0
        with _publisher(run) as spent:
            seconds = self._train(run)
        num_files = len(list(run.wandb.glob("offline-run-*/*.wandb")))
        assert num_files == len(Ledger(run.ledger).trial_ids()), f"{num_files} run files"
        return seconds, spent[0]

    def close(self) -> None:
        self._process.communicate()

    def _train(self, run: RunDirectory) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(run.path, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())


@contextmanager
def _publisher(run: RunDirectory) -> Iterator[list[float]]:
    """A publisher that has loaded; its CPU seconds are told once it has ended."""
    spent: list[float] = []
    before = _seconds_of_children()
    publisher = PublisherProcess.start(run.path, mode="offline")
    while "W&B offline" not in (run.wandb / "publisher.log").read_text():
        assert publisher.process.poll() is None, (run.wandb / "publisher.log").read_text()
        time.sleep(0.05)
    yield spent
    assert publisher.finish(timeout_s=600)
    spent.append(_seconds_of_children() - before)


def _seconds_of_children() -> float:
    """CPU seconds of the children that have ended: publishers, as the trainer is alive."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--train-blocks", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.train_blocks:
        train_blocks()
        return 0
    with tempfile.TemporaryDirectory() as folder:
        sweep = Path(folder) / "sweep.yaml"
        told = sweep_of(args.trials, args.steps, SIZE)
        told["trials"][0]["base"]["training"]["log_every"] = 1
        sweep.write_text(yaml.safe_dump(told))
        trainer = Trainer(sweep, Path(folder))
        trainer.block(publish=True)  # compiles, and fills the caches
        rows = []
        for pair in range(args.pairs):
            blocks = {publish: trainer.block(publish=publish) for publish in ((True, False) if pair % 2 else (False, True))}
            rows.append((blocks[True][0], blocks[False][0], blocks[True][1]))
            print(f"pair {pair + 1}: training {rows[-1][0]:.2f} s published, {rows[-1][1]:.2f} s plain", flush=True)
        trainer.close()
    published, plain, publishers = np.array(rows).T
    found = estimate(published, plain)
    print(f"{args.trials} trials x {args.steps} steps, W&B offline, {args.pairs} pairs, lower quartile of blocks")
    print(f"training: {found.share:+.2%}, {LEVEL:.0%} interval {found.low:+.2%} to {found.high:+.2%} (gate {GATE:.0%})")
    print(f"publisher: {np.median(publishers):.1f} s of CPU, at most {publishers.max():.1f} s (gate {PUBLISHER_GATE_S:.0f} s)")
    verdict = found.verdict()
    if verdict == UNDECIDED:
        print(f"undecided: give more --pairs than {args.pairs}")
    return MISSED if publishers.min() > PUBLISHER_GATE_S else verdict


if __name__ == "__main__":
    sys.exit(main())
