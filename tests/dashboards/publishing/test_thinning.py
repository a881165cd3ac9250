"""A run has at most a thousand rows, chosen by the step alone, and always its last."""

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from dashboards.publishing.projection import Row
from dashboards.publishing.trial_runs import MAX_ROWS, Thinning
from stsq_core import TrialConfig


def config_of(steps: int, log_every: int | None, every: int | None) -> TrialConfig:
    training: dict[str, Any] = {"objective": "minibatch", "batch_size": 8, "steps": steps, "log_every": log_every}
    return TrialConfig.model_validate(
        {
            "task": {"kind": "stsq", "T": 4, "q": 2, "d": 2},
            "model": {"kind": "fcn", "width": 8},
            "optimizer": {"kind": "adam", "lr": 0.01},
            "training": training,
            "evaluation": {"every": every},
            "seed": 0,
        }
    )


def reported(config: TrialConfig, end: int) -> list[Row]:
    """The rows of a trial that reports as `train_pack` does and ends at a step."""
    strides = [config.training.report_steps, *([config.evaluation.every] if config.evaluation.every else [])]
    return [Row(s, {"step": s}) for s in range(end + 1) if any(s % stride == 0 for stride in strides) or s == end]


@settings(deadline=None, max_examples=50)
@given(
    steps=st.integers(1, 20_000),
    log_every=st.none() | st.integers(1, 500),
    every=st.none() | st.integers(1, 500),
    ended_at=st.floats(0, 1),
)
def test_at_most_a_thousand_rows_with_the_last_whatever_the_schedule(
    steps: int, log_every: int | None, every: int | None, ended_at: float
) -> None:
    config = config_of(steps, log_every, every)
    rows = reported(config, round(ended_at * steps))
    kept = list(Thinning(config).kept(rows, ended=True))
    assert 0 < len(kept) <= MAX_ROWS
    assert kept[-1] == rows[-1]
    assert [row.step for row in kept] == sorted({row.step for row in kept})
    assert len(reported(config, steps)) >= MAX_ROWS or kept == rows


@settings(deadline=None, max_examples=50)
@given(steps=st.integers(1001, 20_000), cut=st.floats(0, 1))
def test_a_stream_keeps_the_rows_that_a_replay_keeps(steps: int, cut: float) -> None:
    config = config_of(steps, 1, None)
    rows = reported(config, steps)
    thinning = Thinning(config)
    whole = list(thinning.kept(rows, ended=True))
    first = list(thinning.kept(rows[: round(cut * len(rows))], ended=False))
    assert whole[: len(first)] == first


def test_a_long_trial_keeps_evenly_spaced_steps() -> None:
    kept = [
        row.step for row in Thinning(config_of(10_000, 1, None)).kept(reported(config_of(10_000, 1, None), 10_000), ended=True)
    ]
    assert kept == [*range(0, 10_000, 11), 10_000]


@pytest.mark.parametrize("every", [7, 100])
def test_evaluations_are_thinned_by_their_own_stride(every: int) -> None:
    config = config_of(20_000, 1, every)
    kept = [row.step for row in Thinning(config).kept(reported(config, 20_000), ended=True)]
    assert sum(step % every == 0 for step in kept) >= min(200, 20_000 // every)
