"""The fully connected net against torch.nn and autograd; the floor that no training can break."""

from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from stsq_core import train_pack
from stsq_core.kernels import compiled, cpu
from stsq_core.numerics.streams import Purpose
from stsq_core.oracles import theory
from stsq_core.programs import FcnProgram
from stsq_core.training.stack import build_program

CPU = torch.device("cpu")


@pytest.mark.parametrize("y_enters", ["first", "second", "both"])
@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
def test_gradient_is_that_of_the_same_net_in_torch_nn(fcn, y_enters: str, depth: int, activation: str) -> None:
    trial = fcn(
        T=5,
        q=2,
        d=2,
        width=6,
        model__depth=depth,
        model__tail_width=7,
        model__y_enters=y_enters,
        model__activation=activation,
        training={"steps": 5, "batch_size": 8, "dtype": "float64"},
    )
    program = build_program((trial,), CPU)
    parameters = program.initial()
    losses, gradients = program.gradients(parameters, 2)
    weights = program.weights(parameters, 0)

    layers = []
    for name in sorted(weights):
        matrix = torch.from_numpy(weights[name])
        layer = nn.Linear(matrix.shape[1] - 1, matrix.shape[0], dtype=torch.float64)
        layer.weight.data, layer.bias.data = matrix[:, :-1].clone(), matrix[:, -1].clone()
        layers.append(layer)
    draws = program.streams.draws(Purpose.TOKENS, 2)
    X = program.kernels.normals(draws, rows=1, numbers=80, dtype=torch.float64)[0].view(8, 10)
    y = program.subsets(2)[0]
    hot = torch.zeros(8, 5, dtype=torch.float64).scatter_(1, y, 1.0)
    active = {"relu": torch.relu, "tanh": torch.tanh, "gelu": nn.functional.gelu}[activation]
    h = active(layers[0](torch.cat([X, hot], 1) if y_enters != "second" else X))
    h = torch.cat([h, hot], 1) if y_enters != "first" else h
    for layer in layers[1:-1]:
        h = active(layer(h))
    target = torch.stack([X[b].view(5, 2)[y[b]].mean(0) for b in range(8)])
    loss = ((layers[-1](h) - target) ** 2).sum(1).mean()
    (loss / 2).backward()
    torch.testing.assert_close(losses[0], loss.detach() * 2 / 2)
    mine = program.weights(gradients, 0)
    for name, layer in zip(sorted(mine), layers, strict=True):
        expected = torch.cat([layer.weight.grad, layer.bias.grad[:, None]], 1)
        torch.testing.assert_close(torch.from_numpy(mine[name]), expected)


NETS: list[dict[str, Any]] = [
    {"T": 5, "d": 3, "width": 13, "model__tail_width": 37, "model__depth": 3, "training__batch_size": 75},
    {"T": 16, "d": 2, "width": 32, "model__tail_width": 128, "training__batch_size": 64},
    {"T": 3, "d": 1, "q": 1, "width": 1, "model__tail_width": 1, "model__y_enters": "first", "training__batch_size": 1},
    {"T": 9, "d": 5, "width": 70, "model__tail_width": 100, "model__y_enters": "second", "training__batch_size": 33},
]
"""Whole blocks of samples and parts of one, whole vectors of units and parts of one, several panels of units."""


def of_packs(fcn, net: dict[str, Any], dtype: str) -> FcnProgram:
    """Three trials, two of one seed."""
    return FcnProgram(tuple(fcn(seed=seed, training__dtype=dtype, **net) for seed in (0, 1, 0)), CPU)


def found(program: FcnProgram) -> list[torch.Tensor]:
    """Losses, gradients and fresh losses at a step."""
    parameters = program.initial()
    losses, gradients = program.gradients(parameters, 4)
    fresh = [program.fresh_losses(parameters, 2), program.fresh_losses(parameters, 2, q=1)]
    return [tensor.clone() for tensor in (losses, *(gradients[name] for name in parameters), *fresh)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("net", NETS)
def test_the_fused_loop_is_a_product_a_layer(fcn, net: dict[str, Any], dtype: str) -> None:
    program = of_packs(fcn, net, dtype)
    assert program.fused
    fused = found(program)
    program.fused = False
    tolerance = {"float32": {"rtol": 1e-4, "atol": 1e-6}, "float64": {"rtol": 1e-11, "atol": 1e-13}}[dtype]
    for mine, expected in zip(fused, found(program), strict=True):
        torch.testing.assert_close(mine, expected, **tolerance)


@pytest.mark.slow
@pytest.mark.parametrize("net", NETS)
def test_machines_with_narrower_vectors_find_the_same(
    fcn, net: dict[str, Any], narrow: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = found(of_packs(fcn, net, "float32"))
    monkeypatch.setattr(cpu, "compiled", narrow)
    for mine, wide in zip(found(of_packs(fcn, net, "float32")), expected, strict=True):
        torch.testing.assert_close(mine, wide, rtol=1e-4, atol=1e-6)


def test_nets_of_all_depths_share_one_compiled_loop(fcn) -> None:
    signatures = []
    for depth in (2, 3, 4):
        train_pack([fcn(model__depth=depth, training__steps=2)])
        signatures.append([set(loop.signatures) for loop in (compiled.connect, compiled.connect_steps)])
    assert signatures[0] == signatures[1] == signatures[2]


def test_a_net_that_is_not_finite_is_seen_and_alone(fcn) -> None:
    program = of_packs(fcn, NETS[1], "float32")
    parameters = program.initial()
    whole, _ = program.gradients(parameters, 4)
    for name, bad in (("W1", float("nan")), ("W2", float("inf")), ("W3", float("nan"))):
        broken = {key: value.clone() for key, value in parameters.items()}
        broken[name][1, 0, 0] = bad
        losses, _ = program.gradients(broken, 4)
        assert not losses[1].isfinite()
        assert torch.equal(losses[[0, 2]], whole[[0, 2]])


@pytest.mark.parametrize("activation", ["relu", "tanh", "gelu"])
def test_units_beyond_the_width_never_wake(fcn, activation: str) -> None:
    shared = {"training__steps": 30, "model__activation": activation}
    program = build_program((fcn(width=5, **shared), fcn(width=8, **shared)), CPU)
    parameters = program.initial()
    for step in range(30):
        _, gradients = program.gradients(parameters, step)
        for name, gradient in gradients.items():
            parameters[name] -= 0.1 * gradient
    assert not parameters["W1"][0, 5:].any()
    assert not parameters["W2"][0, :, 5:8].any()
    assert parameters["W1"][1, 5:, :13].all()
    assert not parameters["W1"][..., 13:].any()


def test_a_narrow_net_starts_as_a_prefix_of_a_wide_one(fcn) -> None:
    program = build_program((fcn(width=5), fcn(width=8)), CPU)
    narrow, wide = (program.weights(program.initial(), i) for i in (0, 1))
    torch.testing.assert_close(torch.from_numpy(narrow["W1"]), torch.from_numpy(wide["W1"][:5]))
    # The second layer's scale is its own fan-in's: width + T inputs.
    ratio = (5 + 4) ** 0.5 / (8 + 4) ** 0.5
    torch.testing.assert_close(torch.from_numpy(narrow["W2"][:, :5]) * ratio, torch.from_numpy(wide["W2"][:, :5]))


def test_initial_weights_have_torchs_linear_scale(fcn) -> None:
    program = build_program((fcn(T=16, d=4, width=64, model__tail_width=256),), CPU)
    for array, fan_in in zip(program.weights(program.initial(), 0).values(), (16 * 4 + 16, 64 + 16, 256), strict=True):
        matrix = torch.from_numpy(array)
        assert matrix.shape[1] == fan_in + 1
        assert matrix.abs().max() <= fan_in**-0.5
        assert matrix.std().item() == pytest.approx((3 * fan_in) ** -0.5, rel=0.03)


@pytest.mark.parametrize(
    ("optimizer", "steps", "widths"),
    [
        ({"kind": "adam", "lr": 0.01}, 1000, (2, 4, 8, 12, 16, 20)),
        ({"kind": "gd", "lr": 1.0}, 2500, (8, 12, 16, 20)),  # narrower ones may stop short of it
    ],
    ids=["adam", "gd"],
)
def test_no_trained_net_is_below_its_floor(fcn, optimizer: dict[str, Any], steps: int, widths: tuple[int, ...]) -> None:
    """Beyond sampling error; and training comes close, so that the floor is not met by learning nothing."""
    shared = {
        "T": 8,
        "q": 2,
        "d": 2,
        "model__tail_width": 128,
        "optimizer": optimizer | {"schedule": {"kind": "cosine"}},
    }
    results = train_pack([fcn(width=m, **shared, training={"steps": steps, "batch_size": 128}) for m in widths])
    for m, result in zip(widths, results, strict=True):
        floor = theory.fcn_floor(m, T=8, d=2, q=2)
        assert result.relative_loss > floor - 4 * result.relative_loss_stderr
        assert result.relative_loss < floor + 0.08
