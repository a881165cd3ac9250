"""Worker slots: how many workers the nodes of a cluster can hold, and the room that a worker has for a pack.

A worker takes a share of a GPU where there are GPUs, else a core. Nobody decides beforehand how large its packs are: it reports
its room when it starts (its device, and the memory on it), and packs are cut to that. So GPUs of several types train side by
side, each with packs of the size that suits it.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cluster.run import RunOptions
from stsq_core.configs import UserError
from stsq_core.numerics import Device, free_memory, resolve_device
from stsq_core.training import ASSUMED_RATE, GPU_RATE
from sweeps.cells import Room

NODE_ID = "ray.io/node-id"
"""The label that Ray gives every node."""


@dataclass(frozen=True)
class WorkerSlot:
    """A kind of place for one worker: the resources that Ray reserves, and the device it trains on.

    `core_bytes` is the memory beside a core. A `spare` slot is a core beside GPUs, for short packs. `avoided` are ids of nodes
    where it must not be.
    """

    kind: str
    gpu_share: float = field(default=0.0, compare=False)
    device: Device = field(default="auto", compare=False)
    core_bytes: float = field(default=math.inf, compare=False)
    spare: bool = field(default=False, compare=False)
    avoided: tuple[str, ...] = field(default=(), compare=False)

    @property
    def resources(self) -> dict[str, float]:
        """The resources that Ray reserves."""
        return {"CPU": 1.0, "GPU": self.gpu_share} if self.gpu_share else {"CPU": 1.0}

    @property
    def where(self) -> dict[str, Any]:
        """The labels of nodes that it may be on, as Ray's placement groups take them."""
        return {"bundle_label_selector": [{NODE_ID: f"!in({','.join(self.avoided)})"}]} if self.avoided else {}

    def as_config(self) -> dict[str, Any]:
        """As plain data, for a worker to be made from."""
        return vars(self)


def slots_of(nodes: Iterable[Mapping[str, Any]], options: RunOptions, avoided: Collection[str] = ()) -> dict[WorkerSlot, int]:
    """The number of worker slots of each kind on the living nodes of a cluster, those with a GPU first.

    Args:
        nodes: as `ray.nodes()` lists them.
        options: a given number of `workers` counts as it is, also where the nodes for it are still to come.
        avoided: ids of nodes that do not count; the slots are none where they are all that have a core, or a GPU if any has.

    Raises:
        UserError: a GPU is required and no node has one.
    """
    living = [node for node in nodes if node["Alive"]]
    kind = "GPU" if options.device != "cpu" and any(node["Resources"].get("GPU") for node in living) else "CPU"
    if avoided and all(node["NodeID"] in avoided for node in living if node["Resources"].get(kind)):
        return {}
    offered = [node["Resources"] for node in living if not avoided or node["NodeID"] not in avoided]
    cpus = [int(node.get("CPU", 0)) for node in offered]
    per_gpu = int(1 / options.gpus_per_worker + 1e-9)  # 1 / (1 / 49) is a little less than 49
    on_gpus = [min(int(node.get("GPU", 0)) * per_gpu, cores) for node, cores in zip(offered, cpus, strict=True)]
    has_gpu = any(node.get("GPU") for node in offered)
    if options.device == "cuda" and not has_gpu:
        raise UserError(
            "--device cuda, but the Ray cluster has no GPU: use --device cpu, a cluster with GPUs, or --wait-for-gpus MINUTES"
        )
    memories = [node["memory"] / node["CPU"] for node in offered if node.get("memory") and node.get("CPU")]
    core_bytes = min(memories, default=math.inf)
    limit = options.max_workers or math.inf
    if options.device == "cpu" or not has_gpu:
        core = WorkerSlot(
            "core", device="cpu", core_bytes=core_bytes
        )  # a GPU that torch sees without a share of one is another's
        return {core: int(min(options.workers or max(1, sum(cpus)), limit))}
    gpu = WorkerSlot("gpu", gpu_share=options.gpus_per_worker, device=options.device, core_bytes=core_bytes)
    slots = {gpu: int(min(options.workers or max(1, sum(on_gpus)), limit))}
    if num_spare := int(min(options.cpu_workers, max(0, sum(cpus) - sum(on_gpus)), limit - slots[gpu])):
        slots[WorkerSlot("core", device="cpu", core_bytes=core_bytes, spare=True)] = num_spare
    return slots


def widest_room(slots: Iterable[WorkerSlot]) -> Room:
    """The largest room that a worker on these slots may have: packs are made for it, and cut for workers that have less."""
    first = next(iter(slots))
    return Room("cuda") if first.gpu_share else Room("cpu", first.core_bytes)


def own_room(config: Mapping[str, Any]) -> Room:
    """The room of the worker that runs here, on the slot of `WorkerSlot.as_config`.

    Raises:
        UserError: a GPU is required and torch sees none here.
    """
    device = resolve_device(config["device"])
    if device == "cpu":
        return Room("cpu", config["core_bytes"])
    try:
        return Room("cuda", free_memory("cuda", share=config["gpu_share"] or 1.0))
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"a worker could not read how much memory its GPU has: {error}; try --device cpu") from error


def worth_a_core(operations: float, *, left: float, num_gpus: float) -> bool:
    """Whether a core beside GPUs ends a pack before the GPUs end what is left; both in operations."""
    return operations / ASSUMED_RATE <= left / (GPU_RATE * max(num_gpus, 1.0))
