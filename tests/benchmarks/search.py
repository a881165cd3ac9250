"""Threshold searches on simulated cells whose threshold is known: ours against the searches and samplers people use.

    python tests/benchmarks/search.py [--cells 900] [--peer-cells 300] [--families 40] [--only PART] [--json PATH] [--toy]

Ours is `sweeps.ThresholdSampler` through Optuna's ask and tell, in batches of 8 and with a cap of 96, until the
90% interval is within 10% or one unit. The others spend 24 and 72 points and are scored (a) by their own answer and (b) by our
posterior of their points. TPE and GP minimize |log(loss / target)| over log m, and answer with their best width; random and
even widths answer with the least crossing of the line through the median losses; bisection takes the median of 3 seeds (24
points) or 9 (72) a step, and answers with the middle of its last bracket.

Other cells have ranges of their own and ours alone: a loss that turns and rises again (`valley`), one that turns before it
reaches the target (`short`), one that learns nothing (`flat`), and one that still falls at the end of its range (`above`). Of
these the status must be right.

Then searches that decide between laws (module `decisions`), with a rule written before the run: over all families, mean points
at most half of those of the even grid of cells; the part of the families without the right verdict (wrong or none) at most two
standard errors of the difference above the grid's; and at most 5% wrong verdicts, as odds of 20 to 1 promise. Exits with 1
where a gate is missed.
"""

import json
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import optuna
from decisions import decide, decision_gates, decision_jobs, decision_table
from gates import parser_of
from optuna.trial import TrialState
from simulation import RangedCell, above_cell, flat_cell, smooth_cell, stress_cell, valley_cell

from sweeps.sampler.posterior import ThresholdPosterior
from sweeps.sampler.study_points import STATUS, WIDTH
from sweeps.sampler.threshold_sampler import ThresholdSampler
from sweeps.thresholds.crossings import least_crossing

TARGET, LEVEL = 0.1, 0.9
LOW, HIGH = 2, 8192
SLOPES = (1, 3, 10)
STRESSES = ("lapses", "fcn_line", "kink")
RANGED = {"valley": "found", "short": "not_reached", "flat": "not_reached", "above": "above_range"}
"""Cells with ranges of their own, and what their search must say."""
FEW, MANY = 24, 72
GP_CELLS = 30

Points = list[tuple[int, float]]
"""Widths and log losses in the order they were asked; inf where the seed diverged."""


@dataclass(frozen=True)
class Job:
    policy: str
    group: str
    stream: int
    num: int = 0


@dataclass(frozen=True)
class Outcome:
    """How one search ended. Errors are |estimate / m* - 1|; `own_error` is nan where the policy has no answer but ours."""

    job: Job
    reason: str
    points: int
    rounds: int
    own_error: float
    error: float
    length: float
    covers: bool
    standing: str


def cell_of(job: Job) -> RangedCell:
    log_target = math.log(TARGET)
    match job.group:
        case "valley" | "short":
            return valley_cell(job.stream, log_target=log_target, is_reached=job.group == "valley")
        case "flat":
            return flat_cell(job.stream)
        case "above":
            return above_cell(job.stream, log_target=log_target)
        case "lapses" | "fcn_line" | "kink":
            return RangedCell(stress_cell(job.stream, job.group, log_target=log_target), LOW, HIGH)
        case slope:
            return RangedCell(smooth_cell(job.stream, slope=float(slope), log_target=log_target), LOW, HIGH)


class Trainer:
    """Trains points of a cell, each with a fresh seed, and remembers them."""

    def __init__(self, ranged: RangedCell) -> None:
        self.ranged, self.points = ranged, []

    def log_loss(self, width: int) -> float:
        loss = self.ranged.cell.relative_loss(width, len(self.points))
        log_loss = math.inf if math.isnan(loss) else math.log(loss)
        self.points.append((width, log_loss))
        return log_loss


def search_to_the_end(job: Job, trainer: Trainer) -> tuple[str, int, float]:
    """Ours: until it stops, or for `job.num` points whatever it says. The reason, the rounds and no other answer."""
    study = optuna.create_study(sampler=ThresholdSampler(target_loss=TARGET, level=LEVEL, seed=job.stream))
    rounds = 0
    while len(trainer.points) < job.num or (not job.num and study.sampler.batch_size(study)):
        trials = [study.ask() for _ in range(8)]
        for trial in trials:
            trial.suggest_int(WIDTH, trainer.ranged.low, trainer.ranged.high, log=True)
        for trial in trials:
            log_loss = trainer.log_loss(trial.params[WIDTH])
            if math.isinf(log_loss):
                trial.set_user_attr(STATUS, "diverged")
                study.tell(trial, state=TrialState.FAIL)
            else:
                study.tell(trial, math.exp(log_loss))
        rounds += 1
    return study.sampler.state(study).reason, rounds, math.nan


def optimize_with(sampler: optuna.samplers.BaseSampler, job: Job, trainer: Trainer) -> tuple[str, int, float]:
    study = optuna.create_study(sampler=sampler)
    for _ in range(job.num):
        trial = study.ask()
        miss = abs(trainer.log_loss(trial.suggest_int(WIDTH, LOW, HIGH, log=True)) - math.log(TARGET))
        study.tell(trial, miss)
    return "", job.num, math.log(study.best_params[WIDTH])


def tpe(job: Job, trainer: Trainer) -> tuple[str, int, float]:
    return optimize_with(optuna.samplers.TPESampler(seed=job.stream), job, trainer)


def gp(job: Job, trainer: Trainer) -> tuple[str, int, float]:
    return optimize_with(optuna.samplers.GPSampler(seed=job.stream), job, trainer)


def at_random(job: Job, trainer: Trainer) -> tuple[str, int, float]:
    stream = np.random.default_rng((job.stream, 3))
    return on_widths(np.exp(stream.uniform(math.log(LOW), math.log(HIGH), size=job.num)), trainer)


def evenly(job: Job, trainer: Trainer) -> tuple[str, int, float]:
    return on_widths(np.geomspace(LOW, HIGH, job.num), trainer)


def on_widths(widths: np.ndarray, trainer: Trainer) -> tuple[str, int, float]:
    for width in np.rint(widths).astype(int).tolist():
        trainer.log_loss(width)
    losses: dict[int, list[float]] = {}
    for width, log_loss in sorted(trainer.points):
        losses.setdefault(width, []).append(log_loss)
    medians = np.array([np.median(some) for some in losses.values()])
    crossing, _ = least_crossing(np.log(list(losses)), medians[None, :, None], log_target=math.log(TARGET), success_rate=0.5)
    return "", 1, float(crossing[0])


def bisection(job: Job, trainer: Trainer) -> tuple[str, int, float]:
    low, high = math.log(LOW), math.log(HIGH)
    steps = 8
    for _ in range(steps):
        width = round(math.exp((low + high) / 2))
        solved = np.median([trainer.log_loss(width) for _ in range(job.num // steps)]) <= math.log(TARGET)
        low, high = (low, (low + high) / 2) if solved else ((low + high) / 2, high)
    return "", steps, (low + high) / 2


POLICIES: dict[str, Callable[[Job, Trainer], tuple[str, int, float]]] = {
    "ours": search_to_the_end,
    "TPE": tpe,
    "GP": gp,
    "random": at_random,
    "even": evenly,
    "bisection": bisection,
}


def run(job: Job) -> Outcome:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    trainer = Trainer(cell_of(job))
    reason, rounds, own = POLICIES[job.policy](job, trainer)
    ranged = trainer.ranged
    if job.group in RANGED:
        truth = ranged.cell.least_log_threshold(TARGET, low=ranged.low, high=ranged.high)
    else:
        truth = ranged.cell.log_threshold(TARGET)
    widths, log_losses = zip(*trainer.points, strict=True)
    posterior = ThresholdPosterior(widths, log_losses, low=ranged.low, high=ranged.high, log_target=math.log(TARGET))
    low, high = posterior.interval(LEVEL)
    own_error, error = (
        math.nan if math.isnan(answer) else abs(math.expm1(answer - truth)) for answer in (own, posterior.median)
    )
    if not math.isfinite(truth):
        error = math.nan
    length = high - low if math.isfinite(low) and math.isfinite(high) else math.inf
    return Outcome(job, reason, len(widths), rounds, own_error, error, length, low <= truth <= high, posterior.standing)


def jobs_of(cells: int, peer_cells: int) -> list[Job]:
    """`cells` smooth ones, a third of them at each slope, as many stress cells of each kind as smooth ones of a slope, twice as
    many valleys, and as many of the others with ranges of their own."""
    streams = [(str(group), 10_000 * (place + 1)) for place, group in enumerate((*SLOPES, *STRESSES))]
    each, peers = math.ceil(cells / 3), min(math.ceil(peer_cells / 3), math.ceil(cells / 3))
    jobs = [Job("ours", group, first + i) for group, first in streams for i in range(each)]
    for place, group in enumerate(RANGED):
        jobs += [Job("ours", group, 10_000 * (place + 8) + i) for i in range(2 * each if group == "valley" else each)]
    for name in POLICIES:
        count = min(peers, GP_CELLS // 3) if name == "GP" else peers
        jobs += [Job(name, group, first + i, num) for group, first in streams[:3] for i in range(count) for num in (FEW, MANY)]
    return jobs


def quantile(values: Iterable[float], level: float) -> float:
    """The order statistic at this level: infinite errors are allowed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(level * len(ordered)) - 1)]


def summary(name: str, outcomes: Sequence[Outcome]) -> dict[str, float | str]:
    points, rounds = [o.points for o in outcomes], [o.rounds for o in outcomes]
    return {
        "search": name,
        "cells": len(outcomes),
        "points_median": quantile(points, 0.5),
        "points_p90": quantile(points, 0.9),
        "rounds_median": quantile(rounds, 0.5),
        "at_cap": float(np.mean([o.reason == "cap" for o in outcomes])),
        "wrong": float(np.mean([o.standing != RANGED.get(o.job.group, "found") for o in outcomes])),
        "cover": float(np.mean([o.covers for o in outcomes if RANGED.get(o.job.group, "found") == "found"] or [math.nan])),
        "error_median": quantile([o.error for o in outcomes], 0.5),
        "error_p90": quantile([o.error for o in outcomes], 0.9),
        "length": quantile([o.length for o in outcomes], 0.5),
        "own_error_median": quantile([o.own_error for o in outcomes], 0.5),
        "own_error_p90": quantile([o.own_error for o in outcomes], 0.9),
    }


def tables(outcomes: Sequence[Outcome]) -> tuple[dict[str, dict], dict[str, dict]]:
    """Ours to the end by group, and every policy at its number of points."""
    ours = [o for o in outcomes if not o.job.num]
    groups = {f"slope {slope}": [o for o in ours if o.job.group == str(slope)] for slope in SLOPES}
    groups["pooled"] = [o for some in groups.values() for o in some]
    groups |= {name: [o for o in ours if o.job.group == name] for name in STRESSES}
    groups["stress pooled"] = [o for name in STRESSES for o in groups[name]]
    groups |= {name: [o for o in ours if o.job.group == name] for name in RANGED}
    fixed = {
        f"{name} {num}": [o for o in outcomes if (o.job.policy, o.job.num) == (name, num)]
        for num in (FEW, MANY)
        for name in POLICIES
    }
    return tuple({name: summary(name, some) for name, some in part.items() if some} for part in (groups, fixed))


def gates(ours: dict[str, dict], fixed: dict[str, dict]) -> list[tuple[str, bool]]:
    """What must hold, in words, and whether it does."""
    found: list[tuple[str, bool]] = []

    def gate(what: str, value: float, low: float, high: float) -> None:
        found.append((f"{what}: {value:.3g} (allowed {low:g} to {high:g})", low <= value <= high))

    pooled = ours["pooled"]
    gate("pooled coverage", pooled["cover"], 0.87, 0.97)
    for slope, points, rounds, most in ((1, 40, 5, 64), (3, 24, 3, 32), (10, 24, 3, 32)):
        row = ours[f"slope {slope}"]
        gate(f"slope {slope} coverage", row["cover"], 0.85, 0.99)
        gate(f"slope {slope} points, median", row["points_median"], 0, points)
        gate(f"slope {slope} rounds, median", row["rounds_median"], 0, rounds)
        gate(f"slope {slope} points, p90", row["points_p90"], 0, most)
    gate("part that stops at the cap", pooled["at_cap"], 0, 0.02)
    gate("error, median", pooled["error_median"], 0, 0.03)
    gate("error, p90", pooled["error_p90"], 0, 0.08)
    for name in (*STRESSES, "stress pooled"):
        gate(f"{name} coverage", ours[name]["cover"], 0.80, 1)
    valley = ours["valley"]
    gate("valley coverage", valley["cover"], 0.87, 0.97)
    gate("valley error, p90", valley["error_p90"], 0, 0.09)
    for name in RANGED:
        gate(f"{name}: part with a wrong status", ours[name]["wrong"], 0, 0.05 if name == "above" else 0.01)
        gate(f"{name} points, median", ours[name]["points_median"], 0, 32)
    few = fixed[f"ours {FEW}"]
    for name in ("TPE", "random", "even"):
        row = fixed[f"{name} {FEW}"]
        found.append((f"at {FEW} points p90 error below {name}'s, our estimator", few["error_p90"] < row["error_p90"]))
        found.append((f"at {FEW} points intervals narrower than {name}'s, our estimator", few["length"] < row["length"]))
    for name, row in fixed.items():
        if name.endswith(str(MANY)) and not name.startswith("ours"):
            found.append((f"{name}: own median error not below ours at {FEW}", row["own_error_median"] >= few["error_median"]))
    return found


def percent(value: float) -> str:
    """Nothing where there is no threshold to miss."""
    return f"{value:.1%}" if math.isfinite(value) else ""


def print_tables(ours: dict[str, dict], fixed: dict[str, dict]) -> None:
    print("| ours, to the end | cells | coverage | points median, p90 | rounds | cap | wrong status | error median, p90 |")
    print("|---|---|---|---|---|---|---|---|")
    for row in ours.values():
        print(
            f"| {row['search']} | {row['cells']} | {percent(row['cover'])} | {row['points_median']}, {row['points_p90']} "
            f"| {row['rounds_median']} | {row['at_cap']:.1%} | {row['wrong']:.1%} "
            f"| {percent(row['error_median'])}, {percent(row['error_p90'])} |"
        )
    print("\n| search, points | cells | own error median, p90 | error by ours median, p90 | interval, log m | coverage |")
    print("|---|---|---|---|---|---|")
    for row in fixed.values():
        own = "" if math.isnan(row["own_error_median"]) else f"{row['own_error_median']:.1%}, {row['own_error_p90']:.1%}"
        print(
            f"| {row['search']} | {row['cells']} | {own} | {row['error_median']:.1%}, {row['error_p90']:.1%} "
            f"| {row['length']:.3f} | {row['cover']:.1%} |"
        )


def print_decisions(rows: dict[str, dict]) -> None:
    print("\n| cells asked by, law | families | points mean, median | cells | right | wrong | undecided |")
    print("|---|---|---|---|---|---|---|")
    for name, row in rows.items():
        print(
            f"| {name} | {row['families']} | {row['points']:.0f}, {row['points_median']:.0f} | {row['cells']:.1f} "
            f"| {row['right']:.1%} | {row['wrong']:.1%} | {row['undecided']:.1%} |"
        )


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--cells", type=int, default=900, help="smooth cells for ours, a third at each slope")
    parser.add_argument("--peer-cells", type=int, default=300, help="of these, how many every search gets at 24 and 72 points")
    parser.add_argument("--families", type=int, default=40, help="families of each law, for searches that decide between laws")
    parser.add_argument("--only", choices=("searches", "laws"), help="one of the two parts")
    parser.add_argument("--json", help="where to write the tables and gates")
    args = parser.parse_args()
    if args.toy:
        global FEW, MANY
        args.cells, args.peer_cells, args.families, FEW, MANY = 3, 3, 1, 8, 16
    begun = time.perf_counter()
    jobs = jobs_of(args.cells, args.peer_cells) if args.only != "laws" else []
    of_laws = decision_jobs(args.families) if args.only != "searches" else []
    found: list[tuple[str, bool]] = []
    written: dict[str, object] = {}
    with multiprocessing.Pool(1 if args.toy else os.cpu_count()) as pool:
        if jobs:
            ours, fixed = tables(list(pool.imap_unordered(run, jobs, chunksize=4)))
            print_tables(ours, fixed)
            found += gates(ours, fixed)
            written |= {"ours": ours, "fixed": fixed}
        if of_laws:
            rows = decision_table(list(pool.imap_unordered(decide, of_laws, chunksize=2)))
            print_decisions(rows)
            found += decision_gates(rows)
            written["decisions"] = rows
    print()
    for what, holds in found:
        print(f"{'ok    ' if holds else 'MISSED'} {what}")
    print(f"\n{len(jobs)} searches and {len(of_laws)} decisions in {time.perf_counter() - begun:.0f} s")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(written | {"gates": dict(found)}, file, indent=1)
    return int(not args.toy and not all(holds for _, holds in found))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
