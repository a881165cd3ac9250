"""The workers of a run and what each of them trains: who is hired, which pack a worker is given when it asks, who is lost.

A worker pulls packs: it is given the next one when it has told how the last one ended, so a slow pack keeps nobody waiting. No
Ray here: `tune_packs` carries these decisions to Ray Tune, and a simulation (tests/benchmarks/scheduler.py) to workers that it
makes up.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cluster.run import Order, Work
from cluster.tune.placement import Seat, worth_a_core
from cluster.tune.retries import Retries
from stsq_core.configs import UserError
from sweeps.cells import CPU_PACKS, Pack, Room
from sweeps.schedule import Failure, PackOutcome

PREEMPTED = "Preempted"
"""The cause of a loss that is not counted among a pack's retries: its node was taken away."""

MOST_FALSE_STARTS = 10
"""Workers in a row that end before they ask for anything, after which something must be wrong with the nodes."""


@dataclass
class Worker:
    """One worker: where it sits, the room that it told, what it trains and since when (monotonic seconds)."""

    seat: Seat
    room: Room | None = None
    pack: Pack | None = None
    began: float = 0.0


class Crew:
    """Workers by name. `seats` tells how many of each kind there may be now: nodes come and go.

    Raises:
        UserError: by every method that takes an answer: the run directory cannot be written.
    """

    def __init__(
        self, work: Work, seats: Callable[[], Mapping[Seat, int]], *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.work = work
        self.retries = Retries(work.retries)
        self._seats = seats
        self._now = now
        self._workers: dict[str, Worker] = {}
        self._hired: Counter[Seat] = Counter()
        self._running: dict[str, str] = {}
        self._num_seats = 0
        self._false_starts = 0
        self._condemned: dict[str, str] = {}

    @property
    def over(self) -> bool:
        """Whether no pack is left to start, nor one running whose outcome might bring others; or too many trials failed."""
        work = self.work
        if work.budgets.failures_spent:
            return True
        return not self._running and (not work.budgets.allow() or work.queue.finished)

    @property
    def running(self) -> Mapping[str, str]:
        """The worker of each pack in training, by pack id."""
        return self._running

    def hire(self, name: str) -> Seat | None:
        """Where a new worker of this name is to sit; None while nobody is needed."""
        queue = self.work.queue
        self.work.stop.check()
        if not self.work.budgets.allow() or not queue.ready or len(self._workers) - len(self._running) >= queue.num_waiting:
            return None
        for seat, count in self._known_seats().items():
            if self._hired[seat] < count and self._suits(seat):
                self._hired[seat] += 1
                self._workers[name] = Worker(seat)
                return seat
        return None

    def answered(self, name: str, told: Mapping[str, Any]) -> Order | None:
        """Take what a worker told (its room, or how its pack ended), and give it the next order; None: it may go."""
        worker = self._workers[name]
        if "refused" in told:
            raise UserError(told["refused"])
        if "room" in told:
            self._false_starts = 0
            worker.room = Room(**told["room"])
        if "outcome" in told:
            pack = self._free(worker)
            self.retries.forget(pack.pack_id)
            self.work.take(told["outcome"], pack)
        if not self._suits(worker.seat):
            return None
        order = self.work.next_order(worker.room, device=worker.seat.device, cheapest=worker.seat.spare)
        if order is not None:
            worker.pack, worker.began = order.pack, self._now()
            self._running[order.pack.pack_id] = name
        return order

    def left(self, name: str) -> None:
        """A worker has gone in order."""
        if name in self._workers:
            self._hired[self._workers.pop(name).seat] -= 1

    def lost(self, name: str, cause: str, message: str) -> None:
        """A worker is gone: its pack goes back to the queue, as often as it may, or its trials have failed.

        Args:
            cause: the name of the error that told, such as `ActorDiedError`; `Preempted` where the node was taken away.
            message: its first line.

        Raises:
            UserError: workers are lost again and again before they ask for a pack.
        """
        worker = self._workers[name]
        self.left(name)
        if name in self._condemned:
            cause, message = "hung worker", self._condemned.pop(name)
        self.work.reach_storage()  # a pack that is tried again while the run directory is away is lost again
        if worker.pack is None and cause == PREEMPTED:
            return
        if worker.pack is None:
            self._false_start(cause, message)
            return
        seconds, pack = self._now() - worker.began, self._free(worker)
        if cause == "OutOfMemoryError":
            self._fail(pack, Failure("out of memory", "out_of_memory", seconds))
        elif cause == PREEMPTED:
            self.work.give_back(pack)
            self.work.progress.note(
                "a worker left a node that is taken away; its pack goes on elsewhere from its last checkpoint"
            )
        elif self.retries.allowed(pack.pack_id):
            self.work.give_back(pack)
            what = f"{cause}: {message}" if cause == "hung worker" else cause
            self.work.progress.note(f"a worker was lost ({what}); its pack goes on from its last checkpoint")
        else:
            times = self.retries.num_losses(pack.pack_id)
            self._fail(pack, Failure(f"lost worker, {times} times: {cause}: {message}", "lost_worker", seconds))

    def condemn(self, name: str, why: str) -> None:
        """A worker is going to be ended because it hangs: `why` is what its loss will be put down to."""
        self._condemned[name] = why

    def give_up(self) -> None:
        """Put every pack in training back into the queue: its worker is going to be stopped."""
        for worker in self._workers.values():
            if worker.pack is not None:
                self.work.give_back(self._free(worker))

    def _free(self, worker: Worker) -> Pack:
        pack, worker.pack = worker.pack, None
        assert pack is not None, "a worker told of a pack that it was not given"
        del self._running[pack.pack_id]
        return pack

    def _fail(self, pack: Pack, failure: Failure) -> None:
        self.retries.forget(pack.pack_id)
        self.work.record(PackOutcome(pack, failure=failure))

    def _false_start(self, cause: str, message: str) -> None:
        self._false_starts += 1
        if self._false_starts >= MOST_FALSE_STARTS:
            raise UserError(
                f"{self._false_starts} workers in a row ended before they could train; the last: {cause}: {message}"
            )

    def _known_seats(self) -> Mapping[Seat, int]:
        seats = self._seats()
        num_seats = sum(seats.values())
        if num_seats > self._num_seats:
            self.work.queue.spread(num_seats)
        if num_seats != self._num_seats:
            self._num_seats = self.work.progress.num_workers = num_seats
        return seats

    def _suits(self, seat: Seat) -> bool:
        """Whether what waits is for this seat: of a core beside GPUs only what it ends before they are done with the rest."""
        queue = self.work.queue
        if not seat.spare:
            return queue.ready
        if not queue.ready:
            return False
        last = queue.waiting_last
        share = min(1.0, CPU_PACKS[1] / len(last.trials))
        num_gpus = sum(count * one.gpu_share for one, count in self._seats().items())
        return worth_a_core(share * last.operations, left=queue.waiting_operations, num_gpus=num_gpus)
