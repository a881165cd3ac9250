"""What every strategy keeps to: a grid, a search, both together, and one after the other; and what is a grid's alone."""

from collections.abc import Callable

import pytest

from sweeps.cells.expanded_sweep import expand, searched_cells
from sweeps.cells.loading import check_sweep
from sweeps.schedule.queue import PackOutcome, PackQueue
from sweeps.schedule.strategy import Grid, Sequel, Strategy, Together
from sweeps.schema.yaml_source import parse
from sweeps.search.search import Search
from sweeps.store.ledger import Ledger

Make = Callable[[], Strategy]
KINDS = ("grid", "search", "together", "sequel")


@pytest.fixture(params=KINDS)
def make(request, spec, hunt, tmp_path) -> Make:
    """Makes the same strategy as often as it is called."""
    hunted = hunt("search.cap=16", "search.batch=4", "task.T=8,16")

    def search() -> Strategy:
        cells = searched_cells(hunted.spec)
        return Search(hunted.spec, cells, journal=tmp_path / "study.journal", owner="x", curves=lambda _: {})

    def grid() -> Strategy:
        return Grid(expand(spec))

    makers = {
        "grid": grid,
        "search": search,
        "together": lambda: Together([grid(), search()]),
        "sequel": lambda: Sequel(search(), grid),
    }
    return makers[request.param]


@pytest.fixture
def train(simulated, record):
    return lambda configs: [record(config, min(simulated(config), 1.0)) for config in configs]


def drained(strategy, train, printed=()):
    """Every trial that a strategy asks for; what was told of before is not trained again."""
    asked = []
    known = {record.trial_id for record in printed}
    while configs := strategy.ask():
        asked += configs
        strategy.tell(train([config for config in configs if config.trial_id not in known]))
    return asked


def test_it_asks_for_a_trial_once_and_ends(make, train):
    strategy = make()
    assert not strategy.finished
    ids = [config.trial_id for config in drained(strategy, train)]
    assert strategy.finished
    assert len(set(ids)) == len(ids) > 0
    assert not strategy.ask()


@pytest.mark.slow
def test_it_asks_for_the_same_trials_every_time(make, train, tmp_path):
    first = [config.trial_id for config in drained(make(), train)]
    (tmp_path / "study.journal").unlink(missing_ok=True)
    assert [config.trial_id for config in drained(make(), train)] == first


def test_records_of_other_trials_are_no_error(make, train, fcn, record):
    strategy = make()
    strategy.tell([record(fcn(7, seed=11, T=5, steps=77))])
    strategy.tell([])
    assert drained(strategy, train)
    assert strategy.finished


@pytest.mark.slow
def test_the_order_in_which_trials_end_does_not_matter(make, train, tmp_path):
    ids = {config.trial_id for config in drained(make(), train)}
    (tmp_path / "study.journal").unlink(missing_ok=True)
    strategy, others = make(), set()
    while configs := strategy.ask():
        others |= {config.trial_id for config in configs}
        for record in reversed(train(configs)):
            strategy.tell([record])
    assert others == ids


@pytest.mark.parametrize("ended", [0, 3, 9])
def test_one_that_is_told_what_the_ledger_holds_goes_on_where_it_was(make, train, ended):
    first = make()
    asked = first.ask()
    printed = train(asked[:ended])
    first.tell(printed)
    again = make()
    again.tell(printed)
    asked = drained(again, train, printed)
    assert {record.trial_id for record in printed} <= {config.trial_id for config in asked} | {r.trial_id for r in printed}
    assert again.finished


def test_a_queue_trains_all_of_it(make, run, finished, simulated):
    ledger = Ledger(run.ledger)
    queue = PackQueue(make(), ledger, slots=2)
    while (pack := queue.next()) is not None:
        queue.record(PackOutcome(pack, tuple(finished(config, min(simulated(config), 1.0)) for config in pack.configs)))
    assert queue.finished
    assert queue.total == queue.done == len(ledger.read())


def test_it_can_be_closed_at_any_time(make, train):
    strategy = make()
    strategy.close()
    asked = strategy.ask()
    strategy.tell(train(asked[:1]))
    strategy.close()


def test_a_grid_asks_for_every_trial_once_and_is_finished(spec):
    cells = expand(spec)
    grid = Grid([*cells, cells[0]])
    assert not grid.finished
    asked = grid.ask()
    assert sorted(config.trial_id for config in asked) == sorted(config.trial_id for cell in cells for config in cell.configs)
    assert grid.ask() == ()
    grid.tell([])
    assert grid.finished
    assert Grid([]).finished


def test_a_sequel_is_made_when_all_that_came_before_has_ended(spec, train):
    made = []

    def then():
        made.append(True)
        return Grid(expand(spec)[1:])

    sequel = Sequel(Grid(expand(spec)[:1]), then)
    asked = sequel.ask()
    sequel.tell(train(asked[:-1]))
    assert not sequel.ask()
    assert not made
    sequel.tell(train(asked[-1:]))
    assert len(sequel.ask()) == 15
    assert sequel.finished


def test_packs_are_made_anew_for_the_workers_that_came_up(spec, run):
    from sweeps.cells.packs import Room

    queue = PackQueue(Grid(expand(spec)), Ledger(run.ledger))
    ids = {trial_id for pack in queue.waiting for trial_id in pack.trial_ids}
    queue.fit(room=Room(most=2), slots=2)
    assert max(len(pack.trial_ids) for pack in queue.waiting) == 2
    assert {trial_id for pack in queue.waiting for trial_id in pack.trial_ids} == ids
    assert queue.total == len(ids)


def test_a_sweep_of_grids_and_searches_has_both(sweep_text):
    text = sweep_text.replace("    grid:\n      model.width: [4, 8, 16]\n    seeds: 2\n", "    search: {low: 4, high: 64}\n")
    text = text.replace("{kind: fcn, width: 8}", "{kind: fcn}")
    spec = check_sweep(parse(text, "both.yaml")).spec
    assert [cell.group for cell in expand(spec)] == ["transformer", "transformer"]
    assert [cell.group for cell in searched_cells(spec)] == ["fcn"]
