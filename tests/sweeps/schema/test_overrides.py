import pytest

from stsq_core import UserError
from sweeps.cells.expanded_sweep import expand
from sweeps.cells.loading import load_sweep


def group(spec, name):
    return next(group for group in spec.trials if group.name == name)


def test_one_value_replaces_the_field_where_it_stands(sweep_file):
    spec = load_sweep(
        sweep_file, ["training.steps=7", "model.width=5", "seeds=4", "criterion.target_loss=0.2", "budget.minutes=3"]
    )
    assert [g.base["training"]["steps"] for g in spec.trials] == [7, 7]
    assert {config.width for cell in expand(spec) if cell.group == "fcn" for config in cell.configs} == {5}
    assert [g.seeds for g in spec.trials] == [4, 4]
    assert spec.criterion.target_loss == 0.2
    assert spec.budget.minutes == 3


def test_many_values_make_a_grid_axis(sweep_file):
    spec = load_sweep(sweep_file, ["optimizer.lr=0.001,1e-2", "seeds=1,2", "wandb.tags=a"])
    assert all(g.grid["optimizer.lr"] == (0.001, 0.01) for g in spec.trials)
    assert group(spec, "fcn").seeds == (1, 2)
    assert spec.wandb.tags == ("a",)


def test_an_axis_can_be_written_as_in_the_file(sweep_file):
    spec = load_sweep(sweep_file, ["fcn:model.width={geom: [4, 16], num: 3}"])
    assert [cell.widths for cell in expand(spec) if cell.group == "fcn"] == [(4, 8, 16)]


def test_a_setting_for_one_group_leaves_the_others_alone(sweep_file):
    spec = load_sweep(sweep_file, ["fcn:task.T=4,6"])
    assert {cell.configs[0].task.T for cell in expand(spec) if cell.group == "fcn"} == {4, 6}
    assert {cell.configs[0].task.T for cell in expand(spec) if cell.group == "transformer"} == {16, 32}


def test_a_field_of_one_architecture_is_set_where_it_exists(sweep_file):
    spec = load_sweep(sweep_file, ["model.positions.query=sum"])
    assert group(spec, "transformer").base["model"]["positions"]["query"] == "sum"
    assert "positions" not in group(spec, "fcn").base["model"]


def test_selecting_among_zipped_values_keeps_what_is_zipped_with_them(sweep_file):
    cells = expand(load_sweep(sweep_file, ["transformer:task.T=32"]))
    assert [cell.widths for cell in cells if cell.group == "transformer"] == [(14, 24, 44)]


def test_other_values_of_a_zipped_field_are_crossed_with_the_rest(sweep_file):
    cells = expand(load_sweep(sweep_file, ["transformer:task.T=64,100"]))
    assert {cell.configs[0].task.T: cell.widths for cell in cells if cell.group == "transformer"} == {
        64: (12, 14, 20, 24, 44),
        100: (12, 14, 20, 24, 44),
    }


def test_further_seeds_come_after_those_there_are(sweep_file):
    before, after = (
        {c.trial_id for cell in expand(load_sweep(sweep_file, s)) for c in cell.configs} for s in ([], ["seeds+=2"])
    )
    spec = load_sweep(sweep_file, ["seeds+=2", "fcn:seeds+=3"])
    assert before < after
    assert (group(spec, "fcn").seeds, group(spec, "transformer").seeds) == (7, (5, 6, 7, 8, 9))
    for value in ("0", "-1", "1.5", "1,2", "many"):
        with pytest.raises(
            UserError, match=rf"--set seeds\+={value}: further seeds are a whole number from 1; got {value}: give one"
        ):
            load_sweep(sweep_file, [f"seeds+={value}"])


def test_a_branch_can_be_replaced_as_a_whole(sweep_file):
    spec = load_sweep(sweep_file, ["fcn:model={kind: fcn, width: 3, depth: 3}"])
    (cell,) = [cell for cell in expand(spec) if cell.group == "fcn"]
    assert cell.widths == (3,)
    assert cell.configs[0].model.depth == 3


def test_later_settings_win(sweep_file):
    assert load_sweep(sweep_file, ["seeds=5", "seeds=1"]).trials[0].seeds == 1


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("task.t=3", "--set task.t=3: there is no field 'task.t'; did you mean task.T?"),
        ("widht=3", "--set widht=3: there is no field 'widht'; the nearest are model.width"),
        ("widht=3", " more; `stsq schema` has them all"),
        (
            "criterion.target=3",
            "--set criterion.target=3: there is no field 'criterion.target'; did you mean evaluation.target or criterion",
        ),
        ("seed=3", "--set seed=3: there is no field 'seed'; did you mean search.seed or seeds"),
        (
            "fnc:task.T=3",
            "--set fnc:task.T=3: there is no group of trials named 'fnc'; did you mean fcn?; groups: fcn, transformer",
        ),
        ("fcn:criterion.level=0.5", "there is no field 'criterion.level'"),
        ("task.T", "a setting is FIELD=VALUE"),
        ("=3", "a setting is FIELD=VALUE"),
        ("task.T=", "there is no value after '='"),
        ("task.T=[", "--set task.T=[:1: this is not valid YAML"),
        ("task.T=1", "--set task.T=1: trials.0.base.task: q must be at most T; got q=2, T=1"),
        ("optimizer=gd", "--set optimizer=gd: trials.0.base.optimizer: must be a mapping of fields with its kind: write "),
        ("optimizer=gd", "write {kind: gd, ...}, or --set optimizer.kind=gd; kinds are gd, adam, adamw; got 'gd'"),
        ("transformer:model.positions=learned", "or --set model.positions.kind=learned; kinds are one_hot, random_sign"),
        ("budget=3", "--set budget=3: budget holds fields of its own: set one of budget.minutes, budget.retries"),
        ("seeds=0", "--set seeds=0: trials.0.seeds: a sweep of no trials"),
        (
            "criterion.target_loss=2",
            "criterion.target_loss: a target is a share of the zero predictor's loss, between 0 and 1; got 2",
        ),
        ("training.steps=0", "--set training.steps=0: trials.0.base.training.steps: must be greater than or equal to 1; got 0"),
        (
            "fcn:model.positions.d_e=3",
            "--set fcn:model.positions.d_e=3: trials.0.base.model.positions: unknown field 'positions'",
        ),
    ],
)
def test_bad_settings_are_refused_and_named(sweep_file, setting, message):
    with pytest.raises(UserError) as caught:
        load_sweep(sweep_file, [setting])
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["task.t", "task.TT"])
def test_beside_a_right_guess_no_other_fields_are_named(sweep_file, name):
    with pytest.raises(UserError) as caught:
        load_sweep(sweep_file, [f"{name}=16"])
    assert str(caught.value) == f"--set {name}=16: there is no field '{name}'; did you mean task.T?"


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        (["seeds=2", "task.q=99"], "--set task.q=99: trials.0."),
        (["task.q=99", "seeds=2"], "--set task.q=99: trials.0."),
        (["task.q=9", "task.T=8"], "--set task.q=9 --set task.T=8: trials.0.base.task"),  # either is right without the other
    ],
)
def test_a_setting_that_is_wrong_is_blamed_and_no_line_of_the_file(settings, place, tmp_path):
    sweep = tmp_path / "sweep.yaml"
    sweep.write_text(
        "name: small\nhypothesis: a blamed setting\ntrials:\n"
        "  - name: net\n    base:\n      task: {kind: stsq, T: 16, q: 2, d: 2}\n      model: {kind: fcn, width: 4}\n"
        "      optimizer: {kind: adam, lr: 0.1}\n      training: {batch_size: 8, steps: 2}\n    grid: {task.T: [16, 32]}\n"
    )
    with pytest.raises(UserError) as caught:
        load_sweep(sweep, settings)
    assert str(caught.value).startswith(place)
    sweep.write_text(sweep.read_text().replace("steps: 2", "stepz: 2"))
    with pytest.raises(UserError, match=r"sweep.yaml:9: trials.0.base.training.stepz"):  # it is wrong without them
        load_sweep(sweep, settings)
