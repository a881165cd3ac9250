"""`stsq job`: sends a sweep to a Ray cluster as a job, follows it, and stops it so that nothing is lost.

What `ray job submit` leaves to the user is done here: sweep and package are checked before anything is uploaded; the job is
told to stop by SIGINT with time to end in order; a cluster that has just started is given time; W&B's settings travel as
environment variables of the job, but never its key, which Ray would show to whoever reads the job's metadata.
"""

import asyncio
import os
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.packages import check_size, packaged_files, packaged_path
from stsq_core import UserError
from sweeps import load_sweep
from sweeps.catalog import catalog_names

CLEAN_STOP = {"RAY_JOB_STOP_SIGNAL": "SIGINT", "RAY_JOB_STOP_WAIT_TIME_S": "60"}
HANDED_ON = ("WANDB_BASE_URL", "WANDB_MODE", "WANDB_ENTITY", "WANDB_PROJECT")
NOT_READY = ("No available agent", "agent is not available", "Failed to connect")
PATIENCE_S = 60.0
STOP_PATIENCE_S = 75.0
DEFAULT_ADDRESS = "http://127.0.0.1:8265"


@dataclass(frozen=True)
class JobRequest:
    """A sweep to be run on a cluster: `arguments` are handed to `stsq run` there as they are."""

    sweep: str
    settings: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    working_dir: Path = Path()
    submission_id: str | None = None


def submit(address: str | None, request: JobRequest, *, say: Callable[[str], None]) -> str:
    """Check a sweep, upload the working directory, and start the job; returns its submission id.

    Raises:
        UserError: a sweep or a package that would be refused there, no job server, or no access to it.
    """
    load_sweep(request.sweep, request.settings)
    entrypoint = entrypoint_of(request)
    client = _client(address)
    environment = {**CLEAN_STOP, "PYTHONUNBUFFERED": "1"}
    environment |= {name: os.environ[name] for name in HANDED_ON if name in os.environ}
    runtime_env = {"working_dir": str(request.working_dir.resolve()), "env_vars": environment}
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return str(client.submit_job(entrypoint=entrypoint, runtime_env=runtime_env, submission_id=request.submission_id))
        except (RuntimeError, ConnectionError) as error:
            if not any(words in str(error) for words in NOT_READY) or time.monotonic() > deadline:
                raise UserError(f"the cluster did not take the job: {_first_line(error)}") from error
            say("the cluster is not ready for jobs yet; trying again")
            time.sleep(2.0)


def entrypoint_of(request: JobRequest) -> str:
    """The command that the job runs.

    Raises:
        UserError: the working directory is none, its package is too large, or does not hold the sweep file.
    """
    folder = request.working_dir
    if not folder.is_dir():
        raise UserError(f"the working directory {folder} is no directory: give the folder to upload with --working-dir")
    files = packaged_files(folder)
    if files is not None:
        check_size(folder, files)
    sweep = request.sweep
    if sweep not in catalog_names():
        sweep = packaged_path(folder, files, Path(sweep)).as_posix()
    settings = [word for setting in request.settings for word in ("--set", setting)]
    return shlex.join(["python", "-m", "cluster", "run", sweep, *settings, *request.arguments])


def stop(address: str | None, job_id: str) -> str:
    """Stop a job and wait until it has ended; returns its status in words."""
    client = _client(address)
    _answer(client.stop_job, job_id)
    deadline = time.monotonic() + STOP_PATIENCE_S
    while not (status := _answer(client.get_job_status, job_id)).is_terminal() and time.monotonic() < deadline:
        time.sleep(0.5)
    return str(status.value)


def status(address: str | None, job_id: str) -> tuple[str, str]:
    """The status of a job, and what Ray says about it."""
    info = _answer(_client(address).get_job_info, job_id)
    return str(info.status.value), str(info.message or "")


def logs(address: str | None, job_id: str) -> str:
    """Everything a job has printed so far."""
    return str(_answer(_client(address).get_job_logs, job_id))


def follow(address: str | None, job_id: str) -> int:
    """Print what a job prints until it ends; returns the exit code of its command."""
    client = _client(address)

    async def tail() -> None:
        async for lines in client.tail_job_logs(job_id):
            sys.stdout.write(lines)
            sys.stdout.flush()

    asyncio.run(tail())
    return exit_code(client, job_id)


def exit_code(client: Any, job_id: str) -> int:
    """The exit code of a job's command, once it has ended; 1 where the job never came to run it."""
    deadline = time.monotonic() + PATIENCE_S
    while not (info := _answer(client.get_job_info, job_id)).status.is_terminal() and time.monotonic() < deadline:
        time.sleep(0.5)
    if info.status.value == "SUCCEEDED":
        return 0
    code = getattr(info, "driver_exit_code", None)
    return code if isinstance(code, int) and code > 0 else 1


def _client(address: str | None) -> Any:
    """A client of the job server at an address, by default `RAY_API_SERVER_ADDRESS`, `RAY_ADDRESS` or this machine's."""
    from ray.exceptions import AuthenticationError
    from ray.job_submission import JobSubmissionClient

    named = address or os.environ.get("RAY_API_SERVER_ADDRESS") or os.environ.get("RAY_ADDRESS") or DEFAULT_ADDRESS
    try:
        return JobSubmissionClient(named)
    except AuthenticationError as error:
        raise UserError(_no_access(named, error)) from error
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise UserError(
            f"no job server answers at {named}: {_first_line(error)}; give its address with --address, such as http://HOST:8265"
        ) from error


def _answer(ask: Callable[[str], Any], job_id: str) -> Any:
    try:
        return ask(job_id)
    except RuntimeError as error:
        raise UserError(f"the cluster could not answer about job {job_id!r}: {_first_line(error)}") from error


def _no_access(address: str, error: Exception) -> str:
    return (
        f"the cluster at {address} asks for a token: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH) to "
        f"the token it was started with ({_first_line(error)})"
    )


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    telling = [line for line in lines if line.lstrip().startswith(("RuntimeError:", "ValueError:", "Exception:"))]
    return (telling or lines or [type(error).__name__])[-1 if telling else 0].strip()
