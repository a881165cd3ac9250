"""Sends a sweep to a Ray cluster as a job, after every check that can be made before anything is uploaded.

What `ray job submit` leaves to the user is done here: the sweep is checked, and that it is in the package; the job is told to
stop by SIGINT with time to end in order; our code travels where the package does not hold it; a cluster that has just started
is given time; the same sweep sent twice is one job. W&B's settings travel as environment variables of the job, but never its
key, which Ray would show to whoever reads the job's metadata.
"""

import hashlib
import json
import os
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from cluster.jobs.control import STOP_WAIT, state_of
from cluster.jobs.job_client import PAUSE_S, connect, find
from cluster.jobs.packages import Listing, check_size, code_to_send, packaged_files, packaged_path
from cluster.jobs.preflight import check_cluster
from cluster.run import SUBMITTED_WITH, error_line, own_versions
from stsq_core.configs import UserError
from sweeps.cells import catalog_names, load_sweep

CLEAN_STOP = {"RAY_JOB_STOP_SIGNAL": "SIGINT", STOP_WAIT: "60"}
"""How a job is to be stopped, where the environment says nothing else."""

HANDED_ON = ("WANDB_BASE_URL", "WANDB_MODE", "WANDB_ENTITY", "WANDB_PROJECT")
NOT_READY = ("No available agent", "agent is not available", "Failed to connect")
PATIENCE_S = 60.0
AGAIN = ("FAILED", "STOPPED")
"""How a job ended whose sweep is sent once more when it is asked for again."""


@dataclass(frozen=True)
class JobRequest:
    """A sweep to be run on a cluster: `arguments` are handed to `stsq run` there as they are.

    `more_settings`, `out` and `plugins` are what the `arguments` say of settings, of the run directory and of plugin files.
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
    """A job, and whether it was there already: then nothing was sent, and `status` is how it is."""

    job_id: str
    existed: bool
    status: str = "PENDING"


def submit(address: str | None, request: JobRequest, *, say: Callable[[str], None]) -> Submitted:
    """Check a sweep, upload the working directory, and start the job.

    Raises:
        UserError: a sweep or a package that would be refused there, no job server, or no access to it.
    """
    spec = load_sweep(request.sweep, (*request.settings, *request.more_settings))
    files = package_of(request)
    entrypoint = entrypoint_of(request, files)
    client = connect(address, say=say)
    check_cluster(client, request.out, say=say)
    name = request.submission_id
    if name is None:
        held = job_of(client, spec.name, f"{spec.as_yaml()}\n{entrypoint}")
        if held.existed:
            return held
        name = held.job_id
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
            say("the cluster is not ready for jobs yet; trying again")
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
        if state.status not in AGAIN:
            return Submitted(job_id, existed=True, status=state.status)
    raise AssertionError("there is always a next number")


def package_of(request: JobRequest) -> Listing | None:
    """The files that would be uploaded; None where Ray does not tell.

    Raises:
        UserError: the working directory is none, or its package is too large.
    """
    folder = request.working_dir
    if not folder.is_dir():
        raise UserError(f"the working directory {folder} is no directory: give the folder to upload with --working-dir")
    files = packaged_files(folder)
    if files is not None:
        check_size(folder, files)
    return files


def entrypoint_of(request: JobRequest, files: Listing | None) -> str:
    """The command that the job runs.

    Raises:
        UserError: the package does not hold the sweep file, or a plugin at the path by which it is named.
    """
    sweep = request.sweep
    if sweep not in catalog_names():
        sweep = packaged_path(request.working_dir, files, Path(sweep)).as_posix()
    for plugin in request.plugins:
        if plugin.is_absolute():
            raise UserError(f"the plugin {plugin} is named by an absolute path: name it as it lies in {request.working_dir}")
        packaged_path(request.working_dir, files, request.working_dir / plugin, what="plugin")
    settings = [word for setting in request.settings for word in ("--set", setting)]
    return shlex.join(["python", "-m", "cluster", "run", sweep, *settings, *request.arguments])


def environment_of(request: JobRequest, files: Listing | None) -> dict[str, Any]:
    """The job's runtime environment. Ray shows it to whoever may read the job, so no secret may stand in it.

    Raises:
        UserError: a folder of the package would hide our code.
    """
    variables = {**CLEAN_STOP, "PYTHONUNBUFFERED": "1", SUBMITTED_WITH: json.dumps(own_versions())}
    variables |= {name: os.environ[name] for name in (*HANDED_ON, *CLEAN_STOP) if name in os.environ}
    if request.netrc:
        variables["NETRC"] = request.netrc
    environment: dict[str, Any] = {"working_dir": str(request.working_dir.resolve()), "env_vars": variables}
    if code := code_to_send(request.working_dir, files):
        environment["py_modules"] = [str(folder) for folder in code]
    return environment
