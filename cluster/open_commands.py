"""`stsq open`: looks at a run with a viewer on this machine; nothing here changes the run."""

from pathlib import Path
from typing import Annotated

import typer

open_app = typer.Typer(help="Look at a run with a viewer on this machine.", no_args_is_help=True)

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, such as runs/quickstart.")]


@open_app.command()
def leet(run: Run) -> None:
    """Open a run's offline W&B files in W&B's terminal viewer."""
    from dashboards.boards.leet import open_leet

    raise typer.Exit(open_leet(run))
