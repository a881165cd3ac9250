"""`stsq wandb`: publishes a run to Weights & Biases, and sets up the boards that show it there."""

from pathlib import Path
from typing import Annotated

import typer

wandb_app = typer.Typer(help="Weights & Biases.", no_args_is_help=True)

Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, such as runs/quickstart.")]


@wandb_app.command()
def sync(run: Run) -> None:
    """Publish a run to W&B now, from its journals; what is there already is left alone."""
    from dashboards import sync as publish
    from sweeps.run_directory import open_run

    done = publish(open_run(run).path)
    print(f"W&B {done.mode}: {done.num_published} trials published, {done.num_up_to_date} were up to date")


@wandb_app.command()
def setup(
    run: Run,
    json_folder: Annotated[
        Path | None, typer.Option("--json", metavar="DIR", help="Write the documents to a folder; needs no account.")
    ] = None,
) -> None:
    """Make the W&B workspace and report of a run, or replace them: thresholds with both laws, loss against width, curves."""
    from dashboards.boards.saving import save_boards, write_documents

    if json_folder is not None:
        for path in write_documents(run, json_folder):
            print(path)
        return
    saved = save_boards(run)
    print(f"workspace: {saved.workspace_url}")
    print(f"report: {saved.report_url}")
