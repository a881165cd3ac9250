"""A column for every axis that tells cells apart, none for what an architecture alone decides, named as in a sweep file."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest

from dashboards.words.settings import Axes, axes_of, family_names, field_name, setting_words, value_words
from stsq_core import TrialConfig
from sweeps.findings.run_findings import Findings, read_findings
from sweeps.store.run_directory import RunDirectory

MakeRun = Callable[..., RunDirectory]


def axes(findings: Findings) -> Axes:
    return axes_of(findings.thresholds)


def test_what_the_architecture_decides_needs_no_column(findings: Findings) -> None:
    assert axes(findings).fields == ()
    assert family_names(findings.laws, findings.thresholds) == ("transformer", "fcn")


def test_one_family_needs_no_name(make_run: MakeRun, attention: dict[str, Any]) -> None:
    findings = read_findings(make_run(trials=[attention]).path)
    assert family_names(findings.laws, findings.thresholds) == ("",)


@pytest.mark.parametrize(
    ("grid", "fields", "families"),
    [
        ({"model.positions.query": ["sum", "dual"]}, ("model.positions.query",), {"query=sum", "query=dual"}),
        (
            {"training.objective": ["population", "minibatch"]},
            ("training.objective",),
            {"objective=population", "objective=minibatch"},
        ),
        (
            {"optimizer": [{"kind": "adam", "lr": 0.03}, {"kind": "gd", "lr": 1.0}]},
            ("optimizer.kind",),
            {"optimizer.kind=adam", "optimizer.kind=gd"},
        ),
        (
            {"optimizer.schedule.kind": ["cosine", "constant"], "training.steps": [300]},
            ("optimizer.schedule.kind",),
            {"schedule.kind=cosine", "schedule.kind=constant"},
        ),
    ],
)
def test_every_axis_beside_the_task_is_a_column_and_names_the_families(
    make_run: MakeRun, attention: dict[str, Any], grid: dict[str, Any], fields: tuple[str, ...], families: set[str]
) -> None:
    findings = read_findings(make_run(trials=[{**attention, "grid": grid}]).path)
    found = axes(findings)
    assert found.fields == fields
    assert set(family_names(findings.laws, findings.thresholds)) == {f"transformer {family}" for family in families}
    cells = findings.thresholds
    assert len({(cell.config_sample.task.T, *found.values(cell).values()) for cell in cells}) == len(cells)


def test_an_axis_of_one_architecture_says_nothing_of_the_other(
    make_run: MakeRun, attention: dict[str, Any], fully_connected: dict[str, Any], fcn: Callable[..., TrialConfig]
) -> None:
    trials = [{**attention, "grid": {"model.positions.query": ["sum", "dual"]}}, fully_connected]
    findings = read_findings(make_run(trials=trials).path)
    assert axes(findings).values(Cell(fcn(), "fcn")) == {"model.positions.query": None}
    assert family_names(findings.laws, findings.thresholds)[-1] == "fcn"


class Cell(NamedTuple):
    config_sample: TrialConfig
    kind: str = "bit_attention"
    label: str = "a cell"


def test_of_many_settings_not_crossed_what_is_unusual_names_a_family_and_so_does_what_is_left_out() -> None:
    """Of few, whose names are short, each says all, also what is left out."""
    usual = {"kind": "bit_attention", "width": 8, "keys": "positions", "values": "bits", "answer_gap": 20.0}
    others = ({}, {"keys": "embeddings"}, {"values": "embeddings"}, {"answer_gap": None})
    few, many = others, (*others, {"mlp_width": 64}, {"readout_rate": 3.0})
    task, adam = {"kind": "sparse_boolean", "T": 16, "q": 3, "function": "and"}, {"kind": "adam", "lr": 0.003}

    def names(others: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
        models = [usual | other for other in others]
        fields = [{"task": task, "model": model, "optimizer": adam, "training": {"steps": 10}} for model in models]
        cells = [Cell(TrialConfig.model_validate(own)) for own in fields]
        return [axes_of(cells).family_settings(cell) for cell in cells]

    unusual = [("keys=positions",), ("keys=embeddings",), ("values=embeddings",), ("answer_gap=null",)]
    assert names(many) == [*unusual, ("mlp_width=64",), ("readout_rate=3",)]
    assert names(few) == [
        ("keys=positions", "values=bits", "answer_gap=20"),
        ("keys=embeddings", "values=bits", "answer_gap=20"),
        ("keys=positions", "values=embeddings", "answer_gap=20"),
        ("keys=positions", "values=bits", "answer_gap=null"),
    ]


def test_a_field_is_named_by_its_shortest_end_that_is_its_own() -> None:
    fields = ("model.positions.query", "optimizer.kind", "optimizer.schedule.kind", "training.steps", "model.tail_width")
    assert [field_name(field) for field in fields] == ["query", "optimizer.kind", "schedule.kind", "steps", "tail_width"]


def test_values_are_spelled_as_in_a_sweep_file() -> None:
    assert [value_words(value) for value in (None, "sum", 600, 0.9, 1e-8)] == ["", "sum", "600", "0.9", "1e-08"]


def test_families_of_most_combinations_are_named_in_full_without_what_follows() -> None:
    """Three of four combinations of two settings and an optimizer, to which the steps belong."""

    def config(y_enters: str, activation: str, optimizer: str) -> TrialConfig:
        return TrialConfig.model_validate(
            {
                "task": {"kind": "stsq", "T": 8, "q": 2, "d": 2},
                "model": {"kind": "fcn", "width": 8, "y_enters": y_enters, "activation": activation},
                "optimizer": {"kind": optimizer, "lr": 0.01},
                "training": {"steps": {"adam": 100, "gd": 400}[optimizer]},
                "seed": 0,
            }
        )

    rows = [(y, relu, own) for y, relu in (("both", "relu"), ("both", "tanh"), ("second", "relu")) for own in ("adam", "gd")]
    cells = [Cell(config(*row)) for row in rows]
    found = axes_of(cells)
    assert found.family_settings(cells[0]) == ("y_enters=both", "activation=relu", "optimizer.kind=adam")
    assert len({found.family_settings(cell) for cell in cells}) == 6


def test_learned_codes_are_not_called_fixed() -> None:
    fields = [("task.T", 12), ("model.positions.kind", "learned"), ("model.positions.redraw", "never")]
    assert setting_words(fields) == "T = 12, learned codes"
    assert setting_words([("model.positions.kind", "gaussian"), fields[2]]) == "Gaussian codes, fixed codes"
