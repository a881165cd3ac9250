"""The conditions of the theorems: right values on both sides of each, and one line a condition."""

from typing import Any

import pytest

from stsq_core import TrialConfig
from stsq_core.oracles.theory import relative_loss_bound, theorem_gaps, theorem_lines


def config(*, T: int = 12, q: int = 2, d: int = 2, positions: dict | None = None, **fields: Any) -> TrialConfig:
    return TrialConfig.model_validate(
        {
            "task": {"kind": "stsq", "T": T, "q": q, "d": d},
            "model": {"kind": "transformer", "positions": positions or {"kind": "one_hot"}, **fields.pop("model", {})},
            "optimizer": {"kind": "gd", "lr": 0.01},
            "training": {"objective": "population", "batch_size": "all", "steps": 20},
            **fields,
        }
    )


def conditions(one: TrialConfig, *, rate: float = 0.01, target_loss: float | None = None) -> list[str]:
    return [gap.condition for gap in theorem_gaps(one, rate=rate, target_loss=target_loss)]


@pytest.mark.parametrize(("T", "q", "inside"), [(8, 2, False), (9, 2, True), (12, 1, False), (12, 3, False), (13, 3, True)])
def test_the_subset_has_two_members_and_less_than_a_quarter_of_the_tokens(T: int, q: int, inside: bool) -> None:
    assert conditions(config(T=T, q=q)) == ([] if inside else ["2 <= q < T/4"])
    assert conditions(config(T=T, q=q, positions={"kind": "random_sign", "d_e": 4})) == ([] if inside else ["2 <= q < T/4"])


@pytest.mark.parametrize(("T", "q", "d"), [(12, 2, 2), (200, 3, 5), (64, 6, 1)])
def test_the_bound_on_the_loss_is_eps_over_that_of_the_zero_predictor(T: int, q: int, d: int) -> None:
    eps = d * T / (100 * (T - q) * q)
    assert relative_loss_bound(T=T, q=q) == pytest.approx(eps / (d / q))
    bound = relative_loss_bound(T=T, q=q)
    assert conditions(config(T=T, q=q, d=d), rate=0.001, target_loss=0.999 * bound) == []
    (condition,) = conditions(config(T=T, q=q, d=d), rate=0.001, target_loss=bound)
    assert condition == "a relative loss below T / (100 (T - q)), or twice that if their loss has a factor 1/2"


def test_the_bound_at_T_12_and_200() -> None:
    assert relative_loss_bound(T=12, q=2) == 0.012
    assert relative_loss_bound(T=200, q=3) == pytest.approx(0.0101523, abs=1e-7)


def test_rate_start_and_descent_are_conditions_of_theorem_1_and_so_of_one_hot_codes_alone() -> None:
    rate = "lr <= 1/(20 d^2); larger rates may converge or diverge"
    assert conditions(config(d=2), rate=0.0125) == []
    assert conditions(config(d=2), rate=0.0126) == [rate]
    assert conditions(config(d=5), rate=0.0021) == [rate]
    assert conditions(config(optimizer={"kind": "adam", "lr": 0.01})) == ["gradient descent"]
    sampled = config(training={"objective": "population", "batch_size": 16, "steps": 20})
    (gap,) = theorem_gaps(sampled, rate=0.01, target_loss=None)
    assert (gap.condition, gap.values) == ("the population loss", (("objective", "population with 16 subsets a step"),))
    full = {"training": {"objective": "minibatch", "steps": 20}, "model": {"init": "gaussian", "x_query": "gaussian"}}
    assert conditions(config(**full)) == ["the population loss", "zero initial values and x_query = 0"]
    codes = {"kind": "random_sign", "d_e": 4}
    full = {"training": {"objective": "minibatch", "steps": 20}, "model": {"init": "gaussian", "x_query": "gaussian"}}
    assert conditions(config(positions=codes, optimizer={"kind": "adam", "lr": 9.0}, **full), rate=9.0) == []


def test_the_theorems_are_about_one_transformer_and_one_task() -> None:
    net = config().model_dump() | {"model": {"kind": "fcn", "width": 8}, "training": {"objective": "minibatch", "steps": 20}}
    assert conditions(TrialConfig.model_validate(net), target_loss=0.5) == []
    other = config(T=4).model_dump() | {"task": {"kind": "selected_mean", "T": 4, "q": 2, "d": 2}}
    other["training"] = {"objective": "minibatch", "steps": 20}
    assert conditions(TrialConfig.model_validate(other), target_loss=0.5) == []


def test_cells_are_grouped_in_a_line_for_each_condition() -> None:
    cells = [(config(T=T, q=q, d=5), 5.0) for T in (6, 8, 12) for q in (2, 3)]
    assert theorem_lines(cells, target_loss=0.1) == [
        "outside the range of the theorems of arXiv:2406.06893, 2 <= q < T/4: 5 cells (q = 2, 3; T = 6, 8, 12)",
        "outside the range of the theorems of arXiv:2406.06893, a relative loss below T / (100 (T - q)), or twice that if their"
        " loss has a factor 1/2: 6 cells (target = 0.1; bound = 0.012, 0.0133, 0.015, 0.016, 0.02)",
        "outside the range of Theorem 1 of arXiv:2406.06893, lr <= 1/(20 d^2); larger rates may converge or diverge: 6 cells"
        " (lr = 5; d = 5)",
    ]
    assert theorem_lines(cells[4:5], target_loss=None)[0].endswith("1 cell (lr = 5; d = 5)")
    long = theorem_lines([(config(T=T, q=1), 0.01) for T in range(10, 20)], target_loss=None)
    assert long == ["outside the range of the theorems of arXiv:2406.06893, 2 <= q < T/4: 10 cells (q = 1; T = 10 to 19)"]
    assert theorem_lines([(config(), 0.01)], target_loss=None) == []
