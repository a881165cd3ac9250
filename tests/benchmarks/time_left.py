"""How wrong the time left is that `stsq status` shows, half way through sweeps of the catalogue.

    python tests/benchmarks/time_left.py [--sweeps quickstart width_vs_T boolean_samples] [--toy]

Runs each sweep as a user does and asks for its progress twice a second. Half way is half of the time between the start of the
first pack and the end of the last trial; the error is that of the last estimate before it, relative to the time that was left.
Exits with 1 where one is more than the gate of 40%.
"""

import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from gates import Gates, parser_of

from sweeps.findings import Progress, read_progress
from sweeps.store import open_run

GATE = 40.0
SWEEPS = ("quickstart", "width_vs_T", "boolean_samples")
TOY = ("quickstart", "--inline", "--set", "task.T=4", "--set", "training.steps=400")


@dataclass(frozen=True)
class Look:
    """What was shown at a time."""

    at: float
    progress: Progress


def watch(words: tuple[str, ...], folder: Path) -> tuple[list[Look], float]:
    """Run a sweep; its progress as it was shown, and when its last trial ended."""
    path, looks = folder / "run", list[Look]()
    command = [sys.executable, "-m", "cluster", "run", *words, "--out", str(path), "--wandb", "disabled"]
    running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while running.poll() is None:
        if (path / "spec.yaml").exists():
            looks.append(Look(time.time(), read_progress(open_run(path))))
        time.sleep(0.5)
    if running.returncode:
        raise SystemExit(f"{' '.join(command)} ended with exit code {running.returncode}")
    return looks, (path / "ledger.jsonl").stat().st_mtime


def half_way(looks: list[Look], ended_at: float) -> tuple[Look, float]:
    """The last estimate before half of the training, and the time that was left then."""
    began_at = next(look.at for look in looks if look.progress.num_ended or look.progress.workers)
    before = [look for look in looks if look.at <= (began_at + ended_at) / 2 and look.progress.seconds_left is not None]
    look = before[-1] if before else next(one for one in looks if one.progress.seconds_left is not None)
    return look, ended_at - look.at


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--sweeps", nargs="+", default=SWEEPS)
    args = parser.parse_args()
    gates = Gates("time_left", toy=args.toy)
    for words in [TOY] if args.toy else [(name,) for name in args.sweeps]:
        with tempfile.TemporaryDirectory() as folder:
            looks, ended_at = watch(words, Path(folder))
        look, left = half_way(looks, ended_at)
        shown, progress = look.progress.seconds_left or 0.0, look.progress
        error = 100 * abs(shown - left) / left
        ended = f"{progress.num_ended:,} of about {progress.num_trials:,} trials ({looks[-1].progress.num_ended:,} in the end)"
        print(f"{words[0]}: half way, {ended}, {shown:.1f} s left were shown and {left:.1f} s it took: {error:.0f}% wrong")
        gates.at_most(f"time left half way through {words[0]}", error, GATE, "%")
    return gates.end()


if __name__ == "__main__":
    sys.exit(main())
