"""The front door: `stsq`, also `python -m cluster`.

A command checks its words here and leaves the work to its module, which is imported when the command runs, so that `--help` is
quick. Exit codes are those of `cluster.run.exit_codes`.
"""

import gc
import json
import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cluster.commands.job_commands import job_app
from cluster.commands.manifest_commands import manifest
from cluster.commands.open_commands import open_app
from cluster.commands.plugin_option import PluginFiles
from cluster.commands.wandb_commands import wandb_setup
from cluster.environment import BAD_INPUT
from stsq_core.configs import UserError

if TYPE_CHECKING:
    from dashboards.publishing import Asked

app = typer.Typer(
    name="stsq",
    help="Measures how wide a network must be to learn sparse token selection: runs sweeps, shows their width thresholds.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
wandb_app = typer.Typer(help="Weights & Biases.", no_args_is_help=True)
app.add_typer(job_app, name="job")
app.add_typer(wandb_app, name="wandb")
app.add_typer(open_app, name="open")
wandb_app.command("setup")(wandb_setup)
app.command()(manifest)


class DeviceName(StrEnum):
    """Where packs train."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class WandbName(StrEnum):
    """How W&B is written."""

    AUTO = "auto"
    OFFLINE = "offline"
    ONLINE = "online"
    DISABLED = "disabled"


Sweep = Annotated[str, typer.Argument(metavar="SWEEP", help="A name of the catalogue (see `stsq list`), or a YAML file.")]
Run = Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, such as runs/quickstart.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="FIELD=VALUE", help="Change a field: task.T=16,32 or seeds=5 or GROUP:model.width=8. May be repeated."
    ),
]
Out = Annotated[Path | None, typer.Option("--out", metavar="RUN", help="The run directory [default: runs/NAME].")]
Workers = Annotated[
    int | None, typer.Option("--workers", min=1, help="Packs that train at once [default: all cores, or GPUs].")
]
MaxWorkers = Annotated[
    int | None, typer.Option("--max-workers", min=1, help="No more workers than this, however many places there are.")
]
GpusPerWorker = Annotated[
    float,
    typer.Option("--gpus-per-worker", min=0.01, max=1.0, help="The part of a GPU that a worker takes; 0.25: four share one."),
]
CpuWorkers = Annotated[
    int,
    typer.Option("--cpu-workers", min=0, help="Cores beside GPUs that train short packs; numbers agree to a tolerance."),
]
WaitForGpus = Annotated[
    float | None, typer.Option("--wait-for-gpus", metavar="MINUTES", min=0, help="Wait so long for a GPU to come.")
]
ClusterAddress = Annotated[
    str | None, typer.Option("--address", help="Join this Ray cluster [default: RAY_ADDRESS, else our own].")
]
WandbProject = Annotated[
    str | None, typer.Option("--wandb-project", help="W&B project [default: WANDB_PROJECT, else the sweep's, else stsq].")
]
WandbEntity = Annotated[
    str | None, typer.Option("--wandb-entity", help="W&B entity [default: WANDB_ENTITY, else the sweep's, else your own].")
]
WandbTags = Annotated[
    str | None, typer.Option("--wandb-tags", metavar="TAG,TAG", help="W&B tags [default: WANDB_TAGS, else the sweep's].")
]


def _version(asked: bool) -> None:
    if asked:
        from importlib import metadata

        print(f"stsq {metadata.version('stsq')}")
        raise typer.Exit


@app.callback()
def _front_door(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")] = False,
) -> None: ...


@app.command("list")
def list_command(
    kinds: Annotated[
        bool, typer.Option("--kinds", help="The tasks, models, codes and optimizers that a sweep file may name.")
    ] = False,
    plugin: PluginFiles = None,
) -> None:
    """List the catalogue's sweeps, or the kinds of task and model that there are."""
    from cluster.run import out

    if kinds:
        from cluster.commands.kinds_list import show_kinds

        show_kinds(out())
        return
    from cluster.commands.planning import show_catalog

    show_catalog(out())


@app.command()
def plan(sweep: Sweep, settings: Settings = None, out: Out = None, workers: Workers = None, plugin: PluginFiles = None) -> None:
    """Show the cells, trials, packs and cost of a sweep; runs nothing."""
    from cluster.commands.planning import show_plan
    from cluster.run import out as results

    show_plan(results(), sweep, settings or [], out=out, workers=workers)


@app.command()
def run(
    sweep: Sweep,
    settings: Settings = None,
    out: Out = None,
    inline: Annotated[bool, typer.Option("--inline", help="One pack after another in this process, with no Ray.")] = False,
    workers: Workers = None,
    max_workers: MaxWorkers = None,
    gpus_per_worker: GpusPerWorker = 1.0,
    cpu_workers: CpuWorkers = 0,
    wait_for_gpus: WaitForGpus = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Train failed trials again.")] = False,
    recheck: Annotated[
        bool, typer.Option("--recheck", help="Train a tenth below each threshold with twice the steps: were steps the limit?")
    ] = False,
    keep_weights: Annotated[
        bool, typer.Option("--keep-weights", help="Keep the trained arrays, RUN/weights/TRIAL.npz.")
    ] = False,
    wandb: Annotated[
        WandbName | None, typer.Option("--wandb", help="W&B mode [default: WANDB_MODE, else the sweep's].")
    ] = None,
    wandb_project: WandbProject = None,
    wandb_entity: WandbEntity = None,
    wandb_tags: WandbTags = None,
    device: Annotated[DeviceName, typer.Option("--device", help="Where packs train.")] = DeviceName.AUTO,
    address: ClusterAddress = None,
    checkpoint_every: Annotated[
        float,
        typer.Option("--checkpoint-every", metavar="SECONDS", min=0, help="How often a pack in training saves its state."),
    ] = 20.0,
    plugin: PluginFiles = None,
    hung_after: Annotated[
        float | None,
        typer.Option(
            "--hung-after",
            metavar="SECONDS",
            min=0,
            help="End a worker that shows no progress for so long, and try its pack again; 0: never "
            "[default: 300, or ten times the longest pause seen].",
        ),
    ] = None,
    accept_versions: Annotated[
        bool,
        typer.Option("--accept-versions", help="Train with another torch than before, or than where the job was sent from."),
    ] = False,
) -> None:
    """Run a sweep, or what is left of it, and show what it found."""
    from cluster.run import RunOptions
    from sweeps.store import gc_paused

    with gc_paused():
        from cluster.commands.session import run_sweep
    from cluster.run import log, out as results

    options = RunOptions(
        out=out,
        inline=inline,
        workers=workers,
        max_workers=max_workers,
        gpus_per_worker=gpus_per_worker,
        cpu_workers=cpu_workers,
        wait_for_gpus=wait_for_gpus,
        retry_failed=retry_failed,
        recheck=recheck,
        keep_weights=keep_weights,
        wandb=wandb.value if wandb else None,
        wandb_asked=_asked(wandb_project, wandb_entity, wandb_tags),
        device=device.value,
        address=address,
        checkpoint_every_s=checkpoint_every,
        hung_after_s=hung_after,
        accept_versions=accept_versions,
    )
    raise typer.Exit(run_sweep(sweep, settings or [], options, out=results(), log=log()))


@app.command()
def show(
    run: Run,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    as_latex: Annotated[bool, typer.Option("--latex", help="As a LaTeX table.")] = False,
    at: Annotated[
        list[str] | None, typer.Option("--at", help="Predict the threshold at a task by the fitted laws, as T=512,q=3,d=4.")
    ] = None,
    plugin: PluginFiles = None,
) -> None:
    """Show what a run found: width thresholds with intervals and laws, verdicts on its claims, failures."""
    from cluster.commands.law_results import read_task, show_predictions
    from cluster.commands.results import show_findings
    from cluster.run import log, out, print_line
    from dashboards.paper import thresholds_json, thresholds_latex, verdicts_json
    from sweeps.findings import read_findings

    if as_json and as_latex:
        raise UserError("--json and --latex exclude each other: give one of them")
    if at and (as_json or as_latex):
        raise UserError("--at predicts in words: give it without --json and --latex")
    tasks = [read_task(text) for text in at or ()]
    findings = read_findings(run)
    if as_latex and findings.spec.drawings:
        raise UserError(f"{findings.spec.name} is shown by drawings and has no table of thresholds: --json gives its verdicts")
    for note in findings.notes:
        print_line(log(), note)
    if as_json and findings.spec.drawings:
        sys.stdout.write(verdicts_json(findings.verdicts))
    elif as_json:
        sys.stdout.write(thresholds_json(findings.thresholds, findings.comparisons))
    elif as_latex:
        sys.stdout.write(thresholds_latex(findings.thresholds, findings.comparisons))
    elif tasks:
        show_predictions(out(), findings.comparisons, findings.thresholds, tasks)
    else:
        show_findings(out(), findings)


@app.command()
def status(
    run: Run,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    plugin: PluginFiles = None,
) -> None:
    """Show how far a run is, by worker and by cell, and how long it will take; `stsq open page` shows the same and more."""
    from sweeps.store import gc_paused

    with gc_paused():  # what is loaded and read stays until the answer is given
        from cluster.commands.status import show_status, status_json
        from cluster.run import out
        from sweeps.findings import read_progress
        from sweeps.store import open_run

        progress = read_progress(open_run(run))
    if as_json:
        sys.stdout.write(status_json(progress))
    else:
        show_status(out(), progress)


@app.command()
def report(run: Run, plugin: PluginFiles = None) -> None:
    """Draw the figures and the page of a run again, and print the verdicts on its claims."""
    from cluster.commands.results import show_verdicts
    from cluster.run import out
    from dashboards.page import write_report
    from sweeps.findings import read_findings

    findings = read_findings(run)
    show_verdicts(out(), findings.verdicts, level=findings.spec.criterion.level)
    print(f"page: {write_report(run, findings)}")


@app.command()
def trial(
    run: Run,
    trial_id: Annotated[str, typer.Argument(metavar="ID", help="A trial's id in the ledger, or the beginning of it.")],
    device: Annotated[
        DeviceName, typer.Option("--device", help="Where it trains; auto: where the ledger says.")
    ] = DeviceName.AUTO,
    keep_weights: Annotated[
        bool, typer.Option("--keep-weights", help="Keep the trained arrays, RUN/weights/TRIAL.npz.")
    ] = False,
    plugin: PluginFiles = None,
) -> None:
    """Train one trial of a run alone and compare it with its ledger line; exit code 1 where they differ."""
    from cluster.commands.rerun import rerun_trial

    rerun = rerun_trial(run, trial_id, device=device.value, keep_weights=keep_weights)
    for told, source in ((rerun.record, "ledger"), (rerun.result, "now")):
        loss = f"relative loss {told.relative_loss!r} +- {told.relative_loss_stderr!r}"
        print(f"{source:7} {told.status} after {told.steps} steps, {loss}")
    print(f"{rerun.record.trial_id}: {rerun.verdict()} ({rerun.seconds:.1f} s)")
    if keep_weights:
        print(f"weights: {rerun.weights or f'none, because it {rerun.result.status}'}")
    raise typer.Exit(0 if rerun.reproduced else 1)


@app.command()
def doctor() -> None:
    """Check that this machine can run sweeps: what it has, what is missing, and how to get it."""
    from cluster.commands.doctor import examine
    from cluster.run import out, print_table, table

    checks = examine()
    print_table(out(), table(("", "what", "found", "remark"), [(c.status, c.subject, c.found, c.remark) for c in checks]))
    raise typer.Exit(BAD_INPUT if any(check.status == "missing" for check in checks) else 0)


@app.command()
def schema(plugin: PluginFiles = None) -> None:
    """Print the JSON Schema of a sweep file, for editors."""
    from sweeps.cells import spec_json_schema

    print(json.dumps(spec_json_schema(), indent=2))


@wandb_app.command("sync")
def wandb_sync(
    run: Run,
    wandb_project: WandbProject = None,
    wandb_entity: WandbEntity = None,
    wandb_tags: WandbTags = None,
    shard: Annotated[
        str | None, typer.Option("--shard", metavar="I/N", help="Only the I-th of N equal shares, I from 0.")
    ] = None,
    plugin: PluginFiles = None,
) -> None:
    """Publish a run to W&B now, from its journals; runs that are there already are left alone."""
    from dashboards.publishing import WHOLE, read_shard, sync
    from sweeps.store import open_run

    own = read_shard(shard) if shard else WHOLE
    done = sync(open_run(run).path, asked=_asked(wandb_project, wandb_entity, wandb_tags), shard=own)
    print(f"W&B {done.mode}: {done.num_published} runs published, {done.num_up_to_date} were up to date")


def _asked(project: str | None, entity: str | None, tags: str | None) -> "Asked":
    from dashboards.publishing import Asked, tags_of

    return Asked(project, entity, None if tags is None else tags_of(tags))


def main(arguments: list[str] | None = None) -> Any:
    """Run the command; a mistake of the user's is told in one message, with exit code 2."""
    try:
        app(arguments)
    except UserError as error:
        print(f"stsq: {error}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    finally:
        gc.freeze()  # so that the interpreter does not look through all of Ray and plotly for garbage before it ends
