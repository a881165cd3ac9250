"""Configs: what is refused and how it is said; identity; defaults."""

import re

import pytest
from pydantic import ValidationError

from stsq_core import TrialConfig
from stsq_core.configs.compatibility import MAX_SUBSETS


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        ("transformer", {"T": 8, "q": 9}, ["q must be at most T", "q=9, T=8"]),
        ("transformer", {"model__width": 3}, ["model.transformer.width", "Extra inputs"]),
        ("fcn", {"width": 0}, ["model.fcn.width", "greater than or equal to 1"]),
        ("fcn", {"optimizer__lr": -0.1}, ["optimizer.adam.lr", "greater than 0"]),
        ("fcn", {"optimizer__lr": float("inf")}, ["optimizer.adam.lr", "finite"]),
        ("fcn", {"task__T": "12"}, ["task.stsq.T", "valid integer"]),
        ("fcn", {"evaluation__samples": 100}, ["evaluation.samples", "4096"]),
        ("fcn", {"training__objective": "population"}, ["transformer only", "minibatch"]),
        ("transformer", {"T": 12, "model__positions": {"kind": "one_hot", "d_e": 11}}, ["d_e = T", "d_e=11, T=12"]),
        ("transformer", {"model__positions": {"kind": "learned", "d_e": 8}}, ["kind=learned", "objective: minibatch"]),
        ("transformer", {"model__init": "gaussian"}, ["init=gaussian", "init: zero", "objective: minibatch"]),
        ("transformer", {"model__x_query": "gaussian"}, ["x_query=gaussian", "x_query: zero", "objective: minibatch"]),
        ("transformer", {"model__attend_query": True}, ["attend_query=true", "attend_query: false", "objective: minibatch"]),
        ("transformer", {"model__init_scale": 0.1}, ["init_scale=0.1, init=zero", "init: gaussian"]),
        ("transformer", {"model__init_scale": 0.0}, ["init_scale", "greater than 0"]),
        (
            "transformer",
            {"model__positions": {"kind": "sinusoidal", "d_e": 8, "redraw": "per_step"}},
            ["positions.sinusoidal.redraw", "nothing to redraw; got redraw=per_step", "redraw: never", "random_sign"],
        ),
        ("transformer", {"model__positions": {"kind": "rotary", "d_e": 8}}, ["kind=rotary", "kind: sinusoidal", "base"]),
        ("transformer", {"model__positions": {"kind": "sinusoidal", "d_e": 8, "base": 1.0}}, ["base", "greater than 1"]),
        ("fcn", {"T": 4, "evaluation__T_test": [4, 6]}, ["T=4 tokens", "T_test=[4, 6]", "leave T_test out", "transformer"]),
        ("transformer", {"q": 3, "evaluation__T_test": [20, 2]}, ["at least q", "T_test=2, q=3", "leave it out"]),
        ("transformer", {"T": 12, "evaluation__q_test": [13]}, ["q_test must be at most T", "q_test=13, T=12", "leave it out"]),
        (
            "transformer",
            {"T": 12, "model__positions": {"kind": "one_hot"}, "evaluation__T_test": [11, 13]},
            ["one_hot codes name T=12 positions", "T_test=13", "up to 12", "random_sign"],
        ),
        (
            "transformer",
            {
                "T": 12,
                "training__objective": "minibatch",
                "evaluation__T_test": [13],
                "model__positions": {"kind": "learned", "d_e": 8, "query": "sum"},
            },
            ["learned codes name T=12 positions", "T_test=13"],
        ),
        ("transformer", {"evaluation__q_test": [0]}, ["evaluation.q_test", "greater than or equal to 1"]),
        ("transformer", {"T": 64, "q": 4, "training__batch_size": "all"}, [str(MAX_SUBSETS), "T=64, q=4"]),
    ],
)
def test_bad_input_is_refused_with_the_value_and_what_is_allowed(trial_data, kind: str, fields: dict, words: list[str]) -> None:
    with pytest.raises(ValidationError) as caught:
        TrialConfig.model_validate(trial_data(kind, **fields))
    message = str(caught.value)
    assert [word for word in words if word not in message] == []


def test_every_subset_is_enumerated_up_to_twenty_thousand(trial_data) -> None:
    """C(50, 3) = 19,600 and C(51, 3) = 20,825."""
    assert TrialConfig.model_validate(trial_data("transformer", T=50, q=3, training__batch_size="all")).task.T == 50
    with pytest.raises(ValidationError, match="at most 20000"):
        TrialConfig.model_validate(trial_data("transformer", T=51, q=3, training__batch_size="all"))


def test_any_number_of_subsets_goes_where_one_stands_for_all(trial_data, transformer) -> None:
    every = {"T": 200, "q": 50, "training__batch_size": "all", "model__positions": {"kind": "one_hot"}}
    assert transformer(**every, training__objective="population").batch == 1
    fewer = every | {"T": 6, "q": 3}
    assert transformer(**fewer, training__objective="population").batch == 20
    for kind, fields, words in (
        (
            "transformer",
            {"training__objective": "minibatch"},
            "got objective=minibatch, model.kind=transformer, positions.kind",
        ),
        ("transformer", {"model__positions": {"kind": "gaussian", "d_e": 8}}, "positions.kind=gaussian: give a number"),
        ("fcn", {}, "got objective=minibatch, model.kind=fcn: give a number"),
        ("transformer", {"evaluation": {"every": 1, "target": 0.1}}, "a step on all of C(T=200, q=50) subsets draws none"),
    ):
        population = {"training__objective": "population"} if kind == "transformer" else {}
        own = every if kind == "transformer" else {name: every[name] for name in every if name != "model__positions"}
        with pytest.raises(ValidationError, match=re.escape(words)):
            TrialConfig.model_validate(trial_data(kind, **own | population | fields))


def test_one_hot_codes_take_their_length_from_T(transformer) -> None:
    trial = transformer(T=12, model__positions={"kind": "one_hot"})
    assert trial.model.positions.d_e == 12
    assert trial.trial_id == transformer(T=12, model__positions={"kind": "one_hot", "d_e": 12}).trial_id


def test_a_trial_id_depends_on_every_field_and_on_no_spelled_out_default(transformer) -> None:
    base = transformer()
    changed = [
        transformer(T=13), transformer(q=2), transformer(d=3), transformer(d_e=17), transformer(seed=1),
        transformer(optimizer__lr=0.02), transformer(optimizer={"kind": "gd", "lr": 0.03}), transformer(training__steps=21),
        transformer(training__objective="minibatch"), transformer(model__positions__query="sum"),
        transformer(model__positions__redraw="never"), transformer(optimizer__schedule={"kind": "cosine"}),
        transformer(evaluation__every=5), transformer(evaluation__T_test=[20]), transformer(evaluation__q_test=[2]),
        transformer(evaluation__describe=True),
    ]  # fmt: skip
    assert len({trial.trial_id for trial in [base, *changed]}) == len(changed) + 1
    assert transformer(model__init="zero", optimizer__beta1=0.9, seed=0).trial_id == base.trial_id
    spelled = {"samples": 4096, "every": None, "T_test": [], "q_test": [], "describe": False}
    assert transformer(evaluation=spelled).trial_id == base.trial_id


def test_a_list_of_a_file_is_a_tuple_of_the_config(transformer) -> None:
    trial = transformer(evaluation={"T_test": [13, 20], "q_test": [2]})
    assert (trial.evaluation.T_test, trial.evaluation.q_test) == ((13, 20), (2,))
    assert TrialConfig.model_validate_json(trial.model_dump_json()) == trial
    assert TrialConfig.model_validate(trial.model_dump(mode="json")).trial_id == trial.trial_id


def test_a_changed_copy_has_its_own_trial_id(transformer) -> None:
    trial = transformer(seed=1)
    assert trial.trial_id != transformer(seed=2).trial_id
    assert trial.model_copy(update={"seed": 2}).trial_id == transformer(seed=2).trial_id
    assert trial.model_copy() == trial
    assert trial.model_copy().trial_id == trial.trial_id


def test_a_trial_id_knows_the_fields_of_the_transformer_and_not_their_defaults(transformer) -> None:
    base = transformer(training__objective="minibatch")
    fields = [
        {"init": "gaussian"}, {"init": "gaussian", "init_scale": 0.1}, {"x_query": "gaussian"}, {"attend_query": True}
    ]  # fmt: skip
    changed = [
        transformer(training__objective="minibatch", **{f"model__{name}": value for name, value in some.items()})
        for some in fields
    ]
    assert len({trial.trial_id for trial in [base, *changed]}) == len(changed) + 1
    printed = {"model__init_scale": 0.02, "model__x_query": "zero", "model__attend_query": False}
    assert transformer(training__objective="minibatch", **printed).trial_id == base.trial_id


def test_trial_ids_of_ledgers_stay_what_they_were(transformer, fcn) -> None:
    """Ledgers name trials by these: a change means that every one is trained again."""
    assert transformer().trial_id == "0c11129a5fa0a1e8"
    assert transformer(training__objective="minibatch", model__positions={"kind": "one_hot"}).trial_id == "cbadd6d8b389369b"
    assert fcn().trial_id == "b4376d96081b8e36"


def test_a_trial_id_survives_the_trip_through_json(transformer) -> None:
    trial = transformer(optimizer__lr=0.1 + 0.2)
    assert TrialConfig.model_validate_json(trial.model_dump_json()).trial_id == trial.trial_id


def test_width_is_the_papers(transformer, fcn) -> None:
    assert transformer(d=4, d_e=24).width == 28
    assert fcn(width=6).width == 6
