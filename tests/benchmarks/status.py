"""`stsq status` beside a run of 100,000 trials: it answers while people wait.

    python tests/benchmarks/status.py [--seeds 50] [--tries 3] [--toy]

Writes the run directory of a sweep of 20 cells, 25 widths and 4 rates, whose trials have ended up to a half, and asks for its
status as a user does, in a process of its own. Prints the least seconds of all tries and what of them is the start of Python
with our command, and exits with 1 above the gate of a second at the 100,000 trials.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from gates import Gates, parser_of
from scale import sweep_of, write_run

GATE_S = 1.0


def halved(ledger: Path) -> int:
    """Leave the first half of a ledger; returns how many lines that is."""
    lines = ledger.read_bytes().splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines[: len(lines) // 2]))
    return len(lines) // 2


def least_seconds(tries: int, *words: str) -> float:
    """The least that a command takes: the rest is other programs on the machine."""
    took = []
    for _ in range(tries):
        begun = time.perf_counter()
        subprocess.run([sys.executable, "-m", "cluster", *words], stdout=subprocess.DEVNULL, check=True)
        took.append(time.perf_counter() - begun)
    return min(took)


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--tries", type=int, default=3)
    args = parser.parse_args()
    if args.toy:
        args.seeds = args.tries = 1
    with tempfile.TemporaryDirectory() as folder:
        sweep, run = Path(folder) / "sweep.yaml", Path(folder) / "run"
        sweep.write_text(yaml.safe_dump(sweep_of(args.seeds)))
        trials = write_run(sweep, run)
        ended = halved(run / "ledger.jsonl")
        start_s = least_seconds(args.tries, "--version")
        seconds = least_seconds(args.tries, "status", str(run))
    print(f"status of {ended:,} of {trials:,} trials: {seconds:.2f} s (gate {GATE_S:g} s), the command's start {start_s:.2f} s")
    gates = Gates("status", toy=args.toy)
    gates.at_most(f"status of {trials:,} trials", seconds, GATE_S, "s")
    return gates.end()


if __name__ == "__main__":
    sys.exit(main())
