import pytest
from hypothesis import given, settings, strategies as st
from pydantic import ValidationError

from sweeps.cells.loading import check_sweep
from sweeps.schema.spec import Budget, Criterion, SweepSpec, TrialGroup, WandbSettings
from sweeps.schema.yaml_source import parse

texts = st.text(st.characters(codec="utf-8"), max_size=30)
words = texts.filter(str.strip)
slugs = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,20}", fullmatch=True)
shares = st.floats(0.01, 0.99)
widths = st.lists(st.integers(1, 500), min_size=1, max_size=4, unique=True) | st.builds(
    lambda low, times, num: {"geom": [low, low * times], "num": num}, st.integers(1, 50), st.integers(1, 9), st.integers(1, 6)
)
seeds = st.integers(1, 4) | st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=4, unique=True)


@st.composite
def specs(draw):
    groups = []
    for name in draw(st.lists(slugs, min_size=1, max_size=3, unique=True)):
        base = {
            "task": {"T": 8, "q": 2, "d": 2},
            "model": {"kind": "fcn", "width": 4},
            "optimizer": {"kind": draw(st.sampled_from(["gd", "adam"])), "lr": draw(st.floats(1e-6, 10))},
            "training": {"steps": 10},
        }
        cases = draw(st.integers(1, 3))
        zipped = {
            "task.T": draw(st.lists(st.integers(2, 99), min_size=cases, max_size=cases)),
            "model.width": draw(st.lists(widths | st.integers(1, 99), min_size=cases, max_size=cases)),
        }
        groups.append({"name": name, "base": base, "grid": {"task.d": draw(widths)}, "zip": zipped, "seeds": draw(seeds)})
    return SweepSpec.model_validate(
        {
            "name": draw(slugs),
            "title": draw(texts),
            "hypothesis": draw(words),
            "trials": groups,
            "criterion": {"target_loss": draw(shares), "success_rate": draw(shares), "level": draw(shares)},
            "budget": {"minutes": draw(st.none() | st.floats(0.1, 1e6)), "retries": draw(st.integers(0, 9))},
            "wandb": {"project": draw(st.none() | slugs), "tags": draw(st.lists(slugs, max_size=3, unique=True))},
        }
    )


@settings(max_examples=60, deadline=None)
@given(specs())
def test_a_sweep_survives_its_yaml(spec):
    assert check_sweep(parse(spec.as_yaml(), "x.yaml")).spec == spec


def test_defaults_are_those_of_the_protocol():
    assert Criterion() == Criterion(target_loss=0.1, success_rate=0.5, level=0.9)
    assert Budget() == Budget(minutes=None, retries=2)
    assert WandbSettings().mode == "auto"


def test_a_library_user_can_write_lists_or_tuples():
    group = TrialGroup(name="a", grid={"model.width": [1, 2]}, seeds=[1, 2])
    assert group.grid["model.width"] == (1, 2)
    assert SweepSpec(name="x", hypothesis="y", trials=[group]).trials == (group,)


@pytest.mark.parametrize(
    "fields",
    [
        {"zip": {"task.T": [1, 2], "task.q": [1]}},
        {"grid": {"task.T": [1]}, "zip": {"task.T": [1]}},
        {"grid": {"task.T": []}},
        {"zip": {"task.T": [[]]}},
        {"seeds": 0},
        {"seeds": []},
        {"seeds": [1, 1]},
        {"seeds": -1},
        {"base": {"seed": 3}},
        {"grid": {"seed": [3]}},
        {"grid": {"task.tee": [3]}},
        {"name": "../up"},
        {"name": ""},
    ],
)
def test_a_group_that_cannot_be_meant_is_refused(fields):
    with pytest.raises(ValidationError):
        TrialGroup.model_validate({"name": "a", **fields})
