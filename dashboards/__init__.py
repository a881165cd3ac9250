"""Shows a sweep: tables, figures, one self-contained page, Weights & Biases and other viewers, and notebooks.

Everything here is computed from a run directory and changes no number in it. plotly, matplotlib and wandb load when first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dashboards.notebooks.loaded_run import load
    from dashboards.page import write_report
    from dashboards.publishing.process import PublisherProcess
    from dashboards.publishing.publisher import publish, sync

__all__ = ["PublisherProcess", "load", "publish", "sync", "write_report"]

_HOMES = {
    "PublisherProcess": "dashboards.publishing.process",
    "load": "dashboards.notebooks.loaded_run",
    "publish": "dashboards.publishing.publisher",
    "sync": "dashboards.publishing.publisher",
    "write_report": "dashboards.page",
}


def __getattr__(name: str) -> Any:
    """Load a public name on first use, so that a command that draws nothing waits for no plotting library."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
