"""Trained arrays kept on request, one `.npz` a trial, loaded back by one call and no pickle."""

import io
import re
import shlex
import zipfile
from pathlib import Path

import numpy as np

from stsq_core.configs import TrialResult, UserError
from sweeps.schema import listed
from sweeps.store.files import disk_errors, write_with_retries
from sweeps.store.run_directory import RunDirectory, open_run

DAMAGED_ARRAYS = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile)

_TRIAL_ID = re.compile(r"[0-9a-f]{16}")


def save_weights(run: RunDirectory, result: TrialResult) -> Path:
    """Keep the trained arrays of a trial in the run directory and return the file.

    Raises:
        ValueError: the result holds no weights.
        UserError: the disk is full or may not be written.
    """
    if result.weights is None:
        raise ValueError(f"trial {result.config.trial_id} was trained without keeping its weights")
    arrays = io.BytesIO()
    np.savez(arrays, allow_pickle=False, **dict(result.weights))
    with disk_errors(run.weights):
        run.weights.mkdir(parents=True, exist_ok=True)
    path = run.weights / f"{result.config.trial_id}.npz"
    write_with_retries(path, arrays.getvalue())
    return path


def load_weights(run_path: Path | str, trial_id: str) -> dict[str, np.ndarray]:
    """The trained arrays of a trial by name: `W` [(d+d_e), (d+d_e)] and `V` [d, (d+d_e)] of a transformer, without padding.

    Raises:
        UserError: no run there, an id that is not 16 hex digits, or a trial whose weights were not kept.
    """
    run = open_run(run_path)
    if not _TRIAL_ID.fullmatch(trial_id):
        raise UserError(f"a trial id has 16 hex digits; got {trial_id!r}: copy one from the ledger")
    path = run.weights / f"{trial_id}.npz"
    if not path.is_file():
        kept = sorted(file.stem for file in run.weights.glob("*.npz"))
        raise UserError(
            f"the weights of trial {trial_id} were not kept in {str(run.path)!r} (kept: {listed(kept[:8])}): "
            f"run the sweep with --keep-weights, or `stsq trial {shlex.quote(str(run.path))} {trial_id} --keep-weights`"
        )
    try:
        return read_weights(path)
    except DAMAGED_ARRAYS as error:
        raise UserError(
            f"{path} is damaged ({type(error).__name__}): "
            f"`stsq trial {shlex.quote(str(run.path))} {trial_id} --keep-weights` makes it again"
        ) from None


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """The arrays in a file; one of `DAMAGED_ARRAYS` is raised where it is damaged."""
    # opened here: NumPy leaves a file open in which it finds no archive
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}
