"""The worker as Ray Tune sees it, in a module that loads little else, so that workers start quickly.

A node that will be taken away is drained, or its processes get SIGTERM, some time before it goes. A worker that notices saves
its pack's state at once and raises `Preempted`; the pack goes on elsewhere, and that does not count as one of its retries.
"""

import gc
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from sweeps.store import gc_paused

with gc_paused():
    import ray
    from ray import tune

    from cluster.run import train_order
    from cluster.tune.placement import own_room
    from cluster.tune.ray_private import draining_nodes
from stsq_core.configs import UserError

POLL_S = 5.0
"""How soon a worker sees that its node is drained: clouds give half a minute or more."""


class PreemptionNotice:
    """Whether this worker must leave its node."""

    def __init__(self) -> None:
        self._is_training = False
        self._received = threading.Event()

    def __call__(self) -> bool:
        return self._received.is_set()

    def watch(self) -> None:
        """Begin to listen; called once, in the worker's main thread."""
        signal.signal(signal.SIGTERM, self._on_signal)
        threading.Thread(target=self._poll, daemon=True).start()

    @contextmanager
    def training(self) -> Iterator[None]:
        """Within the block SIGTERM lets the worker save its state first; outside of it SIGTERM ends the worker at once."""
        self._is_training = True
        try:
            yield
        finally:
            self._is_training = False

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._received.set()
        if not self._is_training:
            sys.exit(0)

    def _poll(self) -> None:
        own = ray.get_runtime_context().get_node_id()
        while not self._received.wait(POLL_S):
            with suppress(Exception):  # a head that does not answer drains nobody
                if own in draining_nodes():
                    self._received.set()


class PackTrainable(tune.Trainable):
    """A worker: its first step reports its room and node, each further one trains the pack of the order it got in between."""

    def setup(self, config: dict[str, Any]) -> None:
        with gc_paused():
            from stsq_core.training import load_engine

            load_engine()  # torch and Numba, before the first step
        gc.freeze()  # what is loaded stays
        self._notice = PreemptionNotice()
        self._notice.watch()
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._slot = new_config
        self._order: str | None = None
        return True

    def take(self, order: str) -> None:
        """Keep the order for the next step."""
        self._order = order

    def step(self) -> dict[str, Any]:
        order, self._order = self._order, None
        if order is not None:
            with self._notice.training():
                return {"outcome": train_order(order, self._notice)}
        try:
            node = {"node_id": ray.get_runtime_context().get_node_id(), "address": ray.util.get_node_ip_address()}  # type: ignore[no-untyped-call]
            return {"room": vars(own_room(self._slot)), "node": node}
        except UserError as error:
            return {"refused": str(error)}
