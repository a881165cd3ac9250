"""Searches with 5,000 trials in one storage: what the next batch of a cell takes, and the report.

    python tests/benchmarks/search_scale.py [--cells 80] [--toy]

Simulated cells with thresholds in geometric progression are searched side by side, with one Optuna journal for all, until every
cell has its 64 points: the stop rule asks for more precision than they give. Prints, for the last round, the time of a batch of
8 (asked, and told with its records), and what `stsq report` takes in a process of its own. Exits with 1 above the gates, which
hold for the 80 cells: 100 ms for a batch that is asked and 10 s for the report.
"""

import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml
from gates import Gates, parser_of
from simulation import Logistic, SimulatedCell

from stsq_core import TrialConfig, TrialResult
from sweeps import load_sweep
from sweeps.cells.expanded_sweep import searched_cells
from sweeps.search.search import Search
from sweeps.store.ledger import Ledger, LedgerRecord, record_of_result
from sweeps.store.run_directory import create_or_open

BATCH, POINTS = 8, 64
ASK_GATE_S, REPORT_GATE_S = 0.1, 10.0


def sweep_of(cells: int) -> dict[str, object]:
    base = {
        "task": {"kind": "stsq", "T": 4, "q": 2, "d": 2},
        "model": {"kind": "fcn", "depth": 2},
        "optimizer": {"kind": "adam", "lr": 0.01},
        "training": {"objective": "minibatch", "steps": 100},
    }
    grid = {"task.T": list(range(4, 4 + cells))}
    return {
        "name": "many-searches",
        "title": "Many searches",
        "hypothesis": "none: a benchmark",
        "search": {"batch": BATCH, "cap": POINTS, "tolerance": 1e-4},
        "trials": [{"name": "fcn", "base": base, "grid": grid, "search": {"low": 4, "high": 4096}}],
    }


def simulated(cells: int) -> dict[int, SimulatedCell]:
    """A cell for each T, their thresholds from 60 to 2000: far from where one unit of width is precise enough."""
    crossings = [math.log(60) + math.log(33) * place / max(1, cells - 1) for place in range(cells)]
    return {
        4 + place: SimulatedCell(
            Logistic.through(crossing, slope=4.0, log_target=math.log(0.1)),
            noise=0.2,
            shift=0.03,
            lapse_rate=0.02,
            divergence_rate=0.0,
            stream=place,
        )
        for place, crossing in enumerate(crossings)
    }


def records_of(asked: Sequence[TrialConfig], cells: dict[int, SimulatedCell]) -> Iterator[LedgerRecord]:
    for config in asked:
        loss = cells[config.task.T].relative_loss(config.width, config.seed)
        yield record_of_result(TrialResult(config, "finished", loss, 0.01, 100, 1.0), pack_id="0" * 16, device="cpu")


def searched_run(path: Path, sweep: Path, num_cells: int) -> tuple[float, float]:
    """Search every cell to its cap; seconds of a batch in the last round, asked and told."""
    spec = load_sweep(str(sweep))
    run, cells = create_or_open(path, spec), simulated(num_cells)
    search, ledger = (
        Search(spec, searched_cells(spec), journal=run.studies, owner=path.name, curves=lambda _: {}),
        Ledger(run.ledger),
    )
    search.tell([])
    ask_s = tell_s = 0.0
    while not search.finished:
        begun = time.perf_counter()
        asked = tuple(search.ask())
        ask_s = (time.perf_counter() - begun) / num_cells
        records = list(records_of(asked, cells))
        ledger.append(records)
        begun = time.perf_counter()
        search.tell(records)
        tell_s = (time.perf_counter() - begun) / num_cells
    search.close()
    return ask_s, tell_s


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--cells", type=int, default=80)
    args = parser.parse_args()
    if args.toy:
        args.cells = 2
    with tempfile.TemporaryDirectory() as folder:
        sweep, run = Path(folder) / "many.yaml", Path(folder) / "run"
        sweep.write_text(yaml.safe_dump(sweep_of(args.cells)))
        ask_s, tell_s = searched_run(run, sweep, args.cells)
        count = sum(1 for _ in Ledger(run / "ledger.jsonl").lines())
        reports = []
        for _ in range(1 if args.toy else 2):
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-m", "cluster", "report", str(run)], stdout=subprocess.DEVNULL, check=True)
            reports.append(time.perf_counter() - begun)
    report_s = statistics.median_low(reports)
    print(
        f"{count:,} trials of {args.cells} searches in one journal: a batch of {BATCH} is asked in {1e3 * ask_s:.0f} ms", end=""
    )
    print(f" (gate {1e3 * ASK_GATE_S:.0f} ms) and told in {1e3 * tell_s:.0f} ms")
    print(f"the report: {report_s:.1f} s (gate {REPORT_GATE_S:g} s)")
    gates = Gates("search_scale", toy=args.toy)
    gates.at_most(f"{args.cells} searches, a batch is asked in", 1e3 * ask_s, 1e3 * ASK_GATE_S, "ms")
    gates.at_most(f"{args.cells} searches, the report", report_s, REPORT_GATE_S, "s")
    return gates.end()


if __name__ == "__main__":
    sys.exit(main())
