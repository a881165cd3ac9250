"""`--plugin FILE`: loads a user's own tasks and models before the command does anything else."""

from pathlib import Path
from typing import Annotated

import typer


def _load(files: list[Path] | None) -> list[Path] | None:
    """Load what is installed, then what is named."""
    from stsq_core.plugins import load_installed
    from sweeps.store import name_plugins

    load_installed()
    name_plugins(files or ())
    return files


PluginFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE",
        callback=_load,
        help="A Python file with tasks or models of your own, whose code runs. May be repeated.",
    ),
]
