"""Re-checks at twice the steps: which trials they are, and what they say."""

import pytest

from sweeps.cells.recheck import NUM_SEEDS, recheck_trials, recheck_width, twice_the_steps
from sweeps.cells.trials import cell_of
from sweeps.schema.spec import Criterion
from sweeps.store.ledger import Ledger
from sweeps.store.outcomes import Outcomes
from sweeps.store.results import read_results
from sweeps.thresholds.recheck import Rechecks

CRITERION = Criterion(target_loss=0.1)


def test_the_width_is_a_tenth_below_the_threshold(fcn, transformer):
    assert recheck_width(40.0, fcn()) == 36
    assert recheck_width(1.05, fcn()) is None
    assert recheck_width(5.4, transformer(d=4)) is None
    assert recheck_width(5.6, transformer(d=4)) == 5


def test_its_trials_differ_from_the_cells_in_steps_width_and_seed_only(fcn):
    sample = fcn(8)
    trials = recheck_trials(cell_of(sample), sample, (0.01, 0.02), 40.0)
    assert len(trials) == 2 * NUM_SEEDS
    assert {(c.width, c.training.steps) for c in trials} == {(36, 200)}
    assert len({c.seed for c in trials}) == NUM_SEEDS
    assert {cell_of(c) for c in trials} == {cell_of(twice_the_steps(sample))} != {cell_of(sample)}


@pytest.mark.parametrize(("num_solved", "limit"), [(8, "steps"), (4, "steps"), (3, "width"), (0, "width")])
def test_the_limit_is_steps_where_the_criterion_holds_below_the_threshold(fcn, record, num_solved, limit):
    sample = fcn(8)
    trials = recheck_trials(cell_of(sample), sample, (0.01,), 40.0)
    records = [record(config, 0.05 if place < num_solved else 0.5) for place, config in enumerate(trials)]
    found = Rechecks(Outcomes.of(records)).of(cell_of(sample), sample, (0.01,), 40.0, CRITERION)
    assert (found.width, found.steps, found.num_solved, found.num_seeds, found.limit) == (36, 200, num_solved, 8, limit)
    assert found.words.startswith(f"{limit} ")


def test_the_better_rate_speaks_and_failed_trials_do_not(fcn, record):
    sample = fcn(8)
    trials = recheck_trials(cell_of(sample), sample, (0.01, 0.02), 40.0)
    seeds = sorted({config.seed for config in trials})

    def loss(config):
        if config.seed == seeds[0]:
            return None
        return 0.9 if config.optimizer.lr == 0.01 else 0.05

    found = Rechecks(Outcomes.of([record(config, loss(config)) for config in trials])).of(
        cell_of(sample), sample, (0.01, 0.02), 40.0, CRITERION
    )
    assert (found.num_solved, found.num_seeds, found.limit) == (7, 7, "steps")


def test_one_that_is_not_whole_says_nothing(fcn, record):
    sample = fcn(8)
    trials = recheck_trials(cell_of(sample), sample, (0.01,), 40.0)
    part = Rechecks(Outcomes.of([record(config, 0.05) for config in trials[:5]]))
    assert part.of(cell_of(sample), sample, (0.01,), 40.0, CRITERION) is None
    assert part.of(cell_of(sample), sample, (0.01,), None, CRITERION) is None


def test_the_ledger_keeps_them_apart_from_the_cells_own_results(hunt, simulated, record):
    one = hunt()
    one.go(simulated)
    (before,) = one.thresholds()
    trials = recheck_trials(before.cell_id, before.config_sample, (0.01,), before.m_star)
    Ledger(one.run.ledger).append([record(config, 0.5) for config in trials])
    (after,) = one.thresholds()
    assert after.recheck.limit == "width"
    assert "width was the limit" in after.note
    assert (after.m_star, after.num_trials) == (before.m_star, before.num_trials)
    assert read_results(one.run, one.spec).num_others == 0
