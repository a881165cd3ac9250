"""Searches in a sweep file: what they declare, and what is refused, with its place and what to do."""

import re

import pytest

from stsq_core import UserError
from sweeps.cells.expanded_sweep import searched_cells
from sweeps.cells.loading import check_sweep, spec_json_schema
from sweeps.cells.searched import point_seed
from sweeps.schema.overrides import apply_settings
from sweeps.schema.yaml_source import parse

TEXT = """\
name: hunt
hypothesis: Somewhere.
trials:
  - name: attention
    base:
      task: {kind: stsq, T: 16, q: 3, d: 4}
      model: {kind: transformer, positions: {kind: random_sign}}
      optimizer: {kind: adam, lr: 0.03}
      training: {objective: population, steps: 600}
    grid:
      task.T: [16, 32]
      optimizer.lr: [0.1, 0.03]
    search: {low: 5, high: 256}
  - name: net
    base:
      task: {kind: stsq, T: 8, q: 2, d: 2}
      model: {kind: fcn}
      optimizer: {kind: adam, lr: 0.01}
      training: {steps: 100}
    search: {low: 4, high: 256}
"""


def load(*settings, text=TEXT):
    return check_sweep(apply_settings(parse(text, "hunt.yaml"), settings)).spec


def test_a_cell_is_everything_but_width_seed_and_rate():
    cells = searched_cells(load())
    assert [(cell.group, cell.family.sample.task.T, cell.rates, cell.low, cell.high) for cell in cells] == [
        ("attention", 16, (0.03, 0.1), 5, 256),
        ("attention", 32, (0.03, 0.1), 5, 256),
        ("net", 8, (0.01,), 4, 256),
    ]
    assert len({cell.label for cell in cells}) == 3


def test_the_trials_of_a_point_are_its_rates():
    cell = searched_cells(load())[0]
    trials = cell.trials([(5, 1), (256, 2)])
    assert [(c.width, c.seed, c.optimizer.lr) for c in trials] == [(5, 1, 0.03), (5, 1, 0.1), (256, 2, 0.03), (256, 2, 0.1)]
    assert trials[0].model.positions.d_e == 1


def test_seeds_of_points_differ_between_cells_and_points():
    cells = searched_cells(load())
    assert len({point_seed(cell.cell_id, number) for cell in cells for number in range(100)}) == 300


def test_a_sweep_with_searches_survives_its_yaml():
    spec = load("search.batch=16", "search.storage=sqlite:///x.db", "criterion.statistic=mean")
    assert check_sweep(parse(spec.as_yaml(), "again.yaml")).spec == spec


def test_settings_reach_searches():
    spec = load("attention:search.high=512", "search.low=6", "search.batch=16", "search.sampler=tpe", "task.T=64")
    assert (spec.search.batch, spec.search.sampler) == (16, "tpe")
    assert [(cell.low, cell.high) for cell in searched_cells(spec)] == [(6, 512), (6, 256)]
    assert {cell.family.sample.task.T for cell in searched_cells(spec)} == {64}


def test_the_schema_knows_searches():
    schema = spec_json_schema()
    assert schema["$defs"]["WidthRange"]["required"] == ["low", "high"]
    assert "threshold" in schema["$defs"]["SearchSettings"]["properties"]["sampler"]["enum"]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("net:search.low=0", "trials.1.search.low: a width is a whole number of units and at least 1; got low=0"),
        ("net:search.high=4", "trials.1.search.high: high must exceed low; got low=4, high=4"),
        (
            "attention:search.low=4",
            "trials.0.search.low: low must exceed d, because the width of model.kind=transformer",
        ),
        ("net:search.low=1.5", "trials.1.search.low: must be a valid integer"),
        ("search.sampler=cma", "search.sampler: must be 'threshold', 'tpe', 'gp', 'random' or 'grid'; got 'cma'"),
        ("search.batch=1", "search.batch: must be greater than or equal to 2; got 1"),
        ("search.cap=4", "search.cap: cap must be at least batch, the points of one round; got cap=4, batch=8"),
        ("search.tolerance=0", "search.tolerance: must be greater than 0"),
        ("net:model.width=8", "trials.1.base.model.width: the width is searched; got model.width=8 as well: leave width out"),
        ("net:model.width=8,16", "trials.1.grid.model.width: model.width is the width, and search says which are tried"),
        ("net:seeds=3", "trials.1.seeds: a search takes a fresh seed for every point; got seeds=3"),
        ("attention:model.positions.kind=one_hot", "one_hot codes have d_e = T, so there is no width to search"),
        ("net:task.q=99", "q must be at most T"),
        ("criterion={target_loss: 0.1, statistic: mean, success_rate: 0.7}", "there is no field 'criterion'"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(setting, words):
    with pytest.raises(UserError) as refused:
        load(setting)
    assert words in str(refused.value)
    assert f"--set {setting}" in str(refused.value)


def test_any_model_of_codes_is_searched_from_above_d():
    other = TEXT.replace("kind: transformer", "kind: attention").replace("objective: population, ", "")
    assert searched_cells(load(text=other))[0].trials([(5, 1)])[0].model.positions.d_e == 1
    for setting, words in (
        ("search.low=4", "trials.0.search.low: low must exceed d, because the width of model.kind=attention is m = d + d_e"),
        ("model.positions.kind=one_hot", "one_hot codes have d_e = T, so there is no width to search"),
    ):
        with pytest.raises(UserError, match=re.escape(words)):
            load(f"attention:{setting}", text=other)
    with pytest.raises(UserError, match=re.escape("trials.0.base.model.positions: this field is required and missing")):
        load(text=other.replace(", positions: {kind: random_sign}", ""))


def test_a_cell_has_one_declaration():
    twice = TEXT.replace("    search: {low: 4, high: 256}\n", "    search: {low: 4, high: 256}\n" + NET.format("again"))
    with pytest.raises(UserError, match=r"trials\.2\.search: the cell \w+ of group 'again' is searched by group 'net' too"):
        load(text=twice)
    grid = NET.format("again").replace("{kind: fcn}", "{kind: fcn, width: 8}")
    grid = grid.replace("search: {low: 4, high: 256}", "seeds: 2")
    with pytest.raises(UserError, match=r"is searched here and is a grid in group 'again': declare it in one group"):
        load(text=TEXT + grid)


NET = """\
  - name: {}
    base:
      task: {{kind: stsq, T: 8, q: 2, d: 2}}
      model: {{kind: fcn}}
      optimizer: {{kind: adam, lr: 0.01}}
      training: {{steps: 100}}
    search: {{low: 4, high: 256}}
"""


def test_a_mean_has_no_success_rate():
    with pytest.raises(UserError, match=r"a mean has no success rate; got success_rate=0\.7, statistic=mean"):
        load("criterion.statistic=mean", "criterion.success_rate=0.7")
