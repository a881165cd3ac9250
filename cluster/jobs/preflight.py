"""What a job server tells of its cluster before anything is sent to it: Ray's version, and how many nodes there are."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ray

from stsq_core.configs import UserError

MIN_RAY = (2, 51)
TIMEOUT_S = 10


def check_cluster(client: Any, out: Path | None, *, say: Callable[[str], None]) -> None:
    """Refuse what the job would fail of, as far as the server tells; a server that does not tell is taken as it is.

    Whether the path of `out` is shared is known on the cluster only: the run asks every node before it trains.

    Raises:
        UserError: a Ray that is too old, or several nodes and no run directory that they could share.
    """
    there = _told(client, "/api/version").get("ray_version")
    if isinstance(there, str) and there != ray.__version__:
        if _numbers(there) < MIN_RAY:
            needed = ".".join(map(str, MIN_RAY))
            raise UserError(
                f"the cluster runs Ray {there} and stsq needs {needed} or later (here is {ray.__version__}): "
                "install a newer Ray on the cluster"
            )
        say(f"the cluster runs Ray {there}, here is {ray.__version__}: the job runs with the cluster's")
    num_nodes = _num_nodes(client)
    if num_nodes > 1 and out is None:
        raise UserError(
            f"the cluster has {num_nodes} nodes, and a job without --out writes to the head's own disk: give a path on a file "
            "system that all nodes mount, such as -- --out /shared/runs/NAME"
        )


def _num_nodes(client: Any) -> int:
    told = _told(client, "/nodes?view=summary").get("data", {})
    summary = told.get("summary", []) if isinstance(told, dict) else []
    return sum(_state(node) == "ALIVE" for node in summary if isinstance(node, dict))


def _state(node: dict[str, Any]) -> object:
    raylet = node.get("raylet")
    return raylet.get("state") if isinstance(raylet, dict) else None


def _told(client: Any, path: str) -> dict[str, Any]:
    """What the server answers to a question beyond the job client's own; nothing where it does not answer."""
    ask = getattr(client, "_do_request", None)
    if ask is None:
        return {}
    try:
        told = ask("GET", path, timeout=TIMEOUT_S).json()
    except (OSError, RuntimeError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
