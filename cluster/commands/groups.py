"""Command groups: `stsq job`, `stsq open` and `stsq wandb`; and `stsq manifest`, from which clusters are started."""

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from cluster.commands.cli_options import (
    Notify,
    PluginFiles,
    Run,
    Settings,
    Sweep,
    WandbEntity,
    WandbProject,
    WandbTags,
    wandb_destination,
)
from stsq_core.configs import UserError

job_app = typer.Typer(help="Send sweeps to a Ray cluster as jobs; follow and stop them.", no_args_is_help=True)
open_app = typer.Typer(help="Open a run in a viewer on this machine.", no_args_is_help=True)
wandb_app = typer.Typer(help="Publish to Weights & Biases.", no_args_is_help=True)

Address = Annotated[
    str | None,
    typer.Option(
        help="The job server, such as http://HOST:8265.", show_default="RAY_API_SERVER_ADDRESS, RAY_ADDRESS, else this machine"
    ),
]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The id that `stsq job submit` printed.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="The port to listen on; 0 takes a free one.")]

MANIFESTS = Path(__file__).parents[1] / "manifests"


def _print_error(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _print_now(text: str) -> None:
    print(text, flush=True)


@job_app.command("submit", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def job_submit(
    context: typer.Context,
    sweep: Sweep,
    settings: Settings = None,
    address: Address = None,
    working_dir: Annotated[Path, typer.Option(help="The folder to upload.")] = Path(),
    submission_id: Annotated[
        str | None, typer.Option(help="An id for the job.", show_default="the sweep's name and a digest")
    ] = None,
    netrc: Annotated[str | None, typer.Option(metavar="PATH", help="A file on the cluster that holds your W&B key.")] = None,
    notify: Notify = None,
    follow: Annotated[bool, typer.Option("--follow", help="Print the job's output and return its exit code.")] = False,
) -> None:
    """Send a sweep to a Ray cluster; arguments after `--` go to `stsq run` there, such as `-- --out /shared/run`.

    The same sweep with the same settings and arguments is one job: if it waits, runs or has succeeded, nothing is sent.
    """
    from cluster.jobs import control, submission

    # the arguments are parsed as `stsq run` would there, so that it refuses here what it would refuse on the cluster
    arguments = (*context.args, *(() if notify is None else ("--notify", notify)))
    commands = cast("typer.core.TyperGroup", context.find_root().command).commands
    values: dict[str, Any] = commands["run"].make_context("stsq run", [sweep, *arguments]).params
    if values["out"] is not None and not values["out"].is_absolute():
        raise UserError(
            f"--out {values['out']} would be in the job's working directory, which Ray deletes: give an absolute path"
        )
    request = submission.JobRequest(
        sweep,
        settings=tuple(settings or ()),
        arguments=arguments,
        working_dir=working_dir,
        submission_id=submission_id,
        more_settings=tuple(values["settings"] or ()),
        out=values["out"],
        plugins=tuple(values.get("plugin") or ()),
        netrc=netrc,
    )
    job = submission.submit(address, request, notify=_print_error)
    if job.existed:
        _print_error(f"nothing is sent: this job is there already ({job.status}); --submission-id ID sends it as another")
    print(job.job_id, flush=True)
    if follow:
        raise typer.Exit(control.follow(address, job.job_id))


@job_app.command("stop")
def job_stop(job_id: JobId, address: Address = None) -> None:
    """Stop a job and keep its results; exit code 1 if it has not stopped yet."""
    from cluster.jobs import control

    state = control.stop(address, job_id)
    print(state.status)
    if not state.ended:
        _print_error(f"stsq: job {job_id} has not stopped yet: see `stsq job status {job_id}`, or stop it again")
        raise typer.Exit(1)


@job_app.command("status")
def job_status(job_id: JobId, address: Address = None) -> None:
    """Print the status of a job; exit code 0 if it waits, runs or has succeeded, else that of its command."""
    from cluster.jobs import control

    state = control.status(address, job_id)
    print(": ".join(part for part in (state.status, state.message) if part))
    raise typer.Exit(state.code)


@job_app.command("list")
def job_list(address: Address = None) -> None:
    """List the jobs of a cluster, newest first."""
    from cluster.jobs import control
    from cluster.run import out, print_table, table

    rows = [
        (job.job_id, job.status, f"{datetime.fromtimestamp(job.started_at):%Y-%m-%d %H:%M}", job.command)
        for job in control.list_jobs(address)
    ]
    print_table(out(), table(("job", "status", "started", "command"), rows))


@job_app.command("logs")
def job_logs(
    job_id: JobId,
    address: Address = None,
    follow: Annotated[bool, typer.Option("--follow", help="Print until the job ends, and return its exit code.")] = False,
) -> None:
    """Print the output of a job."""
    from cluster.jobs import control

    if follow:
        raise typer.Exit(control.follow(address, job_id))
    sys.stdout.write(control.logs(address, job_id))


@open_app.command("page")
def open_page(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="A run; or several, to compare them; or a folder of runs."),
    ],
    port: Port = 0,
    host: Annotated[
        str, typer.Option(help="The address to listen on; any other than this default lets other machines read.")
    ] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser", help="Open the page in the browser.")] = False,
    plugin: PluginFiles = None,
) -> None:
    """Serve the live page of one or several runs, or of a folder of runs, until Ctrl-C; needs no account and no network."""
    from dashboards.serving import open_page as serve

    serve([str(run) for run in runs], host=host, port=port, browser=browser, say=_print_now)


@open_app.command("optuna")
def open_optuna(run: Run, port: Port = 0, plugin: PluginFiles = None) -> None:
    """Serve the searches of a run in optuna-dashboard, on this machine only, until Ctrl-C."""
    from dashboards.boards import open_optuna as serve

    serve(run, port=port, say=_print_now)


@open_app.command("leet")
def open_leet(run: Run, plugin: PluginFiles = None) -> None:
    """Open a run's offline W&B files in W&B's terminal viewer."""
    from dashboards.boards import open_leet as view

    raise typer.Exit(view(run))


@wandb_app.command("sync")
def wandb_sync(
    run: Run,
    wandb_project: WandbProject = None,
    wandb_entity: WandbEntity = None,
    wandb_tags: WandbTags = None,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Publish only the I-th of N equal shares, counted from 0.")
    ] = None,
    plugin: PluginFiles = None,
) -> None:
    """Publish a run to W&B now, from its journals; runs that are up to date are skipped."""
    from dashboards.publishing import check_names, silence_client, sync
    from sweeps.cells import WHOLE, read_shard
    from sweeps.store import open_run

    silence_client()
    own = read_shard(shard) if shard else WHOLE
    asked = wandb_destination(wandb_project, wandb_entity, wandb_tags)
    check_names(asked)
    done = sync(open_run(run).path, asked=asked, shard=own)
    print(f"W&B {done.mode}: {done.num_published} runs published, {done.num_up_to_date} were up to date")


@wandb_app.command("setup")
def wandb_setup(
    target: Annotated[
        str, typer.Argument(metavar="RUN|SWEEP", help="A run directory, or a sweep with the run directory runs/NAME.")
    ],
    wandb_project: WandbProject = None,
    wandb_entity: WandbEntity = None,
    json_folder: Annotated[
        Path | None, typer.Option("--json", metavar="DIR", help="Write the boards as JSON to a folder, without an account.")
    ] = None,
    plugin: PluginFiles = None,
) -> None:
    """Create or replace the W&B workspace and report of a run: thresholds with both laws, loss against width, curves.

    A project and an entity that are named here are those of the run's later publications, too.
    """
    from cluster.run import located, run_path
    from dashboards.boards import save_boards, write_documents
    from dashboards.publishing import check_names, destination_words, silence_client
    from sweeps.cells import load_expanded
    from sweeps.store import create_or_open, open_run

    silence_client()
    asked = wandb_destination(wandb_project, wandb_entity, None)
    check_names(asked)
    _, place = located(target, None)
    if place is not None or Path(target).is_dir():
        run = open_run(target)
    else:  # the run directory of a sweep is made where there is none, for its later runs
        expanded = load_expanded(target)
        path = run_path(expanded.spec.name, None)
        run = open_run(path) if path.is_dir() else create_or_open(path, expanded)
    _print_error(f"W&B: {destination_words(asked, run.read_spec().wandb, run.wandb)}")
    if json_folder is not None:
        for path in write_documents(run.path, json_folder, asked=asked):
            print(path)
        return
    saved = save_boards(run.path, asked=asked)
    print(f"workspace: {saved.workspace_url}")
    print(f"report: {saved.report_url}")


def manifest_files() -> dict[str, Path]:
    """The manifests that come with the project, by name."""
    return {path.name: path for path in sorted(MANIFESTS.iterdir()) if path.is_file() and not path.name.startswith((".", "_"))}


def manifest(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A manifest; without one they are listed.")] = None,
) -> None:
    """Print a file to start a cluster from, such as `stsq manifest slurm.sh > slurm.sh`; without a name, list them."""
    files = manifest_files()
    if name is None:
        for known, path in files.items():
            print(f"{known:16} {_description(path)}")
        return
    named = [path for known, path in files.items() if name in (known, path.stem)]
    if not named:
        raise UserError(f"there is no manifest {name!r}: give one of {', '.join(files)}")
    sys.stdout.write(named[0].read_text(encoding="utf-8"))


def _description(path: Path) -> str:
    """The first comment of a manifest, or the description of one that is JSON."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return str(json.loads(text).get("description", ""))
    return next((line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")), "")
