"""The package alone: found thresholds of a minimized and a maximized objective, and Optuna's own rules for samplers."""

import importlib
import math
import sys
from pathlib import Path

import numpy as np
import optuna

sys.path.insert(0, str(Path(__file__).parents[1]))
ThresholdSampler = importlib.import_module(Path(__file__).parent.name).ThresholdSampler


def test_a_loss_and_an_accuracy() -> None:
    def loss(trial: optuna.Trial) -> float:
        noise = np.random.default_rng(trial.number).normal(0, 0.1)
        return (100 / trial.suggest_int("width", 4, 1024, log=True)) ** 2 * math.exp(noise)

    sampler = ThresholdSampler(target=1.0, seed=0)
    study = optuna.create_study(sampler=sampler)
    study.optimize(loss, n_trials=96)
    result = sampler.result(study)
    assert result.reason == "precise"
    assert result.interval[0] <= 100 <= result.interval[1]
    assert len(study.trials) < 40

    sampler = ThresholdSampler(target=-1.0, scale="linear", seed=0)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(lambda trial: -loss(trial), n_trials=96)
    low, high = sampler.result(study).interval
    assert low <= 100 <= high


def test_another_process_goes_on_from_the_storage(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/study.db"
    for _ in range(2):
        study = optuna.create_study(
            study_name="one", storage=storage, load_if_exists=True, sampler=ThresholdSampler(target=0.1, seed=0)
        )
        study.optimize(lambda trial: 5 / trial.suggest_int("width", 4, 1024, log=True), n_trials=48)
    low, high = study.sampler.result(study).interval
    assert low <= 50 <= high
    assert len(study.trials) < 40
