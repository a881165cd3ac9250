"""The worker as Ray Tune sees it: in a module of its own, so that a worker loads what it needs and no more, and quickly."""

import gc
from typing import Any

from sweeps.collector import no_collection

with no_collection():
    from ray import tune

    from cluster.worker import train_order


class PackTrainable(tune.Trainable):
    """A worker: trains the pack of its order in one step, then takes the next order in the same process."""

    def setup(self, config: dict[str, Any]) -> None:
        self._order: str = config["order"]
        with no_collection():
            import stsq_core.kernels.cpu
            import stsq_core.pack  # noqa: F401  (torch and Numba, before the first step)
        gc.freeze()  # what is loaded stays

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._order = new_config["order"]
        return True

    def step(self) -> dict[str, Any]:
        return {"outcome": train_order(self._order), "done": True}
