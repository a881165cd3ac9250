"""Sends a sweep to a Ray cluster as a job, after every check that can be made before anything is uploaded.

`ray job submit` leaves much to the user that is done here: the sweep is checked, and its file must be in the package; the job
is stopped by SIGINT with time to end in order; our code travels where the package does not hold it; a cluster that has just
started is given time; the same sweep sent twice is one job. W&B's settings travel as environment variables of the job, but
never its key, which Ray would show to whoever reads the job's metadata.
"""

import hashlib
import json
import os
import re
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import util
from itertools import count
from pathlib import Path
from typing import Any

from cluster.environment import ROOMS
from cluster.jobs.control import STOP_WAIT, state_of
from cluster.jobs.job_client import PAUSE_S, check_cluster, connect, find
from cluster.run import SUBMITTED_WITH, error_line, own_versions
from cluster.tune import packaged_files
from stsq_core.configs import UserError, shown
from sweeps.cells import catalog_names, load_sweep

STOP_SETTINGS = {"RAY_JOB_STOP_SIGNAL": "SIGINT", STOP_WAIT: "60"}
"""How Ray stops the job, unless the environment says otherwise."""

FORWARDED = ("WANDB_BASE_URL", "WANDB_MODE", "WANDB_ENTITY", "WANDB_PROJECT", "WANDB_TAGS")
NOT_READY = ("No available agent", "agent is not available", "Failed to connect")
PATIENCE_S = 60.0
ENDED_WITHOUT_SUCCESS = ("FAILED", "STOPPED")
"""A job that ended so does not keep its sweep from being sent again."""

SHOWN_FILES = 5
JOB_ID = re.compile(r"\w[\w.-]{0,127}", re.ASCII)


@dataclass(frozen=True)
class JobRequest:
    """A sweep to run on a cluster: `arguments` go to `stsq run` there, with the paths that files have in the package.

    `more_settings`, `out` and `plugins` are the settings, the run directory and the plugin files among the `arguments`.
    `netrc` is the path of a file on the cluster that holds a W&B key.
    """

    sweep: str
    settings: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    working_dir: Path = Path()
    submission_id: str | None = None
    more_settings: tuple[str, ...] = ()
    out: Path | None = None
    plugins: tuple[Path, ...] = ()
    netrc: str | None = None


@dataclass(frozen=True)
class Submitted:
    """A job; if it `existed` already, nothing was sent, and `status` is its status."""

    job_id: str
    existed: bool
    status: str = "PENDING"


def submit(address: str | None, request: JobRequest, *, notify: Callable[[str], None]) -> Submitted:
    """Check a sweep, upload the working directory, and start the job.

    Raises:
        UserError: a sweep or a package that would be refused there, no job server, or no access to it.
    """
    if request.submission_id is not None and not JOB_ID.fullmatch(request.submission_id):
        raise UserError(
            f"--submission-id {shown(request.submission_id)}: the id of a job is in the name of its log: give 1 to 128 "
            "letters, digits and . _ -"
        )
    spec = load_sweep(request.sweep, (*request.settings, *request.more_settings))
    files = files_to_upload(request.working_dir)
    entrypoint = entrypoint_of(request, files)
    client = connect(address, notify=notify)
    check_cluster(client, request.out, notify=notify)
    name = request.submission_id
    if name is None:
        known = job_of(client, spec.name, f"{spec.as_yaml()}\n{entrypoint}")
        if known.existed:
            return known
        name = known.job_id
    runtime_env = environment_of(request, files)
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            job_id = client.submit_job(
                entrypoint=entrypoint, runtime_env=runtime_env, submission_id=name, metadata={"sweep": spec.name}
            )
            return Submitted(str(job_id), existed=False)
        except (OSError, RuntimeError) as error:
            if request.submission_id is None and "already exists" in str(error):
                return Submitted(name, existed=True)  # sent by someone else in the same moment
            if not any(words in str(error) for words in NOT_READY) or time.monotonic() > deadline:
                raise UserError(f"the cluster did not take the job: {error_line(error)}") from error
            notify("the cluster is not ready for jobs yet; trying again")
            time.sleep(PAUSE_S)


def job_of(client: Any, name: str, content: str) -> Submitted:
    """The job of a sweep with this content: the one that waits, runs or has succeeded, else the id of the next.

    The id is the sweep's name and a digest of its content, with a number from the second time on.
    """
    base = f"{name}-{hashlib.sha256(content.encode()).hexdigest()[:10]}"
    for number in count(1):
        job_id = base if number == 1 else f"{base}-{number}"
        info = find(client, job_id)
        if info is None:
            return Submitted(job_id, existed=False)
        state = state_of(info)
        if state.status not in ENDED_WITHOUT_SUCCESS:
            return Submitted(job_id, existed=True, status=state.status)
    raise AssertionError("there is always a next number")


def files_to_upload(folder: Path, *, limit_bytes: int | None = None) -> frozenset[Path]:
    """The files that Ray would upload of a working directory, relative to it.

    Raises:
        UserError: no such directory, or more than Ray takes (or `limit_bytes`), with the largest files.
    """
    if not folder.is_dir():
        raise UserError(f"the working directory {folder} is no directory: give the folder to upload with --working-dir")
    sizes, ray_limit = packaged_files(folder)
    total, limit = sum(sizes.values()), limit_bytes or ray_limit
    if total > limit:
        largest = sorted(sizes, key=lambda path: -sizes[path])[:SHOWN_FILES]
        listed = ", ".join(f"{path} ({sizes[path] / 2**20:.1f} MiB)" for path in largest)
        raise UserError(
            f"the package of {folder} holds {total / 2**20:.0f} MiB and Ray takes at most {limit / 2**20:.0f} MiB; the "
            f"largest files are {listed}: name what the sweep does not need in .rayignore, or give another --working-dir"
        )
    return frozenset(sizes)


def entrypoint_of(request: JobRequest, files: frozenset[Path]) -> str:
    """The command that the job runs.

    Raises:
        UserError: the package does not hold the sweep file or a plugin.
    """
    folder, sweep = request.working_dir, request.sweep
    if sweep not in catalog_names():
        sweep = _packaged_path(folder, files, Path(sweep), what="sweep file").as_posix()
    words = list(request.arguments)
    for plugin in request.plugins:
        inside = _packaged_path(folder, files, plugin, what="plugin").as_posix()
        named = {str(plugin): inside, f"--plugin={plugin}": f"--plugin={inside}"}
        words = [named.get(word, word) for word in words]
    settings = [word for setting in request.settings for word in ("--set", setting)]
    return shlex.join(["python", "-m", "stsq", "run", sweep, *settings, *words])


def _packaged_path(folder: Path, files: frozenset[Path], path: Path, *, what: str) -> Path:
    """The path of a file inside the package, which must hold it."""
    try:
        inside = path.resolve().relative_to(folder.resolve())
    except ValueError:
        raise UserError(f"the {what} {path} is not in the working directory {folder}, which is all that is uploaded") from None
    if inside not in files:
        raise UserError(
            f"the {what} {path} is excluded from the package by .gitignore or .rayignore, so the cluster would not see "
            "it: move it, or mend the ignore file"
        )
    return inside


def environment_of(request: JobRequest, files: frozenset[Path]) -> dict[str, Any]:
    """The job's runtime environment. Ray shows it to whoever may read the job, so no secret may stand in it.

    Our own code travels beside a package that does not hold it, as a checkout does: so a job runs the code that it was sent
    with, whatever the cluster has installed.

    Raises:
        UserError: a folder of the package would hide our code.
    """
    variables = {**STOP_SETTINGS, "PYTHONUNBUFFERED": "1", SUBMITTED_WITH: json.dumps(own_versions())}
    variables |= {name: os.environ[name] for name in (*FORWARDED, *STOP_SETTINGS) if name in os.environ}
    if request.netrc:
        variables["NETRC"] = request.netrc
    environment: dict[str, Any] = {"working_dir": str(request.working_dir.resolve()), "env_vars": variables}
    held = [room for room in ROOMS if Path(room) / "__init__.py" in files]
    if held and len(held) < len(ROOMS):
        raise UserError(
            f"the working directory {request.working_dir} holds the Python package {min(held)!r}, which would hide the one of "
            "stsq on the cluster: rename it, name it in .rayignore, or give another --working-dir"
        )
    if not held:
        origins = [spec.origin for room in ROOMS if (spec := util.find_spec(room)) and spec.origin]
        environment["py_modules"] = [str(Path(origin).parent) for origin in origins]
    return environment
