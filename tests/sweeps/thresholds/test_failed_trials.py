"""Failed trials are counted, and nothing else changes by them."""

import math
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from stsq_core import TrialConfig, TrialResult
from sweeps.laws import compare_laws
from sweeps.schema import Criterion
from sweeps.store.ledger import record_of_failure, record_of_result
from sweeps.thresholds.thresholds import width_thresholds

COUNTS = {"num_trials", "num_failed", "note", "points"}
"""What failed trials may change."""

LOSSES = st.sampled_from([0.0, 0.01, 0.05, 0.09, 0.11, 0.3, 0.8, 1.0, math.inf, None])
"""A loss, of a diverged trial inf, and None where the trial is absent."""


def config_of(width: int, seed: int, lr: float, T: int = 8) -> TrialConfig:
    return TrialConfig.model_validate(
        {
            "task": {"kind": "stsq", "T": T, "q": 2, "d": 2},
            "model": {"kind": "fcn", "width": width},
            "optimizer": {"kind": "adam", "lr": lr},
            "training": {"steps": 100},
            "seed": seed,
        }
    )


def ended(config: TrialConfig, loss: float):
    numbers = {"relative_loss": loss, "relative_loss_stderr": 0.01, "steps": 100}
    if math.isinf(loss):
        numbers = {"relative_loss": None, "relative_loss_stderr": None, "steps": 5}
    status = "diverged" if math.isinf(loss) else "finished"
    return record_of_result(TrialResult(config=config, status=status, seconds=0.1, **numbers), pack_id="0" * 16, device="cpu")


def failed(config: TrialConfig, reason: str = "out of memory"):
    return record_of_failure(config, reason, pack_id="0" * 16, device="cpu")


def known(threshold) -> dict[str, object]:
    return {f.name: getattr(threshold, f.name) for f in fields(threshold) if f.name not in COUNTS | {"replicates"}}


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(
    grid=st.lists(st.lists(LOSSES, min_size=6, max_size=6), min_size=2, max_size=4),
    extra=st.lists(st.tuples(st.integers(1, 64), st.integers(0, 9), st.sampled_from([0.01, 0.1, 1.0])), max_size=12),
    statistic=st.sampled_from(["median", "mean", "solved"]),
)
def test_failed_lines_change_counts_only(grid, extra, statistic):
    """Widths 4, 8, .. with three seeds at two rates each; failures at any other place, seed and rate."""
    records = [
        ended(config_of(4 * 2**place, seed, lr), loss)
        for place, losses in enumerate(grid)
        for (seed, lr), loss in zip([(s, r) for s in range(3) for r in (0.01, 0.1)], losses, strict=True)
        if loss is not None
    ]
    if not records:
        return
    held = {record.trial_id for record in records}
    failures = {c.trial_id: failed(c) for c in (config_of(*place) for place in extra) if c.trial_id not in held}
    criterion = Criterion(statistic=statistic)
    (before,) = width_thresholds(records, criterion)
    (after,) = width_thresholds([*failures.values(), *records], criterion)
    assert known(after) == known(before)
    np.testing.assert_array_equal(after.replicates, before.replicates)
    assert (after.num_failed, after.num_trials) == (len(failures), len(records) + len(failures))


@pytest.mark.parametrize("statistic", ["median", "mean", "solved"])
def test_a_width_of_failures_only_is_no_bound(statistic):
    """Widths 1 to 16 of which the two ends fail: what is left bounds the threshold."""

    def of(loss, failing, widths=(1, 2, 4, 8, 16)):
        configs = [config_of(width, seed, 0.01) for width in widths for seed in range(5)]
        records = [failed(c) if c.model.width in failing else ended(c, loss(c.model.width)) for c in configs]
        return width_thresholds(records, Criterion(statistic=statistic))[0]

    above = of(lambda m: 0.8 / m**0.5, {16})
    assert (above.status, above.widths, above.low) == ("above_range", (1, 2, 4, 8), 8)
    assert "above 8, the largest width tried; " in above.note
    assert "every width tried above 8 failed: out of memory" in above.note
    below = of(lambda m: 0.01, {4}, widths=(4, 8, 16))
    assert (below.status, below.widths, below.high) == ("below_range", (8, 16), 8)
    assert "every width tried below 8 failed: out of memory" in below.note


def test_an_out_of_memory_width_leaves_a_law_as_it_is():
    """m* = 4 T^1 but for one cell, which ends at 32 and would need 48: its bound is 32, whatever failed above."""
    records = [
        ended(config_of(width, seed, 0.01, T=T), min(1.0, 0.1 * (4 * T / width) ** 3 * 1.02**seed))
        for T in (2 + 2, 6, 8, 12)
        for width in (8, 16, 24, 32, *([48, 64] if T < 12 else []))
        for seed in range(5)
    ]
    more = [failed(config_of(width, seed, 0.01, T=12)) for width in (1000, 2000) for seed in range(5)]

    def law_of(some):
        (found,) = compare_laws(width_thresholds(some, Criterion()))
        return [(law.name, law.aicc, law.parameters, law.num_censored) for law in found.laws]

    assert law_of([*records, *more]) == law_of(records)
