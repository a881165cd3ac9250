"""`stsq list` and `stsq plan`: the sweeps and kinds that exist, and the cost of a sweep, with nothing started.

Time is operations over a rate. The rate is measured where the run directory has a ledger, else it is assumed.
"""

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel
from rich.console import Console
from rich.table import Table

from cluster.environment import num_cores
from cluster.run import load_remembered, located, print_line, print_table, run_path, table
from dashboards.words import setting_words, value_words
from stsq_core.configs import SAMPLES, UNIONS, WIDTH, TrialFamily, kind_of, plugin_of
from stsq_core.training import ASSUMED_RATE, GPU_RATE
from sweeps.cells import GPU_PACKS, ExpandedSweep, Plan, catalog_names, load_expanded, make_plan, trial_operations
from sweeps.findings import planned_pairs, unpaired_words
from sweeps.laws import decided_plans, decisions_of
from sweeps.store import FINISHED, LedgerRecord, Outcomes, RunDirectory, read_results
from sweeps.thresholds import SearchPlan, plan_searches, thresholds_of

GPU_LAUNCHES_S = 80e-6
"""Launching the kernels of one step of a pack of any size there."""

FIRST_ROUND_PACKS = 8
"""Widths far apart stand on different rungs of the padding ladder and so in different packs."""

SHOWN_CELLS = 200

SHOWN_PAIRS = 4

OVERHEAD_S = 15.0
"""Starting Ray and its workers, and drawing the page."""


@dataclass(frozen=True)
class Rate:
    """Operations per second of one worker, and the source of the number."""

    operations_per_s: float
    source: str


def show_catalog(console: Console) -> None:
    """Print the catalogue's sweeps: name, size and title."""
    rows = []
    for name in catalog_names():
        expanded = load_expanded(name)
        num_trials = sum(len(cell.trials) for cell in expanded.cells)
        trials = f"{num_trials}" if not expanded.searched else "searched"
        rows.append((name, len(expanded.cells) + len(expanded.searched), trials, expanded.spec.heading))
    print_table(console, table(("sweep", "cells", "trials", "title"), rows, right=("cells", "trials")))


def show_kinds(console: Console) -> None:
    """Print every kind with the first sentence of its docstring and its source: stsq, or a plugin."""
    rows = [
        (field, kind_of(record), _first_sentence(record), _source(record))
        for field, union in UNIONS.items()
        for record in union.records
    ]
    print_table(console, table(("field", "kind", "what it is", "from"), rows))


def _first_sentence(record: type[BaseModel]) -> str:
    """The first sentence of the docstring, without its full stop; empty if there is none."""
    paragraph = (vars(record).get("__doc__") or "").strip().partition("\n\n")[0]
    return re.split(r"(?<! al)\.(?:\s|$)", " ".join(paragraph.split()), maxsplit=1)[0]


def _source(record: type[BaseModel]) -> str:
    plugin = plugin_of(record)
    return f"plugin {plugin[0]}" if plugin else "stsq"


def show_plan(console: Console, sweep: str, settings: list[str], *, out: Path | None, workers: int | None) -> None:
    """Print the cells, packs and cost of a run.

    Raises:
        UserError: the sweep is refused.
    """
    sweep, out = located(sweep, out)
    load_remembered(sweep, out)
    expanded = load_expanded(sweep, settings)
    spec = expanded.spec
    run = RunDirectory(run_path(spec.name, out))
    results = read_results(run, expanded)
    records = results.records
    slots = workers or num_cores()
    done = frozenset(records.trial_ids)
    plan = make_plan(expanded, slots=slots, done=done)
    print_line(console, f"{spec.name}: {spec.heading}")
    print_line(console, f"hypothesis: {spec.hypothesis.strip()}")
    searches = plan_searches(spec, results)
    if decisions := decisions_of(spec, results.searched, thresholds_of(spec, results)):
        searches = decided_plans(searches, decisions)
    if plan.cells:
        print_table(console, cell_table(plan, done))
    if searches:
        print_table(console, search_table(searches))
    if len(plan.cells) > SHOWN_CELLS:
        print_line(console, f"and {len(plan.cells) - SHOWN_CELLS} more cells")
    for line in cost_lines(plan, measured_rate(records), slots=slots, searches=searches):
        print_line(console, line)
    for decision in decisions:
        print_line(console, f"laws decide which cells are asked: {decision.words}")
    for line in (*pair_lines(expanded), *expanded.notes, *expanded.default_lines, *expanded.theorem_lines):
        print_line(console, line)
    print_line(console, f"run directory: {run.path}")


def pair_lines(sweep: ExpandedSweep) -> list[str]:
    """What each claim about a ratio of thresholds will compare, so that a pair that was not meant is seen before the run."""
    lines = []
    for claim, pairs in planned_pairs(sweep):
        if not pairs:
            lines.append(f"claim {claim.name} compares no pair of cells: {unpaired_words(sweep, claim)}")
            continue
        named = [setting_words(where) for where in pairs[:SHOWN_PAIRS]]
        more = [f"and {len(pairs) - SHOWN_PAIRS} more"] if len(pairs) > SHOWN_PAIRS else []
        count = "1 pair of cells" if len(pairs) == 1 else f"{len(pairs)} pairs of cells"
        of_over = f"{claim.by} {value_words(claim.of)} over {value_words(claim.over)}"
        lines.append(f"claim {claim.name} compares {count}, {of_over}: {'; '.join([*named, *more])}")
    return lines


def cell_table(plan: Plan, done: Collection[str]) -> Table:
    """A row a cell, of the first ones."""
    rows = [
        (
            cell.label,
            _listed(cell.widths),
            _listed(cell.rates),
            cell.num_seeds,
            len(cell.trials),
            sum(trial_id in done for trial_id in cell.trials.trial_ids) if done else 0,
        )
        for cell in plan.cells[:SHOWN_CELLS]
    ]
    names = ("cell", _sizes_words(cell.trials.families[0] for cell in plan.cells), "rates", "seeds", "trials", "done")
    return table(names, rows, right=names[3:])


def _sizes_words(families: Iterable[TrialFamily]) -> str:
    """The heading of the column of sizes: `widths m`."""
    size = next((family.size for family in families), WIDTH)
    return "budget n" if size == SAMPLES else f"{size.nouns} {size.letter}"


def search_table(searches: Sequence[SearchPlan]) -> Table:
    """A row a searched cell, of the first ones."""
    rows = [
        (
            one.cell.label,
            f"{one.cell.low} to {one.cell.high}",
            _listed(one.cell.rates),
            one.num_done,
            one.num_expected,
            one.num_most,
        )
        for one in searches[:SHOWN_CELLS]
    ]
    names = ("cell to search", _sizes_words(one.cell.family for one in searches), "rates", "points", "more expected", "at most")
    return table(names, rows, right=names[3:])


def cost_lines(plan: Plan, rate: Rate, *, slots: int, searches: Sequence[SearchPlan] = ()) -> list[str]:
    """The cost of the untrained rest, in words."""
    left = plan.num_trials - plan.num_done
    lines = []
    if plan.cells or not searches:
        num_packs = len(plan.packs)
        lines.append(
            f"{len(plan.cells)} cells, {plan.num_trials} trials, {plan.num_done} done, {left} to train in {num_packs} packs"
        )
    expected = sum(one.num_expected for one in searches)
    if searches:
        most = sum(one.num_most for one in searches)
        lines.append(
            f"{len(searches)} cells to search: about {expected} points more, at most {most} (a point is a trial a rate)"
        )
    if not left and not expected:
        return lines
    operations = sum(one.expected_operations for one in searches)
    model_steps = plan.num_steps + sum(one.model_steps for one in searches)
    seconds = plan.seconds(rate.operations_per_s, slots=slots) + operations / slots / rate.operations_per_s + OVERHEAD_S
    core_hours = plan.device_hours(rate.operations_per_s) + operations / rate.operations_per_s / 3600
    workers = f"{slots} {'worker' if slots == 1 else 'workers'}"
    memory = f", at most {max(1, math.ceil(plan.memory_bytes / 2**20))} MiB a pack" if plan.packs else ""
    lines.append(f"{model_steps:,} model-steps, {plan.operations + operations:.3g} operations{memory}")
    lines.append(f"about {_duration(seconds)} with {workers} on CPU, {core_hours:.2g} core-hours ({rate.source})")
    if searches:
        more = sum(one.most_operations - one.expected_operations for one in searches) / slots / rate.operations_per_s
        lines.append(f"at most {_duration(seconds + more)}, should every search need all of its points at the largest width")
    hours = gpu_seconds(plan, searches) / 3600
    duration = f"{60 * hours:.2g} GPU-minutes" if hours < 1 else f"{hours:.2g} GPU-hours"
    lines.append(f"about {duration} on GPUs (at {GPU_RATE:.2g} operations/s, as an H200 was measured)")
    return lines


def gpu_seconds(plan: Plan, searches: Sequence[SearchPlan] = ()) -> float:
    """Seconds on one GPU, where trials of one shape train in packs of `GPU_PACKS` at least."""
    pack_steps = sum(pack.num_steps * min(1.0, len(pack.trials) / GPU_PACKS[0]) for pack in plan.packs)
    for one in searches:
        # nearly every point of a first round trains in a separate pack, as widths far apart do; a later round is one pack
        first = min(FIRST_ROUND_PACKS, one.num_expected) if not one.num_done else 0
        num_packs = first + (one.num_expected - first) / FIRST_ROUND_PACKS
        pack_steps += num_packs * one.cell.family.sample.training.steps
    operations = plan.operations + sum(one.expected_operations for one in searches)
    return operations / GPU_RATE + pack_steps * GPU_LAUNCHES_S


def measured_rate(records: Iterable[LedgerRecord]) -> Rate:
    """The rate that a ledger's CPU trials show, else the assumed one."""
    outcomes = Outcomes.of(records)
    trained = outcomes.take((outcomes.status == FINISHED) & (outcomes.device == "cpu") & (outcomes.seconds > 0))
    seconds = float(trained.seconds.sum())
    if seconds < 1.0:
        words = "the first run on a machine also compiles the engine, some ten seconds"
        return Rate(ASSUMED_RATE, f"assuming {ASSUMED_RATE:.1g} operations/s a core; {words}")
    rate = trial_operations(trained.trials) / seconds
    return Rate(rate, f"at {rate:.2g} operations/s a core, as measured by the {len(trained)} trials in the ledger")


def _listed(values: tuple[float, ...]) -> str:
    return (
        ", ".join(f"{value:g}" for value in values)
        if len(values) <= 8
        else f"{len(values)} from {values[0]:g} to {values[-1]:g}"
    )


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
