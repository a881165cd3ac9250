"""A client of a Ray job server, and what its refusals and lost connections mean in words."""

import os
import sys
import time
from collections.abc import Callable
from typing import Any

from cluster.run import error_line
from stsq_core.configs import UserError

DEFAULT_ADDRESS = "http://127.0.0.1:8265"
CONNECT_TRIES = 5
PAUSE_S = 2.0


def tell(text: str) -> None:
    """Say something on standard error, at once."""
    print(text, file=sys.stderr, flush=True)


def connect(address: str | None, *, say: Callable[[str], None] = tell) -> Any:
    """A client of the job server at an address, by default `RAY_API_SERVER_ADDRESS`, `RAY_ADDRESS` or this machine's.

    A server that refuses the connection may be starting: it is asked `CONNECT_TRIES` times.

    Raises:
        UserError: no job server there, or no access to it.
    """
    from ray.exceptions import AuthenticationError
    from ray.job_submission import JobSubmissionClient

    named = address or os.environ.get("RAY_API_SERVER_ADDRESS") or os.environ.get("RAY_ADDRESS") or DEFAULT_ADDRESS
    for num_left in reversed(range(CONNECT_TRIES)):
        try:
            return JobSubmissionClient(named)
        except AuthenticationError as error:
            raise UserError(_no_access(named, error)) from error
        except (OSError, RuntimeError, ValueError) as error:
            if not isinstance(error, ConnectionError) or not num_left:
                raise UserError(
                    f"no job server answers at {named}: {error_line(error)}; give its address with --address, such as "
                    "http://HOST:8265"
                ) from error
        say(f"no job server answers at {named} yet; trying again ({num_left} {'time' if num_left == 1 else 'times'} more)")
        time.sleep(PAUSE_S)
    raise AssertionError("the last try returns or raises")


def answer(ask: Callable[[str], Any], job_id: str) -> Any:
    """What a client answers about a job.

    Raises:
        UserError: there is no such job, or the server does not answer.
    """
    try:
        return ask(job_id)
    except (OSError, RuntimeError) as error:
        raise UserError(f"the cluster could not answer about job {job_id!r}: {error_line(error)}") from error


def find(client: Any, job_id: str) -> Any | None:
    """What Ray tells of a job; None where there is no such job.

    Raises:
        UserError: the server does not answer.
    """
    try:
        return client.get_job_info(job_id)
    except (OSError, RuntimeError) as error:
        if "404" in str(error):
            return None
        raise UserError(f"the cluster could not answer about job {job_id!r}: {error_line(error)}") from error


def _no_access(address: str, error: Exception) -> str:
    wrong = "403" in str(error) or "invalid" in str(error).lower()
    what = "does not accept this token" if wrong else "asks for a token"
    return (
        f"the cluster at {address} {what}: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH) to "
        f"the token it was started with ({error_line(error)})"
    )
