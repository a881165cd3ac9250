"""The workers of a run: whether another is needed, which pack each trains next, and what becomes of the pack of a lost one.

A worker pulls packs: it gets the next one when it reports how the last one ended, so a slow pack keeps nobody waiting. No Ray
here: `tune_packs` carries these decisions to Ray Tune, and a simulation (tests/benchmarks/scheduler.py) to made-up workers.
"""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cluster.run import Order, Work
from cluster.tune.placement import WorkerSlot, worth_a_core
from stsq_core.configs import UserError
from sweeps.cells import CPU_PACKS, Pack, Room
from sweeps.schedule import Failure, PackOutcome

PREEMPTED = "Preempted"
"""The cause of a loss that does not count among a pack's retries: its node was taken away."""

OUT_OF_MEMORY = "out of memory"
"""The cause of a loss after which the pack is halved."""

MAX_FALSE_STARTS = 10
"""Workers in a row that end before they ask for a pack, after which something must be wrong with the nodes."""


@dataclass
class Worker:
    """One worker: its slot, the room that it reported, the pack that it trains and since when (monotonic seconds)."""

    slot: WorkerSlot
    room: Room | None = None
    pack: Pack | None = None
    started_at: float = 0.0


class WorkerPool:
    """Workers by name. `slots` returns how many of each kind there may be now: nodes come and go.

    A lost worker's pack is tried again `work.retries` times: a loss costs no more than the time since the last checkpoint.

    Raises:
        UserError: by every method that takes a report: the run directory cannot be written.
    """

    def __init__(
        self, work: Work, slots: Callable[[], Mapping[WorkerSlot, int]], *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.work = work
        self.num_retries = 0
        self._slots = slots
        self._now = now
        self._workers: dict[str, Worker] = {}
        self._num_on_slot: Counter[WorkerSlot] = Counter()
        self._running: dict[str, str] = {}
        self._losses: Counter[str] = Counter()
        self._num_slots = 0
        self._false_starts = 0
        self._hung: dict[str, str] = {}

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

    def add_worker(self, name: str) -> WorkerSlot | None:
        """The slot of a new worker of this name; None while no worker is needed."""
        queue = self.work.queue
        self.work.stop.check()
        if not self.work.budgets.allow() or not queue.ready or len(self._workers) - len(self._running) >= queue.num_waiting:
            return None
        slots = self._slots()
        num_slots = sum(slots.values())
        if num_slots > self._num_slots:
            queue.spread(num_slots)
        if num_slots != self._num_slots:
            self._num_slots = self.work.progress.num_workers = num_slots
        for slot, count in slots.items():
            if self._num_on_slot[slot] < count and self._has_work_for(slot):
                self._num_on_slot[slot] += 1
                self._workers[name] = Worker(slot)
                return slot
        return None

    def handle_report(self, name: str, report: Mapping[str, Any]) -> Order | None:
        """Take a worker's report (its room, or how its pack ended) and return its next order; None: it may go."""
        worker = self._workers[name]
        if "refused" in report:
            raise UserError(report["refused"])
        if "room" in report:
            self._false_starts = 0
            worker.room = Room(**report["room"])
        if "outcome" in report:
            pack = self._release(worker)
            self._losses.pop(pack.pack_id, None)
            self.work.take(report["outcome"], pack)
        if not self._has_work_for(worker.slot):
            return None
        order = self.work.next_order(worker.room, device=worker.slot.device, cheapest=worker.slot.spare)
        if order is not None:
            worker.pack, worker.started_at = order.pack, self._now()
            self._running[order.pack.pack_id] = name
        return order

    def remove_worker(self, name: str) -> None:
        """A worker has ended in order."""
        if name in self._workers:
            self._num_on_slot[self._workers.pop(name).slot] -= 1

    def handle_loss(self, name: str, cause: str, message: str) -> None:
        """A worker is gone: its pack is requeued, as often as it may be, or its trials have failed.

        Args:
            cause: the name of the error, such as `ActorDiedError`; `Preempted` where the node was taken away.
            message: its first line.

        Raises:
            UserError: workers are lost again and again before they ask for a pack.
        """
        worker = self._workers[name]
        self.remove_worker(name)
        if name in self._hung:
            cause, message = "hung worker", self._hung.pop(name)
        work = self.work
        work.reach_storage()  # a pack that is tried again while the run directory is away is lost again
        if worker.pack is None:
            if cause != PREEMPTED:
                self._count_false_start(cause, message)
            return
        seconds, pack = self._now() - worker.started_at, self._release(worker)
        if cause == PREEMPTED:
            work.give_back(pack)
            work.progress.note("a worker left a node that is taken away; its pack goes on elsewhere from its last checkpoint")
            return
        self._losses[pack.pack_id] += 1
        num_losses = self._losses[pack.pack_id]
        if cause == OUT_OF_MEMORY and (len(pack.trials) > 1 or num_losses > work.retries):
            # again on the same worker would end the same: the queue halves the pack
            if len(pack.trials) > 1:
                lost = f"a worker was lost (out of memory: {message})"
                work.progress.note(f"{lost}; its pack of {len(pack.trials)} trials goes on in halves")
            failure = Failure(f"out of memory: {message}", "out_of_memory", seconds)
        elif num_losses <= work.retries:
            self.num_retries += 1
            work.give_back(pack)
            why = f"{cause}: {message}" if cause == "hung worker" else cause
            work.progress.note(f"a worker was lost ({why}); its pack goes on from its last checkpoint")
            return
        else:
            failure = Failure(f"lost worker, {num_losses} times: {cause}: {message}", "lost_worker", seconds)
        self._losses.pop(pack.pack_id)
        work.record(PackOutcome(pack, failure=failure))

    def mark_hung(self, name: str, reason: str) -> None:
        """A worker will be ended because it hangs: `reason` becomes the message of its loss."""
        self._hung[name] = reason

    def requeue_running(self) -> None:
        """Requeue every pack in training: its worker will be stopped."""
        for worker in self._workers.values():
            if worker.pack is not None:
                self.work.give_back(self._release(worker))

    def _release(self, worker: Worker) -> Pack:
        pack, worker.pack = worker.pack, None
        assert pack is not None, "a worker reported a pack that it was not given"
        del self._running[pack.pack_id]
        return pack

    def _count_false_start(self, cause: str, message: str) -> None:
        self._false_starts += 1
        if self._false_starts >= MAX_FALSE_STARTS:
            raise UserError(
                f"{self._false_starts} workers in a row ended before they could train; the last: {cause}: {message}"
            )

    def _has_work_for(self, slot: WorkerSlot) -> bool:
        """Whether a waiting pack suits this slot: a core beside GPUs gets only what it ends before they end the rest."""
        queue = self.work.queue
        if not slot.spare or not queue.ready:
            return queue.ready
        last = queue.waiting_last
        share = min(1.0, CPU_PACKS[1] / len(last.trials))
        num_gpus = sum(count * one.gpu_share for one, count in self._slots().items())
        return worth_a_core(share * last.operations, left=queue.waiting_operations, num_gpus=num_gpus)
