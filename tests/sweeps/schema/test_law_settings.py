"""Held-out cells in a sweep file: a strict syntax whose errors name the value, what is there, and what to do."""

from pathlib import Path

import pytest

from stsq_core.configs.errors import UserError
from sweeps.cells import check_sweep, load_sweep, spec_json_schema
from sweeps.cells.expanded_sweep import expand
from sweeps.schema.law_settings import LawSettings
from sweeps.schema.yaml_source import parse


def with_laws(text: str, laws: str) -> str:
    return text + f"laws: {laws}\n"


def held_out(text: str, laws: str) -> list[str]:
    """The labels of the cells that a sweep with these laws holds out."""
    spec = check_sweep(parse(with_laws(text, laws), "sweep.yaml")).spec
    return [cell.label for cell in expand(spec) if spec.laws.holds_out(cell.trials[0])]


@pytest.mark.parametrize(
    ("laws", "expected"),
    [
        ("{held_out: {task.T: 32}}", ["transformer T=32"]),
        ("{held_out: {task.T: [16, 32], model.kind: transformer}}", ["transformer T=16", "transformer T=32"]),
        ("{held_out: [{task.T: 32}, {model.kind: fcn}]}", ["fcn T=8", "transformer T=32"]),
        ("{held_out: null}", []),
        ("{}", []),
    ],
)
def test_conditions_choose_cells(sweep_text: str, laws: str, expected: list[str]) -> None:
    assert [" ".join(label.split()[:2]) for label in held_out(sweep_text, laws)] == expected


@pytest.mark.parametrize(
    ("laws", "message"),
    [
        (
            "{held_out: {task.T: 256}}",
            r"laws.held_out.task.T: no cell of this sweep has task.T = 256; task.T is 8, 16, 32: hold",
        ),
        ("{held_out: {task.T: '32'}}", r"no cell of this sweep has task.T = '32'"),
        ("{held_out: {task.T: 8, model.kind: transformer}}", r"no cell of this sweep meets .* as a whole"),
        ("{held_out: [{task.T: 8}, {task.T: 99}]}", r"laws.held_out.1.task.T: no cell"),
        ("{held_out: {task.t: 32}}", r"there is no field 'task.t'; did you mean task.T"),
        ("{held_out: {model.width: 8}}", r"model.width does not tell cells apart"),
        ("{held_out: {seed: 8}}", r"seed does not tell cells apart"),
        ("{held_out: {task: 8}}", r"task holds several fields; name one of them"),
        ("{held_out: {}}", r"a condition is empty and would hold out every cell"),
        ("{held_out: {task.kind: stsq}}", r"every cell is held out, so no law can be fitted"),
        ("{held_out: 256}", r"laws.held_out"),
        ("{heldout: {task.T: 32}}", r"unknown field 'heldout'; did you mean held_out"),
    ],
)
def test_what_cannot_be_held_out_is_refused_with_its_place(sweep_text: str, laws: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as refused:
        check_sweep(parse(with_laws(sweep_text, laws), "sweep.yaml"))
    assert str(refused.value).startswith("sweep.yaml:")


def test_a_sweep_narrowed_on_the_command_line_forgets_cells_that_are_gone(sweep_file: Path, sweep_text: str) -> None:
    sweep_file.write_text(with_laws(sweep_text, "{held_out: [{task.T: 32}, {task.T: 16}]}"))
    narrowed = load_sweep(sweep_file, ["transformer:task.T=16"])
    assert narrowed.laws == LawSettings(held_out=({"task.T": 16},))
    assert check_sweep(parse(narrowed.as_yaml(), "spec.yaml")).spec == narrowed


def test_the_command_line_can_hold_out_cells_and_is_checked(sweep_file: Path) -> None:
    assert load_sweep(sweep_file, ["laws.held_out={task.T: 32}"]).laws.held_out == ({"task.T": 32},)
    two = load_sweep(sweep_file, ["laws.held_out={task.T: 32},{task.T: 8}"])
    assert two.laws.held_out == ({"task.T": 32}, {"task.T": 8})
    with pytest.raises(UserError, match=r"--set laws.held_out=.*no cell of this sweep has task.T = 99"):
        load_sweep(sweep_file, ["laws.held_out={task.T: 99}"])


def test_an_editor_accepts_one_condition_and_several() -> None:
    shape = spec_json_schema()["$defs"]["LawSettings"]["properties"]["held_out"]
    assert [one["type"] for one in shape["anyOf"]] == ["object", "array", "null"]


def test_a_sweep_with_held_out_cells_is_written_and_read_back(sweep_text: str) -> None:
    spec = check_sweep(parse(with_laws(sweep_text, "{held_out: {task.T: [16, 32]}}"), "sweep.yaml")).spec
    assert check_sweep(parse(spec.as_yaml(), "spec.yaml")).spec == spec
