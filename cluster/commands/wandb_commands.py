"""`stsq wandb setup`: the boards that show a run in Weights & Biases."""

from pathlib import Path
from typing import Annotated

import typer

from cluster.commands.plugin_option import PluginFiles


def wandb_setup(
    target: Annotated[
        str,
        typer.Argument(metavar="RUN|SWEEP", help="A run directory, or a sweep; its run is then runs/NAME."),
    ],
    json_folder: Annotated[
        Path | None, typer.Option("--json", metavar="DIR", help="Write the boards as JSON to a folder, without an account.")
    ] = None,
    plugin: PluginFiles = None,
) -> None:
    """Make or replace the W&B workspace and report of a run: thresholds with both laws, loss against width, curves."""
    from dashboards.boards import save_boards, write_documents

    run = _run_of(target)
    if json_folder is not None:
        for path in write_documents(run, json_folder):
            print(path)
        return
    saved = save_boards(run)
    print(f"workspace: {saved.workspace_url}")
    print(f"report: {saved.report_url}")


def _run_of(target: str) -> Path:
    """The directory of a run or of a sweep's run, which is made if there is none: later runs of the sweep go there."""
    from cluster.run import run_path
    from sweeps.cells import load_expanded
    from sweeps.store import create_or_open, open_run

    if Path(target).is_dir():
        return open_run(target).path
    sweep = load_expanded(target)
    path = run_path(sweep.spec.name, None)
    return (open_run(path) if path.is_dir() else create_or_open(path, sweep)).path
