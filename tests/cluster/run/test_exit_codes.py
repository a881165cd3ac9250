"""Exit codes tell the truth."""

from dataclasses import replace

import numpy as np
import pytest

from cluster.run.exit_codes import exit_code
from stsq_core import TrialConfig, TrialResult
from sweeps.schema.spec import Criterion
from sweeps.store.ledger import LedgerRecord, record_of_failure, record_of_result
from sweeps.store.outcomes import Outcomes
from sweeps.store.results import Results
from sweeps.thresholds.thresholds import WidthThreshold, width_thresholds

CONFIG = TrialConfig.model_validate(
    {
        "task": {"T": 4, "q": 2, "d": 2},
        "model": {"kind": "fcn", "width": 4},
        "optimizer": {"kind": "adam", "lr": 0.1},
        "training": {"steps": 10},
    }
)
FINISHED = record_of_result(TrialResult(CONFIG, "finished", 0.5, 0.01, 10, 0.1), pack_id="p", device="cpu")
DIVERGED = record_of_result(TrialResult(CONFIG, "diverged", None, None, 5, 0.1), pack_id="p", device="cpu")
FAILED = record_of_failure(CONFIG, "lost worker", pack_id="p", device="cpu")


def thresholds(*records: LedgerRecord) -> tuple[WidthThreshold, ...]:
    return width_thresholds(records, Criterion())


def results(*records: LedgerRecord, num_declared: int = 1) -> Results:
    return Results(Outcomes.of(records), frozenset(f"trial {number}" for number in range(num_declared)), num_others=0)


@pytest.mark.parametrize(
    ("records", "num_trials", "code"),
    [((FINISHED,), 1, 0), ((FINISHED,), 2, 1), ((FAILED,), 1, 1), ((DIVERGED,), 1, 3)],
)
def test_the_exit_code_of_a_sweep(records: tuple[LedgerRecord, ...], num_trials: int, code: int) -> None:
    assert exit_code(results(*records, num_declared=num_trials), thresholds(*records)) == code


def test_one_cell_with_a_number_is_enough() -> None:
    (censored,) = thresholds(FINISHED)
    (none,) = thresholds(DIVERGED)
    assert exit_code(results(DIVERGED), [none, replace(censored, replicates=np.array([]))]) == 0


def test_a_failed_recheck_is_a_failed_trial() -> None:
    printed = replace(results(FINISHED), rechecks=Outcomes.of([FAILED]))
    assert exit_code(printed, thresholds(FINISHED)) == 1


def test_a_sweep_of_which_no_cell_reaches_the_target_has_no_threshold() -> None:
    (bound,) = thresholds(FINISHED)
    short = replace(bound, status="not_reached")
    assert exit_code(results(FINISHED), [short]) == 3
    assert exit_code(results(FINISHED), [short, bound]) == 0
