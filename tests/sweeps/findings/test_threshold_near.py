"""Verdicts beside a published figure: what their rows are called, and the letter of a claim that selects nothing."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from stsq_core.configs.size import size_named
from sweeps.findings.threshold_verdicts import threshold_verdict
from sweeps.schema.claims import ThresholdNear
from sweeps.thresholds.width_threshold import WidthThreshold


def near(**where: Any) -> ThresholdNear:
    return ThresholdNear.model_validate(
        {"kind": "threshold_near", "name": "near", "says": "It is so.", "value": 10, "factor": 2, "where": where}
    )


def test_rows_name_the_fields_that_tell_them_apart(
    threshold: Callable[..., WidthThreshold], transformer: Callable[..., object]
) -> None:
    thresholds = [threshold(transformer(d_e, query=query), [9.0, 11.0]) for d_e, query in ((16, "sum"), (20, "dual"))]
    printed = [dict(setting.fields) for setting in threshold_verdict(near(), thresholds).settings]
    letters = {"task.T": 16, "task.q": 3, "task.d": 4}
    assert printed == [letters | {"model.positions.query": query} for query in ("sum", "dual")]
    (alone,) = threshold_verdict(near(), thresholds[:1]).settings
    assert dict(alone.fields) == letters


def test_a_claim_that_selects_nothing_is_open_and_keeps_the_letter(
    threshold: Callable[..., WidthThreshold], transformer: Callable[..., object]
) -> None:
    counted = replace(threshold(transformer(), [9.0, 11.0]), size=size_named("training.num_samples"))
    verdict = threshold_verdict(near(**{"model.kind": "fcn"}), [counted])
    assert verdict.answer == "not enough data"
    assert verdict.quantity.startswith("n* over")
