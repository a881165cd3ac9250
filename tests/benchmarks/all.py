"""All benchmarks that have gates, one after the other, and one table of their gates at the end: what `make bench` runs.

    python tests/benchmarks/all.py [--only NAME ...] [--toy]

Prints what each prints, then a line a gate: its value, its bound, and whether it is met. Exits with 1 where a gate is missed or
a benchmark breaks, else with 3 where one is undecided. What cannot run on this machine (no GPU, no JAX) is named.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from gates import FILE, Gate, exit_code, gates_in, parser_of

HERE = Path(__file__).parent
RUNS = (
    "engine",
    "gpu_engine",
    "networks",
    "prompt_packs",
    "end_to_end --trials 64",
    "end_to_end --trials 256 --peer-trials 96",
    "end_to_end --trials 64 --wandb --peer-trials 16",
    "end_to_end --trials 256 --wandb --peer-trials 16",
    "overhead",
    "overhead --size small",
    "scale",
    "scale --cells 5000",
    "scheduler --packs 60000 --trials 2",
    "status",
    "time_left",
    "wandb_cost --pairs 40",
    "search_scale",
    "objectives",
)


def measure(run: str, *, toy: bool) -> list[Gate]:
    """Run one benchmark; its gates, and one more where it broke."""
    name, *words = run.split()
    command = [sys.executable, str(HERE / f"{name}.py"), *words, *(["--toy"] if toy else [])]
    print(f"\n== {run}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "gates.jsonl"
        file.touch()
        begun = time.perf_counter()
        code = subprocess.run(command, env=os.environ | {FILE: str(file)}, check=False).returncode
        print(f"== {time.perf_counter() - begun:.0f} s", flush=True)
        gates = gates_in(file)
    if code not in (0, exit_code(gates)) or not gates:
        gates.append(Gate(name, f"{run} to its end", f"exit code {code}", "0", "missed"))
    return gates


def table(gates: Sequence[Gate]) -> str:
    """A line a gate."""
    rows = [("benchmark", "gate", "value", "bound", "")]
    rows += [(gate.benchmark, gate.gate, gate.value, gate.bound, gate.verdict) for gate in gates]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="run these benchmarks alone, such as engine")
    args = parser.parse_args()
    begun, gates = time.perf_counter(), list[Gate]()
    for run in RUNS:
        if not args.only or run.split()[0] in args.only:
            gates += measure(run, toy=args.toy)
    print(f"\n{table(gates)}\n")
    words = ("ok", "missed", "undecided", "not run")
    counts = ", ".join(f"{sum(gate.verdict == word for gate in gates)} {word}" for word in words)
    print(f"{len(gates)} gates: {counts}; {(time.perf_counter() - begun) / 60:.1f} minutes")
    if args.toy:
        return int(any(gate.gate.endswith("to its end") for gate in gates))
    return exit_code(gates)


if __name__ == "__main__":
    sys.exit(main())
