"""A client of a Ray job server: its connection, its refusals in words, and checks of its cluster before anything is sent."""

import os
import re
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster.run import error_line
from cluster.tune import job_server_get
from stsq_core.configs import UserError

DEFAULT_ADDRESS = "http://127.0.0.1:8265"
CONNECT_TRIES = 13
CONNECT_PAUSE_S = 5.0
"""Between two tries: a minute in all, as a head that starts may need."""

ANSWER_TIMEOUT_S = 20.0
"""How long a job server may take from accepting a connection to its first answer."""

PAUSE_S = 2.0
MIN_RAY = (2, 54)
PROXIES = ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY")


def print_error(text: str) -> None:
    """Print a line on standard error, at once."""
    print(text, file=sys.stderr, flush=True)


def connect(address: str | None, *, notify: Callable[[str], None] = print_error) -> Any:
    """A client of the job server at an address, by default `RAY_API_SERVER_ADDRESS`, `RAY_ADDRESS` or this machine's.

    A server that refuses the connection may be starting: it is tried `CONNECT_TRIES` times, for a minute. One that accepts it
    and answers nothing is given up after `ANSWER_TIMEOUT_S`; Ray's client would wait for ever.

    Raises:
        UserError: no job server there, or no access to it.
    """
    from ray.exceptions import AuthenticationError
    from ray.job_submission import JobSubmissionClient

    named = address or os.environ.get("RAY_API_SERVER_ADDRESS") or os.environ.get("RAY_ADDRESS") or DEFAULT_ADDRESS
    for num_left in reversed(range(CONNECT_TRIES)):
        try:
            return _in_time(lambda: JobSubmissionClient(named))
        except TimeoutError as error:
            raise UserError(
                f"what accepts connections at {named} has not answered within {ANSWER_TIMEOUT_S:g} s, so it is no job server "
                f"of Ray, or hangs: give the address of one with --address, such as http://HOST:8265{_behind_a_proxy()}"
            ) from error
        except AuthenticationError as error:
            is_wrong = "403" in str(error) or "invalid" in str(error).lower()
            raise UserError(
                f"the cluster at {named} {'does not accept this token' if is_wrong else 'asks for a token'}: set "
                "RAY_AUTH_MODE=token and RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH) to the token it was started with "
                f"({error_line(error)})"
            ) from error
        except (OSError, RuntimeError, ValueError) as error:
            if not isinstance(error, ConnectionError) or not num_left:
                raise UserError(
                    f"no job server answers at {named}: {error_line(error)}; give its address with --address, such as "
                    f"http://HOST:8265{_behind_a_proxy()}"
                ) from error
        notify(f"no job server answers at {named} yet; trying again ({num_left} {'time' if num_left == 1 else 'times'} more)")
        time.sleep(CONNECT_PAUSE_S)
    raise AssertionError("the last try returns or raises")


def _in_time(make: Callable[[], Any]) -> Any:
    """What a function returns or raises.

    Raises:
        TimeoutError: it does neither within `ANSWER_TIMEOUT_S`.
    """
    made: list[Any] = []
    failed: list[Exception] = []

    def attempt() -> None:
        try:
            made.append(make())
        except Exception as error:
            failed.append(error)

    # a thread that may outlive its use, because a request that hangs cannot be called off
    attempting = threading.Thread(target=attempt, daemon=True)
    attempting.start()
    attempting.join(ANSWER_TIMEOUT_S)
    if failed:
        raise failed[0]
    if not made:
        raise TimeoutError
    return made[0]


def _behind_a_proxy() -> str:
    """What to try where requests go to a proxy."""
    asked = next((name for name in PROXIES if os.environ.get(name)), None)
    return f"; {asked} is set: if that proxy does not reach the cluster, name its host in no_proxy" if asked else ""


def ask(method: Callable[[str], Any], job_id: str) -> Any:
    """The result of a client's method about a job.

    Raises:
        UserError: there is no such job, or the server does not answer.
    """
    try:
        return method(job_id)
    except (OSError, RuntimeError) as error:
        raise UserError(f"the cluster could not answer about job {job_id!r}: {error_line(error)}") from error


def find(client: Any, job_id: str) -> Any | None:
    """Ray's description of a job; None where there is no such job.

    Raises:
        UserError: the server does not answer.
    """
    try:
        return ask(client.get_job_info, job_id)
    except UserError as error:
        if "404" in str(error.__cause__):
            return None
        raise


def check_cluster(client: Any, out: Path | None, *, notify: Callable[[str], None]) -> None:
    """Refuse a job that would fail on the cluster; a server that does not describe its cluster is accepted.

    Whether the path of `out` is shared is known on the cluster only: the run asks every node before it trains.

    Raises:
        UserError: a Ray that is too old, or several nodes and no run directory that they could share.
    """
    import ray

    there = job_server_get(client, "/api/version").get("ray_version")
    if isinstance(there, str) and there != ray.__version__:
        if tuple(int(part) for part in re.findall(r"\d+", there)[:2]) < MIN_RAY:
            needed = ".".join(map(str, MIN_RAY))
            raise UserError(
                f"the cluster runs Ray {there} and stsq needs {needed} or later (here is {ray.__version__}): "
                "install a newer Ray on the cluster"
            )
        notify(f"the cluster runs Ray {there}, here is {ray.__version__}: the job runs with the cluster's")
    match job_server_get(client, "/nodes?view=summary"):
        case {"data": {"summary": [*nodes]}}:
            states = [node["raylet"].get("state") for node in nodes if isinstance(node, dict) and "raylet" in node]
            num_nodes = states.count("ALIVE")
        case _:
            num_nodes = 0
    if num_nodes > 1 and out is None:
        raise UserError(
            f"the cluster has {num_nodes} nodes, and a job without --out writes to the head's own disk: give a path on a file "
            "system that all nodes mount, such as -- --out /shared/runs/NAME"
        )
