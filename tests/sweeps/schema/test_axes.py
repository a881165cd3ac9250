import math
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st
from pydantic import TypeAdapter, ValidationError

from sweeps.schema.axes import Axis, Geometric, Linear, thinned, values_of
from sweeps.schema.spec import TrialGroup

axis = TypeAdapter(Axis)


def test_integers_stay_integers_and_become_distinct():
    assert values_of(axis.validate_python({"geom": [4, 64], "num": 5})) == (4, 8, 16, 32, 64)
    assert values_of(axis.validate_python({"geom": [1, 4], "num": 9})) == (1, 2, 3, 4)
    assert values_of(axis.validate_python({"linear": [2, 10], "num": 5})) == (2, 4, 6, 8, 10)
    assert values_of(axis.validate_python([3, 1, 2])) == (3, 1, 2)


@settings(deadline=None)
@given(st.floats(1e-6, 1e3), st.floats(1, 1e3), st.integers(1, 30))
def test_a_geometric_axis_keeps_its_ends_and_its_order(low, ratio, num):
    high = low * ratio
    values = Geometric(geom=(low, high), num=num).values
    assert values[0] == low
    assert list(values) == sorted(set(values))
    assert num == 1 or len(values) == 1 or values[-1] == high
    if num > 2 and ratio > 2:
        steps = [math.log(b / a) for a, b in pairwise(values)]
        assert steps == pytest.approx([steps[0]] * len(steps), abs=1e-4)


@pytest.mark.parametrize("ends", [[0, 4], [-1, 4], [8, 4]])
def test_geometric_ends_must_be_positive_and_in_order(ends):
    with pytest.raises(ValidationError, match="0 < low <= high"):
        axis.validate_python({"geom": ends, "num": 3})


def test_other_shapes_are_refused_with_the_three_allowed():
    with pytest.raises(ValidationError, match="an axis is a list"):
        axis.validate_python(5)
    with pytest.raises(ValidationError):
        axis.validate_python({"geom": [1, 2], "num": 3, "more": 1})
    with pytest.raises(ValidationError):
        axis.validate_python({"linear": [1, 2], "num": 0})
    assert Linear(linear=(0.0, 1.0), num=1).values == (0.0,)


@pytest.mark.parametrize(
    ("name", "axis", "values"),
    [
        ("optimizer.lr", {"linear": [1, 2], "num": 5}, (1.0, 1.25, 1.5, 1.75, 2.0)),
        ("optimizer.lr", {"geom": [1, 4], "num": 5}, (1.0, 1.41421, 2.0, 2.82843, 4.0)),
        ("optimizer.lr", [1, 2], (1, 2)),
        ("task.T", {"linear": [6, 8], "num": 5}, (6, 7, 8)),
    ],
)
def test_the_type_of_its_field_decides_whether_an_axis_is_whole(name, axis, values):
    group = TrialGroup.model_validate({"name": "x", "grid": {name: axis}})
    assert values_of(group.grid[name]) == values
    assert list(map(type, values_of(group.grid[name]))) == list(map(type, values))
    zipped = TrialGroup.model_validate({"name": "x", "zip": {name: [axis]}})
    assert values_of(zipped.zip[name][0]) == values


def test_an_axis_that_whole_numbers_make_shorter_is_said():
    assert thinned(axis.validate_python({"linear": [6, 8], "num": 5})) == (
        "3 values and not 5, because only so many whole numbers lie there"
    )
    assert thinned(axis.validate_python({"linear": [6, 8], "num": 3})) is None
