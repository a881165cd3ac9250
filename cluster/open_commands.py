"""`stsq open`: looks at a run with a viewer on this machine; nothing here changes the run."""

from pathlib import Path
from typing import Annotated

import typer

open_app = typer.Typer(help="Look at a run with a viewer on this machine.", no_args_is_help=True)

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, such as runs/quickstart.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Where to listen; 0 takes a free port.")]


@open_app.command()
def optuna(run: Run, port: Port = 0) -> None:
    """Open the searches of a run in optuna-dashboard, on this machine only, until Ctrl-C."""
    from dashboards.boards.optuna_board import open_optuna

    open_optuna(run, port=port, say=lambda text: print(text, flush=True))


@open_app.command()
def leet(run: Run) -> None:
    """Open a run's offline W&B files in W&B's terminal viewer."""
    from dashboards.boards.leet import open_leet

    raise typer.Exit(open_leet(run))
