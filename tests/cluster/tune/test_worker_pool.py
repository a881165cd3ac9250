"""Who trains what: packs cut to the room of the worker that asks, losses, false starts, seats that come, and metrics."""

import io
import json
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
from cluster.tune.placement import Seat
from cluster.tune.worker_pool import MOST_FALSE_STARTS, PREEMPTED, Crew
from stsq_core import UserError
from stsq_core.configs.trial import NUMERICS
from sweeps.cells.packs import Room
from sweeps.schedule.queue import PackQueue
from sweeps.schema.spec import Budget
from sweeps.store.ledger import Ledger
from sweeps.store.run_directory import RunDirectory

CORE, GPU = Seat("core"), Seat("gpu", gpu_share=1.0)
SPARE = Seat("core", device="cpu", spare=True)
LARGE = {"room": vars(Room(most=8))}
SMALL = {"room": vars(Room(most=2))}


Recruit = Callable[..., Crew]


@pytest.fixture
def recruit(tmp_path: Path, fcn: Any) -> Recruit:
    """Makes a crew for some trials that train as one stack."""

    def make(
        num_trials: int,
        seats: Mapping[Seat, int],
        *,
        packs_of: int = 8,
        device: Literal["cpu", "cuda"] = "cpu",
        num_long: int = 0,
        budget: Budget | None = None,
    ) -> Crew:
        budget, run = budget or Budget(), RunDirectory(tmp_path)
        run.spec.write_text("name: crew\n")
        configs = tuple(fcn(seed=seed) for seed in range(num_trials))
        configs += tuple(fcn(seed=seed, training__steps=10**7) for seed in range(num_long))
        queue = PackQueue(Once(configs), Ledger(run.ledger), room=Room(device, most=packs_of))
        progress = ProgressLine(queue, run.curves, Console(file=io.StringIO()))
        budgets = Budgets(budget, queue, spent_minutes=0.0)
        return Crew(Work(queue, run, RunOptions(), progress, StopSignals(), budget.retries, budgets), lambda: seats)

    return make


def outcome(order: Order, *, failure: dict[str, Any] | None = None) -> dict[str, Any]:
    """What a worker tells of a pack it has trained, or failed to."""
    result = {"status": "finished", "relative_loss": 0.5, "relative_loss_stderr": 0.01, "steps": 20, "seconds": 1.0}
    configs = [config.model_dump(mode="json") for config in order.pack.configs]
    results = [] if failure else [result | {"metrics": {}} for _ in configs]
    told = {"configs": configs, "numerics": NUMERICS, "device": "cpu", "results": results, "failure": failure}
    return {"outcome": json.dumps(told)}


def ended(crew: Crew) -> int:
    """How many trials stand in the ledger, each of them once."""
    path = crew.work.run.ledger
    ids = [json.loads(line)["trial_id"] for line in path.read_text().splitlines()] if path.exists() else []
    assert len(ids) == len(set(ids))
    return len(ids)


def given(order: Order | None) -> Order:
    assert order is not None
    return order


def test_a_pack_is_cut_to_the_room_of_the_worker_that_asks(recruit: Recruit) -> None:
    crew = recruit(16, {CORE: 2}, packs_of=16)
    assert crew.hire("large") == CORE
    large = given(crew.answered("large", LARGE))
    assert crew.hire("small") == CORE
    small = given(crew.answered("small", SMALL))
    assert (len(large.pack.trials), len(small.pack.trials)) == (8, 2)
    assert crew.running == {large.pack.pack_id: "large", small.pack.pack_id: "small"}


def test_a_slow_pack_keeps_nobody_waiting(recruit: Recruit) -> None:
    crew = recruit(20, {CORE: 2}, packs_of=2)
    crew.hire("slow"), crew.hire("fast")
    slow = given(crew.answered("slow", SMALL))
    order = given(crew.answered("fast", SMALL))
    while (following := crew.answered("fast", outcome(order))) is not None:
        order = following
    assert ended(crew) == 18
    assert not crew.over
    assert crew.answered("slow", outcome(slow)) is None
    assert crew.over
    assert ended(crew) == 20


def test_nobody_is_hired_beyond_the_seats_or_the_packs(recruit: Recruit) -> None:
    crew = recruit(6, {CORE: 5}, packs_of=2)
    assert [crew.hire(str(place)) for place in range(5)] == [CORE] * 5  # the one pack of all is spread over five seats
    assert crew.hire("one too many") is None
    few = recruit(2, {CORE: 9}, packs_of=1)
    assert [few.hire(str(place)) is not None for place in range(3)] == [True, True, False]


def test_seats_that_come_are_filled_and_packs_divided_for_them(recruit: Recruit) -> None:
    seats = {CORE: 1}
    crew = recruit(16, seats, packs_of=8)
    crew.hire("first")
    given(crew.answered("first", LARGE))
    assert (crew.hire("second"), crew.work.queue.num_waiting) == (None, 1)
    seats[CORE] = 4
    assert crew.hire("second") == CORE
    assert crew.work.queue.num_waiting == 3
    assert crew.work.progress.num_workers == 4


def test_a_lost_pack_goes_to_the_next_worker_whole_and_fails_after_its_retries(recruit: Recruit) -> None:
    crew = recruit(8, {CORE: 1}, packs_of=8, budget=Budget(retries=1))
    names = iter("abc")
    packs = []
    while not crew.over:
        name = next(names)
        assert crew.hire(name) == CORE
        packs.append(given(crew.answered(name, LARGE)).pack)
        crew.lost(name, "ActorDiedError", "the actor died")
    assert packs[0] == packs[1]
    assert len(packs) == 2
    assert crew.retries.total == 1
    assert ended(crew) == crew.work.queue.failed == 8
    assert {record.reason for record in Ledger(crew.work.run.ledger).read()} == {
        "lost worker, 2 times: ActorDiedError: the actor died"
    }


def test_a_lost_pack_stays_whole_for_a_smaller_worker_that_can_hold_it(recruit: Recruit) -> None:
    crew = recruit(8, {CORE: 2}, packs_of=8)
    crew.hire("large")
    pack = given(crew.answered("large", LARGE)).pack
    crew.lost("large", "ActorDiedError", "the actor died")
    crew.hire("small")
    assert given(crew.answered("small", SMALL)).pack == pack


def test_a_worker_killed_for_its_memory_halves_its_pack(recruit: Recruit) -> None:
    crew = recruit(8, {CORE: 1}, packs_of=8)
    crew.hire("a")
    given(crew.answered("a", LARGE))
    crew.lost("a", "OutOfMemoryError", "killed")
    assert [len(pack.trials) for pack in crew.work.queue.waiting] == [4, 4]


def test_a_node_that_is_taken_away_costs_its_packs_no_retry(recruit: Recruit) -> None:
    crew = recruit(8, {CORE: 1}, packs_of=8, budget=Budget(retries=0))
    packs = []
    for name in "abc":
        crew.hire(name)
        packs.append(given(crew.answered(name, LARGE)).pack)
        crew.lost(name, PREEMPTED, "the node was taken away")
    assert packs == [packs[0]] * 3
    assert crew.retries.total == ended(crew) == 0
    for place in range(2 * MOST_FALSE_STARTS):  # nor is a worker that had nothing to train a false start
        crew.hire(str(place))
        crew.lost(str(place), PREEMPTED, "the node was taken away")
    crew.hire("last")
    assert given(crew.answered("last", LARGE)).pack == packs[0]


def test_a_worker_that_was_ended_because_it_hung_is_told_as_such(recruit: Recruit) -> None:
    crew = recruit(8, {CORE: 1}, packs_of=8, budget=Budget(retries=1))
    for name in "ab":
        crew.hire(name)
        given(crew.answered(name, LARGE))
        crew.condemn(name, "no step for 312 s")
        crew.lost(name, "ActorDiedError", "killed by `ray.kill`")
    reasons = {record.reason for record in Ledger(crew.work.run.ledger).read()}
    assert reasons == {"lost worker, 2 times: hung worker: no step for 312 s"}


def test_workers_that_never_ask_end_the_run_with_their_cause(recruit: Recruit) -> None:
    crew = recruit(8, {CORE: 1})
    for place in range(MOST_FALSE_STARTS - 1):
        crew.hire(str(place))
        crew.lost(str(place), "RuntimeError", "no module named torch")
    crew.hire("last")
    with pytest.raises(UserError, match=f"{MOST_FALSE_STARTS} workers in a row .* RuntimeError: no module named torch"):
        crew.lost("last", "RuntimeError", "no module named torch")
    assert ended(crew) == 0


def test_a_worker_that_cannot_use_its_gpu_ends_the_run(recruit: Recruit) -> None:
    crew = recruit(8, {GPU: 1})
    crew.hire("a")
    with pytest.raises(UserError, match="no CUDA"):
        crew.answered("a", {"refused": "no CUDA here"})


def test_the_failure_budget_stops_the_sweep_and_gives_running_packs_back(recruit: Recruit) -> None:
    crew = recruit(20, {CORE: 2}, packs_of=1, budget=Budget(failures=3))
    crew.hire("good"), crew.hire("bad")
    good, order = given(crew.answered("good", SMALL)), given(crew.answered("bad", SMALL))
    broken = {"kind": "error", "reason": "ValueError: boom", "seconds": 1.0}
    for _ in range(2):
        assert not crew.over
        order = given(crew.answered("bad", outcome(order, failure=broken)))
    assert crew.answered("bad", outcome(order, failure=broken)) is None
    assert crew.over
    crew.give_up()
    assert crew.work.queue.waiting[0] == good.pack
    assert not crew.running
    assert crew.hire("another") is None
    assert "3 trials have failed, and its failure budget is 3 (17 trials are untrained)" in crew.work.budgets.words()


def test_a_core_beside_gpus_takes_short_packs_from_the_end_only(recruit: Recruit) -> None:
    gpu, core = {"room": vars(Room("cuda"))}, {"room": vars(Room("cpu"))}
    crew = recruit(300, {GPU: 1, SPARE: 1}, packs_of=150, device="cuda")
    assert crew.hire("gpu") == GPU
    given(crew.answered("gpu", gpu))
    assert crew.hire("core") is None  # the GPU would long be done with the rest
    long = recruit(100, {GPU: 1, SPARE: 1}, packs_of=100, device="cuda", num_long=3)
    assert [long.hire("gpu"), long.hire("core")] == [GPU, SPARE]
    short = long.work.queue.waiting[-1]
    order = given(long.answered("core", core))
    assert order.device == "cpu"
    assert order.pack.trial_ids == short.trial_ids[:50]
    assert {config.training.steps for config in given(long.answered("gpu", gpu)).pack.configs} == {10**7}


def test_the_metrics_count_every_trial_once(recruit: Recruit) -> None:
    crew = recruit(10, {CORE: 2}, packs_of=2)
    crew.hire("a"), crew.hire("b")
    order = given(crew.answered("a", SMALL))
    given(crew.answered("b", SMALL))
    crew.answered("a", outcome(order))
    crew.lost("b", "ActorDiedError", "the actor died")
    told = numbers_of(crew)
    assert {metric for metric, _ in told} == set(METRICS)
    trials = {status: told[TRIALS, (status,)] for status in ("finished", "diverged", "failed", "training", "waiting")}
    assert trials == {"finished": 2, "diverged": 0, "failed": 0, "training": 2, "waiting": 6}
    assert (told[PACKS, ("in_flight",)], told[PACKS, ("waiting",)], told[RETRIES, ()]) == (1, 3, 1)
