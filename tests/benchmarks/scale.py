"""A sweep of a million trials: its plan, and the report of its ledger, in seconds and in memory; or one of many cells.

    python tests/benchmarks/scale.py [--seeds 500] [--toy]
    python tests/benchmarks/scale.py --cells 5000

The sweep has 20 cells of 25 widths and 4 rates; its ledger is written here, with losses that fall as m^-3 and a spread over
seeds. Prints what `stsq plan` and `stsq report` take, each in a process of its own, and exits with 1 above the gates, which
hold for the million: 10 s and 1 GiB for the plan, 60 s and 4 GiB for the report.

With `--cells` the sweep has that many cells of 3 widths and 2 seeds, in one family. Prints the CPU seconds that `stsq show` and
`stsq report` take and the length of the longest line that they print. The gates hold for 5,000 cells with 30,000 ledger lines:
15 s for `show`, 60 s for the report, 500 characters a line.
"""

import json
import math
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from gates import Gates, parser_of

from stsq_core import TrialResult
from sweeps import load_sweep
from sweeps.cells.expanded_sweep import expand
from sweeps.store.jsonl import sealed
from sweeps.store.ledger import record_of_result
from sweeps.store.run_directory import create_or_open

GATES = {"plan": (10.0, 1.0), "report": (60.0, 4.0)}
"""Seconds and GiB."""
CPU_GATES = {"show": 15.0, "report": 60.0}
LINE_GATE = 500


def sweep_of(seeds: int) -> dict[str, object]:
    base = {
        "task": {"kind": "stsq", "T": 16, "q": 3, "d": 4},
        "model": {"kind": "transformer", "positions": {"kind": "random_sign", "d_e": 16}},
        "optimizer": {"kind": "adam", "lr": 0.03},
        "training": {"objective": "population", "batch_size": 64, "steps": 600},
    }
    grid = {
        "model.positions.d_e": list(range(8, 58, 2)),
        "optimizer.lr": [0.003, 0.01, 0.03, 0.1],
        "task.T": [16, 32, 64, 128],
        "task.q": [1, 2, 3, 4, 5],
    }
    return {
        "name": "million",
        "title": "A million trials",
        "hypothesis": "none: a benchmark",
        "criterion": {"target_loss": 0.1, "success_rate": 0.5, "level": 0.9},
        "trials": [{"name": "grid", "base": base, "grid": grid, "seeds": seeds}],
    }


def many_cells(cells: int) -> dict[str, object]:
    """A sweep of 20 cells for each T, some of whose thresholds lie beyond the widths."""
    sweep = sweep_of(2)
    [group] = sweep["trials"]
    lengths = list(range(16, 16 + math.ceil(cells / 20)))
    grid = {"model.positions.d_e": [8, 16, 32], "task.T": lengths, "task.q": [1, 2, 3, 4], "task.d": [1, 2, 3, 4, 5]}
    return sweep | {"name": "many-cells", "title": "Many cells", "trials": [group | {"grid": grid}]}


def write_run(sweep: Path, path: Path) -> int:
    """A run directory in which every trial has ended; returns how many."""
    spec = load_sweep(str(sweep))
    run, chance, count = create_or_open(path, spec), random.Random(0), 0
    with run.ledger.open("wb") as ledger:
        for cell in expand(spec):
            first = cell.trials[0]
            middle = first.task.d + 2.3 * first.task.q * math.log(first.task.T)
            record = record_of_result(TrialResult(first, "finished", 0.5, 0.01, 600, 1.0), pack_id="0" * 16, device="cpu")
            line = json.loads(record.as_json())
            config = line["config"]
            for trial_id, width, rate, seed in zip(
                cell.trials.trial_ids,
                cell.trials.widths.tolist(),
                cell.trials.rates.tolist(),
                cell.trials.seeds.tolist(),
                strict=True,
            ):
                config["model"]["positions"]["d_e"], config["optimizer"]["lr"], config["seed"] = (
                    width - first.task.d,
                    rate,
                    seed,
                )
                loss = min(1.0, 0.1 * (middle / width) ** 3 * math.exp(chance.gauss(0, 0.3)))
                text = json.dumps(line | {"trial_id": trial_id, "relative_loss": loss}, separators=(",", ":"))
                ledger.write(sealed(text.encode()))
                count += 1
    return count


def cost(*words: str) -> tuple[float, float]:
    """Seconds and GiB of a command; the memory is the most of any command so far, so run the lightest first."""
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-m", "cluster", *words], stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20


def cpu_seconds(*words: str) -> tuple[float, int]:
    """CPU seconds of a command, and the length of the longest line that it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    printed = subprocess.run([sys.executable, "-m", "cluster", *words], stdout=subprocess.PIPE, check=True, text=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent, max(map(len, printed.splitlines()))


def of_many_cells(cells: int, gates: Gates) -> int:
    with tempfile.TemporaryDirectory() as folder:
        sweep, run = Path(folder) / "cells.yaml", Path(folder) / "run"
        sweep.write_text(yaml.safe_dump(many_cells(cells)))
        count = write_run(sweep, run)
        for what, gate in CPU_GATES.items():
            seconds, longest = cpu_seconds(what, str(run))
            gates.at_most(f"{what} of {count // 6:,} cells, CPU", seconds, gate, "s")
            gates.at_most(f"{what} of {count // 6:,} cells, longest line", longest, LINE_GATE, "characters")
            print(f"{what} of {count // 6:,} cells, {count:,} trials: {seconds:.1f} s of CPU (gate {gate:g} s), ", end="")
            print(f"lines of up to {longest} characters (gate {LINE_GATE})")
    return gates.end()


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--seeds", type=int, default=500)
    parser.add_argument("--cells", type=int)
    args = parser.parse_args()
    gates = Gates("scale", toy=args.toy)
    if args.cells:
        return of_many_cells(20 if args.toy else args.cells, gates)
    seeds = 1 if args.toy else args.seeds
    with tempfile.TemporaryDirectory() as folder:
        sweep, run = Path(folder) / "million.yaml", Path(folder) / "run"
        sweep.write_text(yaml.safe_dump(sweep_of(seeds)))
        took = {"plan": cost("plan", str(sweep))}
        count = write_run(sweep, run)
        took["report"] = cost("report", str(run))
    for what, (seconds, gib) in took.items():
        most_seconds, most_gib = GATES[what]
        gates.at_most(f"{what} of {count:,} trials", seconds, most_seconds, "s")
        gates.at_most(f"{what} of {count:,} trials, memory", gib, most_gib, "GiB")
        print(f"{what} of {count:,} trials: {seconds:.1f} s, {gib:.2f} GiB (gates {most_seconds:g} s, {most_gib:g} GiB)")
    return gates.end()


if __name__ == "__main__":
    sys.exit(main())
