"""Packs: which trials train together as one stack, and in which order the packs run."""

import hashlib
import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from stsq_core.cost import step_operations
from stsq_core.stacking import stack_key
from stsq_core.trial import TrialConfig

MAX_PACK = 32
"""Trials in a pack unless told otherwise: larger stacks gain little on one core and lose more when a worker dies."""


@dataclass(frozen=True)
class Pack:
    """Trials trained together on one device; named by exactly the trials it holds."""

    pack_id: str
    configs: tuple[TrialConfig, ...]

    @cached_property
    def trial_ids(self) -> tuple[str, ...]:
        return tuple(config.trial_id for config in self.configs)

    @cached_property
    def operations(self) -> float:
        """Multiply-adds that training the pack takes."""
        return trial_operations(self.configs)


def pack_of(configs: Iterable[TrialConfig]) -> Pack:
    """The pack of these trials, in this order."""
    members = tuple(configs)
    names = ",".join(config.trial_id for config in members)
    return Pack(hashlib.sha256(names.encode()).hexdigest()[:16], members)


def make_packs(configs: Iterable[TrialConfig], *, max_size: int = MAX_PACK, slots: int = 1) -> tuple[Pack, ...]:
    """Divide trials into packs of at most `max_size` that can train as one stack, the longest first.

    Each trial is in exactly one pack, also when it is given twice. Packs of one stack are of nearly equal size. With several
    `slots`, packs are split further while one alone would take longer than an even share of the whole work.
    """
    stacks: dict[tuple[object, ...], dict[str, TrialConfig]] = {}
    for config in configs:
        stacks.setdefault(stack_key(config), {}).setdefault(config.trial_id, config)
    members = [list(stack.values()) for stack in stacks.values()]
    counts = _num_packs(members, max_size=max_size, slots=slots)
    packs = [pack_of(part) for stack, count in zip(members, counts, strict=True) for part in _split(stack, count)]
    return tuple(sorted(packs, key=lambda pack: -pack.operations))


def halves(pack: Pack) -> tuple[Pack, ...]:
    """The pack in two, for one that did not fit into memory; a pack of one trial cannot be split and gives nothing."""
    return tuple(pack_of(part) for part in _split(pack.configs, 2)) if len(pack.configs) > 1 else ()


def trial_operations(configs: Iterable[TrialConfig]) -> float:
    """Multiply-adds that training these trials takes."""
    return sum(step_operations(config) * config.training.steps for config in configs)


def _num_packs(stacks: Sequence[Sequence[TrialConfig]], *, max_size: int, slots: int) -> list[int]:
    """Into how many packs each stack is divided."""
    counts = [math.ceil(len(stack) / max_size) for stack in stacks]
    if slots <= 1:
        return counts
    costs = [trial_operations(stack) for stack in stacks]
    share = sum(costs) / slots
    longest = [(-cost / count, place) for place, (cost, count) in enumerate(zip(costs, counts, strict=True))]
    heapq.heapify(longest)
    while longest:
        cost, place = heapq.heappop(longest)
        if -cost <= share and sum(counts) >= slots:
            break
        if counts[place] < len(stacks[place]):
            counts[place] += 1
            heapq.heappush(longest, (-costs[place] / counts[place], place))
    return counts


def _split(configs: Sequence[TrialConfig], count: int) -> list[Sequence[TrialConfig]]:
    """`count` consecutive parts whose sizes differ by at most one."""
    bounds = [len(configs) * place // count for place in range(count + 1)]
    return [configs[low:high] for low, high in pairwise(bounds)]
