"""What a step asks of a GPU, looked at without one: tensors without data on `meta`, kernels that check what they are handed.

A step that is to be captured must not wait for the device, copy to or from it, or let a shape follow a value.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from stsq_core import TrialConfig
from stsq_core.configs.training import Evaluation
from stsq_core.networks import NetworkProgram
from stsq_core.programs import program as program_module
from stsq_core.training.cost import memory_bytes
from stsq_core.training.descent import Descent
from stsq_core.training.stack import Stack, build_program
from tests.stsq_core.held_memory import NETS, SHAPES, HeldBytes

pytest.importorskip("triton")

from stsq_core.kernels import cuda

DEVICE = torch.device("meta")
"""Stands for the GPU: PyTorch refuses to mix its tensors with the CPU's, too, but needs no driver."""

WAITING = ("_local_scalar_dense", "item", "nonzero", "is_nonzero", "masked_select", "unique", "equal", "lift_fresh", "bincount")


STRIDED = {("descend", "gradient"), ("layer", "values")}
"""Arguments that kernels take with their strides."""


class NothingThatWaits(TorchDispatchMode):
    """Fails on an operation that a captured step must not contain."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        assert not name.startswith(WAITING), f"{func} waits for the device"
        result = func(*args, **(kwargs or {}))
        for value in (*_tensors(args), *_tensors(tuple((kwargs or {}).values())), *_tensors((result,))):
            assert value.device == DEVICE, f"{func} meets a tensor on {value.device}"
        return result


class NothingFromTheHost(TorchFunctionMode):
    """Fails on a tensor made of Python numbers, whose copy to the device would be captured with today's numbers."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func not in (torch.tensor, torch.as_tensor, torch.asarray), f"{func.__name__} copies from the host"
        return func(*args, **(kwargs or {}))


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from _tensors(value)


def checked_launch(kernel: Any, grid: tuple[int, ...], *arguments: Any, warps: int = 4, **constants: Any) -> None:
    """In the place of a launch: every argument is there, on the device, and dense where the kernel takes it to be."""
    assert [*kernel.arg_names] == [*kernel.arg_names[: len(arguments)], *constants], kernel.__name__
    assert 1 <= len(grid) <= 3
    if 0 in grid:
        return
    assert all(1 <= size < 2**31 if axis == 0 else 1 <= size < 2**16 for axis, size in enumerate(grid))
    assert warps in (1, 2, 4, 8, 16)
    for name, argument in zip(kernel.arg_names, arguments, strict=False):
        if isinstance(argument, torch.Tensor):
            assert argument.device == DEVICE, f"{kernel.__name__}: {name} is on {argument.device}"
            assert argument.is_contiguous() or (kernel.__name__, name) in STRIDED, f"{kernel.__name__}: {name}"
        else:
            assert isinstance(argument, int), f"{kernel.__name__}: {name} is {argument!r}"


def stacks(transformer, fcn) -> dict[str, list]:
    adam, gd = {"kind": "adam", "lr": 0.02}, {"kind": "gd", "lr": 0.5}
    training = {"steps": 12, "batch_size": 6}
    population = training | {"objective": "population"}
    signs = {"kind": "random_sign", "d_e": 9}
    kinds: dict[str, list] = {}
    for name, optimizers in {"adam": (adam, adam), "gd": (gd, gd), "mixed": (adam, gd)}.items():
        for objective, t in {
            "population": population,
            "minibatch": training,
            "float64": training | {"dtype": "float64"},
        }.items():
            kinds[f"{objective} {name}"] = [
                transformer(T=40, d=3, optimizer=o, training=t, seed=i) for i, o in enumerate(optimizers)
            ]
        kinds[f"fcn {name}"] = [fcn(width=5 + i, optimizer=o, training=training) for i, o in enumerate(optimizers)]
    for objective, t in {"population": population, "minibatch": training}.items():
        for query in ("sum", "dual"):
            for redraw in ("never", "per_sample"):
                codes = signs | {"redraw": redraw, "query": query}
                kinds[f"{objective} {redraw} {query}"] = [
                    transformer(model__positions=codes, training=t, seed=i) for i in (0, 1)
                ]
        for codes in ({"kind": "gaussian", "redraw": "per_sample"}, {"kind": "gaussian"}, {"kind": "sinusoidal"}):
            kinds[f"{objective} {' '.join(codes.values())}"] = [
                transformer(model__positions=codes | {"d_e": 9}, training=t, seed=i) for i in (0, 1)
            ]
        kinds[f"{objective} one_hot"] = [
            transformer(model__positions={"kind": "one_hot"}, training=t, optimizer=o) for o in (adam, gd)
        ]
        kinds[f"{objective} all"] = [transformer(T=6, training=t | {"batch_size": "all"}, seed=i) for i in (0, 1)]
        kinds[f"{objective} shared seeds"] = [transformer(training=t, seed=i // 2) for i in range(4)]
    full = {"model__init": "gaussian", "model__x_query": "gaussian", "model__attend_query": True}
    for codes in (
        {"kind": "random_sign"},
        {"kind": "gaussian", "redraw": "per_sample"},
        {"kind": "sinusoidal", "query": "sum"},
        {"kind": "learned"},
        {"kind": "learned", "query": "dual"},
    ):
        for name, fields in {"full": full, "init": {"model__init": "gaussian"}, "zero": {"model__x_query": "gaussian"}}.items():
            kinds[f"{name} {' '.join(codes.values())}"] = [
                transformer(model__positions=codes | {"d_e": 9}, training=training, optimizer=o, seed=i, **fields)
                for i, o in enumerate((adam, gd))
            ]
    kinds["full one_hot"] = [
        transformer(model__positions={"kind": "one_hot"}, training=training, seed=i, **full) for i in (0, 1)
    ]
    kinds["minibatch large"] = [transformer(T=40, q=10, d=14, training=training, seed=i) for i in (0, 1)]
    for y_enters in ("first", "second"):
        kinds[f"fcn {y_enters}"] = [fcn(model__y_enters=y_enters, model__depth=3, training=training, seed=i) for i in (0, 1)]
    for activation in ("tanh", "gelu"):
        kinds[f"fcn {activation}"] = [fcn(model__activation=activation, training=training, seed=i) for i in (0, 1)]
    return kinds


def test_a_step_stays_on_the_device(transformer, fcn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "launch", checked_launch)
    monkeypatch.setattr(program_module, "kernels_for", cuda.CudaKernels)
    for kind, trials in stacks(transformer, fcn).items():
        program = build_program(tuple(trials), DEVICE)
        assert isinstance(program.kernels, cuda.CudaKernels), kind
        descent = Descent(tuple(t.optimizer for t in trials), 12, dtype=program.dtype, kernels=program.kernels)
        parameters = program.initial()
        moments = descent.moments(parameters)
        step = torch.zeros(1, dtype=torch.int64, device=DEVICE)
        with NothingFromTheHost(), NothingThatWaits():
            losses, gradients = program.gradients(parameters, step)
            descent.update(parameters, gradients, moments, step)
            step.add_(1)
        assert losses.shape == (len(trials),), kind
        assert {name: g.shape for name, g in gradients.items()} == {name: p.shape for name, p in parameters.items()}, kind
        assert program.fresh_losses(parameters, 0, q=1).device == DEVICE, kind
        mass = program.fresh_attention_mass(parameters, 0)
        assert mass is None if kind.startswith("fcn") else mass.device == DEVICE, kind


SELECTION, QSTR, SIGNS = (
    {"kind": "stsq", "T": 9, "q": 2, "d": 3},
    {"kind": "qstr", "T": 5, "q": 2, "d": 3},
    {"kind": "random_sign", "d_e": 9},
)
STARTED = {"kind": "attention", "positions": SIGNS, "init": "gaussian"}
NETWORKS = [
    *((SELECTION, STARTED | {"scores": scores}) for scores in ("softmax", "linear", "sigmoid", "top_q")),
    (SELECTION, STARTED | {"layers": 2, "heads": 2, "rank": 3}),
    (SELECTION, STARTED | {"layers": 2, "positions": SIGNS | {"redraw": "per_sample"}}),
    (SELECTION, STARTED | {"positions": {"kind": "learned", "d_e": 5, "query": "dual"}}),
    ({"kind": "selected_mean", "T": 9, "q": 2, "d": 3}, {"kind": "fcn", "width": 5, "tail_width": 6}),
    *((QSTR, {"kind": "rnn", "width": 7, "cell": cell}) for cell in ("gru", "relu", "tanh")),
    (QSTR, {"kind": "transformer_mlp", "width": 7}),
    (QSTR, {"kind": "ffn", "tail_width": 7}),
    ({"kind": "sparse_boolean", "T": 8, "q": 2, "function": "and"}, {"kind": "bit_attention", "width": 4, "mlp_width": 5}),
]


@pytest.mark.parametrize(("task", "model"), NETWORKS, ids=lambda record: "-".join(str(v) for v in record.values()))
def test_a_step_of_a_network_stays_on_the_device(task: dict, model: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a rehearsal, as in a capture: what is made once may come from the host then."""
    monkeypatch.setattr(cuda, "launch", checked_launch)
    monkeypatch.setattr(program_module, "kernels_for", cuda.CudaKernels)
    data = {
        "task": task,
        "model": model,
        "training": {"steps": 12, "batch_size": 6},
        "optimizer": {"kind": "adamw", "lr": 0.01},
    }
    trials = tuple(TrialConfig.model_validate(data | {"seed": seed}) for seed in range(2))
    program = build_program(trials, DEVICE)
    assert isinstance(program, NetworkProgram)
    descent = Descent(tuple(t.optimizer for t in trials), 12, dtype=program.dtype, kernels=program.kernels)
    parameters, step = program.initial(), torch.zeros(1, dtype=torch.int64, device=DEVICE)
    moments = descent.moments(parameters)
    program.gradients(parameters, step)
    with NothingFromTheHost(), NothingThatWaits():
        losses, gradients = program.gradients(parameters, step)
        descent.update(parameters, gradients, moments, step)
    assert losses.shape == (2,)
    assert {name: g.shape for name, g in gradients.items()} == {name: p.shape for name, p in parameters.items()}


def held_on_a_gpu(trials: list[TrialConfig]) -> int:
    """The most bytes that two steps hold in tensors at a time."""
    with HeldBytes() as held:
        program = build_program(tuple(trials), DEVICE)
        descent = Descent(tuple(t.optimizer for t in trials), 12, dtype=program.dtype, kernels=program.kernels)
        parameters, step = program.initial(), torch.zeros(1, dtype=torch.int64, device=DEVICE)
        moments = descent.moments(parameters)
        for _ in range(2):
            descent.update(parameters, program.gradients(parameters, step)[1], moments, step)
    return held.peak


def test_the_memory_of_a_trial_is_what_a_step_holds(transformer, fcn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "launch", checked_launch)
    monkeypatch.setattr(program_module, "kernels_for", cuda.CudaKernels)
    adam = {"kind": "adam", "lr": 0.01}
    stacks = {}
    for name, shape in SHAPES.items():
        shape = shape | {"optimizer": adam, "training": shape["training"] | {"steps": 12}}
        stacks[name] = [transformer(seed=seed, **shape) for seed in range(8)]
    for T, width, batch in NETS:
        shape = {"model__tail_width": 128, "training": {"batch_size": batch, "steps": 12}}
        stacks[f"fcn {T} {width}"] = [fcn(T=T, width=width, seed=seed, **shape) for seed in range(8)]
    for name, trials in stacks.items():
        assert memory_bytes(trials[0], "cuda") == pytest.approx(held_on_a_gpu(trials) / 8, rel=0.15), name


@pytest.mark.slow
@pytest.mark.skipif(torch.cuda.is_available(), reason="test_cuda.py compares the GPU itself")
@pytest.mark.parametrize("kind", ["population", "minibatch", "full", "learned", "fcn"])
def test_interpreted_training_is_that_of_the_cpu(transformer, fcn, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Adam with an eps well above rounding: an entry whose gradient is zero but for rounding would else take a full step by the
    sign of that rounding, which differs between libraries and processors.
    """
    monkeypatch.setattr(Evaluation, "num_chunks", 2)  # the interpreter is slow
    training = {"steps": 4, "batch_size": 5, "log_every": 1}
    adam = {"kind": "adam", "lr": 0.03, "eps": 1e-3}
    transformer, fcn = (partial(make, optimizer=adam) for make in (transformer, fcn))
    if kind == "fcn":
        trials = [fcn(width=5 + i, training=training, seed=i) for i in (0, 1)]
    elif kind in ("full", "learned"):
        full = {"model__init": "gaussian", "model__x_query": "gaussian", "model__attend_query": True}
        codes = {"kind": "gaussian" if kind == "full" else "learned", "d_e": 8}
        trials = [transformer(T=6, q=2, model__positions=codes, training=training, seed=i // 2, **full) for i in range(3)]
    else:
        signs = {"kind": "random_sign", "d_e": 8, "query": "dual"}
        objective = training | {"objective": kind}
        trials = [transformer(T=6, q=2, model__positions=signs, training=objective, seed=i // 2) for i in range(3)]
    losses: list[list[float]] = []
    for kernels in (program_module.kernels_for, cuda.CudaKernels):
        monkeypatch.setattr(program_module, "kernels_for", kernels)
        seen: list[float] = []
        Stack(tuple(trials), torch.device("cpu")).train(lambda m, seen=seen: seen.extend(m.relative_loss), lambda: None)
        losses.append(seen)
    assert len(losses[0]) >= 10
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_the_watch_sees_what_it_forbids() -> None:
    here, there = torch.zeros(3), torch.zeros(3, device=DEVICE)
    for bad in (
        lambda: there.sum().item(),
        lambda: there.tolist(),
        lambda: there[there > 0],
        lambda: there.copy_(here),
        lambda: there.cpu(),
        lambda: torch.tensor([1.0], device=DEVICE),
    ):
        with pytest.raises((AssertionError, NotImplementedError)), NothingFromTheHost(), NothingThatWaits():
            bad()
