"""The front door: `stsq`, also `python -m stsq`.

A command checks its arguments here and leaves the work to its module, which is imported when the command runs, so that `--help`
is quick. Exit codes are those of `cluster.run.exit_codes`.
"""

import errno
import gc
import shlex
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core

from cluster.commands.cli_options import (
    MoreSeeds,
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
from cluster.commands.groups import job_app, manifest, open_app, wandb_app
from cluster.commands.reading import check, figure, remove, report, runs, show, status
from cluster.environment import BAD_INPUT
from stsq_core.configs import UserError

COMMANDS = (
    *("list", "cat", "new", "plan", "run", "status", "show", "runs", "open", "report", "figure", "trial", "check", "rm"),
    *("wandb", "job", "manifest", "schema", "doctor"),
)
"""The commands in the order of use, in which `--help` lists them."""


class InOrder(typer.core.TyperGroup):
    """The commands in the order of use."""

    def list_commands(self, context: Any) -> list[str]:
        names = super().list_commands(context)
        return sorted(names, key=lambda name: COMMANDS.index(name) if name in COMMANDS else len(COMMANDS))


app = typer.Typer(
    name="stsq",
    cls=InOrder,
    help="Measures how wide a network must be to learn sparse token selection: runs sweeps, shows their width thresholds.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(job_app, name="job")
app.add_typer(wandb_app, name="wandb")
app.add_typer(open_app, name="open")
for command in (check, figure, manifest, report, runs, show, status):
    app.command()(command)
app.command("rm")(remove)


class DeviceName(StrEnum):
    """A device to train on."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class WandbName(StrEnum):
    """A mode of W&B."""

    AUTO = "auto"
    OFFLINE = "offline"
    ONLINE = "online"
    DISABLED = "disabled"


# Texts of defaults stand in show_default: in a help text Rich reads [...] as markup and drops it.
Out = Annotated[Path | None, typer.Option(metavar="RUN", help="The run directory.", show_default="runs/NAME")]
Workers = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Number of packs that train at once.", show_default="all cores, or all GPUs"),
]
KeepWeights = Annotated[bool, typer.Option("--keep-weights", help="Save the trained weights to RUN/weights/TRIAL.npz.")]


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
    kinds: Annotated[bool, typer.Option("--kinds", help="List tasks, models, codes and optimizers instead.")] = False,
    plugin: PluginFiles = None,
) -> None:
    """List the sweeps of the catalogue, or the tasks, models, codes and optimizers that a sweep file may name."""
    from cluster.commands.planning import show_catalog, show_kinds
    from cluster.run import out

    if kinds:
        show_kinds(out())
    else:
        show_catalog(out())


@app.command()
def cat(sweep: Sweep) -> None:
    """Print the YAML of a sweep, such as one of the catalogue, with its hypothesis in words."""
    from cluster.run import located
    from sweeps.cells import sweep_text

    sys.stdout.write(sweep_text(located(sweep, None)[0]))


@app.command()
def new(
    sweep: Sweep,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file to write, such as my_sweep.yaml; its stem is the name.")
    ],
) -> None:
    """Copy a sweep to a new file of your own, to be edited."""
    from cluster.run import located
    from sweeps.cells import copy_sweep

    copy_sweep(located(sweep, None)[0], file)
    print(f"{file}: edit it, then `stsq plan {shlex.quote(str(file))}`")


@app.command()
def plan(sweep: Sweep, settings: Settings = None, out: Out = None, workers: Workers = None, plugin: PluginFiles = None) -> None:
    """Show the cells, trials, packs and cost of a sweep without running it."""
    from cluster.commands.planning import show_plan
    from cluster.run import out as results

    show_plan(results(), sweep, settings or [], out=out, workers=workers)


@app.command()
def run(
    sweep: Sweep,
    settings: Settings = None,
    more_seeds: MoreSeeds = None,
    out: Out = None,
    shard: Annotated[
        str | None,
        typer.Option(
            metavar="I/N",
            help="Train only the I-th of N equal shares of the cells, counted from 0; then `stsq run RUN` merges all.",
        ),
    ] = None,
    inline: Annotated[
        bool, typer.Option("--inline", help="Train one pack after another in this process, without Ray.")
    ] = False,
    workers: Workers = None,
    max_workers: Annotated[int | None, typer.Option(metavar="N", min=1, help="Upper limit on workers.")] = None,
    gpus_per_worker: Annotated[
        float,
        typer.Option(metavar="SHARE", min=0.01, max=1.0, help="GPU fraction per worker; with 0.25 four workers share a GPU."),
    ] = 1.0,
    cpu_workers: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Extra CPU workers for short packs (CPU and GPU results agree only to a tolerance)."
        ),
    ] = 0,
    wait_for_gpus: Annotated[
        float | None, typer.Option(metavar="MINUTES", min=0, help="Wait up to MINUTES for a GPU node.")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Train failed trials again.")] = False,
    recheck: Annotated[
        bool,
        typer.Option(
            "--recheck",
            help="Retrain just below each threshold for twice the steps, to see whether steps or width was limiting.",
        ),
    ] = False,
    keep_weights: KeepWeights = False,
    wandb: Annotated[
        WandbName | None,
        typer.Option(
            metavar="MODE", help="W&B mode: auto, online, offline or disabled.", show_default="WANDB_MODE, else the sweep's"
        ),
    ] = None,
    wandb_project: WandbProject = None,
    wandb_entity: WandbEntity = None,
    wandb_tags: WandbTags = None,
    device: Annotated[DeviceName, typer.Option(help="Device to train on.")] = DeviceName.AUTO,
    address: Annotated[
        str | None,
        typer.Option(help="Join the Ray cluster at this address.", show_default="RAY_ADDRESS, else a new Ray on this machine"),
    ] = None,
    checkpoint_every: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Seconds between saved states of a pack in training.")
    ] = 20.0,
    plugin: PluginFiles = None,
    hung_after: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="End a worker after SECONDS without progress and try its pack again; 0 never ends one.",
            show_default="300, or ten times the longest pause measured",
        ),
    ] = None,
    notify: Notify = None,
    stalled_after: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="Say that the run stalls after SECONDS in which no trial ended and no step was trained; 0 never.",
        ),
    ] = 1800.0,
    accept_versions: Annotated[
        bool,
        typer.Option(
            "--accept-versions", help="Allow another release of torch than before, or than where the job was sent from."
        ),
    ] = False,
) -> None:
    """Run a sweep, or the rest of it, and show its results."""
    from cluster.run import RunOptions, located
    from sweeps.cells import read_shard
    from sweeps.store import gc_paused

    if more_seeds is not None:
        if located(sweep, out)[0] == sweep:
            raise UserError(f"--more-seeds extends a run: give its directory, such as runs/NAME, in place of {sweep!r}")
        settings = [*(settings or []), f"seeds+={more_seeds}"]

    with gc_paused():
        from cluster.commands.session import run_sweep
    from cluster.run import log, out as results, unfailing_output

    options = RunOptions(
        out=out,
        shard=read_shard(shard) if shard else None,
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
        wandb_asked=wandb_destination(wandb_project, wandb_entity, wandb_tags),
        device=device.value,
        address=address,
        checkpoint_every_s=checkpoint_every,
        hung_after_s=hung_after,
        notify=notify,
        stalled_after_s=stalled_after,
        accept_versions=accept_versions,
    )
    with unfailing_output():
        code = run_sweep(sweep, settings or [], options, out=results(), log=log())
    raise typer.Exit(code)


@app.command()
def trial(
    run: Run,
    trial_id: Annotated[str, typer.Argument(metavar="ID", help="A trial id of the ledger, or its beginning.")],
    device: Annotated[DeviceName, typer.Option(help="Device to train on; auto takes the ledger's.")] = DeviceName.AUTO,
    keep_weights: KeepWeights = False,
    plugin: PluginFiles = None,
) -> None:
    """Retrain one trial of a run and compare it with its ledger line; exit code 1 if they differ."""
    from cluster.commands.rerun import rerun_trial

    rerun = rerun_trial(run, trial_id, device=device.value, keep_weights=keep_weights)
    for result, source in ((rerun.record, "ledger"), (rerun.result, "now")):
        loss = f"relative loss {result.relative_loss!r} +- {result.relative_loss_stderr!r}"
        print(f"{source:7} {result.status} after {result.steps} steps, {loss}")
    print(f"{rerun.record.trial_id}: {rerun.comparison()} ({rerun.seconds:.1f} s)")
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
def schema(
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a page of tables of all fields instead.")] = False,
    plugin: PluginFiles = None,
) -> None:
    """Print the JSON Schema of sweep files, for editors, or a reference of their fields."""
    from sweeps.cells import schema_text, sweep_reference

    sys.stdout.write(sweep_reference() if markdown else schema_text())


def main(arguments: list[str] | None = None) -> Any:
    """Run the command; a mistake of the user's becomes one message, with exit code 2."""
    try:
        try:
            app(arguments)
        finally:
            sys.stdout.flush()
    except UserError as error:
        from cluster.run import harmless

        print(f"stsq: {harmless(str(error))}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    except OSError as error:
        is_cut = isinstance(error, BrokenPipeError)
        if not is_cut and (error.errno not in (errno.ENOSPC, errno.EIO) or error.filename is not None):
            raise
        from cluster.run import drop

        drop(sys.stdout)
        if is_cut:  # as by `head`, which has what it wanted
            sys.exit(0)
        print(f"stsq: the output cannot be written: {error.strerror}", file=sys.stderr)
        sys.exit(BAD_INPUT)
    finally:
        gc.freeze()  # so that the interpreter does not look through all of Ray and plotly for garbage before it ends
