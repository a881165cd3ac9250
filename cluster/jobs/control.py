"""Status, logs and stop of jobs on a Ray cluster; `submission` sends them."""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cluster.jobs.job_client import PAUSE_S, ask, connect, print_error
from cluster.run import STOPPED, error_line
from stsq_core.configs import UserError

PATIENCE_S = 60.0
STOP_PATIENCE_S = 75.0
STOP_WAIT = "RAY_JOB_STOP_WAIT_TIME_S"
"""The variable of the seconds that a stopped job has to end by itself."""

LOST_TRIES = 5


@dataclass(frozen=True)
class JobState:
    """A job's status, Ray's message about it, and whether it has ended.

    `code` is 0 for a job that waits, runs or succeeded; else the exit code of its command, and 130 where it was stopped.
    """

    status: str
    message: str
    ended: bool
    code: int


def stop(address: str | None, job_id: str) -> JobState:
    """Stop a job and wait for its end, for `STOP_PATIENCE_S` at most, or as long as the environment gives jobs to end."""
    client = connect(address)
    ask(client.stop_job, job_id)
    given = os.environ.get(STOP_WAIT, "")
    return _awaited(client, job_id, max(STOP_PATIENCE_S, int(given) + 15 if given.isdecimal() else 0))


def status(address: str | None, job_id: str) -> JobState:
    """The state of a job now."""
    return state_of(ask(connect(address).get_job_info, job_id))


@dataclass(frozen=True)
class ListedJob:
    """A job of a cluster, as a line of a list; `started_at` is in seconds since 1970."""

    job_id: str
    status: str
    started_at: float
    command: str


def list_jobs(address: str | None) -> tuple[ListedJob, ...]:
    """The jobs that were sent to a cluster and that it remembers, newest first."""
    infos = ask(lambda _: connect(address).list_jobs(), "any")
    jobs = [
        ListedJob(str(info.submission_id), str(info.status.value), (info.start_time or 0) / 1000, str(info.entrypoint))
        for info in infos
        if info.submission_id
    ]
    return tuple(sorted(jobs, key=lambda job: -job.started_at))


def logs(address: str | None, job_id: str) -> str:
    """Everything a job has printed so far."""
    return str(ask(connect(address).get_job_logs, job_id))


def follow(address: str | None, job_id: str, *, notify: Callable[[str], None] = print_error) -> int:
    """Print what a job prints until it ends; returns the exit code of its command.

    A connection that is lost is made again and goes on where it was, `LOST_TRIES` times in a row at most.

    Raises:
        UserError: there is no such job, or no connection to its log can be kept.
    """
    client = connect(address, notify=notify)
    state_of(ask(client.get_job_info, job_id))  # the log of a job that is not there would just be empty
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
            notify(f"the connection to the log of job {job_id} was lost; trying again")
            time.sleep(PAUSE_S)
    why = error_line(error) if error else "its log ended before it did"
    raise UserError(
        f"the connection to the log of job {job_id} was lost {num_lost} times in a row ({why}); the job goes on without it: "
        f"follow it again with `stsq job logs {job_id} --follow`"
    )


class _Tail:
    """Prints a job's log; each connection sends the log from its start, so what was printed before is skipped."""

    def __init__(self, client: Any, job_id: str) -> None:
        self._client = client
        self._job_id = job_id
        self.num_printed = 0

    async def go_on(self) -> Exception | None:
        """Print what is new until the log ends; the error of a connection that was lost."""
        from aiohttp import ClientError

        num_sent = 0
        try:
            async for lines in self._client.tail_job_logs(self._job_id):
                sys.stdout.write(lines[max(0, self.num_printed - num_sent) :])
                sys.stdout.flush()
                num_sent += len(lines)
                self.num_printed = max(self.num_printed, num_sent)
        except BrokenPipeError:
            raise
        except (ClientError, OSError, RuntimeError) as error:
            return error
        return None


def _awaited(client: Any, job_id: str, patience_s: float) -> JobState:
    """The state of a job once it has ended, or after `patience_s`."""
    deadline = time.monotonic() + patience_s
    while not (state := state_of(ask(client.get_job_info, job_id))).ended and time.monotonic() < deadline:
        time.sleep(0.5)
    return state


def state_of(info: Any) -> JobState:
    """The state of a job from Ray's description."""
    status, driver_code = str(info.status.value), getattr(info, "driver_exit_code", None)
    code = {"FAILED": driver_code if isinstance(driver_code, int) and driver_code > 0 else 1, "STOPPED": STOPPED}.get(status, 0)
    return JobState(status, str(info.message or ""), info.status.is_terminal(), code)
