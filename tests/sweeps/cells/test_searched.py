"""Searches in a sweep file: what they declare, and what is refused, with its place and what to do."""

import re

import pytest

from stsq_core import UserError
from sweeps.cells import check_sweep, spec_json_schema
from sweeps.cells.expanded_sweep import ExpandedSweep, searched_cells
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


def test_a_model_whose_task_leaves_one_width_has_the_seeds_of_a_round_there():
    expanded = ExpandedSweep.of(load("attention:model.positions.kind=random_sign,one_hot", "search.batch=5"))
    assert [cell.low for cell in expanded.searched] == [5, 5, 4]
    assert [(cell.widths, cell.rates, cell.num_seeds, len(cell.trials)) for cell in expanded.cells] == [
        ((20,), (0.03, 0.1), 5, 10),
        ((36,), (0.03, 0.1), 5, 10),
    ]
    assert {trial.model.positions.d_e for trial in expanded.cells[1].trials} == {32}
    again = ExpandedSweep.of(load("attention:model.positions.kind=one_hot", "search.batch=5", "search.seed=1"))
    assert not set(again.cells[0].trials.trial_ids) & set(expanded.cells[0].trials.trial_ids)
    assert [cell.group for cell in again.searched] == ["net"]


def test_seeds_of_points_differ_between_cells_and_points():
    cells = searched_cells(load())
    assert len({point_seed(cell.cell_id, number) for cell in cells for number in range(100)}) == 300


def test_another_seed_of_the_search_gives_every_point_another_seed():
    """The first literals are those of ledgers written before searches had a seed."""
    cell = "0123456789abcdef"
    assert [point_seed(cell, number) for number in (0, 1)] == [11017127964724, 192213805213851]
    assert [point_seed(cell, number, seed=0) for number in (0, 1)] == [point_seed(cell, number) for number in (0, 1)]
    streams = [{point_seed(cell, number, seed=seed) for number in range(100)} for seed in range(3)]
    assert len(set.union(*streams)) == 300


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
    assert "required" not in schema["$defs"]["WidthRange"]
    assert schema["$defs"]["WidthRange"]["properties"]["of"]["enum"] == ["d_e", "m"]
    assert "threshold" in schema["$defs"]["SearchSettings"]["properties"]["sampler"]["enum"]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("net:search.high=0", "trials.1.search.high: a width is a whole number of units from 1 to 16777216; got high=0"),
        (
            "net:search.of=d_e",
            "trials.1.search.of: the width of model.kind=fcn is its units, not d + d_e; got of=d_e: use of: m, or leave it out",
        ),
        ("net:search.of=rank", "trials.1.search.of: must be 'd_e' or 'm'; got 'rank'"),
        ("search.tolerance_of=q", "search.tolerance_of: must be 'd_e' or 'm'; got 'q'"),
        ("net:search.low=0", "trials.1.search.low: a width is a whole number of units from 1 to 16777216; got low=0"),
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
        ("net:task.q=99", "q must be at most T"),
        (
            "criterion={target_loss: 0.1, statistic: mean, success_rate: 0.7}",
            "criterion holds fields of its own: set one of criterion.of",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(setting, words):
    with pytest.raises(UserError) as refused:
        load(setting)
    assert words in str(refused.value)
    assert f"--set {setting}" in str(refused.value)


def with_search(attention, net="{}"):
    """The sweep with other ranges."""
    text = TEXT.replace("search: {low: 5, high: 256}", f"search: {attention}")
    return text.replace("search: {low: 4, high: 256}", f"search: {net}")


def ranges(*settings, text=TEXT):
    return [(cell.low, cell.high) for cell in searched_cells(load(*settings, text=text))]


def test_a_range_of_code_lengths_begins_at_the_d_of_each_cell():
    assert ranges("attention:search.of=d_e", "attention:task.d=1,4,64", "attention:task.T=16") == [
        (6, 257), (9, 260), (69, 320), (4, 256)
    ]  # fmt: skip
    assert searched_cells(load("attention:search.of=d_e"))[0].trials([(9, 1)])[0].model.positions.d_e == 5


def test_a_range_that_is_left_out_follows_from_the_law_of_each_cell():
    """d + d_e with d_e from a quarter to eight times 2.5 q ln T; half to four times T d (1 - r (T-1)/(T-q))."""
    derived = with_search("{}")
    # 7.5 ln 16 = 20.79, 7.5 ln 32 = 25.99; 16 (1 - 0.1 * 7 / 6) = 14.13
    assert ranges(text=derived) == [(4 + 5, 4 + 167), (4 + 6, 4 + 208), (7, 57)]
    assert ranges("criterion.target_loss=0.5", text=derived)[2] == (3, 27)  # 16 (1 - 0.5 * 7 / 6) = 6.67
    assert ranges("attention:search.low=30", "net:search.high=99", text=derived) == [(30, 171), (30, 212), (7, 99)]
    assert ranges("attention:search.of=d_e", "attention:search.low=30", text=derived)[:2] == [(34, 171), (34, 212)]
    assert ranges("attention:task.T=1", "attention:task.q=1", text=derived)[0] == (5, 6)  # one token needs no code at all
    spec = load(text=derived)
    assert check_sweep(parse(spec.as_yaml(), "again.yaml")).spec == spec


def test_the_range_is_no_part_of_what_names_a_cell():
    derived = with_search("{}")
    names = [[cell.cell_id for cell in searched_cells(load(*s, text=t))] for s, t in (((), TEXT), ((), derived))]
    assert names[0] == names[1]
    assert names[0] == [cell.cell_id for cell in searched_cells(load("attention:search.of=d_e"))]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            with_search("{high: 8}"),
            "hunt.yaml:13: trials.0.search.low: the law of the threshold puts low at 9 for transformer T=16 q=3 d=4 "
            "random_sign/per_step/dual adam population, and it must lie below high; got high=8: "
            "give low as well, or leave high out",
        ),
        (
            with_search("{of: d_e, low: 300}"),
            "hunt.yaml:13: trials.0.search.high: the law of the threshold puts high at 167 for transformer T=16",
        ),
        (
            with_search("{}", "{low: 5}").replace("stsq, T: 8", "qstr, T: 8").replace("kind: fcn", "kind: ffn"),
            "trials.1.search.high: a range is derived for the width of the transformer and of the fcn on the task stsq only; "
            "got the width of model.kind=ffn on task.kind=qstr: give low and high",
        ),
        (
            with_search("{}")
            .partition("  - name: net")[0]
            .replace("random_sign}", "random_sign, d_e: 9}")
            .replace("trials:", "criterion: {of: training.steps}\ntrials:", 1)
            .replace(", steps: 600", ""),
            "trials.0.search.low: a range is derived for the width of the transformer and of the fcn on the task stsq only; "
            "got the number of steps of model.kind=transformer on task.kind=stsq: give low and high",
        ),
        (
            with_search("{of: d_e}").replace("trials:", "criterion: {of: training.steps}\ntrials:", 1),
            "trials.0.search.of: thresholds are of the number of steps; got of=d_e: leave it out",
        ),
    ],
)
def test_a_range_that_cannot_be_derived_is_refused(text, words):
    with pytest.raises(UserError) as refused:
        load(text=text)
    assert words in str(refused.value)


def test_any_model_of_codes_is_searched_from_above_d():
    other = TEXT.replace("kind: transformer", "kind: attention").replace("objective: population, ", "")
    assert searched_cells(load(text=other))[0].trials([(5, 1)])[0].model.positions.d_e == 1
    for setting, words in (
        ("search.low=4", "trials.0.search.low: low must exceed d, because the width of model.kind=attention is m = d + d_e"),
        ("model.positions={kind: one_hot, redraw: per_step}", "there is nothing to redraw; got redraw=per_step"),
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
