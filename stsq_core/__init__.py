"""The science: tasks, codes, models, optimizers, the one training loop, and the oracles it is tested against.

Configs and results import quickly; the training loop, and torch with it, loads when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from stsq_core.errors import UserError
from stsq_core.trial import Measurement, TrialConfig, TrialResult

if TYPE_CHECKING:
    from stsq_core import theory
    from stsq_core.pack import train_pack

__all__ = ["Measurement", "TrialConfig", "TrialResult", "UserError", "theory", "train_pack"]


def __getattr__(name: str) -> Any:
    """Load `train_pack` and `theory` on first use, so that reading a config does not wait for torch."""
    if name == "train_pack":
        return import_module("stsq_core.pack").train_pack
    if name == "theory":
        return import_module("stsq_core.theory")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
