"""Claims on observations made by hand: what holds, what does not, what is open, and the numbers behind it."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from stsq_core import TrialConfig
from stsq_core.oracles import theory
from sweeps.findings.claim_verdicts import Verdict, verdicts
from sweeps.findings.observations import Observation
from sweeps.schema.claims import Claim

CLAIM: TypeAdapter[Any] = TypeAdapter(Claim)
Make = Callable[..., TrialConfig]


def claim(**fields: Any) -> Any:
    return CLAIM.validate_python({"name": "it", "says": "It is so.", **fields})


def seen(config: TrialConfig, loss: float = 0.5, **metrics: float) -> Observation:
    return Observation(config, {"loss": loss, "loss_stderr": loss / 50, **metrics}, {})


def only(verdict: tuple[Verdict, ...]) -> Verdict:
    (one,) = verdict
    return one


def judged(one: Any, observations: list[Observation]) -> Verdict:
    return only(verdicts([one], observations, level=0.9))


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ((0.97, 0.98, 0.96, 0.97), "holds"),
        ((0.5, 0.52, 0.51, 0.5), "does not hold"),
        ((0.9, 0.99, 0.94, 0.97), "not enough data"),
        ((0.99,), "not enough data"),
        ((0.97, math.nan, 0.97, 0.97), "not enough data"),
    ],
)
def test_a_bound_holds_where_the_whole_interval_keeps_it(transformer: Make, values: tuple[float, ...], answer: str) -> None:
    observations = [seen(transformer(seed=i), cosine_W=value) for i, value in enumerate(values)]
    verdict = judged(claim(kind="bound", metric="cosine_W", at_least=0.95), observations)
    assert verdict.answer == answer
    (setting,) = verdict.settings
    known = [value for value in values if not math.isnan(value)]
    assert setting.value == pytest.approx(np.mean(known))
    assert setting.num_seeds == len(known)
    if len(known) == len(values) > 1:
        # t at 95% with 3 degrees of freedom
        assert setting.high - setting.value == pytest.approx(2.3534 * np.std(values, ddof=1) / 2, rel=1e-3)


def test_a_bound_over_step_0_divides_by_the_value_before_training(transformer: Make) -> None:
    course = (np.array([0, 50]), np.array([2.0, 9.0]))
    observations = [Observation(transformer(seed=i), {"norm": 10.0 + i / 10}, {"norm": course}) for i in range(3)]
    verdict = judged(claim(kind="bound", metric="norm", over_step0=True, at_least=5.0), observations)
    assert verdict.settings[0].value == pytest.approx(10.1 / 2)
    assert judged(claim(kind="bound", metric="norm", over_step0=True, at_most=2.0), observations).answer == "does not hold"


def test_trials_are_compared_within_settings_that_are_equal_in_all_else(transformer: Make) -> None:
    observations = [
        seen(transformer(d_e, seed=seed, redraw=redraw), loss * math.exp(0.01 * seed))
        for d_e, losses in ((16, {"per_step": 0.4, "never": 0.2}), (64, {"per_step": 0.1, "never": 0.4}))
        for redraw, loss in losses.items()
        for seed in range(4)
    ]
    rule = {"metrics": ["loss"], "field": "model.positions.redraw", "smaller": "per_step", "than": "never"}
    verdict = judged(claim(kind="compare", **rule), observations)
    assert [dict(s.fields) for s in verdict.settings] == [{"model.positions.d_e": 16}, {"model.positions.d_e": 64}]
    assert [s.value for s in verdict.settings] == pytest.approx([2.0, 0.25])
    assert [s.answer for s in verdict.settings] == ["does not hold", "holds"]
    assert verdict.answer == "does not hold"
    assert verdict.num_holding == 1
    short = claim(kind="compare", where={"model.positions.d_e": 64}, **rule)
    assert judged(short, observations).answer == "holds"
    alone = [one for one in observations if one.config.model.positions.redraw == "per_step"]
    assert judged(short, alone).answer == "not enough data"


def test_what_is_ignored_may_differ_in_a_comparison(transformer: Make) -> None:
    observations = []
    for kind, lr, loss in (("adam", 0.01, 0.05), ("gd", 5.0, 0.2)):
        for seed in range(3):
            data = transformer(seed=seed).model_dump(mode="json") | {"optimizer": {"kind": kind, "lr": lr}}
            observations.append(seen(TrialConfig.model_validate(data), loss * (1 + seed / 100)))
    rule = {"kind": "compare", "metrics": ["loss"], "field": "optimizer.kind", "smaller": "adam", "than": "gd"}
    apart = judged(claim(**rule), observations)
    assert apart.answer == "not enough data"
    assert {setting.note for setting in apart.settings} == {
        "no ended trial with kind = adam is equal in all else",
        "no ended trial with kind = gd is equal in all else",
    }
    verdict = judged(claim(**rule, ignoring=["optimizer"]), observations)
    assert verdict.answer == "holds"
    assert verdict.settings[0].note == ""
    assert verdict.settings[0].value == pytest.approx(0.25)


def one_hot(seed: int, *, T: int = 12, lr: float = 0.5, steps: int = 400) -> TrialConfig:
    return TrialConfig.model_validate(
        {
            "task": {"T": T, "q": 2, "d": 3},
            "model": {"kind": "transformer", "positions": {"kind": "one_hot"}},
            "optimizer": {"kind": "gd", "lr": lr},
            "training": {"objective": "population", "steps": steps},
            "seed": seed,
        }
    )


@pytest.mark.parametrize(("stretch", "answer"), [(1.0, "holds"), (1.2, "does not hold")])
def test_the_slope_is_held_against_the_recursion(stretch: float, answer: str) -> None:
    exact = 2 * theory.one_hot_descent(T=12, q=2, d=3, lr=0.5, steps=400) * 2 / 3
    steps = np.arange(0, 401, 20)
    observations = []
    for seed in range(3):
        inverse = 1 / exact[200] + stretch * (1 / exact[steps] - 1 / exact[200]) * (1 + seed / 1000)
        losses = np.where(steps < 200, exact[steps], 1 / np.maximum(inverse, 1e-9))
        observations.append(Observation(one_hot(seed), {"loss": 0.1}, {"loss": (steps, losses)}))
    verdict = judged(claim(kind="slope"), observations)
    assert verdict.settings[0].value == pytest.approx(stretch, rel=0.01)
    assert verdict.answer == answer


STEPS = np.arange(0, 4001, 40)


def falls(make: Callable[[int], TrialConfig], course: np.ndarray, *, noise: float = 0.02) -> list[Observation]:
    """Four seeds whose loss follows a course but for noise in its logarithm."""
    stream = np.random.default_rng(3)
    losses = [np.minimum(course, 1.0) * np.exp(noise * stream.standard_normal(len(course))) for _ in range(4)]
    return [Observation(make(seed), {"loss": 0.1}, {"loss": (STEPS, losses[seed])}) for seed in range(4)]


@pytest.mark.parametrize(
    ("exponent", "linear", "at_least"),
    [(1.5, "does not hold", "holds"), (1.0, "holds", "holds"), (0.5, "does not hold", "does not hold")],
)
def test_a_loss_that_falls_as_a_power_of_the_step_has_that_exponent(exponent: float, linear: str, at_least: str) -> None:
    """R^2 of a line through 1/L would be .95 or more for each of the three."""
    course = 0.5 * (np.maximum(STEPS - 200, 1) / 300.0) ** -exponent
    observations = falls(lambda seed: one_hot(seed, T=200, steps=4000), course)
    (setting,) = judged(claim(kind="exponent", at_least=0.9, at_most=1.1), observations).settings
    assert setting.value == pytest.approx(exponent, abs=0.03)
    assert setting.low < setting.value < setting.high
    assert setting.answer == linear
    assert judged(claim(kind="exponent", at_least=0.9), observations).answer == at_least


def test_a_straight_line_has_exponent_1_wherever_it_begins() -> None:
    """Also where log L against log t has another slope, as after a plateau or from L = 1 at step 0."""
    for course in (1 / (1 + STEPS / 400), 1 / np.maximum(1.0, (STEPS - 900) / 30)):
        verdict = judged(
            claim(kind="exponent", at_least=0.9, at_most=1.1),
            falls(lambda seed: one_hot(seed, T=200, steps=4000), course, noise=0.001),
        )
        assert verdict.settings[0].value == pytest.approx(1.0, abs=0.02)
        assert verdict.rule == "0.9 to 1.1"
        assert verdict.quantity == "p in L ~ (t - t_0)^-p (1/L is linear where p = 1)"
    exact = 2 * theory.one_hot_descent(T=200, q=3, d=5, lr=5.0, steps=4000)[STEPS] * 3 / 5
    verdict = judged(
        claim(kind="exponent", below=0.05, at_most=1.1), falls(lambda seed: one_hot(seed, T=200), exact, noise=1e-4)
    )
    assert verdict.settings[0].value == pytest.approx(1.04, abs=0.01)
    assert -np.polyfit(np.log(STEPS[STEPS > 1400]), np.log(exact[STEPS > 1400]), 1)[0] > 1.5


def test_the_exponent_is_that_of_the_stretch_between_the_bounds(transformer: Make) -> None:
    """A later fall below the reference, or an earlier one above `below`, changes nothing."""
    straight = 1 / (1 + STEPS / 30)
    least = 8 * theory.attention_reference(T=16, q=3, d_e=40, query="dual")
    assert straight[-1] < least < straight[8]
    course = np.where(straight > least, straight, 1e-6)
    course[:1] = 0.9
    one = claim(kind="exponent", above_reference=8.0, at_least=0.9, at_most=1.1)
    verdict = judged(one, falls(lambda seed: transformer(40, seed=seed), course))
    assert verdict.settings[0].value == pytest.approx(1.0, abs=0.1)


def test_no_net_may_measure_below_the_floor(fcn: Make) -> None:
    def observed(factor: float) -> list[Observation]:
        return [
            seen(fcn(width, seed=seed), factor * theory.fcn_floor(width, T=8, d=2, q=2))
            for width in (4, 8, 12)
            for seed in range(4)
        ]

    one = claim(kind="floor", near_up_to=8, within=0.06)
    assert judged(one, observed(1.02)).answer == "holds"
    assert judged(one, observed(0.9)).answer == "does not hold"
    far = judged(one, observed(1.3))
    assert [s.answer for s in far.settings] == ["does not hold", "does not hold", "holds"]
    assert [s.value for s in far.settings] == pytest.approx([1.3] * 3)


@pytest.mark.parametrize(("power", "answer"), [(4.0, "holds"), (1.5, "does not hold")])
def test_sharpness_is_a_ratio_of_widths(transformer: Make, power: float, answer: str) -> None:
    widths = [8, 12, 16, 24, 32, 48, 64, 96, 128, 256]
    observations = [
        seen(transformer(m - 4, seed=seed), 0.5 * (20 / m) ** power * (1 + seed / 1000)) for m in widths for seed in range(5)
    ]
    verdict = judged(claim(kind="sharpness", begins=0.5, reaches=0.05, at_most=2.5), observations)
    assert verdict.settings[0].value == pytest.approx(10 ** (1 / power), rel=0.02)
    assert verdict.answer == answer


def test_a_loss_out_of_reach_leaves_the_ratio_above_the_widths_tried(transformer: Make) -> None:
    observations = [seen(transformer(m - 4, seed=seed), min(1.0, 8 / m)) for m in (8, 12, 20, 40) for seed in range(5)]
    verdict = judged(claim(kind="sharpness", begins=0.5, reaches=0.05, at_least=2.0), observations)
    (setting,) = verdict.settings
    assert (setting.value, setting.high) == (None, None)
    assert setting.low == pytest.approx(40 / 16, rel=0.01)
    assert verdict.answer == "holds"
    assert judged(claim(kind="sharpness", at_least=3.0), observations).answer == "not enough data"


def test_the_least_ratio_of_a_loss_out_of_reach_has_the_spread_of_its_seeds(transformer: Make) -> None:
    """The first loss is reached between 12 and 20, seed by seed elsewhere: so is the bound below which the ratio cannot lie."""
    starts = (6.5, 7.0, 8.0, 9.0, 9.5)
    observations = [
        seen(transformer(m - 4, seed=seed), min(1.0, start / m)) for m in (8, 12, 20, 40) for seed, start in enumerate(starts)
    ]
    (setting,) = judged(claim(kind="sharpness", begins=0.5, reaches=0.05, at_least=2.4), observations).settings
    assert (setting.value, setting.high) == (None, None)
    assert 40 / 19.1 < setting.low < 40 / 16.5
    assert setting.answer == "not enough data"


def test_a_claim_with_no_trial_has_not_enough_data() -> None:
    assert judged(claim(kind="bound", metric="loss", at_most=0.1), []).answer == "not enough data"


def test_no_claim_rests_on_the_survivors_alone(transformer: Make, fcn: Make) -> None:
    gone = [Observation(transformer(seed=9), {}, {}), Observation(transformer(seed=9, redraw="never"), {}, {})]
    well = [
        seen(transformer(seed=i, redraw=redraw), loss)
        for redraw, loss in (("per_step", 0.01), ("never", 0.5))
        for i in range(4)
    ]
    rule = {"metrics": ["loss"], "field": "model.positions.redraw", "smaller": "per_step", "than": "never"}
    for one in (claim(kind="compare", **rule), claim(kind="bound", metric="loss", at_most=0.6)):
        assert judged(one, well).answer == "holds"
        assert judged(one, [*well, *gone]).answer == "not enough data"
    nets = [seen(fcn(8, seed=i), 1.01 * theory.fcn_floor(8, T=8, d=2, q=2)) for i in range(3)]
    assert judged(claim(kind="floor"), nets).answer == "holds"
    assert judged(claim(kind="floor"), [*nets, Observation(fcn(8, seed=9), {}, {})]).answer == "not enough data"
