"""When what is left of a sweep would end: packs in training and waiting, and rounds that searches are expected to ask for.

It is counted in operations (multiply-adds), because a step of a wide trial costs more than one of a narrow trial. Each pack
goes to the worker that is free first; the next round of a search begins when the last pack of its cells has ended. The
terminal, `stsq status`, the page and the metrics all take their times from here.
"""

import heapq
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

LEAST_BUSY, BUSY_S = 0.05, 10.0
"""The least share of a worker's time that training is taken for, and the seconds of a worker without a pause that count beside
those that were seen: a moment after the start is no measurement."""


@dataclass(frozen=True)
class Load:
    """A pack in training, as far as it has yet to go, or one that waits: its cells, and multiply-adds."""

    cell_ids: Collection[str]
    operations: float


@dataclass(frozen=True)
class Ahead:
    """What a search is expected to ask for when all that it has asked for has ended, in `num_rounds` one after another.

    `cell_ids` is one cell, or all cells among which laws decide.
    """

    cell_ids: tuple[str, ...]
    num_trials: int = 0
    num_rounds: int = 0
    operations: float = 0.0

    @property
    def trials_by_cell(self) -> dict[str, int]:
        """The trials of each cell: an even share, as nobody knows which are asked."""
        return dict(zip(self.cell_ids, shares(self.num_trials, len(self.cell_ids)), strict=True))


@dataclass(frozen=True)
class Outlook:
    """The searches of a sweep: how many there are, how many go on, and what these are expected to ask for."""

    num_searches: int = 0
    num_searching: int = 0
    ahead: tuple[Ahead, ...] = ()

    def __add__(self, other: "Outlook") -> "Outlook":
        num_searching = self.num_searching + other.num_searching
        return Outlook(self.num_searches + other.num_searches, num_searching, (*self.ahead, *other.ahead))

    @property
    def num_trials(self) -> int:
        """Trials that are expected beyond those asked for."""
        return sum(one.num_trials for one in self.ahead)


@dataclass(frozen=True)
class WorkerPace:
    """The speed of a run: operations a second of a worker that trains, and the share of its time in which a worker trains."""

    operations_per_s: float
    busy: float = 1.0

    @classmethod
    def of(cls, operations_per_s: float, *, trained_s: float, span_s: float, num_workers: int) -> "WorkerPace":
        """The pace of workers that trained `trained_s` seconds, all together, of the `span_s` since the first of them began."""
        if trained_s <= 0 or span_s <= 0:
            return cls(operations_per_s)
        busy = (trained_s + BUSY_S) / (span_s * num_workers + BUSY_S)
        return cls(operations_per_s, min(1.0, max(LEAST_BUSY, busy)))

    def seconds(self, operations: float) -> float:
        """How long one worker takes, its pauses included."""
        return operations / (self.operations_per_s * self.busy)


@dataclass(frozen=True)
class Ends:
    """When everything would end, in operations of one worker: each pack in training or waiting, and each cell of a search."""

    packs: tuple[float, ...]
    cells: Mapping[str, float]

    @property
    def last(self) -> float:
        """The end of all."""
        return max([*self.packs, *self.cells.values()], default=0.0)


def ends_of(running: Sequence[Load], waiting: Sequence[Load], ahead: Sequence[Ahead], *, num_workers: int) -> Ends:
    """The ends of all pieces of work, dealt in this order to at least as many workers as train now."""
    num_workers = max(1, num_workers, len(running))
    packs = [one.operations for one in running]
    free = [*packs, *[0.0] * (num_workers - len(packs))]
    heapq.heapify(free)
    for load in waiting:
        packs.append(free[0] + load.operations)
        heapq.heapreplace(free, packs[-1])
    cells: defaultdict[str, float] = defaultdict(float)
    searched = {cell_id for one in ahead for cell_id in one.cell_ids}
    for load, end in zip([*running, *waiting], packs, strict=True):
        for cell_id in searched.intersection(load.cell_ids):
            cells[cell_id] = max(cells[cell_id], end)
    rounds = [(max(cells[cell_id] for cell_id in one.cell_ids), place, one.num_rounds) for place, one in enumerate(ahead)]
    heapq.heapify(rounds)
    while rounds:
        ready, place, left = heapq.heappop(rounds)
        if left:
            one = ahead[place]
            parts = max(1, min(num_workers, one.num_trials // one.num_rounds))
            end = ready
            for _ in range(parts):
                end = max(end, max(free[0], ready) + one.operations / one.num_rounds / parts)
                heapq.heapreplace(free, end)
            cells |= dict.fromkeys(one.cell_ids, end)
            heapq.heappush(rounds, (end, place, left - 1))
    return Ends(tuple(packs), cells)


def shares(total: int, num: int) -> list[int]:
    """A whole number in `num` whole parts, as equal as they can be."""
    return [total * (place + 1) // num - total * place // num for place in range(num)]
