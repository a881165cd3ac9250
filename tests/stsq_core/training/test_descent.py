"""One step of the stacked optimizers against torch.optim and against each other."""

import math

import numpy as np
import pytest
import torch

from stsq_core.configs.optimizer import Adam, AdamW, GradientDescent, Schedule
from stsq_core.kernels import kernels_for
from stsq_core.training.descent import AdaptiveRule, Descent, schedule_factors, stretch_from

KERNELS = kernels_for(torch.device("cpu"))
MIXED = (
    Adam(lr=0.1),
    GradientDescent(lr=0.3),
    Adam(lr=0.02, beta1=0.5, beta2=0.9, eps=1e-3),
    GradientDescent(lr=2.0, schedule=Schedule(kind="linear")),
    Adam(lr=0.1, schedule=Schedule(kind="cosine", warmup=3, floor=0.1)),
    AdamW(lr=0.1),
    AdamW(lr=0.05, weight_decay=0.5, beta1=0.5, schedule=Schedule(kind="linear", warmup=2)),
)


def trajectory(optimizers, steps: int = 12, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Minimise x^2/2 summed, from 1..6, for every optimizer: shape (k, 2, 3)."""
    descent = Descent(tuple(optimizers), steps, dtype=dtype, kernels=KERNELS)
    parameters = {"x": torch.arange(1.0, 7.0, dtype=dtype).view(1, 2, 3).repeat(len(optimizers), 1, 1)}
    moments = descent.moments(parameters)
    for step in range(steps):
        descent.update(parameters, {"x": parameters["x"].clone()}, moments, step)
    return parameters["x"]


@pytest.mark.parametrize("config", MIXED, ids=str)
def test_a_trajectory_is_torchs(config) -> None:
    x = torch.arange(1.0, 7.0, dtype=torch.float64).view(2, 3).requires_grad_()
    match config:
        case Adam():
            optimizer = torch.optim.Adam([x], lr=config.lr, betas=(config.beta1, config.beta2), eps=config.eps)
        case AdamW():
            betas, decay = (config.beta1, config.beta2), config.weight_decay
            optimizer = torch.optim.AdamW([x], lr=config.lr, betas=betas, eps=config.eps, weight_decay=decay)
        case GradientDescent():
            optimizer = torch.optim.SGD([x], lr=config.lr)
    for factor in schedule_factors(config.schedule, 12):
        optimizer.param_groups[0]["lr"] = config.lr * factor
        optimizer.zero_grad()
        (x.square().sum() / 2).backward()
        optimizer.step()
    torch.testing.assert_close(trajectory([config])[0], x.detach())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_neighbours_of_another_kind_change_no_bit(dtype: torch.dtype) -> None:
    together = trajectory(MIXED, dtype=dtype)
    for i, config in enumerate(MIXED):
        assert torch.equal(trajectory([config], dtype=dtype)[0], together[i])


def test_schedules() -> None:
    assert np.array_equal(schedule_factors(Schedule(), 4), np.ones(4))
    np.testing.assert_allclose(schedule_factors(Schedule(kind="linear"), 4), [1, 0.75, 0.5, 0.25])
    np.testing.assert_allclose(schedule_factors(Schedule(kind="linear", floor=0.5), 4), [1, 0.875, 0.75, 0.625])
    np.testing.assert_allclose(
        schedule_factors(Schedule(kind="cosine"), 4), [0.5 + 0.5 * math.cos(math.pi * t / 4) for t in range(4)]
    )
    np.testing.assert_allclose(schedule_factors(Schedule(warmup=4), 6), [0.25, 0.5, 0.75, 1, 1, 1])


def test_gradient_descent_alone_keeps_no_moments() -> None:
    descent = Descent((GradientDescent(lr=1.0),), 3, dtype=torch.float32, kernels=KERNELS)
    assert descent.moments({"x": torch.ones(1, 2)}) == {}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_adamw_without_decay_is_adam_bit_for_bit(dtype: torch.dtype) -> None:
    plain, decaying = Adam(lr=0.1), AdamW(lr=0.1, weight_decay=0.1)
    assert torch.equal(
        trajectory([AdamW(lr=0.1, weight_decay=0.0), decaying], dtype=dtype)[0], trajectory([plain], dtype=dtype)[0]
    )


@pytest.mark.parametrize("num", [1, 3, 64])
@pytest.mark.parametrize("kind", ["constant", "linear", "cosine"])
def test_the_numbers_of_a_step_are_the_same_bits_in_any_stretch(num: int, kind) -> None:
    schedule = Schedule(kind=kind, warmup=7)
    optimizers = tuple(AdamW(lr=0.1 / (1 + i), weight_decay=0.1, schedule=schedule) for i in range(num))
    whole = AdaptiveRule(optimizers, 100, stretch=range(100), dtype=torch.float64, kernels=KERNELS)
    for first, stop in ((0, 1), (1, 4), (50, 51), (37, 90), (93, 100)):
        own = AdaptiveRule(optimizers, 100, stretch=range(first, stop), dtype=torch.float64, kernels=KERNELS)
        assert np.array_equal(own.rates, whole.rates[first:stop])
        for step in range(first, stop):
            for table in ("_lr", "_kept", "_by_step"):
                assert torch.equal(own.at(getattr(own, table), step), whole.at(getattr(whole, table), step))


def test_a_table_covers_as_many_steps_as_it_has_room_for() -> None:
    assert stretch_from(0, 100, 4) == range(100)
    assert stretch_from(10, 10**12, 2**20) == range(10, 14)
    assert stretch_from(10, 10**12, 2**30) == range(10, 11)
    assert len(stretch_from(100, 100, 4)) == 0
