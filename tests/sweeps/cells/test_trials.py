"""Trials as columns are the trials that are made one by one."""

import random

import numpy as np
import pytest

from sweeps import catalog_names, expand, load_sweep
from sweeps.cells.expanded_sweep import make_plan
from sweeps.cells.expansion import configs_of
from sweeps.cells.trials import Trials, cell_of
from sweeps.schema.spec import SweepSpec
from sweeps.thresholds.crossings import chosen_rates, least_crossing
from sweeps.thresholds.resampling import replicated_crossings


def one_by_one(spec: SweepSpec) -> dict[str, dict[str, object]]:
    """The trials of each cell of the grids by id, in the order in which they are declared."""
    cells: dict[str, dict[str, object]] = {}
    size = spec.criterion.size
    for place, group in enumerate(spec.trials):
        for config in configs_of(group, ("trials", place), size):
            cells.setdefault(cell_of(config, size), {}).setdefault(config.trial_id, config)
    return cells


def check(spec: SweepSpec) -> None:
    spec = spec.model_copy(update={"trials": tuple(group for group in spec.trials if group.search is None)})
    expected = one_by_one(spec)
    cells = expand(spec)
    assert [cell.cell_id for cell in cells] == list(expected)
    for cell in cells:
        assert list(cell.trials.trial_ids) == list(expected[cell.cell_id])
        assert list(cell.configs) == list(expected[cell.cell_id].values())
    plan = make_plan(spec)
    assert plan.num_trials == sum(map(len, expected.values()))
    assert sorted(i for pack in plan.packs for i in pack.trial_ids) == sorted(i for ids in expected.values() for i in ids)


@pytest.mark.parametrize("name", catalog_names())
def test_the_catalogue_expands_to_the_same_trials(name: str) -> None:
    check(load_sweep(name))


def test_every_code_and_field_of_the_transformer_expands_to_the_same_trials() -> None:
    base = {
        "task": {"kind": "stsq", "T": 8, "q": 2, "d": 2},
        "model": {"kind": "transformer", "positions": {"kind": "gaussian", "d_e": 8}, "init": "gaussian"},
        "optimizer": {"kind": "adam", "lr": 0.1},
        "training": {"objective": "minibatch", "steps": 10},
    }
    grid = {
        "model.positions.kind": ["random_sign", "gaussian", "sinusoidal", "learned"],
        "model.positions.d_e": [4, 9],
        "model.x_query": ["zero", "gaussian"],
        "model.attend_query": [False, True],
        "model.init_scale": [0.02, 0.1],
        "optimizer.lr": [0.01, 0.1],
    }
    group = {"name": "full", "base": base, "grid": grid, "seeds": 2}
    check(SweepSpec.model_validate({"name": "full", "hypothesis": "None.", "trials": [group]}))


@pytest.mark.parametrize("case", range(12))
def test_a_random_sweep_expands_to_the_same_trials(case: int, spec: SweepSpec) -> None:
    """Grids over width, rate, T, redraw and optimizer in any order, in groups that overlap."""
    draw = random.Random(case)
    groups = []
    for number in range(draw.randint(1, 3)):
        axes = {
            "optimizer.lr": draw.sample([0.01, 0.03, 0.1, 0.3], draw.randint(1, 3)),
            "model.positions.d_e": draw.sample(range(4, 20), draw.randint(1, 4)),
            "task.T": draw.sample([8, 9, 12], draw.randint(1, 2)),
            "model.positions.redraw": draw.sample(["never", "per_step"], draw.randint(1, 2)),
        }
        names = draw.sample(list(axes), draw.randint(1, 4))
        grid = {name: axes[name] for name in names}
        base = {
            "task": {"kind": "stsq", "T": 8, "q": 2, "d": 2},
            "model": {"kind": "transformer", "positions": {"kind": "random_sign", "d_e": 8}},
            "optimizer": {"kind": draw.choice(["gd", "adam"]), "lr": 0.1},
            "training": {"objective": "population", "steps": 10},
        }
        seeds = draw.choice([2, [0, 5, 1]])
        groups.append({"name": f"group{number}", "base": base, "grid": grid, "seeds": seeds})
    check(SweepSpec.model_validate(spec.model_dump(mode="json") | {"trials": groups}))


def test_columns_of_configs_give_them_back(transformer, fcn) -> None:
    configs = [transformer(), fcn(), transformer(seed=3), fcn(width=9), transformer()]
    trials = Trials.of(configs)
    assert list(trials) == configs[:4]
    assert list(trials.trial_ids) == [config.trial_id for config in configs[:4]]
    assert list(trials[1:3]) == configs[1:3]


@pytest.mark.parametrize("case", range(10))
def test_replicates_are_those_of_the_drawn_seeds(case: int) -> None:
    stream = np.random.default_rng(case)
    num_widths, num_rates, num_seeds = stream.integers(1, [7, 4, 12])
    log_widths = np.sort(stream.uniform(0, 3, num_widths))
    log_losses = np.log(0.1) + stream.normal(0, 1, (num_widths, num_rates, num_seeds)) - log_widths[:, None, None] + 1.5
    log_losses[stream.random(log_losses.shape) < 0.1] = np.inf  # diverged
    log_losses[stream.random(log_losses.shape) < 0.1] = np.nan  # failed
    draws = stream.integers(num_seeds, size=(200, num_seeds))
    success_rate = float(stream.choice([0.3, 0.5, 0.9]))
    quick, _ = replicated_crossings(log_widths, log_losses, draws, log_target=np.log(0.1), success_rate=success_rate)
    slow = []
    for drawn in draws:
        losses = log_losses[:, :, drawn]
        rates = chosen_rates(losses[None])[0]
        chosen = np.take_along_axis(losses, rates[:, None, None], axis=1)[:, 0]
        slow.append(least_crossing(log_widths, chosen[None], log_target=np.log(0.1), success_rate=success_rate)[0].item())
    np.testing.assert_allclose(quick, slow, rtol=1e-12)
