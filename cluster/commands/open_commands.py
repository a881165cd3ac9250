"""`stsq open`: looks at a run with a viewer on this machine; nothing here changes the run."""

from pathlib import Path
from typing import Annotated

import typer

from cluster.commands.plugin_option import PluginFiles

open_app = typer.Typer(help="Look at a run with a viewer on this machine.", no_args_is_help=True)

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, such as runs/quickstart.")]
Port = Annotated[int, typer.Option("--port", min=0, max=65535, help="Where to listen; 0 takes a free port.")]


@open_app.command()
def page(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="A run directory; several are compared side by side.")],
    port: Port = 0,
    host: Annotated[
        str, typer.Option("--host", help="The address to listen on; others than this machine's own let others read.")
    ] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser", help="Open it in the browser.")] = False,
    plugin: PluginFiles = None,
) -> None:
    """Serve the live page of a run, or of several side by side, until Ctrl-C; it needs no account and no network."""
    from dashboards.serving import open_page

    open_page([str(run) for run in runs], host=host, port=port, browser=browser, say=lambda text: print(text, flush=True))


@open_app.command()
def optuna(run: Run, port: Port = 0, plugin: PluginFiles = None) -> None:
    """Open the searches of a run in optuna-dashboard, on this machine only, until Ctrl-C."""
    from dashboards.boards import open_optuna

    open_optuna(run, port=port, say=lambda text: print(text, flush=True))


@open_app.command()
def leet(run: Run, plugin: PluginFiles = None) -> None:
    """Open a run's offline W&B files in W&B's terminal viewer."""
    from dashboards.boards import open_leet

    raise typer.Exit(open_leet(run))
