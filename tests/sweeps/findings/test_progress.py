"""Progress counts every trial once, and its times follow from operations, rate and workers."""

from collections.abc import Callable
from pathlib import Path

import pytest

from stsq_core import TrialConfig, TrialResult
from sweeps.cells import catalog_names, load_expanded
from sweeps.cells.cell import Cell
from sweeps.cells.expanded_sweep import expand
from sweeps.cells.packs import trial_operations
from sweeps.findings.progress import Progress, progress_of, read_progress
from sweeps.findings.progress_basis import ProgressBasis, basis_of, planned_trials
from sweeps.laws import decided_plans, decisions_of
from sweeps.schedule.time_left import Ahead, Outlook
from sweeps.schema.spec import SweepSpec
from sweeps.store.ledger import Ledger, LedgerRecord, record_of_failure, record_of_result
from sweeps.store.live_training import TrainingPack
from sweeps.store.outcomes import Outcomes
from sweeps.store.results import Results
from sweeps.store.rounds import read_rounds
from sweeps.store.run_directory import Lock, create_or_open
from sweeps.store.sessions import session
from sweeps.thresholds import plan_searches

NOW = 1_000_000.0
HOLDER = "process 7 on here since now"


def finished(config: TrialConfig, seconds: float) -> LedgerRecord:
    result = TrialResult(config, "finished", 0.2, 0.01, config.training.steps, seconds)
    return record_of_result(result, pack_id="p", device="cpu")


def at_rate(configs: list[TrialConfig], rate: float) -> list[LedgerRecord]:
    """Finished trials that took exactly their operations over the rate."""
    return [finished(config, trial_operations([config]) / rate) for config in configs]


def of_pack(configs: list[TrialConfig], *, step: int, pack_id: str = "a", quiet_s: float = 3.0) -> TrainingPack:
    return TrainingPack(pack_id, "process 9 on here", tuple(c.trial_id for c in configs), step, NOW - 60, NOW - quiet_s)


@pytest.fixture
def cells(spec: SweepSpec) -> tuple[Cell, ...]:
    return expand(spec)


def printed(
    cells: tuple[Cell, ...],
    records: list[LedgerRecord],
    *training: TrainingPack,
    holder: str | None = HOLDER,
    ahead: tuple[Ahead, ...] = (),
) -> Progress:
    searching = frozenset(cell_id for one in ahead for cell_id in one.cell_ids)
    outlook = Outlook(len(cells), len(searching), ahead)
    return progress_of(ProgressBasis(cells, Outcomes.of(records), searching, outlook), training, holder=holder, now=NOW)


def test_every_trial_is_counted_once(cells: tuple[Cell, ...]) -> None:
    first = list(cells[0].configs)
    diverged = record_of_result(TrialResult(first[0], "diverged", None, None, 5, 0.1), pack_id="p", device="cpu")
    failed = record_of_failure(first[1], "worker lost", pack_id="p", device="cpu")
    made = printed(cells, [diverged, failed, finished(first[2], 1.0)], of_pack(first[2:4], step=50))
    cell = made.cells[0]
    assert (cell.num_finished, cell.num_diverged, cell.num_failed, cell.num_training) == (1, 1, 1, 1)
    assert cell.num_waiting == len(first) - 4
    assert [other.num_waiting for other in made.cells[1:]] == [len(other.trials) for other in cells[1:]]
    assert (made.num_ended, made.num_trials) == (3, sum(len(c.trials) for c in cells))
    assert not made.complete


def test_a_complete_sweep_has_no_time_left(cells: tuple[Cell, ...]) -> None:
    made = printed(cells, at_rate([c for cell in cells for c in cell.configs], 1e6), holder=None)
    assert made.complete
    assert made.seconds_left == 0
    assert {cell.seconds_left for cell in made.cells} == {0.0}


def test_one_worker_takes_the_operations_that_are_left_over_its_rate(cells: tuple[Cell, ...]) -> None:
    rate, [first, *others] = 2e6, cells
    ended, running = list(first.configs[:2]), list(first.configs[2:])
    made = printed(cells, at_rate(ended, rate), of_pack(running, step=first.configs[0].training.steps // 4))
    left = 0.75 * trial_operations(running) / rate
    assert made.workers[0].seconds_left == pytest.approx(left)
    assert made.cells[0].seconds_left == pytest.approx(left)
    assert made.workers[0].quiet_s == 3.0
    waiting = sum(trial_operations(cell.trials) for cell in others) / rate
    assert made.seconds_left == pytest.approx(left + waiting)
    assert made.seconds_left == max(cell.seconds_left or 0 for cell in made.cells)


def test_two_workers_share_what_waits(cells: tuple[Cell, ...]) -> None:
    rate, first = 2e6, list(cells[0].configs)
    one = printed(cells, at_rate(first[:2], rate), of_pack(first[2:4], step=0))
    two = printed(cells, at_rate(first[:2], rate), of_pack(first[2:4], step=0), of_pack(first[4:], step=0, pack_id="b"))
    assert one.seconds_left is not None
    assert two.seconds_left is not None
    assert 0.5 * one.seconds_left <= two.seconds_left < 0.8 * one.seconds_left


def test_the_first_pack_tells_the_rate_before_any_trial_ended(cells: tuple[Cell, ...]) -> None:
    running = list(cells[0].configs)
    made = printed(cells[:1], [], of_pack(running, step=25, quiet_s=0.0))
    assert made.seconds_left == pytest.approx(60 * 3)  # a quarter of 100 steps took a minute


@pytest.mark.parametrize("holder", [HOLDER, None])
def test_no_time_is_told_where_nothing_tells_it(cells: tuple[Cell, ...], holder: str | None) -> None:
    assert printed(cells, [], holder=holder).seconds_left is None
    assert printed(cells, at_rate(list(cells[0].configs), 1e6), holder=None).cells[1].seconds_left is None


def test_a_pack_of_trials_that_no_cell_declares_is_left_out(cells: tuple[Cell, ...], fcn: Callable[..., TrialConfig]) -> None:
    stranger = fcn(width=77)
    assert printed(cells, [], of_pack([stranger], step=1)).workers == ()


def test_a_run_directory_tells_its_progress(spec: SweepSpec, tmp_path: Path) -> None:
    run = create_or_open(tmp_path / "run", spec)
    configs = list(expand(spec)[0].configs)
    Ledger(run.ledger).append(finished(config, 1.0) for config in configs)
    made = read_progress(run)
    assert made.num_ended == len(configs)
    assert made.holder is None
    assert made.seconds_left is None


def test_what_a_search_is_expected_to_ask_for_counts_and_takes_its_time(cells: tuple[Cell, ...]) -> None:
    rate, first = 2e6, list(cells[0].configs)
    records = at_rate(first, rate)
    ahead = Ahead((cells[0].cell_id,), num_trials=16, num_rounds=2, operations=trial_operations(first))
    made = printed(cells[:1], records, ahead=(ahead,))
    assert (made.num_ended, made.num_trials, made.complete) == (len(first), len(first) + 16, False)
    assert made.cells[0].searching
    assert made.seconds_left == pytest.approx(trial_operations(first) / rate)
    assert printed(cells[:1], records).complete


def test_a_searched_run_is_told_by_its_points(hunt, simulated) -> None:
    """All cells from the start, and points of about so many."""
    one = hunt()
    before = read_progress(one.run)
    assert [(cell.num_ended, cell.num_trials, cell.searching) for cell in before.cells] == [(0, 16, True)]
    assert (before.outlook.num_searches, before.outlook.num_searching, before.complete) == (1, 1, False)
    one.go(simulated, trials=5)
    during = read_progress(one.run)
    assert (during.num_ended, during.num_trials, during.outlook.num_searching) == (5, 16, 1)
    one.go(simulated)
    after = read_progress(one.run)
    assert after.complete
    assert after.num_ended == after.num_trials == len(one.asked)


def test_a_search_is_done_only_when_it_says_so_itself(hunt, simulated) -> None:
    """In the middle of a round its points may be precise already: the round goes on, and everybody counts the same."""
    one, asked, done, judged = hunt(), [], 0, []
    search = one.strategy()
    with Lock(one.run.lock), session(one.run):
        while configs := search.ask():
            asked += configs
            for config in configs:
                record, done = one._record(config, simulated(config)), done + 1
                Ledger(one.run.ledger).append([record])
                search.tell([record])
                judged.append(one.thresholds()[0].search.finished)
                shown, own = read_progress(one.run), search.outlook
                assert (shown.outlook.num_searching, shown.num_ended) == (own.num_searching, done)
                assert shown.num_trials == len(asked) + own.num_trials
    assert shown.complete
    assert any(judged[:-1]), "this search must be precise before its last round ends"


def test_the_bar_of_a_worker_with_new_points_has_a_total(hunt) -> None:
    one = hunt()
    configs = one.strategy().ask()
    pack = of_pack(list(configs[:3]), step=40)
    with Lock(one.run.lock), session(one.run):
        rounds = read_rounds(one.run.rounds)
    (worker,) = progress_of(basis_of(one.run.read_sweep(), Outcomes.of([]), (), rounds), [pack], holder=HOLDER, now=NOW).workers
    assert (worker.num_trials, worker.step, worker.num_steps, len(worker.cell_ids)) == (3, 40, 100, 1)


@pytest.mark.parametrize("name", catalog_names())
def test_the_planned_trials_are_those_of_the_plan(name: str) -> None:
    """What `stsq plan` prints: trials of grids, and points that each search is expected to take, at all its rates."""
    sweep = load_expanded(name)
    nothing = Results(Outcomes.of(()), frozenset(), 0, searched=sweep.searched)
    plans = plan_searches(sweep.spec, nothing)
    if decisions := decisions_of(sweep.spec, sweep.searched, ()):
        plans = decided_plans(plans, decisions)
    num_points = sum(one.num_expected * len(one.cell.rates) for one in plans)
    assert planned_trials(sweep) == sum(len(cell.trials) for cell in sweep.cells) + num_points
