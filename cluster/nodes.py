"""Whether every node of a cluster can run packs as the driver would: our packages there, and the driver's torch."""

import socket
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from cluster.environment import REQUIRED
from cluster.job_client import first_line
from cluster.versions import ACCEPT, VersionsDifferError, own_versions, release
from stsq_core import UserError

PROBE_TIMEOUT_S = 120.0
ROOMS = ("stsq_core", "sweeps", "dashboards", "cluster")


def check_alike(*, accept: bool) -> None:
    """Ask every node, where there are several, for what packs need.

    Args:
        accept: let nodes train with another torch than the driver's.

    Raises:
        UserError: a node that lacks a package or could not answer; another torch.
    """
    all_nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    nodes = [node for node in all_nodes if node["Alive"]]
    if len(nodes) < 2:
        return
    modules = (*ROOMS, *REQUIRED)

    @ray.remote(num_cpus=0)
    def look() -> tuple[str, list[str], str]:
        # nested, so that Ray sends its code: a node without our packages can run it too
        import importlib.metadata
        import importlib.util
        import sys

        lacking = [module for module in modules if importlib.util.find_spec(module) is None]
        return sys.executable, lacking, "" if "torch" in lacking else importlib.metadata.version("torch")

    for address, answer in [(node["NodeManagerAddress"], look.options(**_on(node)).remote()) for node in nodes]:
        try:
            interpreter, lacking, torch = ray.get(answer, timeout=PROBE_TIMEOUT_S)
        except (ray.exceptions.RayError, TimeoutError) as error:
            raise UserError(f"the node {address} could not say what it has installed: {first_line(error)}") from error
        _judge(f"the node {address} ({interpreter})", lacking, torch, accept=accept)


def _judge(node: str, lacking: list[str], torch: str, *, accept: bool) -> None:
    if lacking:
        named = ", ".join(REQUIRED.get(module, f"stsq ({module})") for module in lacking)
        raise UserError(f"{node} lacks {named}: install the same environment on every node")
    here = own_versions()["torch"]
    if release(torch) != release(here) and not accept:
        raise VersionsDifferError(
            f"{node} has torch {torch} and the driver on {socket.gethostname()} has torch {here}: install torch=="
            f"{release(here)} on every node, {ACCEPT}"
        )


def _on(node: dict[str, Any]) -> dict[str, Any]:
    return {"scheduling_strategy": NodeAffinitySchedulingStrategy(str(node["NodeID"]), soft=False)}
