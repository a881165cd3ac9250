"""A trial that is trained again is held against every number of its ledger line."""

import math
from dataclasses import replace

from cluster.commands.rerun import Rerun
from stsq_core import TrialConfig, TrialResult
from sweeps.store.ledger import record_of_result

CONFIG = TrialConfig.model_validate(
    {
        "task": {"T": 4, "q": 2, "d": 2},
        "model": {"kind": "fcn", "width": 4},
        "optimizer": {"kind": "adam", "lr": 0.01},
        "training": {"steps": 10},
    }
)
RESULT = TrialResult(CONFIG, "finished", 0.5, 0.01, 10, 0.1, metrics={"loss": 0.5, "loss@q=1": 0.75, "cosine_W": math.nan})


def again(**changes) -> Rerun:
    return Rerun(record_of_result(RESULT, pack_id="p", device="cpu"), replace(RESULT, **changes), 0.1)


def test_equal_numbers_are_reproduced() -> None:
    assert again().comparison() == "reproduced bit for bit"


def test_a_metric_that_differs_is_named() -> None:
    assert again(metrics=dict(RESULT.metrics) | {"loss@q=1": 0.76}).comparison() == (
        "differs in loss@q=1; the relative loss is the same"
    )
    assert not again(metrics={}).reproduced


def test_another_loss_is_told_in_standard_errors() -> None:
    assert again(relative_loss=0.51, metrics={}).comparison() == "differs by 0.02 of the loss, 1 standard errors"
