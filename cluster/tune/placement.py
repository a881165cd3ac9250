"""Who may work where: the seats that a cluster's nodes offer to workers, and the room that a worker has for a pack.

A worker takes a share of a GPU where there are GPUs, else a core. What fits there nobody decides beforehand: a worker tells its
room when it starts (its device, and the memory on it), and packs are cut to the room of the worker that asks. So GPUs of
several types train side by side, each with packs of its own size.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cluster.run import RunOptions
from stsq_core.configs import UserError
from stsq_core.numerics import Device, free_memory, resolve_device
from stsq_core.training import ASSUMED_RATE, GPU_RATE
from sweeps.cells import Room


@dataclass(frozen=True)
class Seat:
    """A kind of place for one worker: what Ray reserves for it, and where it trains.

    `core_bytes` is the memory beside a core. A `spare` seat is a core beside GPUs, which may train short packs.
    """

    kind: str
    gpu_share: float = field(default=0.0, compare=False)
    device: Device = field(default="auto", compare=False)
    core_bytes: float = field(default=math.inf, compare=False)
    spare: bool = field(default=False, compare=False)

    @property
    def resources(self) -> dict[str, float]:
        """What Ray reserves."""
        return {"CPU": 1.0, "GPU": self.gpu_share} if self.gpu_share else {"CPU": 1.0}

    def as_config(self) -> dict[str, Any]:
        """As plain data, for a worker to be made from."""
        return vars(self)


def seats_of(nodes: Iterable[Mapping[str, Any]], options: RunOptions) -> dict[Seat, int]:
    """How many workers of each kind the living nodes of a cluster have place for, those with a GPU first.

    Args:
        nodes: as `ray.nodes()` tells them.
        options: a number of `workers` is taken at its word, also where the nodes for it are still to come.

    Raises:
        UserError: a GPU is asked for and no node has one.
    """
    held = [node["Resources"] for node in nodes if node["Alive"]]
    cpus = [int(node.get("CPU", 0)) for node in held]
    per_gpu = int(1 / options.gpus_per_worker + 1e-9)
    on_gpus = [min(int(node.get("GPU", 0)) * per_gpu, cores) for node, cores in zip(held, cpus, strict=True)]
    has_gpu = any(node.get("GPU") for node in held)
    if options.device == "cuda" and not has_gpu:
        raise UserError(
            "--device cuda, but the Ray cluster has no GPU: use --device cpu, a cluster with GPUs, or --wait-for-gpus MINUTES"
        )
    core_bytes = min(
        (node["memory"] / node["CPU"] for node in held if node.get("memory") and node.get("CPU")), default=math.inf
    )
    if options.device == "cpu" or not has_gpu:
        core = Seat("core", device=options.device, core_bytes=core_bytes)
        return {core: _bounded(options.workers or max(1, sum(cpus)), options)}
    gpu = Seat("gpu", gpu_share=options.gpus_per_worker, device=options.device, core_bytes=core_bytes)
    seats = {gpu: _bounded(options.workers or max(1, sum(on_gpus)), options)}
    left = (options.max_workers or math.inf) - seats[gpu]
    if num_spare := int(min(options.cpu_workers, max(0, sum(cpus) - sum(on_gpus)), left)):
        seats[Seat("core", device="cpu", core_bytes=core_bytes, spare=True)] = num_spare
    return seats


def widest_room(seats: Iterable[Seat]) -> Room:
    """What the best of these seats may turn out to have: packs are made for it, and cut for workers that have less."""
    first = next(iter(seats))
    return Room("cuda") if first.gpu_share else Room("cpu", first.core_bytes)


def own_room(config: Mapping[str, Any]) -> Room:
    """The room of the worker that runs here, on a seat told by `Seat.as_config`.

    Raises:
        UserError: a GPU is asked for and torch sees none here.
    """
    device = resolve_device(config["device"])
    if device == "cpu":
        return Room("cpu", config["core_bytes"])
    try:
        return Room("cuda", free_memory("cuda", share=config["gpu_share"] or 1.0))
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"a worker could not tell how much memory its GPU has: {error}; try --device cpu") from error


def worth_a_core(operations: float, *, left: float, num_gpus: float) -> bool:
    """Whether a core beside GPUs would have trained a pack before the GPUs are done with what is left; both in operations."""
    return operations / ASSUMED_RATE <= left / (GPU_RATE * max(num_gpus, 1.0))


def _bounded(count: int, options: RunOptions) -> int:
    return min(count, options.max_workers or count)
