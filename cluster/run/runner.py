"""Ways of running packs: what each of them works on, how it takes an outcome back, and the plain one, in this process."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from cluster.run.budgets import Budgets
from cluster.run.options import RunOptions
from cluster.run.progress_line import ProgressLine
from cluster.run.stop import StopSignals
from cluster.run.worker import Order, outcome_from_json, outcome_path, train_order
from stsq_core.numerics import Device, free_memory, resolve_device
from sweeps.cells import Pack, Room
from sweeps.schedule import PackOutcome, PackQueue
from sweeps.store import RunDirectory, retry_io

LOOK_EVERY_S = 2.0
"""How often a run makes sure, while packs train, that its files are still there."""


@dataclass(frozen=True)
class Work:
    """A queue of packs, the run directory that takes their results, and what watches them.

    `budgets` allow or stop further packs; `retries` is how often a pack whose worker was lost is tried again; `guard` raises
    where a file that the run needs was removed.
    """

    queue: PackQueue
    run: RunDirectory
    options: RunOptions
    progress: ProgressLine
    stop: StopSignals
    retries: int
    budgets: Budgets
    guard: Callable[[], None] = lambda: None

    def next_order(
        self,
        room: Room | None = None,
        *,
        device: Device | None = None,
        cheapest: bool = False,
        rather_not: Collection[str] = (),
    ) -> Order | None:
        """The next pack, cut to a worker's room, as an order to it; None when nothing may start now. See `PackQueue.next`."""
        self.stop.check()
        self.check_files()
        pack = self.queue.next(room, cheapest=cheapest, rather_not=rather_not) if self.budgets.allow() else None
        if pack is None:
            return None
        self.progress.started(pack)
        options = self.options
        return Order(
            pack,
            self.run.path,
            device or options.device,
            options.keep_weights,
            options.checkpoint_every_s,
            self.budgets.seconds_left,
        )

    def give_back(self, pack: Pack) -> None:
        """Requeue a pack whose worker is gone."""
        self.queue.give_back(pack)
        self.progress.stopped(pack)

    def take(self, report: str, pack: Pack) -> PackOutcome:
        """Record the outcome of a pack as a worker reports it, in JSON."""
        outcome = outcome_from_json(report, pack, notify=self.progress.note)
        self.record(outcome)
        return outcome

    def record(self, outcome: PackOutcome) -> None:
        """Record an outcome in the ledger, as a whole, and remove the file that kept it until now."""
        with self.stop.deferred():
            self.reach_storage()
            self.queue.record(outcome)
            with suppress(OSError):  # one that stays is found in the ledger already, next time
                outcome_path(self.run, outcome.pack.pack_id).unlink(missing_ok=True)
            self.progress.ended(outcome)

    def check_files(self) -> None:
        """Make sure that nothing was removed which the run needs, so that nothing is trained in vain; at once, or not at all
        where the storage is away.

        Raises:
            UserError: something was.
        """
        with suppress(OSError):
            self.guard()

    def reach_storage(self) -> None:
        """Wait while the run directory cannot be reached: what is written or tried meanwhile would be lost.

        Raises:
            UserError: it did not come back.
        """
        retry_io(self.run.spec, self.run.spec.stat, notify=self.progress.note)


class Runner(ABC):
    """A way of running packs: a context that is entered once and then trains."""

    @property
    @abstractmethod
    def slots(self) -> int:
        """Packs that train at once; known once the context is entered."""

    @property
    @abstractmethod
    def room(self) -> Room:
        """The room of a pack on one worker; known once the context is entered."""

    @abstractmethod
    def train(self, work: Work) -> None:
        """Train every pack of the queue that may start.

        Raises:
            UserError: the run directory cannot be written.
        """

    @abstractmethod
    def __enter__(self) -> Self: ...

    @abstractmethod
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Begin to end all that was started."""

    def wait_for_end(self) -> None:  # noqa: B027  (most have nothing to wait for)
        """Wait until all that was started has ended."""


class InlineRunner(Runner):
    """Trains packs one after another in the calling thread, without Ray: for a debugger, and for machines without Ray."""

    def __init__(self, device: Device) -> None:
        self._device = device

    @property
    def room(self) -> Room:
        device = resolve_device(self._device)
        return Room(device, free_memory(device))

    @property
    def slots(self) -> int:
        return 1

    def train(self, work: Work) -> None:
        looks_at = 0.0

        def look() -> bool:
            nonlocal looks_at
            if time.monotonic() >= looks_at:
                looks_at = time.monotonic() + LOOK_EVERY_S
                work.check_files()
            return False

        while (order := work.next_order()) is not None:
            work.take(train_order(order.as_json(), look), order.pack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None
