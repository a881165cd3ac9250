"""How to run a sweep; never affects results."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from cluster.run.stall import STALLED_AFTER_S
from dashboards.publishing import NOTHING_ASKED, Asked
from stsq_core.configs import UserError
from stsq_core.numerics import Device
from sweeps.cells import Shard, catalog_names, sweep_name
from sweeps.store import RunDirectory, load_kept

WandbMode = Literal["auto", "offline", "online", "disabled"]


@dataclass(frozen=True)
class RunOptions:
    """How to run a sweep.

    Args:
        out: the run directory (see `run_path`).
        shard: the share of the cells to train; other drivers train the others.
        workers: packs that train at once; by default one per core, or per GPU, as nodes come and go.
        max_workers: upper limit on workers.
        gpus_per_worker: GPU fraction per worker.
        cpu_workers: extra workers on cores beside GPUs, for short packs.
        wait_for_gpus: minutes to wait for a node with a GPU.
        wandb, wandb_asked: W&B's mode; its project, entity and tags where the command names them.
        address: a Ray cluster to join, instead of starting a Ray for the run.
        checkpoint_every_s: seconds between saved states of a pack in training: the most that a killed worker loses.
        hung_after_s: silence after which a worker is ended and its pack tried again; None derives it from what was measured,
            0 never ends one.
        notify: a command that gets a summary when the run ends, fails, is stopped or stalls.
        stalled_after_s: how long nothing may end and no step be trained before the run counts as stalled; 0 never.
        accept_versions: let different releases of torch meet in one run.
    """

    out: Path | None = None
    shard: Shard | None = None
    inline: bool = False
    workers: int | None = None
    max_workers: int | None = None
    gpus_per_worker: float = 1.0
    cpu_workers: int = 0
    wait_for_gpus: float | None = None
    retry_failed: bool = False
    recheck: bool = False
    keep_weights: bool = False
    wandb: WandbMode | None = None
    wandb_asked: Asked = NOTHING_ASKED
    device: Device = "auto"
    address: str | None = None
    checkpoint_every_s: float = 20.0
    accept_versions: bool = False
    hung_after_s: float | None = None
    notify: str | None = None
    stalled_after_s: float = STALLED_AFTER_S

    def bounded(self, max_workers: int | None) -> "RunOptions":
        """These options under another upper limit on workers; the lower one counts."""
        bounds = [bound for bound in (self.max_workers, max_workers) if bound is not None]
        return replace(self, max_workers=min(bounds, default=None))


def located(sweep: str, out: Path | None) -> tuple[str, Path | None]:
    """A sweep and its run directory; where a run directory is named as a sweep, its sweep as it was last started (of one that
    is divided into shards, that of the first of them).

    Raises:
        UserError: without `out`, a name of the catalogue that is the name of a run directory here as well.
    """
    run, is_of_catalog = RunDirectory(Path(sweep)), sweep in catalog_names()
    spec = run.spec if run.spec.is_file() or not run.shards else run.shards[0].spec
    if not spec.is_file() or (is_of_catalog and out is not None):
        return sweep, out
    if is_of_catalog:
        raise UserError(
            f"{sweep!r} is a sweep of the catalogue and a run directory here: write ./{sweep} to go on with the directory, or "
            f"add --out {run_path(sweep, None)} to run the sweep of the catalogue"
        )
    return str(spec), out or run.path


def load_remembered(sweep: str, out: Path | None) -> None:
    """Load the plugins with which a sweep was last run, so that they need not be named again.

    Raises:
        UserError: a sweep that cannot be read, or a plugin that the user has not allowed.
    """
    name = sweep_name(sweep)
    if name is not None:
        run = RunDirectory(run_path(name, out))
        for own in (run, *run.shards):
            load_kept(own.plugins)


def run_path(name: str, out: Path | None) -> Path:
    """The run directory of a sweep: `out`, else `runs/NAME`; inside the package copy of a Ray job, `~/stsq-runs/NAME`.

    Raises:
        UserError: a relative `out` inside a package copy, which Ray deletes after the job.
    """
    if "working_dir_files" not in Path.cwd().parts:
        return (out or Path("runs") / name).absolute()
    if out is not None and not out.is_absolute():
        raise UserError(
            f"--out {out} is inside the job's copy of the working directory, which Ray deletes: give an absolute path"
        )
    return out or Path.home() / "stsq-runs" / name
