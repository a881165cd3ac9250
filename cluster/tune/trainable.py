"""The worker as Ray Tune sees it: in a module of its own, so that a worker loads what it needs and no more, and quickly."""

import gc
from typing import Any

from sweeps.store import gc_paused

with gc_paused():
    from ray import tune

    from cluster.run import train_order
    from cluster.tune.notices import Notice
    from cluster.tune.placement import own_room
from stsq_core.configs import UserError


class PackTrainable(tune.Trainable):
    """A worker: its first step tells its room, each further one trains the pack that it was given in between."""

    def setup(self, config: dict[str, Any]) -> None:
        with gc_paused():
            import stsq_core.kernels.cpu
            import stsq_core.training.pack  # noqa: F401  (torch and Numba, before the first step)
        gc.freeze()  # what is loaded stays
        self._leaving = Notice()
        self._leaving.watch()
        self.reset_config(config)

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._seat = new_config
        self._order: str | None = None
        return True

    def take(self, order: str) -> None:
        """Be given the order for the next step."""
        self._order = order

    def step(self) -> dict[str, Any]:
        order, self._order = self._order, None
        if order is not None:
            with self._leaving.training():
                return {"outcome": train_order(order, self._leaving)}
        try:
            return {"room": vars(own_room(self._seat))}
        except UserError as error:
            return {"refused": str(error)}
