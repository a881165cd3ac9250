"""Whether every node of a cluster can run packs as the driver would: our packages there, and the driver's torch."""

import socket

import ray

from cluster.environment import REQUIRED
from cluster.run import ACCEPT, VersionsDifferError, own_versions, release
from cluster.tune.ray_cluster import answers, num_nodes
from stsq_core.configs import UserError

ROOMS = ("stsq_core", "sweeps", "dashboards", "cluster")


def check_alike(*, accept: bool) -> None:
    """Ask every node, where there are several, for what packs need.

    Args:
        accept: let nodes train with another torch than the driver's.

    Raises:
        UserError: a node that lacks a package or could not answer; another torch.
    """
    if num_nodes() < 2:
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

    for address, (interpreter, lacking, torch) in answers(look, what="what it has installed"):
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
