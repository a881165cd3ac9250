"""What users import, in one place: `from stsq import TrialConfig, train_pack, load_sweep, ThresholdSampler, load, theory`.

Each name comes from the room that holds it, and loads when it is first used. `python -m stsq` is the command.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "ThresholdSampler": "sweeps",
    "TrialConfig": "stsq_core",
    "load": "dashboards",
    "load_sweep": "sweeps",
    "theory": "stsq_core",
    "train_pack": "stsq_core",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
