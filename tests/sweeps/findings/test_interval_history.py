"""The states of a threshold are the thresholds that the trials that had ended by then give."""

import math

import numpy as np
import pytest

from stsq_core import TrialConfig, TrialResult
from sweeps.findings import interval_history as module
from sweeps.findings.interval_history import KnownThresholds, interval_histories
from sweeps.schema.spec import Criterion
from sweeps.store.ledger import record_of_result
from sweeps.store.outcomes import Outcomes
from sweeps.thresholds.thresholds import width_thresholds

CRITERION = Criterion(target_loss=0.1)


def outcomes(fcn, *, packs: int, seeds: int = 4) -> Outcomes:
    """Trials of one cell whose loss falls through the target at m = 10, `seeds` new ones in each pack at every width."""
    records = []
    for pack in range(packs):
        for seed in range(pack * seeds, (pack + 1) * seeds):
            for width in (4, 8, 16, 32):
                config: TrialConfig = fcn(T=16, width=width, seed=seed)
                loss = 0.1 * (10 / width) * math.exp(0.2 * math.sin(7.0 * seed + width))
                result = TrialResult(config, "finished", loss, 0.01, 20, 0.1)
                records.append(record_of_result(result, pack_id=f"pack{pack}", device="cpu"))
    return Outcomes.of(records)


def test_each_state_is_the_threshold_of_the_trials_before_it(fcn) -> None:
    records = outcomes(fcn, packs=5)
    [now] = width_thresholds(records, CRITERION)
    states = interval_histories([now], records, CRITERION, known={})[now.cell_id]
    assert [state.num_ended for state in states] == [16, 32, 48, 64, 80]
    assert states[-1].threshold is now
    for state in states:
        [alone] = width_thresholds(records[: state.num_ended], CRITERION)
        assert (alone.m_star, alone.low, alone.high) == (state.threshold.m_star, state.threshold.low, state.threshold.high)
    assert states[-1].threshold.high - states[-1].threshold.low < states[0].threshold.high - states[0].threshold.low


def test_what_was_computed_before_is_not_computed_again(fcn, monkeypatch: pytest.MonkeyPatch) -> None:
    known: KnownThresholds = {}
    first = outcomes(fcn, packs=3)
    [then] = width_thresholds(first, CRITERION)
    interval_histories([then], first, CRITERION, known=known)
    computed = []
    monkeypatch.setattr(
        module, "width_thresholds", lambda some, criterion: computed.append(len(some)) or width_thresholds(some, criterion)
    )
    more = outcomes(fcn, packs=5)
    [now] = width_thresholds(more, CRITERION)
    states = interval_histories([now], more, CRITERION, known=known)[now.cell_id]
    assert len(states) == 5
    assert computed == [48, 64]


def test_many_packs_are_told_at_even_ratios(fcn) -> None:
    records = outcomes(fcn, packs=60, seeds=1)
    [now] = width_thresholds(records, CRITERION)
    counts = [state.num_ended for state in interval_histories([now], records, CRITERION, known={})[now.cell_id]]
    assert len(counts) <= module.MAX_STATES
    assert (counts[0], counts[-1]) == (4, len(records))
    assert set(np.array(counts) % 4) == {0}


def test_a_cell_too_large_to_be_retraced_is_left_out(fcn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TRIALS", 10)
    records = outcomes(fcn, packs=2)
    assert interval_histories(width_thresholds(records, CRITERION), records, CRITERION, known={}) == {}
