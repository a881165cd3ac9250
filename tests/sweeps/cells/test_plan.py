import pytest

from sweeps.cells.cell import describe, distinct_labels
from sweeps.cells.expanded_sweep import expand, make_plan
from sweeps.schema.spec import SweepSpec


def test_cells_hold_each_trial_once_in_the_order_declared(spec):
    cells = expand(spec)
    assert [(cell.group, cell.widths, cell.num_seeds) for cell in cells] == [
        ("fcn", (4, 8, 16), 2),
        ("transformer", (12, 20), 3),
        ("transformer", (14, 24, 44), 3),
    ]
    twice = SweepSpec(name="x", hypothesis="y", trials=(spec.trials[0], spec.trials[0].model_copy(update={"name": "again"})))
    (cell,) = expand(twice)
    assert len(cell.configs) == 6
    assert cell.group == "fcn"
    assert cell.rates == (0.01,)


def test_a_cell_is_described_in_the_papers_letters(fcn, transformer):
    assert describe(transformer(T=32)) == "transformer T=32 q=3 d=4 random_sign/per_step/dual adam population"
    assert describe(fcn()) == "fcn T=8 q=2 d=2 depth=2 tail=128 adam minibatch"


def test_labels_that_would_agree_name_what_differs(fcn):
    labels = distinct_labels([fcn(), fcn(steps=200), fcn(T=9), fcn(steps=200, batch_size=32)])
    assert len(set(labels)) == 4
    assert labels[0].endswith("steps=100")
    assert labels[2] == describe(fcn(T=9))
    assert "batch_size=32" in labels[3]


def test_a_plan_counts_what_is_left_and_its_cost(spec):
    plan = make_plan(spec, slots=2)
    assert plan.num_trials == sum(len(pack.configs) for pack in plan.packs) == 21
    assert plan.num_steps == 6 * 100 + 15 * 600
    assert plan.operations == pytest.approx(sum(pack.operations for pack in plan.packs))
    assert plan.seconds(1e9, slots=2) >= plan.operations / 2e9
    assert plan.seconds(1e9, slots=1000) == pytest.approx(plan.packs[0].operations / 1e9)
    assert plan.device_hours(1e9) == pytest.approx(plan.operations / 3.6e12)
    assert plan.memory_bytes > 0
    done = {config.trial_id for config in plan.packs[0].configs}
    rest = make_plan(spec, done=done)
    assert rest.num_done == len(done)
    assert sum(len(pack.configs) for pack in rest.packs) == 21 - len(done)
    nothing = make_plan(spec, done={config.trial_id for cell in plan.cells for config in cell.configs})
    assert nothing.packs == ()
    assert nothing.seconds(1e9) == nothing.memory_bytes == 0
