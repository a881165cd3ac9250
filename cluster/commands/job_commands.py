"""`stsq job`: sends a sweep to a Ray cluster as a job, and looks after it."""

import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from stsq_core.configs import UserError

job_app = typer.Typer(help="Send a sweep to a Ray cluster as a job, and look after it.", no_args_is_help=True)

Address = Annotated[str | None, typer.Option("--address", help="The job server, such as http://HOST:8265.")]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The id that `stsq job submit` printed.")]


@job_app.command("submit", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def submit(
    context: typer.Context,
    sweep: Annotated[str, typer.Argument(metavar="SWEEP", help="A name of the catalogue (see `stsq list`), or a YAML file.")],
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="FIELD=VALUE", help="Change a field, as `stsq run` does.")
    ] = None,
    address: Address = None,
    working_dir: Annotated[Path, typer.Option("--working-dir", help="The folder to upload.")] = Path(),
    submission_id: Annotated[str | None, typer.Option("--submission-id", help="An id of your own for the job.")] = None,
    netrc: Annotated[
        str | None, typer.Option("--netrc", metavar="PATH", help="A file on the cluster that holds your W&B key.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Print what the job prints, and take its exit code.")] = False,
) -> None:
    """Send a sweep to a Ray cluster; what stands after `--` is handed to `stsq run` there, such as `-- --out /shared/run`.

    The same sweep with the same settings and arguments is one job: sent again while it waits or runs, or after it succeeded,
    nothing new is started.
    """
    from cluster.jobs import control, submission

    words = _words_of_run(context, sweep)
    if words["out"] is not None and not words["out"].is_absolute():
        raise UserError(
            f"--out {words['out']} would lie in the job's working directory, which Ray deletes: give an absolute path"
        )
    request = submission.JobRequest(
        sweep,
        settings=tuple(settings or ()),
        arguments=tuple(context.args),
        working_dir=working_dir,
        submission_id=submission_id,
        more_settings=tuple(words["settings"] or ()),
        out=words["out"],
        plugins=tuple(words.get("plugin") or ()),
        netrc=netrc,
    )
    job = submission.submit(address, request, notify=_tell)
    if job.existed:
        _tell(f"nothing is sent: this job is there already ({job.status}); --submission-id ID sends it as another")
    print(job.job_id, flush=True)
    if follow:
        raise typer.Exit(control.follow(address, job.job_id))


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _words_of_run(context: typer.Context, sweep: str) -> dict[str, Any]:
    """What `stsq run` would make of the words after `--`; it refuses here what it would refuse on the cluster."""
    commands = cast("typer.core.TyperGroup", context.find_root().command).commands
    return commands["run"].make_context("stsq run", [sweep, *context.args]).params


@job_app.command("stop")
def stop(job_id: JobId, address: Address = None) -> None:
    """Stop a job in order: what is trained is kept. Exit code 1 where it goes on in spite of it."""
    from cluster.jobs import control

    state = control.stop(address, job_id)
    print(state.status)
    if not state.ended:
        _tell(f"stsq: job {job_id} has not stopped yet: see `stsq job status {job_id}`, or stop it again")
        raise typer.Exit(1)


@job_app.command("status")
def status(job_id: JobId, address: Address = None) -> None:
    """Print the status of a job; exit code 0 while it waits or runs and when it succeeded, else that of its command."""
    from cluster.jobs import control

    state = control.status(address, job_id)
    print(": ".join(part for part in (state.status, state.message) if part))
    raise typer.Exit(state.code)


@job_app.command("list")
def list_(address: Address = None) -> None:
    """List the jobs that a cluster remembers, newest first."""
    from cluster.jobs import control
    from cluster.run import out, print_table, table

    rows = [(job.job_id, job.status, _minute(job.started_at), job.command) for job in control.list_jobs(address)]
    print_table(out(), table(("job", "status", "started", "command"), rows))


def _minute(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M}"


@job_app.command("logs")
def logs(
    job_id: JobId,
    address: Address = None,
    follow: Annotated[bool, typer.Option("--follow", help="Until the job ends; takes its exit code.")] = False,
) -> None:
    """Print what a job has printed."""
    from cluster.jobs import control

    if follow:
        raise typer.Exit(control.follow(address, job_id))
    sys.stdout.write(control.logs(address, job_id))
