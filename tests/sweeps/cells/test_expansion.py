from hypothesis import given, settings, strategies as st

from sweeps.cells.expansion import configs_of, derived_seed, num_trials
from sweeps.cells.trials import cell_of
from sweeps.schema.spec import TrialGroup


def all_configs(spec):
    return [(one, config) for place, one in enumerate(spec.trials) for config in configs_of(one, ("trials", place))]


def test_width_seed_and_rate_do_not_change_the_cell_and_all_else_does(fcn, transformer):
    assert len({cell_of(fcn(width, seed=seed, lr=lr)) for width in (1, 8) for seed in (0, 1) for lr in (0.1, 1.0)}) == 1
    assert len({cell_of(transformer(d_e, seed=seed, lr=lr)) for d_e in (1, 8) for seed in (0, 1) for lr in (0.1, 1.0)}) == 1
    others = [fcn(), fcn(T=9), fcn(q=1), fcn(d=3), fcn(steps=101), fcn(batch_size=32), transformer(), transformer(query="sum")]
    assert len({cell_of(config) for config in others}) == len(others)


def test_the_length_of_one_hot_codes_is_not_a_free_width(transformer):
    assert cell_of(transformer(16, kind="one_hot", redraw="never")) != cell_of(
        transformer(17, T=17, kind="one_hot", redraw="never")
    )


@settings(deadline=None)
@given(st.integers(0, 50), st.integers(0, 50))
def test_more_seeds_extend_fewer_and_cells_share_none(fewer, more):
    base = {"task": {"T": 8, "q": 2, "d": 2}, "model": {"kind": "fcn", "width": 4}, "optimizer": {"kind": "gd", "lr": 1.0}}
    groups = [TrialGroup(name="a", base={**base, "training": {"steps": 3}}, seeds=1 + count) for count in (fewer, fewer + more)]
    few, many = ([config.seed for _, config in all_configs(_spec(group))] for group in groups)
    assert many[: len(few)] == few
    assert len(set(many)) == len(many)
    assert all(0 <= seed < 2**53 for seed in many)
    assert not set(many) & {derived_seed("another cell", index) for index in range(60)}


def _spec(*groups):
    from sweeps.schema.spec import SweepSpec

    return SweepSpec(name="x", hypothesis="y", trials=groups)


def test_grid_axes_are_crossed_zipped_ones_advance_together(spec):
    fcn, transformer = spec.trials
    assert num_trials(fcn) == 3 * 2
    assert num_trials(transformer) == (2 + 3) * 3
    configs = [config for group, config in all_configs(spec) if group is transformer]
    assert {(config.task.T, config.model.positions.d_e) for config in configs} == {
        (16, 8),
        (16, 16),
        (32, 10),
        (32, 20),
        (32, 40),
    }
    assert {config.seed for config in configs} == {5, 6, 7}
    assert len(list(all_configs(spec))) == 6 + 15


def test_a_branch_on_an_axis_is_set_before_its_leaves(spec):
    group = spec.trials[1].model_copy(
        update={"zip": {}, "grid": {"model.positions.d_e": (5,), "model.positions": ({"kind": "random_sign", "d_e": 9},)}}
    )
    assert {config.model.positions.d_e for _, config in all_configs(_spec(group))} == {5}


def test_a_list_of_seeds_is_every_cells_own(spec):
    group = spec.trials[1]
    assert {config.seed for one, config in all_configs(spec) if one is group} == {5, 6, 7}
