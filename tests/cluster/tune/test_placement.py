"""Worker slots on the nodes of a cluster, and the room of a worker: no Ray here, nodes are as `ray.nodes()` lists them."""

import math
from typing import Any

import pytest

from cluster.run.options import RunOptions
from cluster.tune.placement import WorkerSlot, own_room, slots_of, widest_room, worth_a_core
from stsq_core import UserError
from sweeps.cells.packs import Room

GPU, CORE = WorkerSlot("gpu"), WorkerSlot("core")


def node(cpus: float, gpus: float = 0, *, memory: float = 0, alive: bool = True) -> dict[str, Any]:
    offered = {"CPU": cpus, "GPU": gpus, "memory": memory}
    return {"Alive": alive, "Resources": {name: amount for name, amount in offered.items() if amount}}


@pytest.mark.parametrize(
    ("nodes", "options", "slots"),
    [
        ([node(4), node(2)], RunOptions(), {CORE: 6}),
        ([node(4), node(2, alive=False)], RunOptions(), {CORE: 4}),
        ([node(8, 2), node(4, 4)], RunOptions(), {GPU: 6}),
        ([node(2, 4)], RunOptions(), {GPU: 2}),
        ([node(8, 2)], RunOptions(gpus_per_worker=0.25), {GPU: 8}),
        ([node(8, 2)], RunOptions(gpus_per_worker=0.4), {GPU: 4}),
        ([node(8, 2)], RunOptions(device="cpu"), {CORE: 8}),
        ([node(8, 2), node(16)], RunOptions(cpu_workers=99), {GPU: 2, CORE: 22}),
        ([node(8, 2), node(16)], RunOptions(cpu_workers=5), {GPU: 2, CORE: 5}),
        ([node(8, 2), node(16)], RunOptions(cpu_workers=5, max_workers=4), {GPU: 2, CORE: 2}),
        ([node(8, 2)], RunOptions(max_workers=1), {GPU: 1}),
        ([node(4)], RunOptions(workers=9), {CORE: 9}),
        ([node(4)], RunOptions(workers=9, max_workers=3), {CORE: 3}),
        ([node(0)], RunOptions(), {CORE: 1}),
    ],
)
def test_slots_are_counted_on_living_nodes(nodes: list[Any], options: RunOptions, slots: dict[WorkerSlot, int]) -> None:
    assert slots_of(nodes, options) == slots


@pytest.mark.parametrize(
    ("avoided", "options", "slots"),
    [
        ("c", RunOptions(), {GPU: 4}),
        ("a", RunOptions(), {GPU: 3}),
        ("ab", RunOptions(), {}),
        ("ab", RunOptions(workers=9), {}),
        ("ab", RunOptions(device="cpu"), {CORE: 8}),
        ("abc", RunOptions(device="cpu"), {}),
    ],
)
def test_nodes_that_are_avoided_have_no_slots(avoided: str, options: RunOptions, slots: dict[WorkerSlot, int]) -> None:
    nodes = [node(0), node(4, 1), node(4, 3), node(8)]
    for one, name in zip(nodes, "habc", strict=True):
        one["NodeID"] = name
    assert slots_of(nodes, options, tuple(avoided)) == slots


def test_a_slot_names_its_resources_and_its_device() -> None:
    slots = list(slots_of([node(8, 2), node(4, memory=2**32)], RunOptions(gpus_per_worker=0.5, cpu_workers=1)))
    assert [slot.resources for slot in slots] == [{"CPU": 1.0, "GPU": 0.5}, {"CPU": 1.0}]
    assert [(slot.device, slot.spare) for slot in slots] == [("auto", False), ("cpu", True)]
    assert slots[1].core_bytes == 2**30
    assert [slot.device for slot in slots_of([node(8)], RunOptions())] == ["cpu"], "torch may see a GPU that Ray has not given"
    assert WorkerSlot(**slots[0].as_config()) == slots[0]
    assert widest_room(slots) == Room("cuda")
    assert widest_room(slots[1:]) == Room("cpu", 2**30)


def test_cuda_without_a_gpu_is_refused() -> None:
    with pytest.raises(UserError, match="has no GPU: use --device cpu, a cluster with GPUs, or --wait-for-gpus"):
        slots_of([node(4)], RunOptions(device="cuda"))


def test_a_worker_reports_the_room_of_the_device_that_torch_sees() -> None:
    slot = WorkerSlot("gpu", gpu_share=1.0, device="cpu", core_bytes=2**31)
    assert own_room(slot.as_config()) == Room("cpu", 2**31)


@pytest.mark.parametrize(
    ("unused", "share", "room"),
    [(90.0, 1.0, 90.0), (90.0, 0.25, 25.0), (10.0, 0.25, 10.0)],
    ids=["whole", "its share", "no more than is free"],
)
def test_a_worker_that_shares_a_gpu_reports_its_part_of_the_memory(
    monkeypatch: pytest.MonkeyPatch, unused: float, share: float, room: float
) -> None:
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda: (unused, 100.0))
    slot = WorkerSlot("gpu", gpu_share=share, device="cuda")
    assert own_room(slot.as_config()) == Room("cuda", room)


def test_a_gpu_that_torch_does_not_see_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def blind() -> None:
        raise RuntimeError("no NVIDIA driver")

    monkeypatch.setattr("torch.cuda.mem_get_info", blind)
    with pytest.raises(UserError, match=r"could not read how much memory its GPU has: .*; try --device cpu"):
        own_room(WorkerSlot("gpu", gpu_share=1.0, device="cuda").as_config())


def test_a_core_takes_what_it_ends_before_the_gpus_are_done() -> None:
    left = 3e16
    assert worth_a_core(1e13, left=left, num_gpus=1)
    assert not worth_a_core(1e14, left=left, num_gpus=1)
    assert not worth_a_core(1e13, left=left, num_gpus=4)


@pytest.mark.parametrize(("own", "sweeps", "most"), [(None, None, None), (3, None, 3), (None, 2, 2), (3, 2, 2), (2, 3, 2)])
def test_the_lower_bound_on_workers_counts(own: int | None, sweeps: int | None, most: int | None) -> None:
    assert RunOptions(max_workers=own).bounded(sweeps).max_workers == most
    assert math.isinf(RunOptions().max_workers or math.inf)
