"""The metrics that a criterion may judge by: their names, their words, and the number that stands against the target."""

import math

import pytest
from pydantic import ValidationError

from sweeps.schema.judged_metric import judged_number, metric_at
from sweeps.schema.spec import Criterion

WORDS = {
    "loss": "relative loss",
    "loss@T=400": "relative loss at T = 400",
    "loss@q=6": "relative loss at q = 6",
    "loss@2T": "relative loss at 2T",
    "attention_mass": "attention off the subset",
    "cosine_W": "1 - cosine of W",
    "cosine_W_centred": "1 - cosine of W, centred",
    "cosine_V": "1 - cosine of V",
}


@pytest.mark.parametrize("metric", WORDS)
def test_what_is_judged_has_words(metric):
    assert Criterion(metric=metric).measure == WORDS[metric]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"metric": "norm_W_XX"},
            "a criterion does not judge by 'norm_W_XX' (allowed: loss, loss@T=400, loss@2T, loss@q=6, att",
        ),
        ({"metric": "cosine_v"}, "by 'cosine_v'; did you mean cosine_V? (allowed: loss, "),
        ({"metric": "loss_stderr"}, "by 'loss_stderr'"),
        ({"metric": "loss@T=0"}, "by 'loss@T=0'"),
        ({"metric": "loss@1T"}, "by 'loss@1T'"),
        ({"metric": "loss@T=400\n"}, "does not judge by"),
        (
            {"metric": "loss@q=6", "of": "samples"},
            "samples are counted up to a relative loss; got metric=loss@q=6, of=samples: leave metric out",
        ),
        ({"metric": "loss@2T", "of": "task.T"}, "loss@2T changes with T; got metric=loss@2T, of=task.T: give a number"),
    ],
)
def test_other_metrics_are_refused(fields, problem):
    with pytest.raises(ValidationError) as raised:
        Criterion(**fields)
    assert problem in str(raised.value)


def test_a_multiple_of_T_is_that_of_each_task():
    assert [metric_at("loss@2T", T) for T in (8, 100)] == ["loss@T=16", "loss@T=200"]
    assert [metric_at(name, 8) for name in ("loss", "loss@T=400", "cosine_W")] == ["loss", "loss@T=400", "cosine_W"]


def test_what_grows_is_judged_as_one_minus_itself_and_has_no_error():
    metrics = {"loss@T=16": 0.3, "loss_stderr@T=16": 0.02, "attention_mass": 0.75, "cosine_W": math.nan}
    assert judged_number("loss@2T", metrics, 8) == (0.3, 0.02)
    value, error = judged_number("attention_mass", metrics, 8)
    assert value == 0.25
    assert math.isnan(error)
    assert judged_number("cosine_W", metrics, 8)[0] == math.inf
    assert math.isnan(judged_number("cosine_V", metrics, 8)[0])
    assert math.isnan(judged_number("loss@2T", None, 8)[0])
