"""Folders of run directories: finding the runs in one, and removing a run."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from stsq_core.configs import UserError
from sweeps.store.files import disk_errors
from sweeps.store.run_directory import Lock, RunDirectory, open_run

MAX_DEPTH = 3
"""Folders below folders that are searched for runs."""


def runs_in(folder: Path | str) -> tuple[RunDirectory, ...]:
    """The run directories below a folder by their names, or the folder itself if it is one; no link is followed.

    Raises:
        UserError: there is no such folder, or it may not be read.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{str(folder)!r} is no folder: give one that holds run directories, such as runs")
    with disk_errors(folder):
        return tuple(_search(folder, MAX_DEPTH))


def holds_runs(path: Path | str) -> bool:
    """Whether a path is a folder of runs and no run itself."""
    folder = Path(path)
    return folder.is_dir() and any(run.path != folder for run in runs_in(folder))


def _search(folder: Path, depth: int) -> Iterator[RunDirectory]:
    run = RunDirectory(folder)
    if run.spec.is_file() or run.shards:
        yield run
    elif depth:
        for child in sorted(folder.iterdir()):
            if child.is_dir() and not child.is_symlink() and not child.name.startswith("."):
                yield from _search(child, depth - 1)


def remove_run(path: Path | str) -> None:
    """Remove a run directory with all that lies in it; a link in it is removed, and what it leads to stays.

    Raises:
        UserError: it is no run directory or a link to one, it is in use, or it cannot be removed.
    """
    run = removable_run(path)
    with Lock(run.lock), disk_errors(run.path):
        shutil.rmtree(run.path)


def removable_run(path: Path | str) -> RunDirectory:
    """The run directory at a path, if it may be removed now.

    Raises:
        UserError: as `remove_run`.
    """
    run = RunDirectory(Path(path))
    if run.path.is_symlink():
        raise UserError(f"{str(run.path)!r} is a link: give the run directory itself, {str(run.path.resolve())!r}")
    if not run.shards:
        open_run(path)
    for own in (run, *run.shards):
        for lock in (own.lock, *own.checkpoints.glob("*.claim")):
            if holder := Lock(lock).holder():
                raise UserError(f"{str(own.path)!r} is in use by {holder}: stop it first, or wait until it has ended")
    return run
