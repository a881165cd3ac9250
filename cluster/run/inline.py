"""Runs packs one after another in this process, with no Ray: for a debugger, and for machines without Ray."""

from types import TracebackType
from typing import Self

from cluster.run.runner import Runner, Work
from cluster.run.worker import train_order
from stsq_core.numerics import Device, free_memory, resolve_device
from sweeps.cells import Room


class InlineRunner(Runner):
    """Trains in the calling thread."""

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
        """Train every pack of the queue, one after another."""
        while (order := work.next_order()) is not None:
            work.take(train_order(order.as_json()), order.pack)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        return None
