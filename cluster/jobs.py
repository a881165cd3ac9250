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

from cluster.job_client import PAUSE_S, answer, connect, first_line, tell
from cluster.packages import check_size, packaged_files, packaged_path
from cluster.verdict import STOPPED
from stsq_core import UserError
from sweeps import load_sweep
from sweeps.catalog import catalog_names

CLEAN_STOP = {"RAY_JOB_STOP_SIGNAL": "SIGINT", "RAY_JOB_STOP_WAIT_TIME_S": "60"}
HANDED_ON = ("WANDB_BASE_URL", "WANDB_MODE", "WANDB_ENTITY", "WANDB_PROJECT")
NOT_READY = ("No available agent", "agent is not available", "Failed to connect")
PATIENCE_S = 60.0
STOP_PATIENCE_S = 75.0
LOST_TRIES = 5


@dataclass(frozen=True)
class JobRequest:
    """A sweep to be run on a cluster: `arguments` are handed to `stsq run` there as they are.

    `more_settings` are the settings among the `arguments`, which are checked before anything is sent.
    """

    sweep: str
    settings: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    working_dir: Path = Path()
    submission_id: str | None = None
    more_settings: tuple[str, ...] = ()


def submit(address: str | None, request: JobRequest, *, say: Callable[[str], None]) -> str:
    """Check a sweep, upload the working directory, and start the job; returns its submission id.

    Raises:
        UserError: a sweep or a package that would be refused there, no job server, or no access to it.
    """
    load_sweep(request.sweep, (*request.settings, *request.more_settings))
    entrypoint = entrypoint_of(request)
    client = connect(address, say=say)
    environment = {**CLEAN_STOP, "PYTHONUNBUFFERED": "1"}
    environment |= {name: os.environ[name] for name in HANDED_ON if name in os.environ}
    runtime_env = {"working_dir": str(request.working_dir.resolve()), "env_vars": environment}
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return str(client.submit_job(entrypoint=entrypoint, runtime_env=runtime_env, submission_id=request.submission_id))
        except (OSError, RuntimeError) as error:
            if not any(words in str(error) for words in NOT_READY) or time.monotonic() > deadline:
                raise UserError(f"the cluster did not take the job: {first_line(error)}") from error
            say("the cluster is not ready for jobs yet; trying again")
            time.sleep(PAUSE_S)


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


@dataclass(frozen=True)
class JobState:
    """A job's status, what Ray says about it, and whether it has ended.

    `code` is 0 for a job that waits, runs or succeeded; else the exit code of its command, and 130 where it was stopped.
    """

    status: str
    message: str
    ended: bool
    code: int


def stop(address: str | None, job_id: str) -> JobState:
    """Stop a job and wait for its end, for `STOP_PATIENCE_S` at most."""
    client = connect(address)
    answer(client.stop_job, job_id)
    return _awaited(client, job_id, STOP_PATIENCE_S)


def status(address: str | None, job_id: str) -> JobState:
    """How a job is now."""
    return _state(connect(address), job_id)


def logs(address: str | None, job_id: str) -> str:
    """Everything a job has printed so far."""
    return str(answer(connect(address).get_job_logs, job_id))


def follow(address: str | None, job_id: str, *, say: Callable[[str], None] = tell) -> int:
    """Print what a job prints until it ends; returns the exit code of its command.

    A connection that is lost is made again and goes on where it was, `LOST_TRIES` times in a row at most.

    Raises:
        UserError: there is no such job, or no connection to its log can be kept.
    """
    client = connect(address, say=say)
    _state(client, job_id)  # of a job that is not there, its log would tell nothing
    tail = _Tail(client, job_id)
    num_lost, error = 0, None
    while num_lost < LOST_TRIES:
        before = tail.num_printed
        error = asyncio.run(tail.go_on())
        if error is None:
            state = _awaited(client, job_id, PATIENCE_S)
            if state.ended:
                return state.code
        num_lost = 1 if tail.num_printed > before else num_lost + 1
        if num_lost < LOST_TRIES:
            say(f"the connection to the log of job {job_id} was lost; trying again")
            time.sleep(PAUSE_S)
    why = first_line(error) if error else "its log ended before it did"
    raise UserError(
        f"the connection to the log of job {job_id} was lost {num_lost} times in a row ({why}); the job goes on without it: "
        f"follow it again with `stsq job logs {job_id} --follow`"
    )


class _Tail:
    """Prints a job's log; each connection is told the log from its start, so what was printed before is passed over."""

    def __init__(self, client: Any, job_id: str) -> None:
        self._client = client
        self._job_id = job_id
        self.num_printed = 0

    async def go_on(self) -> Exception | None:
        """Print what is new until the log ends; the error of a connection that was lost."""
        from aiohttp import ClientError

        num_told = 0
        try:
            async for lines in self._client.tail_job_logs(self._job_id):
                sys.stdout.write(lines[max(0, self.num_printed - num_told) :])
                sys.stdout.flush()
                num_told += len(lines)
                self.num_printed = max(self.num_printed, num_told)
        except BrokenPipeError:
            raise
        except (ClientError, OSError, RuntimeError) as error:
            return error
        return None


def _awaited(client: Any, job_id: str, patience_s: float) -> JobState:
    """The state of a job once it has ended, or after `patience_s`."""
    deadline = time.monotonic() + patience_s
    while not (state := _state(client, job_id)).ended and time.monotonic() < deadline:
        time.sleep(0.5)
    return state


def _state(client: Any, job_id: str) -> JobState:
    info = answer(client.get_job_info, job_id)
    status, driver_code = str(info.status.value), getattr(info, "driver_exit_code", None)
    code = {"FAILED": driver_code if isinstance(driver_code, int) and driver_code > 0 else 1, "STOPPED": STOPPED}.get(status, 0)
    return JobState(status, str(info.message or ""), info.status.is_terminal(), code)
