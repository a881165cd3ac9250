"""The threshold sampler in anybody's study: any parameter, either direction, any target, success in the user's own words."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.study import Study
from optuna.trial import Trial

from sweeps import ThresholdSampler
from sweeps.sampler.objective import Objective
from sweeps.sampler.parameter import Parameter
from sweeps.sampler.result import ThresholdResult
from sweeps.sampler.stopping import SearchState


def noise(trial: Trial) -> float:
    return float(np.random.default_rng(trial.number).normal())


def search(
    value: Callable[[Trial], float], *, direction: str = "minimize", n_trials: int = 96, **settings: Any
) -> tuple[Study, ThresholdResult]:
    sampler = ThresholdSampler(**{"seed": 0} | settings)
    study = optuna.create_study(direction=direction, sampler=sampler)
    study.optimize(value, n_trials=n_trials)
    return study, sampler.result(study)


def accuracy(at: float, threshold: float, trial: Trial) -> float:
    """Passes 0.8 at the threshold."""
    return 0.1 + 0.9 / (1 + (threshold / at) ** 3 * 2 / 7) + 0.01 * noise(trial)


def holds(result: ThresholdResult, threshold: float) -> bool:
    low, high = result.interval
    assert low is not None
    assert high is not None
    return low <= threshold <= high


def test_the_only_whole_number_is_the_parameter_and_a_line_says_what_was_found() -> None:
    study, result = search(
        lambda trial: accuracy(trial.suggest_int("width", 8, 512, log=True), 80, trial),
        target=0.8,
        scale="linear",
        direction="maximize",
    )
    assert (result.parameter, result.reason) == ("width", "precise")
    assert holds(result, 80)
    assert result.threshold == pytest.approx(80, rel=0.1)
    assert len(study.trials) == result.num_points < 40
    low, high = result.interval
    assert str(result) == (
        f"width* = {result.threshold:.1f} (90% interval {low:.1f} to {high:.1f}), precise, {result.num_points} points"
    )
    assert study.user_attrs["stsq:estimate"] == pytest.approx(result.threshold, rel=1e-5)


def test_a_target_above_one_is_searched_on_a_log_scale() -> None:
    """A cross entropy that falls from 4.6 to 1.2 and passes 1.5 at 40; a count that grows and passes 300 at 40."""

    def cross_entropy(trial: Trial) -> float:
        width = trial.suggest_int("width", 2, 512)
        return (1.2 + 3.4 / (1 + (width / 40) ** 2 * 3.1 / 0.3)) * math.exp(0.02 * noise(trial))

    _, result = search(cross_entropy, target=1.5)
    assert result.reason == "precise"
    assert holds(result, 40)

    def count(trial: Trial) -> float:
        return 300 * (trial.suggest_int("width", 2, 512) / 40) ** 2 * math.exp(0.1 * noise(trial))

    _, result = search(count, target=300, direction="maximize")
    assert result.reason == "precise"
    assert holds(result, 40)


def test_a_real_parameter_may_have_its_threshold_at_its_upper_end() -> None:
    """The largest rate that trains, 0.03, of 1e-5 to 1; and of a rate of noise from 0 to 1, which has a linear axis."""

    def rate(trial: Trial) -> float:
        return accuracy(0.03 / trial.suggest_float("lr", 1e-5, 1, log=True), 1, trial)

    settings = {"target": 0.8, "scale": "linear", "reached": "below", "direction": "maximize"}
    study, result = search(rate, param="lr", **settings)
    assert holds(result, 0.03)
    assert len({trial.params["lr"] for trial in study.trials}) > 10

    def noisy(trial: Trial) -> float:
        return accuracy(0.4, trial.suggest_float("noise", 0, 1), trial)

    study, result = search(noisy, param="noise", tolerance=0.03, **settings)
    assert result.reason == "precise"
    assert holds(result, 0.4)
    low, high = result.interval
    assert high - low <= 2 * 0.03 * 1.01
    assert "noise* = 0.4" in str(result) or "noise* = 0.3" in str(result)


def test_whole_numbers_from_0_on_and_steps_are_kept() -> None:
    """Layers from 0 to 12, of which 5 suffice; widths in steps of 16."""

    def layers(trial: Trial) -> float:
        return 0.5 - 0.1 * trial.suggest_int("layers", 0, 12) + 0.02 * noise(trial)

    _, result = search(layers, target=0.05, scale="linear")
    assert result.threshold == pytest.approx(4.5, abs=0.4)
    study, result = search(
        lambda trial: 30 / trial.suggest_int("width", 16, 512, step=16) * math.exp(0.1 * noise(trial)), target=0.2
    )
    assert {trial.params["width"] % 16 for trial in study.trials} == {0}
    assert holds(result, 150)


@pytest.mark.parametrize(("threshold", "high"), [(900, 1000), (5.5, 64)])
def test_the_tolerance_of_a_largest_whole_number_is_of_its_own_size(threshold: float, high: int) -> None:
    """The largest batch that trains: its interval is 10% to either side, or one step, in its own numbers."""
    _, result = search(
        lambda trial: accuracy(threshold / trial.suggest_int("batch", 1, high, log=True), 1, trial),
        target=0.8,
        scale="linear",
        reached="below",
        direction="maximize",
    )
    assert result.reason == "precise"
    assert holds(result, threshold)
    low, high_end = result.interval
    assert high_end <= low * 1.1**2 + 1e-9 or high_end - low <= 1


def test_success_may_be_said_in_the_users_own_words() -> None:
    def solved(trial: Trial) -> float:
        width = trial.suggest_int("width", 2, 512, log=True)
        trial.set_user_attr("solved", bool(np.random.default_rng(trial.number).uniform() < 1 / (1 + (50 / width) ** 12)))
        return 0.0

    study, result = search(solved)
    assert result.reason == "precise"
    assert holds(result, 50)
    assert len(study.trials) <= 72

    def refined(trial: Trial) -> float:
        """A loss that counts, but for trials that the user finds good or bad whatever it is."""
        width = trial.suggest_int("width", 2, 512, log=True)
        if trial.number % 3 == 0:
            trial.set_user_attr("solved", width >= 50)
            return 7.0
        return 0.1 * (50 / width) ** 2 * math.exp(0.1 * noise(trial))

    _, result = search(refined, target=0.1)
    assert holds(result, 50)
    assert search(refined, target=0.1)[1] == result


def test_without_a_target_a_trial_must_say_whether_it_is_solved() -> None:
    with pytest.raises(ValueError, match=r"trial 0 does not say whether .*set_user_attr\('solved', True\)"):
        search(lambda trial: trial.suggest_int("width", 2, 64))


def test_a_study_in_which_it_chooses_nothing_is_warned_of_once() -> None:
    with pytest.warns(
        UserWarning, match=r"chooses nothing .* no trial has a parameter of whole numbers, .* trial 0 has 'x'"
    ) as told:
        search(lambda trial: trial.suggest_float("x", 0, 1), target=0.5, n_trials=3)
    assert len([one for one in told if one.category is UserWarning]) == 1
    with pytest.warns(UserWarning, match="no trial has the parameter 'width'"):
        search(lambda trial: trial.suggest_int("m", 2, 9), target=0.5, param="width", n_trials=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        search(lambda trial: trial.suggest_int("width", 2, 9) / 10, target=0.5, n_trials=3)


@pytest.mark.slow
def test_of_several_whole_numbers_one_must_be_named_and_the_others_are_tuned_as_usual() -> None:
    """A rate of 0.01 is best; Optuna's own sampler finds it while the width's threshold is sought."""

    def value(trial: Trial) -> float:
        width, batch = trial.suggest_int("width", 20, 80, log=True), trial.suggest_int("batch", 1, 128)
        rate = trial.suggest_float("lr", 1e-4, 1, log=True)
        return 0.1 * 40 / width * (1 + 0.01 * abs(math.log(batch / 64))) * (1 + 2 * abs(math.log10(rate / 0.01)))

    with pytest.raises(ValueError, match=r"several parameters are whole numbers \('width', 'batch'\): .* param=NAME"):
        search(value, target=0.1)
    study, result = search(
        value, target=0.1, param="width", tolerance=0.02, others=optuna.samplers.GPSampler(seed=0), n_trials=40
    )
    assert result.parameter == "width"
    rates = [abs(math.log10(trial.params["lr"] / 0.01)) for trial in study.trials]
    assert np.median(rates[30:]) < np.median(rates[:10]) / 2


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"target": 0}, "on a log scale a target lies above 0"),
        ({"target": math.nan, "scale": "linear"}, "takes any finite one"),
        ({"target_loss": 1.5}, "between 0 and 1"),
        ({"target": 0.1, "target_loss": 0.1}, "two ways to say one thing"),
        ({"target": 0.1, "scale": "sqrt"}, "scale is 'log' or 'linear'; got 'sqrt'"),
        ({"target": 0.1, "reached": "up"}, "reached is 'above' or 'below'; got 'up'"),
        ({"target": 0.1, "success_rate": 1}, "success_rate"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_with_what_is_allowed(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        ThresholdSampler(**settings)


def test_a_relative_loss_is_not_maximized_and_names_have_no_order() -> None:
    with pytest.raises(ValueError, match="target_loss is for a loss, and this study maximizes: give target"):
        search(lambda trial: trial.suggest_int("m", 2, 9), target_loss=0.1, direction="maximize")
    with pytest.raises(ValueError, match="a threshold needs numbers in an order"):
        search(lambda trial: len(trial.suggest_categorical("kind", ["a", "bb"])), target=1, param="kind")


@pytest.mark.parametrize("is_upper", [False, True])
@pytest.mark.parametrize(
    "distribution",
    [
        IntDistribution(3, 500, log=True),
        IntDistribution(-4, 20),
        IntDistribution(16, 512, step=16),
        FloatDistribution(1e-5, 0.1, log=True),
        FloatDistribution(-1, 3),
        FloatDistribution(0, 1, step=0.05),
    ],
)
def test_values_lie_on_an_axis_of_widths_and_back(distribution: Any, is_upper: bool) -> None:
    parameter = Parameter.of("x", distribution, is_upper=is_upper)
    ends = (distribution.low, distribution.high)
    widths = [parameter.width(end) for end in ends]
    assert (min(widths), max(widths)) == pytest.approx((parameter.low, parameter.high))
    assert (widths[0] > widths[1]) == is_upper
    for part in np.linspace(0, 1, 7):
        log_width = math.log(parameter.low) + part * (math.log(parameter.high) - math.log(parameter.low))
        value = parameter.asked(log_width)
        assert distribution._contains(value)
        assert abs(parameter.value(log_width) - value) <= max(parameter.step, 1e-9)
        assert parameter.asked(math.log(parameter.width(value))) == pytest.approx(value)


def test_a_threshold_beyond_an_end_is_named_by_the_users_axis() -> None:
    """Trained at every rate: the threshold of the largest that trains lies above the range, and below the reflected one."""
    _, result = search(
        lambda trial: 0.01 + 0 * trial.suggest_float("lr", 1e-3, 1, log=True), target=0.5, param="lr", reached="below"
    )
    assert (result.reason, result.threshold) == ("above_range", None)
    assert result.interval == (1, None)
    assert str(result) == f"lr*: above range, {result.num_points} points"


@pytest.mark.parametrize(
    ("loss", "reached", "reason"),
    [
        (lambda part: 0.01, "above", "below_range"),
        (lambda part: 0.01, "below", "above_range"),
        (lambda part: 0.99 - 0.8 * part**2, "above", "above_range"),
    ],
)
@pytest.mark.parametrize("ends", [(3, 30), (-7, 30), (0, 1)])
def test_an_interval_that_ends_at_the_range_has_its_exact_end(
    loss: Callable[[float], float], reached: str, reason: str, ends: tuple[int, int]
) -> None:
    """The axis is one of logarithms, or linear, whose ends come back beside themselves: 30.000000000000004."""
    low, high = ends

    def value(trial: Trial) -> float:
        return loss((trial.suggest_float("x", low, high, log=low > 0) - low) / (high - low))

    _, result = search(value, target=0.1, param="x", reached=reached)
    assert (result.reason, result.interval) == (reason, (high, None) if reason == "above_range" else (None, low))


@pytest.mark.slow
def test_a_noisy_objective_whose_threshold_lies_close_to_the_lower_end_is_found_there() -> None:
    """Half of such searches ended below the range, most of them by one lucky point; three of eight may, by luck of all."""
    noise, reasons = np.random.default_rng(0), []

    def loss(trial: Trial) -> float:
        return max(1e-6, 0.9 * math.exp(-trial.suggest_int("width", 43, 256) / 30) + 0.03 * noise.normal())

    for _ in range(8):
        _, result = search(loss, target=0.2)
        reasons.append(result.reason)
        assert result.num_points >= 7
        assert result.interval[1] is None or result.interval[1] >= 43
    assert reasons.count("below_range") <= 3


def test_a_value_without_a_logarithm_is_spoken_of_once() -> None:
    with pytest.warns(UserWarning, match=r"trial 0 has the value 0, which has no logarithm .* scale='linear'") as caught:
        search(lambda trial: 0 * trial.suggest_int("width", 4, 64), target=0.2)
    assert len(caught) == 1


def test_losses_of_objectives() -> None:
    minus = np.full(4, -1)
    losses, by_sign = Objective(0.1, "log", is_relative=True).log_losses(np.array([1, 0.1, 0, math.nan]), minus, num_first=8)
    assert losses.tolist() == pytest.approx([0, math.log(0.1), -math.inf, math.inf])
    assert not by_sign.any()
    linear = Objective(0.8, "linear", is_relative=False, is_maximized=True)
    losses, _ = linear.log_losses(np.array([0.1, 0.8, 1.0, 0.6]), minus, num_first=8)
    assert (losses - linear.log_target).tolist() == pytest.approx([5.25, 0, -1.5, 1.5])  # 0.2 is 1.5
    ratio = Objective(500, "log", is_relative=False, is_maximized=True)
    losses, _ = ratio.log_losses(np.array([500.0, 50_000, 5, -1]), minus, num_first=8)
    assert (losses - ratio.log_target).tolist()[:3] == pytest.approx([0, -math.log(100), math.log(100)])
    assert losses[3] > 40


def test_nothing_asked_is_no_threshold_yet() -> None:
    nothing = ThresholdResult.of(SearchState(False, "", 0, None), 0.9)
    assert str(nothing) == "m*: no threshold yet, searching, 0 points"
