"""What a sweep takes beside its training: evaluation, reports, W&B files, ledger and page, as a share of the steps alone.

    python tests/benchmarks/overhead.py [--trials 600] [--steps 600] [--size ordinary|small] [--toy]

First the packs of the sweep are trained by two bare processes that take the steps and nothing else; then `stsq run` does the
whole of it with W&B offline, counted from its first measurement, when its workers have loaded, to the end of the command. Both
use the same cores, one after the other. Prints the seconds and the share, and exits with 1 when that is above a tenth, or at
the small size a fifth: with batches of 64 the 4,096 samples of an evaluation are a ninth of all that a trial ever sees.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from multiprocessing import get_context
from pathlib import Path

import yaml
from end_to_end import sweep_of
from gates import Gates, parser_of

from sweeps import load_sweep
from sweeps.cells.expanded_sweep import expand

WORKERS = 2
SIZES = {"ordinary": {"T": 50, "q": 3, "d": 5, "batch": 256}, "small": {"T": 32, "q": 3, "d": 4, "batch": 64}}
GATES = {"ordinary": 0.1, "small": 0.2}


def steps_alone(sweep: Path, share: int, workers: int, ready: object, begin: object) -> None:
    """Train one of the `workers` shares of a sweep's packs: draws, gradients and updates."""
    import torch

    from stsq_core.training.stack import Stack
    from sweeps import make_packs

    torch.set_num_threads(1)
    configs = [config for cell in expand(load_sweep(str(sweep))) for config in cell.configs]
    packs = make_packs(configs, slots=workers)[share::workers]
    warm = Stack(packs[0].configs[:2], torch.device("cpu"))
    warm._advance()
    ready.release()
    begin.wait()
    for pack in packs:
        stack = Stack(pack.configs, torch.device("cpu"))
        while stack.state.step < pack.num_steps:
            stack.state.step += stack._advance_quietly()


def seconds_of_steps(sweep: Path, workers: int) -> float:
    """Seconds that the steps of all packs take on so many cores."""
    context = get_context("spawn")
    ready, begin = context.Semaphore(0), context.Event()
    processes = [context.Process(target=steps_alone, args=(sweep, share, workers, ready, begin)) for share in range(workers)]
    for process in processes:
        process.start()
    for _ in processes:
        ready.acquire()
    begun = time.perf_counter()
    begin.set()
    for process in processes:
        process.join()
    assert all(process.exitcode == 0 for process in processes)
    return time.perf_counter() - begun


def seconds_of_run(sweep: Path, out: Path, workers: int) -> float:
    """Seconds of `stsq run` from the first measurement to the end of the command."""
    first: list[float] = []
    command = [sys.executable, "-m", "cluster", "run", str(sweep), "--out", str(out), "--workers", str(workers)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=os.environ | {"WANDB_MODE": "offline"})

    def watch() -> None:
        while process.poll() is None and not first:
            time.sleep(0.02)
            if any(path.read_text().count("\n") > 1 for path in out.glob("curves/*.jsonl")):
                first.append(time.perf_counter())

    thread = threading.Thread(target=watch)
    thread.start()
    code = process.wait()
    ended = time.perf_counter()
    thread.join()
    assert first, f"stsq run ended with {code} and no measurement"
    return ended - first[0]


def num_wandb_runs(sweep: Path) -> int:
    """One a trial, or one a cell of a sweep of more trials than it allows."""
    spec = load_sweep(str(sweep))
    cells = expand(spec)
    trials = sum(len(cell.trials) for cell in cells)
    return trials if trials <= spec.wandb.max_trial_runs else len(cells)


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--trials", type=int, default=600)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--size", choices=SIZES, default="ordinary")
    args = parser.parse_args()
    workers = WORKERS
    if args.toy:
        args.trials, args.steps, workers = 8, 20, 1
    with tempfile.TemporaryDirectory() as folder:
        sweep, out = Path(folder) / "sweep.yaml", Path(folder) / "run"
        sweep.write_text(yaml.safe_dump(sweep_of(args.trials, args.steps, SIZES[args.size])))
        alone, whole = seconds_of_steps(sweep, workers), seconds_of_run(sweep, out, workers)
        ended = len((out / "ledger.jsonl").read_text().splitlines())
        published, due = len(list(out.glob("wandb/offline-run-*/*.wandb"))), num_wandb_runs(sweep)
    assert (ended, published) == (args.trials, due), f"{ended} of {args.trials} trials ended, {published} of {due} W&B runs"
    share, gate = whole / alone - 1, GATES[args.size]
    what = f"{args.trials} trials x {args.steps} steps at {SIZES[args.size]} on {workers} cores, W&B offline"
    print(f"{what}: steps {alone:.1f} s, run {whole:.1f} s")
    print(f"beside the steps: {share:.1%} (gate {gate:.0%})")
    gates = Gates("overhead", toy=args.toy)
    gates.at_most(f"{args.trials} trials, {args.size}, beside the steps", 100 * share, 100 * gate, "%")
    return gates.end()


if __name__ == "__main__":
    sys.exit(main())
