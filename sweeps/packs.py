"""Packs: which trials train together as one stack, and in which order the packs run."""

import hashlib
import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from stsq_core.cost import memory_bytes, step_operations
from stsq_core.stacking import stack_key
from stsq_core.trial import TrialConfig
from sweeps.trials import Trials

MAX_PACK = 32
"""Trials in a pack unless told otherwise: larger stacks gain little on one core and lose more when a worker dies."""


@dataclass(frozen=True, eq=False)
class Pack:
    """Trials trained together on one device; named by exactly the trials it holds.

    `operations` are the multiply-adds that training it takes, in `num_steps` steps of `memory_bytes` working memory.
    """

    trials: Trials = field(repr=False)
    operations: float
    num_steps: int
    memory_bytes: float

    @cached_property
    def configs(self) -> tuple[TrialConfig, ...]:
        return tuple(self.trials)

    @cached_property
    def pack_id(self) -> str:
        return hashlib.sha256(",".join(self.trial_ids).encode()).hexdigest()[:16]

    @property
    def trial_ids(self) -> tuple[str, ...]:
        return self.trials.trial_ids

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pack) and self.pack_id == other.pack_id

    def __hash__(self) -> int:
        return hash(self.pack_id)


def pack_of(configs: Iterable[TrialConfig]) -> Pack:
    """The pack of these trials, in this order."""
    trials = Trials.of(configs)
    first = trials[0]
    return Pack(trials, trial_operations(trials), first.training.steps, memory_bytes(first) * len(trials))


def make_packs(configs: Iterable[TrialConfig], *, max_size: int = MAX_PACK, slots: int = 1) -> tuple[Pack, ...]:
    """Divide trials into packs of at most `max_size` that can train as one stack, the longest first.

    Each trial is in exactly one pack, also when it is given twice. Packs of one stack are of nearly equal size. With several
    `slots`, packs are split further while one alone would take longer than an even share of the whole work.
    """
    trials = Trials.of(configs)
    if not len(trials):
        return ()
    samples, stack = _stacks(trials)
    _, first, sizes = np.unique(stack, return_index=True, return_counts=True)
    declared = np.argsort(first)  # stacks in the order in which their trials first appear
    order = np.argsort(np.argsort(declared)[stack], kind="stable")
    samples, sizes = [samples[place] for place in declared], sizes[declared]
    costs = [_operations(config) for config in samples]
    counts = _num_packs(sizes.tolist(), (sizes * costs).tolist(), max_size=max_size, slots=slots)
    packs = []
    for config, cost, end, size, count in zip(samples, costs, np.cumsum(sizes), sizes.tolist(), counts, strict=True):
        steps, memory = config.training.steps, memory_bytes(config)
        for low, high in pairwise((end - size + _bounds(size, count)).tolist()):
            num = high - low
            packs.append(Pack(trials.take(order[low:high]), cost * num, steps, memory * num))
    return tuple(sorted(packs, key=lambda pack: -pack.operations))


def _stacks(trials: Trials) -> tuple[list[TrialConfig], np.ndarray]:
    """A config of each stack, which tells its trials' cost and memory, and the stack of each trial."""
    kinds, kind = trials.kinds
    samples: dict[tuple[object, ...], TrialConfig] = {}
    numbers: dict[tuple[object, ...], int] = {}
    stack = []
    for config in kinds:
        key = stack_key(config)
        samples.setdefault(key, config)
        stack.append(numbers.setdefault(key, len(numbers)))
    return list(samples.values()), np.array(stack)[kind]


def halves(pack: Pack) -> tuple[Pack, ...]:
    """The pack in two, for one that did not fit into memory; a pack of one trial cannot be split and gives nothing."""
    size = len(pack.trials)
    return tuple(pack_of(pack.trials[low:high]) for low, high in pairwise(_bounds(size, 2))) if size > 1 else ()


def trial_operations(configs: Iterable[TrialConfig]) -> float:
    """Multiply-adds that training these trials takes."""
    trials = Trials.of(configs)
    if not len(trials):
        return 0.0
    samples, stack = _stacks(trials)
    return float(np.bincount(stack) @ np.array([_operations(config) for config in samples]))


def _operations(config: TrialConfig) -> float:
    return step_operations(config) * config.training.steps


def _num_packs(sizes: Sequence[int], costs: Sequence[float], *, max_size: int, slots: int) -> list[int]:
    """Into how many packs each stack is divided."""
    counts = [math.ceil(size / max_size) for size in sizes]
    if slots <= 1:
        return counts
    share, total = sum(costs) / slots, sum(counts)
    longest = [(-cost / count, place) for place, (cost, count) in enumerate(zip(costs, counts, strict=True))]
    heapq.heapify(longest)
    while longest:
        cost, place = heapq.heappop(longest)
        if -cost <= share and total >= slots:
            break
        if counts[place] < sizes[place]:
            counts[place] += 1
            total += 1
            heapq.heappush(longest, (-costs[place] / counts[place], place))
    return counts


def _bounds(size: int, count: int) -> np.ndarray:
    """The bounds of `count` consecutive parts whose sizes differ by at most one."""
    return size * np.arange(count + 1) // count
