"""What Tune's trials tell of their ends: the causes of losses, from the errors as Ray raises them."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from ray import cloudpickle
from ray.exceptions import ActorDiedError, OutOfMemoryError, RayActorError, RayTaskError

from cluster.tune.ray_private import LostToMemoryError
from cluster.tune.tune_packs import loss_cause
from cluster.tune.worker_pool import OUT_OF_MEMORY, PREEMPTED
from sweeps.store.journal import Preempted

LEFT = RayTaskError("step", "a traceback", Preempted("saved a.state"))


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (LEFT, (PREEMPTED, "saved a.state")),
        (LEFT.as_instanceof_cause(), (PREEMPTED, "saved a.state")),
        (RayActorError(preempted=True), (PREEMPTED, "the node was taken away")),
        (OutOfMemoryError("killed\nby the monitor"), (OUT_OF_MEMORY, "Ray's memory monitor ended it")),
        (LostToMemoryError("killed\nby the monitor"), (OUT_OF_MEMORY, "Ray's memory monitor ended it")),
        (ActorDiedError(), ("ActorDiedError", "The actor died unexpectedly before finishing this task.")),
        (RayTaskError("step", "a traceback", TimeoutError("another worker")), ("TimeoutError", "another worker")),
    ],
)
def test_a_loss_is_put_down_to_what_ray_raised(error: Exception, cause: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "error.pkl"
    path.write_bytes(cloudpickle.dumps(error))
    assert loss_cause(SimpleNamespace(pickled_error_file=str(path))) == cause


def test_a_loss_of_which_nothing_was_told_is_told_as_such() -> None:
    trial = SimpleNamespace(pickled_error_file=None, get_pickled_error=lambda: None)
    assert loss_cause(trial) == ("unknown", "no cause was reported")
