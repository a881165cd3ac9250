"""Bad input: each error names the value, what is allowed, and the place in the file."""

import json

import pytest

from stsq_core import UserError
from sweeps.cells import load_sweep, spec_json_schema
from sweeps.cells.expanded_sweep import expand
from sweeps.schema.yaml_source import parse


def refusal(path, text, settings=()):
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        load_sweep(path, settings)
    return str(caught.value).replace(str(path), "F")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("T: 8, q: 2", "T: 8, q: 9", "F:7: trials.0.base.task: q must be at most T; got q=9, T=8"),
        (
            "T: 8, q: 2",
            "T: 8, qq: 2",
            "F:7: trials.0.base.task.qq: unknown field 'qq'; did you mean q? (allowed here: kind, T, q, d)",
        ),
        (
            "kind: fcn, width: 8",
            "kind: fnc, width: 8",
            "F:8: trials.0.base.model.kind: unknown kind 'fnc'; allowed: transformer, fcn",
        ),
        (
            "kind: fcn, width: 8",
            "width: 8",
            "F:8: trials.0.base.model: a 'kind' is required here and missing; got {'width': 4}",
        ),
        ("[4, 8, 16]", "[4, 0, 16]", "F:12: trials.0.grid.model.width: must be greater than or equal to 1; got 0"),
        ("[4, 8, 16]", "[4, 2.5]", "F:12: trials.0.grid.model.width: must be a valid integer; got 2.5"),
        ("[4, 8, 16]", "7", "F:12: trials.0.grid.model.width: an axis is a list of values, or {geom: [low, high], num: n}"),
        ("[4, 8, 16]", "[]", "F:12: trials.0.grid.model.width: a sweep of no trials: the axis model.width is empty"),
        ("[4, 8, 16]", "{geom: [4, 8]}", "F:12: trials.0.grid.model.width.num: this field is required and missing"),
        (
            "[4, 8, 16]",
            "{geom: [8, 4], num: 3}",
            "F:12: trials.0.grid.model.width: geom needs 0 < low <= high; got low=8, high=4",
        ),
        ("lr: 0.01", "lr: -0.01", "F:9: trials.0.base.optimizer.lr: must be greater than 0; got -0.01"),
        ("lr: 0.01", "lr: .inf", "F:9: trials.0.base.optimizer.lr: must be a finite number; got inf"),
        ("lr: 0.01", "lr: '0.01'", "F:9: trials.0.base.optimizer.lr: must be a valid number; got '0.01'"),
        (
            "model.width:",
            "model.widht:",
            "F:12: trials.0.grid.model.widht: there is no field 'model.widht'; did you mean model.width?",
        ),
        ("    seeds: 2", "    seed: 2", "F:13: trials.0.seed: unknown field 'seed'; did you mean seeds?"),
        ("seeds: 2", "seeds: 0", "F:13: trials.0.seeds: a sweep of no trials: seeds is empty"),
        (
            "objective: minibatch",
            "objective: population",
            "objective: population is defined for the transformer only; got model.kind=fcn",
        ),
        ("task.T: [16, 32]", "task.T: [16]", "F:20: trials.1.zip: zipped axes need equally many entries; task.T has 1"),
        ("name: little", "name: ../little", "F:1: name: a name begins with a letter or digit"),
        ("hypothesis: Wider is better.", "hypothesis: ' '", "F:3: hypothesis: this must say something in words"),
        ("hypothesis: Wider is better.\n", "", "F:1: hypothesis: this field is required and missing"),
        ("title:", "titel:", "F:2: titel: unknown field 'titel'; did you mean title?"),
        ("name: transformer", "name: fcn", "two groups of trials are named 'fcn'"),
        ("name: little", "name: [", "F:3: this is not valid YAML"),
    ],
)
def test_bad_values_are_refused_with_place_value_and_allowed(tmp_path, sweep_text, old, new, message):
    assert old in sweep_text
    assert message in refusal(tmp_path / "bad.yaml", sweep_text.replace(old, new, 1))


def test_one_hot_codes_of_another_length_are_refused(tmp_path, sweep_text):
    bad = sweep_text.replace("random_sign, d_e: 24, redraw: per_step", "one_hot, d_e: 24, redraw: never")
    message = refusal(tmp_path / "bad.yaml", bad)
    assert message.startswith("F:22: trials.1.zip.model.positions.d_e: one_hot codes need d_e = T; got d_e=8, T=16")


def test_one_hot_codes_may_leave_their_length_out(tmp_path, sweep_text):
    path = tmp_path / "one_hot.yaml"
    path.write_text(sweep_text.replace("{kind: random_sign, d_e: 24, redraw: per_step, query: dual}", "{kind: one_hot}"))
    spec = load_sweep(path, ["transformer:task.T=16", "transformer:model.positions={kind: one_hot}"])
    assert {config.width for cell in expand(spec) if cell.group == "transformer" for config in cell.configs} == {20}


@pytest.mark.parametrize("text", ["", "~", "3", "[1, 2]", "just words"])
def test_a_file_that_is_no_mapping_is_refused(tmp_path, text):
    assert "a sweep is a mapping with name, hypothesis and trials" in refusal(tmp_path / "bad.yaml", text)


def test_a_sweep_of_no_trials_is_refused(tmp_path):
    message = refusal(tmp_path / "bad.yaml", "name: x\nhypothesis: y\ntrials: []\n")
    assert message == "F:3: trials: a sweep of no trials: trials is empty; give at least one group"


def test_a_sweep_too_large_to_be_meant_is_refused_without_being_built(tmp_path, sweep_text):
    message = refusal(tmp_path / "bad.yaml", sweep_text, ["seeds=100000", "optimizer.lr={geom: [0.001, 0.1], num: 1000}"])
    assert "at most 1000000 are allowed" in message
    assert "--set task.T=16 --out runs/T16" in message


def test_unknown_sweeps_and_files_are_answered_with_the_catalogue(tmp_path, monkeypatch):
    (tmp_path / "runs/quickstart").mkdir(parents=True)  # a run of the same name, as after the first command of the README
    (tmp_path / "runs/quickstart/spec.yaml").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        UserError, match=r"there is no sweep 'quikstart'; did you mean quickstart\?; the catalogue holds parity, "
    ):
        load_sweep("quikstart")
    with pytest.raises(UserError, match=r"'nowhere/quickstart.yaml' does not exist; did you mean quickstart"):
        load_sweep("nowhere/quickstart.yaml")
    with pytest.raises(UserError, match="is a directory"):
        load_sweep(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="is not UTF-8"):
        load_sweep(tmp_path / "binary.yaml")


def test_the_schema_knows_the_fields_of_a_trial_and_requires_none_of_them():
    schema = spec_json_schema()
    assert "model.positions.d_e" in schema["$defs"]["TrialGroup"]["properties"]["grid"]["propertyNames"]["enum"]
    assert "required" not in schema["$defs"]["TrialConfig"]
    assert schema["required"] == ["name", "hypothesis", "trials"]
    references = {name.rpartition("/")[2] for name in _references(schema)}
    assert references <= set(schema["$defs"])
    json.dumps(schema)


def _references(item):
    if isinstance(item, dict):
        yield from ([item["$ref"]] if "$ref" in item else [])
        for value in item.values():
            yield from _references(value)
    elif isinstance(item, list):
        for value in item:
            yield from _references(value)


def test_what_as_yaml_writes_is_read_back(tmp_path, spec):
    path = tmp_path / "again.yaml"
    path.write_text(spec.as_yaml())
    assert load_sweep(path) == spec
    assert parse(spec.as_yaml(), "x").data["criterion"]["level"] == 0.9


def test_a_wrong_value_that_came_through_a_merge_is_named_where_its_anchor_stands(tmp_path, sweep_text):
    anchored = sweep_text.replace("    base:\n", "    base: &first\n", 1).replace("lr: 0.01}", "lr: -1}")
    start = anchored.index("  - name: transformer")
    merged = anchored[:start] + "  - name: again\n    base: {<<: *first, optimizer: {kind: gd, lr: 0.1}}\n    seeds: 1\n"
    assert refusal(tmp_path / "s.yaml", merged).startswith("F:9: trials.0.base.optimizer.lr: must be greater than 0; got -1")
    wrong = merged.replace("lr: -1}", "lr: 0.01}").replace("optimizer: {kind: gd, lr: 0.1}", "seed: 3")
    assert refusal(tmp_path / "s.yaml", wrong).startswith("F:15: trials.1.base.seed")
    searched = merged.replace("lr: -1}", "lr: 0.01}").replace("    seeds: 1\n", "    search: {}\n")
    message = refusal(tmp_path / "s.yaml", searched.replace("T: 8,", "T: 9,"))
    assert message.startswith("F:8: trials.1.base.model.width: the width is searched; got model.width=8 as well")
