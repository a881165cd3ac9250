"""The threshold sampler on objectives of any kind: accuracies, cross entropies, counts, and a user's own word for success.

    python tests/benchmarks/objectives.py [--cells 200] [--first 1000] [--one-by-one] [--toy]

A cell is an objective of a whole number from 2 to 8192 with a known threshold m*, log-uniform in 8..2000, at which the median
seed that learns reaches what is wanted; its slope is 1, 3 or 10 a unit of log m, and 5% of the seeds learn nothing:

    accuracy        from 0.1 to 1, 0.8 wanted, maximized, scale="linear"
    cross entropy   from 4.6 to 1.2, 1.5 wanted, minimized
    count           a power of m, 500 wanted, maximized
    learning rate   the largest that trains, in 1e-5..1: a real number, reached="below", accuracies as above
    solved          `trial.set_user_attr("solved", ...)` and no value; a logistic curve of probabilities

Prints for each kind how often the 90% interval holds m*, errors, and points. The gate was written before the run with these
seeds: at least 85% of the intervals hold m*, for each kind. With --one-by-one each trial is told before the next is asked, as
by `study.optimize` without threads; the gate, also written before, is 85% of all kinds together.
"""

import math
import multiprocessing
import os
import sys
from collections.abc import Callable
from functools import partial

import numpy as np
import optuna
from gates import Gates, parser_of

from sweeps import ThresholdSampler

KINDS = ("accuracy", "cross entropy", "count", "learning rate", "solved")
LOW, HIGH, LAPSES, LEAST_COVERAGE = 2, 8192, 0.05, 0.85


def sigmoid(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


def logit(part: float) -> float:
    return math.log(part / (1 - part))


def objective(kind: str, rng: np.random.Generator, slope: float) -> Callable[[float], float]:
    """A value for a distance beyond the threshold, in log m: a fresh seed each time. Medians of all seeds cross at 0."""
    noise = rng.uniform(0.01, 0.05)
    solved = 0.5 / (1 - LAPSES)

    def accuracy(beyond: float) -> float:
        part = sigmoid(slope * (beyond + 0.03 * rng.normal()) + logit(0.7 / 0.9))
        return 0.1 + 0.9 * part + 0.5 * noise * rng.normal()

    def cross_entropy(beyond: float) -> float:
        part = sigmoid(-slope * (beyond + 0.03 * rng.normal()) + logit(0.3 / 3.4))
        return float((1.2 + 3.4 * part) * math.exp(noise * rng.normal()))

    def count(beyond: float) -> float:
        return float(500 * math.exp(slope * beyond + 0.2 * rng.normal()))

    kept, lapsed = {
        "accuracy": (accuracy, 0.1),
        "learning rate": (accuracy, 0.1),
        "cross entropy": (cross_entropy, 4.6),
        "count": (count, 20.0),
        "solved": (lambda beyond: float(rng.uniform() < sigmoid(2 * slope * beyond + logit(solved))), 0.0),
    }[kind]
    return lambda beyond: lapsed if rng.uniform() < LAPSES else kept(beyond)


def sampler(kind: str, seed: int) -> ThresholdSampler:
    match kind:
        case "accuracy":
            return ThresholdSampler(target=0.8, scale="linear", seed=seed)
        case "cross entropy":
            return ThresholdSampler(target=1.5, seed=seed)
        case "count":
            return ThresholdSampler(target=500, seed=seed)
        case "learning rate":
            return ThresholdSampler(target=0.8, scale="linear", param="lr", reached="below", seed=seed)
        case _:
            return ThresholdSampler(seed=seed)


def search(kind: str, seed: int, *, one_by_one: bool = False) -> tuple[bool, float, int]:
    """One search to its end: whether the interval holds the threshold, the error |estimate / m* - 1|, and the points."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    rng = np.random.default_rng(seed)
    place, slope = rng.uniform(math.log(8), math.log(2000)), float(rng.choice([1, 3, 10]))
    value = objective(kind, rng, slope)
    is_rate = kind == "learning rate"
    if is_rate:
        place = math.log(1e-5) + place * math.log(1e5) / math.log(HIGH)
    own = sampler(kind, seed)
    study = optuna.create_study(direction="minimize" if kind == "cross entropy" else "maximize", sampler=own)
    while own.batch_size(study):
        trials = [study.ask() for _ in range(1 if one_by_one else own.batch)]
        for trial in trials:
            trial.suggest_float("lr", 1e-5, 1, log=True) if is_rate else trial.suggest_int("width", LOW, HIGH, log=True)
        for trial in trials:
            (at,) = trial.params.values()
            result = value(place - math.log(at) if is_rate else math.log(at) - place)
            if kind == "solved":
                trial.set_user_attr("solved", bool(result))
            study.tell(trial, result)
    found = own.result(study)
    low, high = found.interval
    holds = (low or 0.0) <= math.exp(place) <= (math.inf if high is None else high)
    return holds, math.inf if found.threshold is None else abs(found.threshold / math.exp(place) - 1), found.num_points


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--cells", type=int, default=200)
    parser.add_argument("--first", type=int, default=1000, help="the seed of the first cell")
    parser.add_argument("--one-by-one", action="store_true", help="tell each trial before the next is asked")
    args = parser.parse_args()
    if args.toy:
        args.cells = 2
    all_hold: list[bool] = []
    gates = Gates("objectives", toy=args.toy)
    print("| objective | cells | coverage | error median, p90 | points median, p90 |\n|---|---|---|---|---|")
    with multiprocessing.get_context("spawn").Pool(min(os.cpu_count() or 1, args.cells)) as pool:
        for kind in KINDS:
            own_search = partial(search, kind, one_by_one=args.one_by_one)
            ended = pool.map(own_search, range(args.first, args.first + args.cells))
            holds, errors, points = (np.array(column) for column in zip(*ended, strict=True))
            middle, most = np.quantile(errors, [0.5, 0.9])
            counts = np.quantile(points, [0.5, 0.9])
            print(
                f"| {kind} | {len(holds)} | {holds.mean():.1%} | {middle:.1%}, {most:.1%} | {counts[0]:.0f}, {counts[1]:.0f} |",
                flush=True,
            )
            all_hold += holds.tolist()
            if not args.one_by_one:
                gates.at_least(f"{kind}: intervals that hold m*", 100 * holds.mean(), 100 * LEAST_COVERAGE, "%")
    if args.one_by_one:
        gates.at_least("one by one: intervals that hold m*", 100 * float(np.mean(all_hold)), 100 * LEAST_COVERAGE, "%")
    return gates.end()


if __name__ == "__main__":
    sys.exit(main())
