"""The workers of a run: whether another is needed, which pack each trains next, and what becomes of the pack of a lost one.

A worker pulls packs: it gets the next one when it reports how the last one ended, so a slow pack keeps nobody waiting. No Ray
here: `tune_packs` carries these decisions to Ray Tune, and a simulation (tests/benchmarks/scheduler.py) to made-up workers.
"""

import math
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cluster.run import Order, Work
from cluster.tune.node_losses import LEFT_OUT_S, MAX_IN_A_ROW, Node, NodeLosses
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
    """One worker: its slot, the node and room that it reported, the pack that it trains and since when (monotonic seconds); a
    `single` one ends with that pack.
    """

    slot: WorkerSlot
    node: Node | None = None
    room: Room | None = None
    pack: Pack | None = None
    started_at: float = 0.0
    is_single: bool = False


class WorkerPool:
    """Workers by name. `slots` returns how many of each kind there may be now, since nodes come and go, without the nodes whose
    ids it is given; it is empty where these are all.

    Up to `awaited` workers more are added while packs wait for them, so that an autoscaler sees the demand. The first
    `num_single` workers train one pack each; those that come later pull packs, one after another.

    A lost worker's pack is tried again `work.retries` times: a loss costs no more than the time since the last checkpoint.
    Losses on a node that is left out (`NodeLosses`) do not count.

    Raises:
        UserError: by every method that takes a report: the run directory cannot be written.
    """

    def __init__(
        self,
        work: Work,
        slots: Callable[[Collection[str]], Mapping[WorkerSlot, int]],
        *,
        awaited: int = 0,
        num_single: int = 0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.work = work
        self.num_retries = 0
        self.last_outcome: PackOutcome | None = None
        self._slots = slots
        self._num_single = num_single
        self.awaited = awaited
        self._most = work.options.max_workers or math.inf
        self._now = now
        self._workers: dict[str, Worker] = {}
        self._num_on_slot: Counter[WorkerSlot] = Counter()
        self._running: dict[str, str] = {}
        self._nodes = NodeLosses(now)
        self._losses: defaultdict[str, Counter[Node | None]] = defaultdict(Counter)
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
        """The slot of a new worker of this name, on any node that is not left out; None while no worker is needed."""
        queue = self.work.queue
        self.work.stop.check()
        if not self.work.budgets.allow() or not queue.ready:
            return None
        left_out = self._left_out_ids()
        slots = self._slots(left_out)
        num_slots = sum(slots.values())
        if num_slots > self._num_slots:
            queue.spread(self._num_expected(num_slots))
        if num_slots != self._num_slots:
            self._num_slots = self.work.progress.num_workers = num_slots
        if self.num_idle >= queue.num_waiting:  # counted before: workers that were awaited find their nodes meanwhile
            return None
        for slot, count in self._with_awaited(slots):
            if self._num_on_slot[slot] < count and self._has_work_for(slot):
                self._num_on_slot[slot] += 1
                self._workers[name] = Worker(slot, is_single=self._num_single > 0)
                self._num_single -= 1
                return replace(slot, avoided=left_out)
        return None

    @property
    def num_idle(self) -> int:
        """Workers that have no pack: they start, or wait for a node to start on."""
        return len(self._workers) - len(self._running)

    @property
    def num_superfluous(self) -> int:
        """How many of the idle workers no pack waits for."""
        return max(0, self.num_idle - (self.work.queue.num_waiting if self.work.budgets.allow() else 0))

    def handle_report(self, name: str, report: Mapping[str, Any]) -> Order | None:
        """Take a worker's report (its room and node, or how its pack ended) and return its next order; None: it may go."""
        worker = self._workers[name]
        if "refused" in report:
            raise UserError(report["refused"])
        if "room" in report:
            self._false_starts = 0
            worker.room = Room(**report["room"])
        if "node" in report:
            worker.node = Node(**report["node"])
            self._nodes.start(worker.node)
        if "outcome" in report:
            pack = self._release(worker)
            self._losses.pop(pack.pack_id, None)
            if worker.node is not None:
                self._nodes.succeed(worker.node)
            self.last_outcome = self.work.take(report["outcome"], pack)
            if worker.is_single:
                return None
        if worker.node in self._nodes.left_out or not self._has_work_for(worker.slot):
            return None
        lost_here = {pack_id for pack_id, losses in self._losses.items() if worker.node is not None and worker.node in losses}
        order = self.work.next_order(worker.room, device=worker.slot.device, cheapest=worker.slot.spare, rather_not=lost_here)
        if order is not None:
            worker.pack, worker.started_at = order.pack, self._now()
            self._running[order.pack.pack_id] = name
        return order

    def remove_worker(self, name: str) -> None:
        """A worker has ended in order."""
        if name in self._workers:
            self._num_on_slot[self._workers.pop(name).slot] -= 1

    def handle_loss(self, name: str, cause: str, message: str, node: Node | None = None) -> None:
        """A worker is gone: its pack is requeued, as often as it may be, or its trials have failed.

        Args:
            cause: the name of the error, such as `ActorDiedError`; `Preempted` where the node was taken away.
            message: its first line.
            node: where it was; None where nobody knows, or the node is gone.

        Raises:
            UserError: workers are lost again and again before they ask for a pack, or on every node.
        """
        worker = self._workers[name]
        self.remove_worker(name)
        if name in self._hung:
            cause, message = "hung worker", self._hung.pop(name)
        work = self.work
        work.reach_storage()  # a pack that is tried again while the run directory is away is lost again
        if cause == PREEMPTED and worker.node is not None:
            self._nodes.forget(worker.node)
        if worker.pack is None:
            if cause != PREEMPTED and not self._leave_out(node, f"{cause}: {message}", is_start=True):
                self._count_false_start(cause, message)
            return
        seconds, pack = self._now() - worker.started_at, self._release(worker)
        if cause == PREEMPTED:
            work.give_back(pack)
            work.progress.note("a worker left a node that is taken away; its pack goes on elsewhere from its last checkpoint")
            return
        losses = self._losses[pack.pack_id]
        # a pack that ends workers wherever it comes is no fault of a node: it counts there once
        is_news = node not in losses or not set(losses) - {node, None}
        losses[node] += 1
        if is_news and cause != OUT_OF_MEMORY and self._leave_out(node, f"{cause}: {message}"):
            work.give_back(pack)
            return
        num_losses = losses.total()
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

    def node_of(self, name: str) -> Node | None:
        """The node of a worker that has reported it."""
        return self._workers[name].node

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

    def _leave_out(self, node: Node | None, cause: str, *, is_start: bool = False) -> bool:
        """Count a loss on a node, or a false start. Whether the node is left out: then its losses count for nothing else.

        Raises:
            UserError: it is the last node that was not.
        """
        if node is None:
            return False
        num_losses, left_out = self._nodes.lose(node), self._nodes.left_out
        if num_losses >= MAX_IN_A_ROW and node not in left_out:
            if not self._slots((*self._left_out_ids(), node.node_id)):
                if not left_out:
                    return False
                words = "; ".join(f"{one}: {why}" for one, why in {**left_out, node: cause}.items())
                raise UserError(f"no node is left that keeps its workers ({words}); the same command goes on from the ledger")
            if self._nodes.others_sound(node) or (is_start and num_losses >= MAX_FALSE_STARTS):
                self._nodes.leave_out(node, cause)
                self._false_starts = 0
                self.work.progress.note(
                    f"node {node} is left out for {LEFT_OUT_S / 60:.0f} minutes: it lost {num_losses} workers in a row "
                    f"({cause}); its packs go on elsewhere"
                )
        if node not in self._nodes.left_out:
            return False
        for losses in self._losses.values():
            if node in losses:
                losses[node] = 0
        return True

    def _left_out_ids(self) -> tuple[str, ...]:
        return tuple(node.node_id for node in self._nodes.left_out)

    def _count_false_start(self, cause: str, message: str) -> None:
        self._false_starts += 1
        if self._false_starts >= MAX_FALSE_STARTS:
            raise UserError(
                f"{self._false_starts} workers in a row ended before they could train; the last: {cause}: {message}"
            )

    def _num_expected(self, num_slots: int) -> int:
        """The workers that packs are divided for: with a bound on them that many may come, else nobody knows."""
        return num_slots if math.isinf(self._most) else int(min(self._most, num_slots + self.awaited))

    def _with_awaited(self, slots: Mapping[WorkerSlot, int]) -> Iterator[tuple[WorkerSlot, int]]:
        """The slots, and then the first kind again with those that nodes may still come for."""
        yield from slots.items()
        if self.awaited and slots and len(self._workers) < self._most:
            first = next(iter(slots))
            yield first, slots[first] + self.awaited

    def _has_work_for(self, slot: WorkerSlot) -> bool:
        """Whether a waiting pack suits this slot: a core beside GPUs gets only what it ends before they end the rest."""
        queue = self.work.queue
        if not slot.spare or not queue.ready:
            return queue.ready
        last = queue.waiting_last
        share = min(1.0, CPU_PACKS[1] / len(last.trials))
        num_gpus = sum(count * one.gpu_share for one, count in self._slots(self._left_out_ids()).items())
        return worth_a_core(share * last.operations, left=queue.waiting_operations, num_gpus=num_gpus)
