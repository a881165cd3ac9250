"""Arguments and options that several commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cluster.commands import completion

if TYPE_CHECKING:
    from dashboards.publishing import Asked


def _load_plugins(context: typer.Context, files: list[Path] | None) -> list[Path] | None:
    """Load installed plugins, then the named ones, before the command does anything else."""
    if context.resilient_parsing:  # a shell completes, and waits for nothing
        return files
    from stsq_core.plugins import load_installed
    from sweeps.store import name_plugins

    load_installed()
    name_plugins(files or ())
    return files


def _check_notify(command: str | None) -> str | None:
    """Refuse a command that cannot be one."""
    if command is not None:
        from cluster.run import command_words

        command_words(command)
    return command


PluginFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE",
        callback=_load_plugins,
        help="A Python file that defines tasks or models; its code is executed. May be repeated.",
    ),
]
Sweep = Annotated[
    str,
    typer.Argument(
        metavar="SWEEP",
        help="A sweep of the catalogue (see `stsq list`), a YAML file, or a run directory.",
        autocompletion=completion.sweeps,
    ),
]
Run = Annotated[
    Path, typer.Argument(metavar="RUN", help="A run directory, such as runs/quickstart.", autocompletion=completion.runs)
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FIELD=VALUE",
        help="Change a field: task.T=16,32 or seeds=5 or GROUP:model.width=8. May be repeated.",
        autocompletion=completion.settings,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
MoreSeeds = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Train N further seeds of every cell of a grid; SWEEP is the run directory."),
]
Notify = Annotated[
    str | None,
    typer.Option(
        metavar="COMMAND",
        callback=_check_notify,
        help="Run COMMAND when the sweep ends, fails, is stopped or stalls, with a summary as JSON on its standard input.",
    ),
]
WandbProject = Annotated[
    str | None, typer.Option(help="W&B project.", show_default="WANDB_PROJECT, else the sweep's, else stsq")
]
WandbEntity = Annotated[
    str | None, typer.Option(help="W&B entity.", show_default="WANDB_ENTITY, else the sweep's, else your own")
]
WandbTags = Annotated[
    str | None, typer.Option(metavar="TAG,TAG", help="W&B tags.", show_default="WANDB_TAGS, else the sweep's")
]


def wandb_destination(project: str | None, entity: str | None, tags: str | None) -> "Asked":
    """The W&B destination that the options name."""
    from dashboards.publishing import Asked, tags_of

    return Asked(project, entity, None if tags is None else tags_of(tags))
