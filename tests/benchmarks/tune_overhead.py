"""What Ray Tune adds to a pack: trials that do nothing, on reused workers, against bare actors that do nothing.

python tests/benchmarks/tune_overhead.py [--packs 100] [--toy]
prints one line of JSON: seconds a pack once the workers are up, and seconds to bring Ray and the workers up.
"""

import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import ray
from gates import parser_of
from ray import tune
from ray.tune.search import Searcher

from cluster.tune.ray_cluster import ray_cluster


class Nothing(tune.Trainable):
    """A pack of no work."""

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        return True

    def step(self) -> dict[str, Any]:
        return {"outcome": "nothing", "done": True}


class Count(Searcher):
    """Hands out a number of empty packs and notes when each ended."""

    def __init__(self, num_packs: int) -> None:
        super().__init__()
        self._left = num_packs
        self.ended_at: list[float] = []

    def suggest(self, trial_id: str) -> Any:
        self._left -= 1
        return {"order": self._left} if self._left >= 0 else Searcher.FINISHED

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        self.ended_at.append(time.perf_counter())

    def save(self, checkpoint_path: str) -> None: ...

    def restore(self, checkpoint_path: str) -> None: ...


@ray.remote(num_cpus=1)
class Actor:
    """A worker that would pull packs by itself."""

    def step(self) -> str:
        return "nothing"


def tune_packs(num_packs: int, slots: int) -> list[float]:
    count, storage = Count(num_packs), tempfile.mkdtemp()
    tune.Tuner(
        tune.with_resources(Nothing, {"cpu": 1}),
        tune_config=tune.TuneConfig(search_alg=count, num_samples=-1, max_concurrent_trials=slots, reuse_actors=True),
        run_config=tune.RunConfig(
            storage_path=storage, verbose=0, checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False)
        ),
    ).fit()
    shutil.rmtree(Path(storage), ignore_errors=True)
    return count.ended_at


def actor_packs(num_packs: int, slots: int) -> float:
    actors = [Actor.remote() for _ in range(slots)]
    ray.get([actor.step.remote() for actor in actors])
    began = time.perf_counter()
    for _ in range(num_packs // slots):
        ray.get([actor.step.remote() for actor in actors])
    return (time.perf_counter() - began) / num_packs


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--packs", type=int, default=100)
    parser.add_argument("--slots", type=int, default=2)
    options = parser.parse_args()
    if options.toy:
        options.packs, options.slots = 10, 1
    began = time.perf_counter()
    with ray_cluster(None, num_cpus=options.slots):
        up = time.perf_counter()
        ended = tune_packs(options.packs, options.slots)
        warm = ended[2 * options.slots]
        tune_s = (ended[-1] - warm) / (len(ended) - 2 * options.slots - 1)
        actor_s = actor_packs(options.packs, options.slots)
    printed = {"ray_up_s": up - began, "first_pack_s": ended[0] - up, "tune_s_a_pack": tune_s, "actor_s_a_pack": actor_s}
    print(json.dumps({name: round(value, 4) for name, value in printed.items()}))


if __name__ == "__main__":
    main()
