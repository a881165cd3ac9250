"""Samples to a target: counted at evaluations, the same in any company, after a restart, and whether or not a trial stops."""

import math
from typing import Any

import pytest
from pydantic import ValidationError

from stsq_core import Measurement, TrialConfig, TrialResult, train_pack
from stsq_core.numerics.checkpoint import Checkpoint

HARD = 1e-6


class Memory(Checkpoint):
    """Keeps every state; `load` gives the one at which to go on."""

    def __init__(self, state: bytes | None = None) -> None:
        self.states: list[bytes] = []
        self._state = state

    def load(self) -> bytes | None:
        return self._state

    def due(self) -> bool:
        return True

    def save(self, state: bytes) -> None:
        self.states.append(state)

    def discard(self) -> None:
        self._state = None


def learner(fcn: Any, seed: int = 0, *, target: float | None = 0.8, stop: bool = False, **training: Any) -> TrialConfig:
    """A small net that learns two tokens of four in some dozens of steps; the higher its seed, the slower it is made."""
    return fcn(
        width=24, T=4, q=2, d=2, seed=seed, optimizer={"kind": "adam", "lr": 0.02 / (1 + seed)},
        training={"steps": 100, "batch_size": 16, "stop_at_target": stop, **training},
        evaluation={"every": 10, "target": target},
    )  # fmt: skip


def first_at(measurements: list[Measurement], trial_id: str, target: float) -> float:
    """The step of the first evaluation that found a trial at the target, from what was reported."""
    for measured in measurements:
        losses = dict(zip(measured.trial_ids, measured.metrics.get("loss", ()), strict=False))
        if losses.get(trial_id, math.inf) <= target:
            return measured.step
    return math.inf


def without_time(result: TrialResult) -> tuple[object, ...]:
    return result.status, result.relative_loss, result.steps, dict(result.metrics)


def test_samples_are_those_of_the_first_evaluation_at_the_target(fcn: Any) -> None:
    configs = [learner(fcn, seed) for seed in range(3)]
    printed: list[Measurement] = []
    results = train_pack(configs, report=printed.append)
    samples = [result.metrics["samples_to_target"] for result in results]
    assert samples == [16 * first_at(printed, config.trial_id, 0.8) for config in configs]
    assert len(set(samples)) > 1
    assert all(math.isfinite(one) for one in samples)


def test_a_target_that_is_never_reached_is_infinite_and_one_reached_before_training_zero(fcn: Any) -> None:
    never, at_once = train_pack([learner(fcn, target=HARD)]), train_pack([learner(fcn, target=0.999999, steps=3)])
    assert never[0].metrics["samples_to_target"] == math.inf
    assert at_once[0].metrics["samples_to_target"] in (0.0, 48.0)


@pytest.mark.parametrize("stop", [False, True])
def test_the_count_is_a_trials_own(fcn: Any, stop: bool) -> None:
    configs = [learner(fcn, seed, stop=stop) for seed in range(3)]
    together, alone = train_pack(configs), [train_pack([config])[0] for config in configs]
    assert [without_time(one) for one in together] == [without_time(one) for one in alone]


@pytest.mark.parametrize("stop", [False, True])
def test_the_count_survives_a_restart_at_any_step(fcn: Any, stop: bool) -> None:
    configs = [learner(fcn, seed, stop=stop) for seed in range(3)]
    memory = Memory()
    whole = [without_time(one) for one in train_pack(configs, checkpoint=memory)]
    for place in range(0, len(memory.states), 9):
        resumed = train_pack(configs, checkpoint=Memory(memory.states[place]))
        assert [without_time(one) for one in resumed] == whole


def test_stopping_changes_no_count_and_saves_the_steps_after_it(fcn: Any) -> None:
    through = train_pack([learner(fcn, seed) for seed in range(3)])
    stopped = train_pack([learner(fcn, seed, stop=True) for seed in range(3)])
    for one, other in zip(through, stopped, strict=True):
        assert one.metrics["samples_to_target"] == other.metrics["samples_to_target"]
        assert other.steps * 16 == other.metrics["samples_to_target"]
        assert other.relative_loss is not None
        assert other.relative_loss <= 0.8


def test_a_trial_that_diverges_tells_its_count_and_nothing_else(fcn: Any) -> None:
    config = learner(fcn)
    wild = config.model_copy(update={"optimizer": config.optimizer.model_copy(update={"lr": 1e30})})
    (result,) = train_pack([wild])
    assert result.status == "diverged"
    assert dict(result.metrics) == {"samples_to_target": math.inf}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"evaluation": {"target": 0.7}}, "target is looked for at evaluations through training; got target=0.7 and no every"),
        ({"training": {"steps": 9, "stop_at_target": True}}, "stop_at_target=true needs a target to stop at"),
        (
            {"training": {"steps": 9, "num_samples": 50}, "evaluation": {"every": 3, "target": 0.7}},
            "evaluation.target=0.7 counts fresh samples, and num_samples=50 makes the training set finite",
        ),
    ],
)
def test_what_does_not_fit_a_target_is_refused(fcn: Any, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message.replace("(", r"\(")):
        fcn(**fields)


def test_a_config_without_a_target_keeps_its_name(fcn: Any) -> None:
    assert fcn().trial_id == fcn(evaluation={"target": None}, training=fcn().training.model_dump()).trial_id
