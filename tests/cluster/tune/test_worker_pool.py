"""Who trains what: packs cut to the room of the worker that asks, losses, false starts, slots that come, and metrics."""

import io
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from asked_once import Once
from rich.console import Console

from cluster.run.budgets import Budgets
from cluster.run.options import RunOptions
from cluster.run.progress_line import ProgressLine
from cluster.run.runner import Work
from cluster.run.stop import StopSignals
from cluster.run.worker import Order
from cluster.tune.metrics import METRICS, PACKS, RETRIES, TRIALS, numbers_of
from cluster.tune.node_losses import LEFT_OUT_S, MAX_IN_A_ROW, Node
from cluster.tune.placement import WorkerSlot
from cluster.tune.worker_pool import MAX_FALSE_STARTS, OUT_OF_MEMORY, PREEMPTED, WorkerPool
from stsq_core import UserError
from stsq_core.configs.trial import NUMERICS
from sweeps.cells.packs import Room
from sweeps.schedule.queue import PackQueue
from sweeps.schema.spec import Budget
from sweeps.store.ledger import Ledger
from sweeps.store.run_directory import RunDirectory

CORE, GPU = WorkerSlot("core"), WorkerSlot("gpu", gpu_share=1.0)
SPARE = WorkerSlot("core", device="cpu", spare=True)
LARGE = {"room": vars(Room(most=8))}
SMALL = {"room": vars(Room(most=2))}


MakePool = Callable[..., WorkerPool]


@pytest.fixture
def make_pool(tmp_path: Path, fcn: Any) -> MakePool:
    """Makes a pool for some trials that train as one stack."""

    def make(
        num_trials: int,
        slots: Mapping[WorkerSlot, int],
        *,
        packs_of: int = 8,
        device: Literal["cpu", "cuda"] = "cpu",
        num_long: int = 0,
        budget: Budget | None = None,
        nodes: str = "",
        awaited: int = 0,
        num_single: int = 0,
        max_workers: int | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> WorkerPool:
        budget, run = budget or Budget(), RunDirectory(tmp_path)
        run.spec.write_text("name: pool\n")
        configs = tuple(fcn(seed=seed) for seed in range(num_trials))
        configs += tuple(fcn(seed=seed, training__steps=10**7) for seed in range(num_long))
        queue = PackQueue(Once(configs), Ledger(run.ledger), room=Room(device, most=packs_of))
        progress = ProgressLine(queue, run.curves, Console(file=io.StringIO()))
        budgets = Budgets(budget, queue, spent_minutes=0.0)
        options = RunOptions(max_workers=max_workers)
        work = Work(queue, run, options, progress, StopSignals(), budget.retries, budgets)
        offered = lambda avoided: {} if nodes and set(nodes) <= set(avoided) else slots  # noqa: E731
        return WorkerPool(work, offered, awaited=awaited, num_single=num_single, now=now)

    return make


def outcome(order: Order, *, failure: dict[str, Any] | None = None) -> dict[str, Any]:
    """A worker's report of a pack that it has trained, or failed to."""
    result = {"status": "finished", "relative_loss": 0.5, "relative_loss_stderr": 0.01, "steps": 20, "seconds": 1.0}
    configs = [config.model_dump(mode="json") for config in order.pack.configs]
    results = [] if failure else [result | {"metrics": {}} for _ in configs]
    report = {"configs": configs, "numerics": NUMERICS, "device": "cpu", "results": results, "failure": failure}
    return {"outcome": json.dumps(report)}


def ended(pool: WorkerPool) -> int:
    """How many trials stand in the ledger, each of them once."""
    path = pool.work.run.ledger
    ids = [json.loads(line)["trial_id"] for line in path.read_text().splitlines()] if path.exists() else []
    assert len(ids) == len(set(ids))
    return len(ids)


def given(order: Order | None) -> Order:
    assert order is not None
    return order


def test_a_pack_is_cut_to_the_room_of_the_worker_that_asks(make_pool: MakePool) -> None:
    pool = make_pool(16, {CORE: 2}, packs_of=16)
    assert pool.add_worker("large") == CORE
    large = given(pool.handle_report("large", LARGE))
    assert pool.add_worker("small") == CORE
    small = given(pool.handle_report("small", SMALL))
    assert (len(large.pack.trials), len(small.pack.trials)) == (8, 2)
    assert pool.running == {large.pack.pack_id: "large", small.pack.pack_id: "small"}


def test_a_slow_pack_keeps_nobody_waiting(make_pool: MakePool) -> None:
    pool = make_pool(20, {CORE: 2}, packs_of=2)
    pool.add_worker("slow"), pool.add_worker("fast")
    slow = given(pool.handle_report("slow", SMALL))
    order = given(pool.handle_report("fast", SMALL))
    while (following := pool.handle_report("fast", outcome(order))) is not None:
        order = following
    assert ended(pool) == 18
    assert not pool.over
    assert pool.handle_report("slow", outcome(slow)) is None
    assert pool.over
    assert ended(pool) == 20


def test_nobody_is_hired_beyond_the_seats_or_the_packs(make_pool: MakePool) -> None:
    pool = make_pool(6, {CORE: 5}, packs_of=2)
    assert [pool.add_worker(str(place)) for place in range(5)] == [CORE] * 5  # the one pack of all is spread over five slots
    assert pool.add_worker("one too many") is None
    few = make_pool(2, {CORE: 9}, packs_of=1)
    assert [few.add_worker(str(place)) is not None for place in range(3)] == [True, True, False]


def test_workers_wait_for_nodes_to_come_as_long_as_packs_wait_and_within_their_bound(make_pool: MakePool) -> None:
    free = make_pool(12, {CORE: 1}, packs_of=1, awaited=4)
    assert [free.add_worker(str(place)) is not None for place in range(6)] == [True] * 5 + [False]
    assert free.work.progress.num_workers == 1, "those that wait are no workers yet"
    offered = {CORE: 1}
    coming = make_pool(4, offered, packs_of=1, awaited=4)
    assert [coming.add_worker(str(place)) is not None for place in range(4)] == [True] * 4
    offered[CORE] = 3
    assert coming.add_worker("one too many") is None
    assert coming.work.progress.num_workers == 3, "they have found their nodes"
    bounded = make_pool(12, {CORE: 1}, packs_of=12, awaited=3, max_workers=3)
    assert [bounded.add_worker(str(place)) is not None for place in range(4)] == [True] * 3 + [False]
    orders = [given(bounded.handle_report(str(place), LARGE)) for place in range(2)]
    assert sorted(len(order.pack.trials) for order in orders) == [3, 6], "the pack of all is divided for those that may come"
    assert bounded.num_superfluous == 0
    orders.append(given(bounded.handle_report("0", outcome(orders[0]))))
    assert (bounded.work.queue.num_waiting, bounded.num_idle, bounded.num_superfluous) == (0, 1, 1)
    bounded.remove_worker("2")
    assert bounded.num_superfluous == 0


def test_the_first_workers_train_one_pack_each_and_those_that_come_later_pull(make_pool: MakePool) -> None:
    pool = make_pool(6, {CORE: 1}, packs_of=1, num_single=2)
    for name in ("first", "second"):
        assert pool.add_worker(name) == CORE
        assert pool.handle_report(name, outcome(given(pool.handle_report(name, LARGE)))) is None
        pool.remove_worker(name)
    assert pool.add_worker("third") == CORE
    order = given(pool.handle_report("third", LARGE))
    while (following := pool.handle_report("third", outcome(order))) is not None:
        order = following
    assert (ended(pool), pool.over) == (6, True)


def test_slots_that_come_are_filled_and_packs_divided_for_them(make_pool: MakePool) -> None:
    slots = {CORE: 1}
    pool = make_pool(16, slots, packs_of=8)
    pool.add_worker("first")
    given(pool.handle_report("first", LARGE))
    assert (pool.add_worker("second"), pool.work.queue.num_waiting) == (None, 1)
    slots[CORE] = 4
    assert pool.add_worker("second") == CORE
    assert pool.work.queue.num_waiting == 3
    assert pool.work.progress.num_workers == 4


def test_a_lost_pack_goes_to_the_next_worker_whole_and_fails_after_its_retries(make_pool: MakePool) -> None:
    pool = make_pool(8, {CORE: 1}, packs_of=8, budget=Budget(retries=1))
    names = iter("abc")
    packs = []
    while not pool.over:
        name = next(names)
        assert pool.add_worker(name) == CORE
        packs.append(given(pool.handle_report(name, LARGE)).pack)
        pool.handle_loss(name, "ActorDiedError", "the actor died")
    assert packs[0] == packs[1]
    assert len(packs) == 2
    assert pool.num_retries == 1
    assert ended(pool) == pool.work.queue.failed == 8
    assert {record.reason for record in Ledger(pool.work.run.ledger).read()} == {
        "lost worker, 2 times: ActorDiedError: the actor died"
    }


def test_packs_whose_time_is_up_wait_for_a_larger_budget_and_leave_no_record(
    make_pool: MakePool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = make_pool(4, {CORE: 2}, packs_of=2, budget=Budget(minutes=90))
    pool.add_worker("a"), pool.add_worker("b")
    orders = [given(pool.handle_report(name, SMALL)) for name in "ab"]
    assert all(order.seconds_left == pytest.approx(90 * 60, abs=60) for order in orders)
    monkeypatch.setattr(Budgets, "minutes", 90.0)
    for name, order in zip("ab", orders, strict=True):
        assert not pool.over
        assert pool.handle_report(name, outcome(order, failure={"kind": "budget", "reason": "the time"})) is None
    assert pool.over
    assert ended(pool) == pool.num_retries == 0
    assert {pack.pack_id for pack in pool.work.queue.waiting} == {order.pack.pack_id for order in orders}


def test_a_lost_pack_stays_whole_for_a_smaller_worker_that_can_hold_it(make_pool: MakePool) -> None:
    pool = make_pool(8, {CORE: 2}, packs_of=8)
    pool.add_worker("large")
    pack = given(pool.handle_report("large", LARGE)).pack
    pool.handle_loss("large", "ActorDiedError", "the actor died")
    pool.add_worker("small")
    assert given(pool.handle_report("small", SMALL)).pack == pack


def test_a_worker_killed_for_its_memory_halves_its_pack(make_pool: MakePool) -> None:
    pool = make_pool(8, {CORE: 1}, packs_of=8)
    pool.add_worker("a")
    given(pool.handle_report("a", LARGE))
    pool.handle_loss("a", OUT_OF_MEMORY, "the monitor ended it")
    assert [len(pack.trials) for pack in pool.work.queue.waiting] == [4, 4]


def test_a_trial_alone_is_tried_again_before_its_memory_is_blamed(make_pool: MakePool) -> None:
    """Another program may have filled the memory."""
    pool = make_pool(1, {CORE: 1}, budget=Budget(retries=1))
    for name in "ab":
        assert ended(pool) == 0
        pool.add_worker(name)
        given(pool.handle_report(name, LARGE))
        pool.handle_loss(name, OUT_OF_MEMORY, "the monitor ended it")
    assert pool.over
    assert [record.reason for record in Ledger(pool.work.run.ledger).read()] == ["out of memory: the monitor ended it"]


def test_a_node_that_is_taken_away_costs_its_packs_no_retry(make_pool: MakePool) -> None:
    pool = make_pool(8, {CORE: 1}, packs_of=8, budget=Budget(retries=0))
    packs = []
    for name in "abc":
        pool.add_worker(name)
        packs.append(given(pool.handle_report(name, LARGE)).pack)
        pool.handle_loss(name, PREEMPTED, "the node was taken away")
    assert packs == [packs[0]] * 3
    assert pool.num_retries == ended(pool) == 0
    for place in range(2 * MAX_FALSE_STARTS):  # nor is a worker that had nothing to train a false start
        pool.add_worker(str(place))
        pool.handle_loss(str(place), PREEMPTED, "the node was taken away")
    pool.add_worker("last")
    assert given(pool.handle_report("last", LARGE)).pack == packs[0]


def test_a_worker_that_was_ended_because_it_hung_is_reported_as_such(make_pool: MakePool) -> None:
    pool = make_pool(8, {CORE: 1}, packs_of=8, budget=Budget(retries=1))
    for name in "ab":
        pool.add_worker(name)
        given(pool.handle_report(name, LARGE))
        pool.mark_hung(name, "no step for 312 s")
        pool.handle_loss(name, "ActorDiedError", "killed by `ray.kill`")
    reasons = {record.reason for record in Ledger(pool.work.run.ledger).read()}
    assert reasons == {"lost worker, 2 times: hung worker: no step for 312 s"}


def test_workers_that_never_ask_end_the_run_with_their_cause(make_pool: MakePool) -> None:
    pool = make_pool(8, {CORE: 1})
    for place in range(MAX_FALSE_STARTS - 1):
        pool.add_worker(str(place))
        pool.handle_loss(str(place), "RuntimeError", "no module named torch")
    pool.add_worker("last")
    with pytest.raises(UserError, match=f"{MAX_FALSE_STARTS} workers in a row .* RuntimeError: no module named torch"):
        pool.handle_loss("last", "RuntimeError", "no module named torch")
    assert ended(pool) == 0


def test_a_worker_that_cannot_use_its_gpu_ends_the_run(make_pool: MakePool) -> None:
    pool = make_pool(8, {GPU: 1})
    pool.add_worker("a")
    with pytest.raises(UserError, match="no CUDA"):
        pool.handle_report("a", {"refused": "no CUDA here"})


def test_the_failure_budget_stops_the_sweep_and_gives_running_packs_back(make_pool: MakePool) -> None:
    pool = make_pool(20, {CORE: 2}, packs_of=1, budget=Budget(failures=3))
    pool.add_worker("good"), pool.add_worker("bad")
    good, order = given(pool.handle_report("good", SMALL)), given(pool.handle_report("bad", SMALL))
    broken = {"kind": "error", "reason": "ValueError: boom", "seconds": 1.0}
    for _ in range(2):
        assert not pool.over
        order = given(pool.handle_report("bad", outcome(order, failure=broken)))
    assert pool.handle_report("bad", outcome(order, failure=broken)) is None
    assert pool.over
    pool.requeue_running()
    assert pool.work.queue.waiting[0] == good.pack
    assert not pool.running
    assert pool.add_worker("another") is None
    assert "3 trials have failed, and its failure budget is 3 (17 trials are untrained)" in pool.work.budgets.words()


def test_a_core_beside_gpus_takes_short_packs_from_the_end_only(make_pool: MakePool) -> None:
    gpu, core = {"room": vars(Room("cuda"))}, {"room": vars(Room("cpu"))}
    pool = make_pool(300, {GPU: 1, SPARE: 1}, packs_of=150, device="cuda")
    assert pool.add_worker("gpu") == GPU
    given(pool.handle_report("gpu", gpu))
    assert pool.add_worker("core") is None  # the GPU would long be done with the rest
    long = make_pool(100, {GPU: 1, SPARE: 1}, packs_of=100, device="cuda", num_long=3)
    assert [long.add_worker("gpu"), long.add_worker("core")] == [GPU, SPARE]
    short = long.work.queue.waiting[-1]
    order = given(long.handle_report("core", core))
    assert order.device == "cpu"
    assert order.pack.trial_ids == short.trial_ids[:50]
    assert {config.training.steps for config in given(long.handle_report("gpu", gpu)).pack.configs} == {10**7}


def test_the_metrics_count_every_trial_once(make_pool: MakePool) -> None:
    pool = make_pool(10, {CORE: 2}, packs_of=2)
    pool.add_worker("a"), pool.add_worker("b")
    order = given(pool.handle_report("a", SMALL))
    given(pool.handle_report("b", SMALL))
    pool.handle_report("a", outcome(order))
    pool.handle_loss("b", "ActorDiedError", "the actor died")
    report = numbers_of(pool)
    assert {metric for metric, _ in report} == set(METRICS)
    trials = {status: report[TRIALS, (status,)] for status in ("finished", "diverged", "failed", "training", "waiting")}
    assert trials == {"finished": 2, "diverged": 0, "failed": 0, "training": 2, "waiting": 6}
    assert (report[PACKS, ("in_flight",)], report[PACKS, ("waiting",)], report[RETRIES, ()]) == (1, 3, 1)


def start(pool: WorkerPool, name: str, node: str) -> Order | None:
    """Add a worker, which reports its room from a node."""
    assert pool.add_worker(name) == CORE
    return pool.handle_report(name, SMALL | {"node": {"node_id": node, "address": f"host {node}"}})


def lose(pool: WorkerPool, name: str, node: str) -> None:
    pool.handle_loss(name, "ActorDiedError", "the actor died", Node(node, f"host {node}"))


def notes(pool: WorkerPool) -> str:
    return " ".join(pool.work.progress._console.file.getvalue().split())


def test_a_node_that_loses_its_workers_is_left_out_and_costs_no_trial(make_pool: MakePool) -> None:
    pool = make_pool(20, {CORE: 2}, packs_of=2, budget=Budget(retries=1), nodes="ab")
    order = given(start(pool, "well", "b"))
    lost = set()
    for place in range(MAX_IN_A_ROW):
        lost.add(given(start(pool, f"ill {place}", "a")).pack.pack_id)
        lose(pool, f"ill {place}", "a")
    assert len(lost) == MAX_IN_A_ROW, "a pack that was lost on a node is tried elsewhere first"
    slot = pool.add_worker("next")
    assert slot is not None
    assert slot.where == {"bundle_label_selector": [{"ray.io/node-id": "!in(a)"}]}
    report = SMALL | {"node": {"node_id": "a", "address": "host a"}}
    assert pool.handle_report("next", report) is None, "it was asked for before the node was left out"
    pool.remove_worker("next")
    while (following := pool.handle_report("well", outcome(order))) is not None:
        order = following
    assert (pool.over, ended(pool), pool.work.queue.failed) == (True, 20, 0)
    assert notes(pool).count("node host a (a) is left out for 10 minutes: it lost 3 workers in a row") == 1


def test_a_node_that_was_left_out_is_taken_in_again_after_a_while(make_pool: MakePool) -> None:
    clock = [0.0]
    pool = make_pool(40, {CORE: 3}, packs_of=2, nodes="ab", now=lambda: clock[0])
    given(start(pool, "well", "b"))
    for place in range(MAX_IN_A_ROW):
        given(start(pool, f"ill {place}", "a"))
        lose(pool, f"ill {place}", "a")
    assert start(pool, "early", "a") is None
    pool.remove_worker("early")
    clock[0] = LEFT_OUT_S + 1
    given(start(pool, "again", "a"))
    lose(pool, "again", "a")
    assert notes(pool).count("is left out") == 2, "one more loss is enough"
    clock[0] *= 2
    order = given(start(pool, "mended", "a"))
    assert pool.handle_report("mended", outcome(order)) is not None
    lose(pool, "mended", "a")
    assert notes(pool).count("is left out") == 2, "a pack that ended there clears it"


@pytest.mark.parametrize("healthy_first", [True, False])
def test_false_starts_on_one_node_do_not_end_the_run(make_pool: MakePool, healthy_first: bool) -> None:
    pool = make_pool(40, {CORE: 40}, packs_of=1, nodes="ab")
    if healthy_first:
        given(start(pool, "well", "b"))
    for place in range(2 * MAX_FALSE_STARTS):  # all are there at once
        assert pool.add_worker(f"ill {place}") == CORE
    for place in range(2 * MAX_FALSE_STARTS):
        lose(pool, f"ill {place}", "a")
    assert notes(pool).count("node host a (a) is left out") == 1
    given(start(pool, "later", "b"))


@pytest.mark.parametrize("trains", [True, False])
def test_a_run_without_a_node_that_keeps_its_workers_ends_with_the_causes(make_pool: MakePool, trains: bool) -> None:
    pool = make_pool(40, {CORE: 20}, packs_of=1, nodes="ab")
    given(start(pool, "well", "b"))

    def lose_three(node: str) -> None:
        for place in range(MAX_IN_A_ROW):
            name = f"{node} {place}"
            _ = start(pool, name, node) if trains else pool.add_worker(name)
            lose(pool, name, node)

    lose_three("a")
    with pytest.raises(UserError, match=r"no node is left that keeps its workers \(host a .*: ActorDied.*; host b .*\)"):
        lose_three("b")
    assert ended(pool) == 0


def test_a_pack_that_ends_its_workers_wherever_it_comes_fails_and_no_node_is_left_out(make_pool: MakePool) -> None:
    pool = make_pool(1, {CORE: 3}, budget=Budget(retries=5), nodes="abc")
    for place in range(6):
        node = "abc"[place % 3]
        given(start(pool, str(place), node))
        lose(pool, str(place), node)
    assert (pool.over, pool.work.queue.failed) == (True, 1)
    assert "left out" not in notes(pool)
