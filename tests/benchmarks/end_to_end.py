"""A sweep from `stsq run` to its thresholds and page, against Ray Tune with one eager model a trial.

    python tests/benchmarks/end_to_end.py [--trials 64] [--steps 600] [--wandb] [--peer-trials 64] [--toy]

Both do the same work (T=32, q=3, d=4, batch 64, Adam 0.01, `sum` query, d_e in 8..48 and seeds) on the same cores, one after
the other, each counted from Ray being up to the end of the command; with `--wandb` both write W&B files offline. Prints the
seconds, and the ratio, and exits with 1 when that is below the gate: 4 at 64 trials and 6 at 256, with W&B 12 and 20.

Plain Tune with W&B takes several seconds a trial. `--peer-trials` gives it a part of the trials, and its seconds are scaled to
all of them in proportion; the line that is printed says so.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import yaml
from gates import Gates, parser_of
from peers.plain_tune import SIZE, WIDTHS

HERE = Path(__file__).parent
RAY_IS_UP = "Ray is up"
GATES = {(64, False): 4.0, (256, False): 6.0, (64, True): 12.0, (256, True): 20.0}


def sweep_of(trials: int, steps: int, size: Mapping[str, int] = SIZE) -> dict[str, object]:
    """The sweep that does what `plain_tune.py` does, also at another size."""
    codes = {"kind": "random_sign", "d_e": 8, "redraw": "per_step", "query": "sum"}
    base = {
        "task": {"kind": "stsq", "T": size["T"], "q": size["q"], "d": size["d"]},
        "model": {"kind": "transformer", "positions": codes},
        "optimizer": {"kind": "adam", "lr": 0.01},
        "training": {"objective": "minibatch", "batch_size": size["batch"], "steps": steps},
    }
    group = {"name": "same", "base": base, "grid": {"model.positions.d_e": list(WIDTHS)}, "seeds": trials // len(WIDTHS)}
    return {
        "name": f"end-to-end-{trials}",
        "title": "The work of plain_tune.py",
        "hypothesis": "none: a benchmark",
        "criterion": {"target_loss": 0.5, "success_rate": 0.5, "level": 0.9},
        "trials": [group],
    }


def ours(trials: int, steps: int, folder: Path, *, wandb: bool) -> tuple[float, float]:
    """Seconds from Ray being up to the end, and from the start to Ray being up."""
    sweep = folder / "sweep.yaml"
    sweep.write_text(yaml.safe_dump(sweep_of(trials, steps)))
    out = folder / "run"
    command = [sys.executable, "-m", "cluster", "run", str(sweep), "--out", str(out)]
    environment = os.environ | {"WANDB_MODE": "offline" if wandb else "disabled", "COLUMNS": "200"}
    begun = time.perf_counter()
    up = None
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment) as process:
        for line in process.stderr or ():
            print("   ", line, end="", flush=True)
            if RAY_IS_UP in line:
                up = time.perf_counter()
    ended = time.perf_counter()
    ledger = (out / "ledger.jsonl").read_text().splitlines()
    assert len(ledger) == trials, f"{len(ledger)} of {trials} trials ended"
    assert up is not None, "the log does not tell when Ray was up"
    return ended - up, up - begun


def plain_tune(trials: int, steps: int, folder: Path, *, wandb: bool) -> float:
    """Seconds from Ray being up to the end."""
    command = [sys.executable, str(HERE / "peers" / "plain_tune.py"), "--trials", str(trials), "--steps", str(steps)]
    environment = os.environ | {"PYTHONPATH": str(HERE), "WANDB_DIR": str(folder)}
    done = subprocess.run(
        [*command, "--storage", str(folder / "plain"), *(["--wandb"] if wandb else [])],
        capture_output=True, text=True, env=environment, check=True,
    )  # fmt: skip
    output = json.loads(done.stdout.strip().splitlines()[-1])
    assert output["trials"] == trials
    return float(output["seconds_after_ray_is_up"])


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--wandb", action="store_true")
    parser.add_argument("--peer-trials", type=int, help="how many of the trials plain Tune trains; all by default")
    args = parser.parse_args()
    if args.toy:
        args.trials, args.steps, args.peer_trials = 8, 5, 1
    peer_trials = args.peer_trials or args.trials
    with tempfile.TemporaryDirectory() as folder:
        if not args.toy:
            warm = Path(folder) / "warm"
            warm.mkdir()
            ours(8, 5, warm, wandb=False)  # compiles the kernels where their cache is empty
        trained = plain_tune(peer_trials, args.steps, Path(folder), wandb=args.wandb)
        theirs = trained * args.trials / peer_trials
        seconds, start = ours(args.trials, args.steps, Path(folder), wandb=args.wandb)
    what = f"{args.trials} trials x {args.steps} steps on {os.cpu_count()} cores" + (", W&B offline" if args.wandb else "")
    part = "" if peer_trials == args.trials else f" ({peer_trials} trials took {trained:.1f} s)"
    print(f"{what}: plain Tune {theirs:.1f} s{part}, stsq {seconds:.1f} s (and {start:.1f} s before that until Ray was up)")
    gates, gate = Gates("end_to_end", toy=args.toy), GATES.get((args.trials, args.wandb), 0.0)
    print(f"ratio {theirs / seconds:.1f} (gate {gate:g})")
    gates.at_least(f"{what}: against plain Tune", theirs / seconds, gate)
    return gates.end()


if __name__ == "__main__":
    sys.exit(main())
