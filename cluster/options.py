"""What a run is told beyond its sweep: none of it changes a number."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dashboards.publishing.destination import NOTHING_ASKED, Asked
from stsq_core import UserError
from stsq_core.devices import Device

WandbMode = Literal["auto", "offline", "online", "disabled"]


@dataclass(frozen=True)
class RunOptions:
    """How to run a sweep.

    `out` is the run directory (see `run_path`). `workers` is the number of packs that train at once, by default one a core, or
    one a GPU. `wandb` is W&B's mode and `wandb_asked` its project, entity and tags, where the command names them. `address`
    joins a Ray cluster instead of starting one for the run. A pack in training saves its state every `checkpoint_every_s`
    seconds, which is the most that a killed worker loses. `accept_versions` lets different releases of torch meet in one run.
    """

    out: Path | None = None
    inline: bool = False
    workers: int | None = None
    retry_failed: bool = False
    recheck: bool = False
    keep_weights: bool = False
    wandb: WandbMode | None = None
    wandb_asked: Asked = NOTHING_ASKED
    device: Device = "auto"
    address: str | None = None
    checkpoint_every_s: float = 20.0
    accept_versions: bool = False


def num_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_path(name: str, out: Path | None) -> Path:
    """The run directory of a sweep: `out`, else `runs/NAME`; inside the package copy of a Ray job, `~/stsq-runs/NAME`.

    Raises:
        UserError: a relative `out` inside a package copy, which Ray deletes after the job.
    """
    if "working_dir_files" not in Path.cwd().parts:
        return (out or Path("runs") / name).absolute()
    if out is not None and not out.is_absolute():
        raise UserError(
            f"--out {out} lies in the job's copy of the working directory, which Ray deletes: give an absolute path"
        )
    return out or Path.home() / "stsq-runs" / name
