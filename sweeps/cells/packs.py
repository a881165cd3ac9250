"""Packs: which trials train together as one stack, and in which order the packs run."""

import hashlib
import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from statistics import median
from typing import Any, Literal

import numpy as np

from stsq_core.configs import TrialConfig, stack_key
from stsq_core.training import (
    CALL_EFFORT,
    GPU_CALL_OPERATIONS,
    GPU_FIXED_BYTES,
    evaluation_operations,
    memory_bytes,
    step_cost,
    step_operations,
)
from sweeps.cells.cell import describe
from sweeps.cells.trials import Trials

CALLS_SHARE = 0.1
"""The knee: packs grow until calling a step's functions takes no more than this share of its time."""

CPU_PACKS = (8, 64)
"""The least and the most trials at the knee on a core: larger packs gain little and lose more with a worker."""

GPU_PACKS = (256, 2048)
"""The least and the most trials at the knee on a GPU, where more trials cost a light step nearly nothing."""

MEMORY_SHARE = 0.6
"""The part of a worker's memory that a pack's own arrays may take; the rest is for libraries, graphs and other programs."""


@dataclass(frozen=True)
class Room:
    """What one worker has for a pack: its kind of device, and the bytes of memory on it; `most` caps the trials of a pack."""

    device: Literal["cpu", "cuda"] = "cpu"
    memory_bytes: float = math.inf
    most: int | None = None

    def pack_size(self, config: TrialConfig) -> int:
        """The most trials like this one in a pack: those at the knee of throughput, or what fits into memory, at least one."""
        fixed = GPU_FIXED_BYTES if self.device == "cuda" else 0
        fits = (MEMORY_SHARE * self.memory_bytes - fixed) / memory_bytes(config, self.device)
        return int(max(1, min(self._knee(config), fits, self.most or math.inf)))

    def fits(self, pack: "Pack") -> bool:
        """Whether a pack fits into memory, however slowly it may train."""
        fixed = GPU_FIXED_BYTES if self.device == "cuda" else 0
        return fixed + memory_bytes(pack.trials[0], self.device) * len(pack.trials) <= MEMORY_SHARE * self.memory_bytes

    def _knee(self, config: TrialConfig) -> int:
        if self.device == "cuda":
            (least, most), calls_per_trial = GPU_PACKS, GPU_CALL_OPERATIONS / step_cost(config).least
        else:
            (least, most), calls_per_trial = CPU_PACKS, CALL_EFFORT / step_cost(config).effort
        return min(most, 1 << math.ceil(math.log2(max(least, calls_per_trial / CALLS_SHARE))))


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


def pack_row(pack: Pack, ends: Iterable[tuple[str, float | None]] = ()) -> dict[str, Any]:
    """A pack as a row of a table; what several of its trials have differently is joined by commas.

    Args:
        pack: of which cells, sizes, codes and optimizers the row is.
        ends: status and relative loss of each of its trials, where it has ended.
    """
    families = [pack.trials.families[place].sample for place in np.unique(pack.trials.family).tolist()]
    task, ends = families[0].task, list(ends)
    row = {
        "pack": pack.pack_id,
        "cell": _joined(describe(config) for config in families),
        **{letter: getattr(task, letter) for letter in ("T", "q", "d")},
        "m": _joined(sorted(set(pack.trials.widths.tolist()))),
        "code": _joined(getattr(getattr(config.model, "positions", None), "kind", "none") for config in families),
        "optimizer": _joined(config.optimizer.kind for config in families),
        "trials": len(pack.trials),
    }
    if ends:
        losses = [loss for _, loss in ends if loss is not None]
        row |= {status: sum(own == status for own, _ in ends) for status in ("finished", "diverged", "failed")}
        row |= {"least_loss": min(losses), "median_loss": median(losses), "largest_loss": max(losses)} if losses else {}
    return row


def _joined(values: Iterable[object]) -> str:
    return ", ".join(dict.fromkeys(map(str, values)))


def pack_of(configs: Iterable[TrialConfig]) -> Pack:
    """The pack of these trials, in this order."""
    trials = Trials.of(configs)
    first = trials[0]
    return Pack(trials, trial_operations(trials), first.training.steps, memory_bytes(first) * len(trials))


ANYWHERE = Room()


def make_packs(configs: Iterable[TrialConfig], *, room: Room = ANYWHERE, slots: int = 1) -> tuple[Pack, ...]:
    """Divide trials into packs that can train as one stack and are no larger than `room` says, the longest first.

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
    counts = [math.ceil(size / room.pack_size(config)) for size, config in zip(sizes.tolist(), samples, strict=True)]
    if slots > 1:
        counts = _spread(counts, sizes.tolist(), (sizes * costs).tolist(), slots=slots)
    packs = []
    for config, cost, end, size, count in zip(samples, costs, np.cumsum(sizes), sizes.tolist(), counts, strict=True):
        steps, memory = config.training.steps, memory_bytes(config)
        for low, high in pairwise((end - size + _bounds(size, count)).tolist()):
            num = high - low
            packs.append(Pack(trials.take(order[low:high]), cost * num, steps, memory * num))
    return tuple(sorted(packs, key=lambda pack: -pack.operations))


def _stacks(trials: Trials) -> tuple[list[TrialConfig], np.ndarray]:
    """A config of each stack (its trials have the same cost and memory), and the stack of each trial."""
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


def cut(pack: Pack, most: int) -> tuple[Pack, Pack]:
    """The first of the fewest nearly equal parts of at most `most` trials of a pack, and the rest as one pack."""
    size = len(pack.trials)
    first = math.ceil(size / math.ceil(size / most))
    return _part(pack, 0, first), _part(pack, first, size)


def _part(pack: Pack, low: int, high: int) -> Pack:
    share = (high - low) / len(pack.trials)
    trials = pack.trials.take(np.arange(low, high))
    return Pack(trials, pack.operations * share, pack.num_steps, pack.memory_bytes * share)


def trial_operations(configs: Iterable[TrialConfig]) -> float:
    """Multiply-adds that training these trials takes."""
    trials = Trials.of(configs)
    if not len(trials):
        return 0.0
    samples, stack = _stacks(trials)
    return float(np.bincount(stack) @ np.array([_operations(config) for config in samples]))


def _operations(config: TrialConfig) -> float:
    return step_operations(config) * config.training.steps + evaluation_operations(config)


def _spread(counts: Sequence[int], sizes: Sequence[int], costs: Sequence[float], *, slots: int) -> list[int]:
    """Into how many packs each stack is divided so that every slot has some, and none takes more than an even share."""
    counts = list(counts)
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
