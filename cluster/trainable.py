"""The worker as Ray Tune sees it: in a module of its own, so that a worker loads no more than it needs."""

from typing import Any

from ray import tune

from cluster.worker import train_order


class PackTrainable(tune.Trainable):
    """A worker: trains the pack of its order in one step, then takes the next order in the same process."""

    def setup(self, config: dict[str, Any]) -> None:
        self._order: str = config["order"]

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self._order = new_config["order"]
        return True

    def step(self) -> dict[str, Any]:
        return {"outcome": train_order(self._order), "done": True}
