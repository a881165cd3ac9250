"""Notices to leave: a node that is to be taken away is drained, or its processes are sent SIGTERM, some time before it goes.

A worker that is told saves its pack's state at once and raises `Preempted`; the pack goes on elsewhere, and that does not count
as one of its retries.
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import ray
from ray._private.state import state

LOOK_EVERY_S = 5.0
"""How soon a worker sees that its node is drained: clouds give half a minute or more."""


class Notice:
    """Whether this worker is to leave its node."""

    def __init__(self) -> None:
        self._training = False
        self._told = threading.Event()

    def __call__(self) -> bool:
        return self._told.is_set()

    def watch(self) -> None:
        """Begin to listen; called once, in the worker's main thread."""
        signal.signal(signal.SIGTERM, self._on_signal)
        threading.Thread(target=self._look, daemon=True).start()

    @contextmanager
    def training(self) -> Iterator[None]:
        """There is something to save first, while the block runs; outside of it SIGTERM ends the worker as it always does."""
        self._training = True
        try:
            yield
        finally:
            self._training = False

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._told.set()
        if not self._training:
            sys.exit(0)

    def _look(self) -> None:
        own = ray.get_runtime_context().get_node_id()
        pause = threading.Event()
        while not self._told.is_set():
            pause.wait(LOOK_EVERY_S)
            with suppress(Exception):  # a head that does not answer drains nobody
                if own in state.get_draining_nodes():
                    self._told.set()
