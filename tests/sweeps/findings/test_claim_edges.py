"""Claims on either side of the edge at which their answer changes."""

import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from stsq_core import TrialConfig
from stsq_core.oracles import theory
from sweeps.findings.claim_results import answer_of
from sweeps.findings.claim_verdicts import Verdict, verdicts
from sweeps.findings.observations import Observation
from sweeps.findings.run_findings import Findings
from sweeps.findings.threshold_verdicts import threshold_verdict
from sweeps.schema.claims import Claim
from sweeps.schema.law_settings import LawSettings
from sweeps.thresholds.width_threshold import WidthThreshold

CLAIM: TypeAdapter[Any] = TypeAdapter(Claim)
Make = Callable[..., TrialConfig]


def claim(**fields: Any) -> Any:
    return CLAIM.validate_python({"name": "it", "says": "It is so.", **fields})


def judged(one: Any, observations: list[Observation]) -> Verdict:
    (verdict,) = verdicts([one], observations, level=0.9)
    return verdict


def one_hot(seed: int) -> TrialConfig:
    return TrialConfig.model_validate(
        {
            "task": {"T": 12, "q": 2, "d": 3},
            "model": {"kind": "transformer", "positions": {"kind": "one_hot"}},
            "optimizer": {"kind": "gd", "lr": 0.5},
            "training": {"objective": "population", "steps": 400},
            "seed": seed,
        }
    )


def test_an_interval_that_touches_the_rule_lies_inside_it_or_is_undecided() -> None:
    assert answer_of(1.0, 2.0, (1.0, 2.0)) == "holds"
    assert answer_of(0.5, 1.0, (1.0, 2.0)) == answer_of(2.0, 3.0, (1.0, 2.0)) == "not enough data"
    assert answer_of(0.5, 1.0 - 1e-12, (1.0, 2.0)) == answer_of(2.0 + 1e-12, 3.0, (1.0, 2.0)) == "does not hold"


@pytest.mark.parametrize("bound", [0.6, 0.4])
def test_two_seeds_decide_nothing_however_near_they_lie(transformer: Make, bound: float) -> None:
    one = claim(kind="bound", metric="loss", at_most=bound)
    seeds = [Observation(transformer(seed=seed), {"loss": 0.5 + seed / 1000}, {}) for seed in range(3)]
    found = [judged(one, seeds[:num]).settings[0] for num in (1, 2, 3)]
    assert [setting.answer for setting in found[:2]] == ["not enough data"] * 2
    assert found[2].answer == ("holds" if bound == 0.6 else "does not hold")
    assert [setting.note for setting in found] == [
        "1 seed gives no interval, and a verdict needs 3 seeds",
        "2 seeds give an interval of 90%, and a verdict needs 3 seeds",
        "",
    ]
    assert found[1].low is not None


@pytest.mark.parametrize("num", [2, 3])
def test_no_kind_of_claim_holds_with_two_seeds(transformer: Make, fcn: Make, num: int) -> None:
    rule = {"metrics": ["loss"], "field": "model.positions.redraw", "smaller": "per_step", "than": "never"}
    pairs = [
        Observation(transformer(seed=seed, redraw=redraw), {"loss": loss + seed / 1000}, {})
        for redraw, loss in (("per_step", 0.1), ("never", 0.5))
        for seed in range(num)
    ]
    nets = [
        Observation(fcn(8, seed=seed), {"loss": 1.01 * theory.fcn_floor(8, T=8, d=2, q=2), "loss_stderr": 0.01}, {})
        for seed in range(num)
    ]
    exact = 2 * theory.one_hot_descent(T=12, q=2, d=3, lr=0.5, steps=400) * 2 / 3
    steps = np.arange(0, 401, 20)
    falls = [Observation(one_hot(seed), {"loss": 0.1}, {"loss": (steps, exact[steps])}) for seed in range(num)]
    for one, observations, level in (
        (claim(kind="compare", **rule), pairs, "90%"),
        (claim(kind="floor"), nets, "99.7%"),
        (claim(kind="slope"), falls, "90%"),
        (claim(kind="exponent", at_least=0.5), falls, "90%"),
    ):
        (setting,) = judged(one, observations).settings
        assert setting.answer == ("holds" if num == 3 else "not enough data")
        assert setting.note == (f"2 seeds give an interval of {level}, and a verdict needs 3 seeds" if num == 2 else "")


@pytest.mark.parametrize(
    ("num", "answer", "note"),
    [
        (3, "not enough data", "3 seeds give an interval of at most 75%"),
        (4, "not enough data", "4 seeds give an interval of at most 87.5%"),
        (5, "holds", ""),
    ],
)
def test_a_ratio_of_medians_needs_seeds_that_support_its_level(transformer: Make, num: int, answer: str, note: str) -> None:
    widths = [8, 12, 16, 24, 32, 48, 64, 96, 128, 256]
    seen = [
        Observation(transformer(m - 4, seed=seed), {"loss": 0.5 * (20 / m) ** 4 * (1 + seed / 1000)}, {})
        for m in widths
        for seed in range(num)
    ]
    (setting,) = judged(claim(kind="sharpness", begins=0.5, reaches=0.05, at_most=2.5), seen).settings
    assert (setting.answer, setting.note) == (answer, note)


@pytest.mark.parametrize(("errors", "answer"), [(2.9, "holds"), (3.1, "does not hold")])
def test_a_loss_below_the_floor_by_less_than_three_errors_is_noise(fcn: Make, errors: float, answer: str) -> None:
    floor, stderr, num = theory.fcn_floor(8, T=8, d=2, q=2), 0.01, 4
    loss = floor - errors * stderr / num**0.5
    observations = [Observation(fcn(8, seed=seed), {"loss": loss, "loss_stderr": stderr}, {}) for seed in range(num)]
    assert judged(claim(kind="floor", near_up_to=8, within=0.5), observations).answer == answer


def test_the_slope_is_that_of_the_last_half_alone() -> None:
    """Losses of the first half that follow no recursion change nothing."""
    exact = 2 * theory.one_hot_descent(T=12, q=2, d=3, lr=0.5, steps=400) * 2 / 3
    steps = np.arange(0, 401, 20)
    losses = np.where(steps < 200, 1.0, exact[steps])
    observations = [Observation(one_hot(seed), {"loss": 0.1}, {"loss": (steps, losses)}) for seed in range(2)]
    (setting,) = judged(claim(kind="slope"), observations).settings
    assert setting.value == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize(("num", "answer"), [(5, "not enough data"), (6, "holds")])
def test_an_exponent_needs_six_points(num: int, answer: str) -> None:
    steps = np.arange(num) * 10 + 10
    course = {"loss": (steps, 1 / (2 + steps / 10))}
    observations = [Observation(one_hot(seed), {"loss": 0.1}, course) for seed in range(3)]
    assert judged(claim(kind="exponent", at_least=0.9, at_most=1.1), observations).answer == answer


@pytest.mark.parametrize(("high", "low", "answer"), [(10.0, 10.0, "not enough data"), (9.99, 10.0, "holds")])
def test_an_order_holds_where_intervals_do_not_even_touch(
    threshold: Callable[..., WidthThreshold], transformer: Make, high: float, low: float, answer: str
) -> None:
    first = replace(threshold(transformer(query="sum"), [9.0, 9.1]), low=8.0, high=high, num_seeds=5)
    second = replace(threshold(transformer(query="dual"), [12.0, 12.1]), low=low, high=14.0, num_seeds=5)
    one = claim(kind="threshold_order", by="model.positions.query", order=["sum", "dual"])
    assert threshold_verdict(one, [first, second]).answer == answer


def test_an_order_names_which_of_several_cells_it_compares(
    threshold: Callable[..., WidthThreshold], transformer: Make, fcn: Make
) -> None:
    cells = [threshold(transformer(T=8, q=2, d=2, redraw=redraw), [9.0, 9.1] * 4) for redraw in ("never", "per_step")]
    order = claim(kind="threshold_order", by="model.kind", order=["transformer", "fcn"])
    settings = threshold_verdict(order, [*cells, threshold(fcn(), [20.0, 20.1] * 4)]).settings
    redraw, kinds = "model.positions.redraw", ("model.kind", "transformer < fcn")
    assert [setting.fields for setting in settings] == [((redraw, "never"), kinds), ((redraw, "per_step"), kinds)]


@pytest.mark.parametrize(
    ("num", "answer", "note"),
    [
        (1, "not enough data", "1 seed gives no interval, and a verdict needs 3 seeds"),
        (2, "not enough data", "2 seeds give an interval of at most 50%, and a verdict needs 3 seeds"),
        (4, "not enough data", "4 seeds give an interval of at most 87.5%"),
        (5, "holds", ""),
    ],
)
def test_orders_and_growth_need_seeds_that_support_the_level(
    threshold: Callable[..., WidthThreshold], transformer: Make, num: int, answer: str, note: str
) -> None:
    """Of the cells that are compared or fitted, that of fewest seeds."""
    lengths = (8, 16, 32, 64, 128)
    cells = [threshold(transformer(T=T), [0.99 * T, T, 1.01 * T] * 3) for T in lengths]
    cells[0] = replace(cells[0], num_seeds=num)
    for one in (
        claim(kind="threshold_order", by="task.T", order=[8, 16]),
        claim(kind="threshold_growth", letter="T", law="power", at_least=0.8),
    ):
        (setting,) = threshold_verdict(one, cells).settings
        assert (setting.answer, setting.note, setting.num_seeds) == (answer, note, num)


@pytest.mark.parametrize(
    ("status", "law", "rule", "note"),
    [
        ("not_reached", "power", {"at_most": 1.2}, "not reached: T=64"),
        ("not_reached", "power", {"at_most": 0.5}, "not reached: T=64"),
        ("not_reached", "log_power", {"at_least": 1}, "not reached: T=64"),
        ("failed", "power", {"at_most": 1.2}, "failed: T=64"),
        ("above_range", "power", {"at_most": 1.2}, ""),
    ],
)
def test_growth_is_open_where_a_cell_has_no_threshold(
    threshold: Callable[..., WidthThreshold], fcn: Make, status: str, law: str, rule: dict, note: str
) -> None:
    """Thresholds 20, 40, 80 at T = 8, 16, 32 hold a power of 1.0, which a cell left out could not have kept."""
    cells = [threshold(fcn(T=T), [2.5 * T * (1 + 0.01 * (seed - 4)) for seed in range(8)]) for T in (8, 16, 32)]
    last = replace(threshold(fcn(T=64), status=status, widths=(4, 64, 120)), num_seeds=8)
    one = claim(kind="threshold_growth", letter="T", law=law, **rule)
    (alone,) = threshold_verdict(one, cells).settings
    assert alone.answer != "not enough data"
    assert alone.note == ""
    (setting,) = threshold_verdict(one, [*cells, last]).settings
    assert (setting.answer == "not enough data", setting.note) == (bool(note), note)
    (two,) = threshold_verdict(one, [*cells, last, replace(last, config_sample=fcn(T=128, d=3))]).settings
    assert two.note == note.replace("T=64", "T=64 d=2, T=128 d=3")


def test_growth_is_fitted_without_the_cells_that_are_held_out(threshold: Callable[..., WidthThreshold], fcn: Make) -> None:
    """Thresholds 20, 40, 80, 160 at T = 8 to 64 are a power of 1; a held-out 40 at T = 128 would pull it down."""
    cells = [threshold(fcn(T=T), [2.5 * T * (1 + 0.01 * (seed - 4)) for seed in range(8)]) for T in (8, 16, 32, 64)]
    last = threshold(fcn(T=128), [40 * (1 + 0.01 * (seed - 4)) for seed in range(8)])
    missed = replace(threshold(fcn(T=128), status="not_reached"), num_seeds=8)
    one, held_out = (
        claim(kind="threshold_growth", letter="T", law="power", at_least=0.9),
        LawSettings(held_out=({"task.T": 128},)),
    )
    (alone,) = threshold_verdict(one, cells).settings
    assert alone.value == pytest.approx(1.0, abs=1e-6)
    assert threshold_verdict(one, [*cells, last]).settings[0].value < 0.9  # type: ignore[operator]
    for other in (last, missed):
        spec = SimpleNamespace(claims=[one], criterion=SimpleNamespace(level=0.9), laws=held_out)
        findings = SimpleNamespace(spec=spec, observations=(), thresholds=(*cells, other))
        assert Findings.verdicts.func(findings)[0].settings == (alone,)  # type: ignore[attr-defined]


def test_orders_and_factors_name_the_cell_that_has_no_threshold(
    threshold: Callable[..., WidthThreshold], transformer: Make
) -> None:
    found = threshold(transformer(query="sum"), [9.0, 9.1] * 4)
    missed = replace(threshold(transformer(query="dual"), status="not_reached"), num_seeds=8)
    failed = replace(threshold(transformer(query="dual"), status="failed"), num_seeds=0)
    order = claim(kind="threshold_order", by="model.positions.query", order=["sum", "dual"])
    near = claim(kind="threshold_near", value=9, source="us")
    for other, note in ((missed, "not reached"), (failed, "failed")):
        (setting,) = threshold_verdict(order, [found, other]).settings
        assert (setting.answer, setting.note) == ("not enough data", f"{note}: query=dual")
        verdict = threshold_verdict(near, [found, other])
        assert [(setting.answer, setting.note) for setting in verdict.settings] == [("holds", ""), ("not enough data", note)]
        assert verdict.answer == "not enough data"


def test_a_ratio_compares_cells_of_one_task_and_model_with_the_interval_of_independent_estimates(
    threshold: Callable[..., WidthThreshold], fcn: Make, transformer: Make
) -> None:
    def cell(config: TrialConfig, value: float, low: float, high: float) -> WidthThreshold:
        return replace(threshold(config, [value] * 8), m_star=value, low=low, high=high, num_seeds=8)

    def by_gd(config: TrialConfig) -> TrialConfig:
        return TrialConfig.model_validate(config.model_dump() | {"optimizer": {"kind": "gd", "lr": 1.0}})

    nets, codes = [fcn(T=T, steps=300) for T in (8, 16)], transformer(T=8)
    cells = [
        cell(nets[0], 10, 9, 11),
        cell(by_gd(nets[0]), 12, 10.5, 14),
        cell(nets[1], 20, 19, 21),
        cell(by_gd(nets[1]), 40, 38, 42),
        cell(by_gd(codes), 100, 99, 101),
    ]
    one = claim(kind="threshold_ratio", by="optimizer.kind", of="gd", over="adam", at_most=1.5)
    verdict = threshold_verdict(one, cells)
    first, second = verdict.settings
    assert (dict(first.fields), dict(second.fields)) == ({"task.T": 8}, {"task.T": 16})
    down, up = (math.hypot(math.log(a), math.log(b)) for a, b in ((12 / 10.5, 11 / 10), (14 / 12, 10 / 9)))
    assert (first.value, first.low, first.high) == pytest.approx((1.2, 1.2 * math.exp(-down), 1.2 * math.exp(up)))
    assert (first.answer, second.answer, verdict.answer) == ("holds", "does not hold", "does not hold")
    assert (verdict.quantity, verdict.rule) == ("m* of optimizer.kind gd over m* of adam", "at most 1.5")
    censored = replace(cells[3], status="above_range", m_star=None, low=None, high=None, widths=(4, 64, 120))
    (above,) = threshold_verdict(one, [cells[2], censored]).settings
    assert (above.value, above.low, above.high, above.answer) == (None, pytest.approx(120 / 21), None, "does not hold")
    (alone,) = threshold_verdict(one, cells[:1]).settings
    assert (alone.value, alone.answer) == (None, "not enough data")
    across = claim(
        kind="threshold_ratio",
        by="model.positions.redraw",
        of="never",
        over="per_step",
        ignoring=["model.positions.query"],
        at_most=2,
    )
    fixed, redrawn = transformer(redraw="never", query="sum"), transformer(redraw="per_step", query="dual")
    (ratio,) = threshold_verdict(across, [cell(fixed, 10, 9, 11), cell(redrawn, 10, 9, 11)]).settings
    assert ratio.value == 1


def test_a_ratio_of_codes_compares_no_optimizers_and_tells_its_pairs_apart(
    threshold: Callable[..., WidthThreshold], transformer: Make
) -> None:
    def cell(kind: str, redraw: str, query: str) -> WidthThreshold:
        data = transformer(redraw=redraw, query=query).model_dump() | {"optimizer": {"kind": kind, "lr": 0.1}}
        return threshold(TrialConfig.model_validate(data), [9.0, 9.1] * 4)

    fields = {"by": "model.positions.redraw", "of": "never", "over": "per_step", "at_most": 2}
    cells = [cell(kind, redraw, "sum") for kind in ("gd", "adam") for redraw in ("never", "per_step")]
    verdict = threshold_verdict(claim(kind="threshold_ratio", **fields), cells)
    assert [dict(setting.fields) for setting in verdict.settings] == [{"optimizer.kind": "gd"}, {"optimizer.kind": "adam"}]
    several = [cell("gd", "never", "sum"), *(cell("gd", "per_step", query) for query in ("sum", "dual"))]
    verdict = threshold_verdict(claim(kind="threshold_ratio", ignoring=["model.positions.query"], **fields), several)
    assert [dict(setting.fields) for setting in verdict.settings] == [
        {"model.positions.query": query} for query in ("sum", "dual")
    ]


def test_a_ratio_of_a_value_to_itself_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"a ratio compares two values of optimizer\.kind; got 'gd' twice"):
        claim(kind="threshold_ratio", by="optimizer.kind", of="gd", over="gd", at_most=1.5)


def test_growth_names_what_tells_its_families_apart(threshold: Callable[..., WidthThreshold], transformer: Make) -> None:
    def by_gd(config: TrialConfig) -> TrialConfig:
        return TrialConfig.model_validate(config.model_dump() | {"optimizer": {"kind": "gd", "lr": 1.0}})

    made = [transformer(T=T, redraw=redraw) for redraw in ("never", "per_step") for T in (8, 16, 32)]
    configs = [*made, *(by_gd(transformer(T=T, redraw="never")) for T in (8, 16, 32))]
    cells = [threshold(config, [config.task.T * (1 + 0.01 * (seed - 4)) for seed in range(8)]) for config in configs]
    verdict = threshold_verdict(claim(kind="threshold_growth", letter="T", law="power", at_least=0.8), cells)
    named = [{name: value for name, value in setting.fields if "task" not in name} for setting in verdict.settings]
    codes = "model.positions.redraw"
    assert named == [
        {"model.kind": "transformer", codes: "never", "optimizer.kind": "adam"},
        {"model.kind": "transformer", codes: "per_step", "optimizer.kind": "adam"},
        {"model.kind": "transformer", codes: "never", "optimizer.kind": "gd"},
    ]
