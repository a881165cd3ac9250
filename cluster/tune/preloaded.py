"""All that a worker needs, loaded when its process starts, while the driver is not ready yet (`ray_cluster.PRELOADED`)."""

import os
from pathlib import Path

from sweeps.store import gc_paused

with gc_paused():
    import cluster.tune.trainable  # noqa: F401
    from cluster.tune.ray_cluster import PRELOADED_IN
    from stsq_core.training import load_engine

    load_engine()

if PRELOADED_IN in os.environ:
    folder = Path(os.environ[PRELOADED_IN])
    folder.mkdir(exist_ok=True)
    (folder / str(os.getpid())).touch()
