"""Counted costs against the engine's own arrays and against what its tensors hold at a time."""

import weakref
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from stsq_core.cost import memory_bytes, num_parameters, step_cost, step_operations
from stsq_core.pack import discard
from stsq_core.stack import Stack, build_program

CPU = torch.device("cpu")


class HeldBytes(TorchDispatchMode):
    """Follows every tensor storage from its creation to its end, and remembers the most bytes that were held at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.peak = self._held = 0
        self._known: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else (out,):
            if isinstance(tensor, torch.Tensor):
                self._follow(tensor.untyped_storage())
        return out

    def _follow(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key not in self._known:
            self._known.add(key)
            self._held += storage.nbytes()
            self.peak = max(self.peak, self._held)
            weakref.finalize(storage, self._forget, key, storage.nbytes())

    def _forget(self, key: int, num_bytes: int) -> None:
        self._known.discard(key)
        self._held -= num_bytes


def held_bytes(configs) -> int:
    with HeldBytes() as held:
        Stack(tuple(configs), CPU).train(discard, lambda: None)
    return held.peak


def test_parameters_are_counted_right(transformer, fcn) -> None:
    for trial in (
        transformer(d_e=20),
        transformer(d_e=20, training__objective="minibatch"),
        fcn(width=16),
        fcn(width=16, model__depth=4),
        fcn(width=16, model__y_enters="second"),
    ):
        program = build_program((trial,), CPU)
        trained = sum(array.size for array in program.weights(program.initial(), 0).values())
        match trial.model.kind, trial.training.objective:
            case "transformer", "population":
                trained = 20 * 20 + 1
            case "transformer", _:
                trained -= trial.width * trial.task.d  # the X columns of W are never trained

        assert num_parameters(trial) == trained


def test_costs_grow_with_what_they_should(transformer, fcn) -> None:
    assert step_operations(transformer(T=64)) > step_operations(transformer(T=32))
    assert step_operations(transformer(training__objective="minibatch")) > step_operations(transformer())
    assert step_operations(fcn(width=64)) > step_operations(fcn(width=8))
    assert step_operations(fcn(), pack=1) > step_operations(fcn(), pack=32)
    assert 0 < step_cost(fcn()).products < step_cost(fcn()).least < step_cost(fcn()).effort
    assert memory_bytes(transformer(training__dtype="float64")) > 1.9 * memory_bytes(transformer())


SHAPES = {
    "minibatch": {"T": 32, "d": 5, "d_e": 32, "training": {"batch_size": 64}},
    "minibatch, long": {"T": 200, "d": 5, "d_e": 64, "training": {"batch_size": 256}},
    "population": {"T": 50, "d": 5, "d_e": 64, "training": {"objective": "population", "batch_size": 256}},
    "population, wide": {"T": 128, "d_e": 200, "training": {"objective": "population", "batch_size": 16}},
    "float64": {"T": 50, "d_e": 24, "training": {"batch_size": 64, "dtype": "float64"}},
    "one-hot": {"T": 64, "model__positions": {"kind": "one_hot"}, "training": {"batch_size": 64}},
    "a book a sample": {
        "T": 32,
        "d": 5,
        "model__positions": {"kind": "random_sign", "d_e": 32, "redraw": "per_sample"},
        "training": {"batch_size": 64},
    },
    "population, a book a sample": {
        "T": 20,
        "model__positions": {"kind": "random_sign", "d_e": 16, "redraw": "per_sample"},
        "training": {"objective": "population", "batch_size": 64},
    },
}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_memory_of_a_transformer_is_what_it_holds(transformer, shape) -> None:
    shape = shape | {"training": shape["training"] | {"steps": 3}}
    trials = [transformer(optimizer={"kind": "adam", "lr": 0.01}, seed=seed, **shape) for seed in range(4)]
    assert memory_bytes(trials[0]) == pytest.approx(held_bytes(trials) / 4, rel=0.15)


@pytest.mark.parametrize(("T", "width", "batch"), [(12, 16, 128), (32, 128, 512), (4, 8, 64)])
def test_the_memory_of_a_net_is_what_it_holds(fcn, T: int, width: int, batch: int) -> None:
    training = {"steps": 3, "batch_size": batch}
    trials = [fcn(T=T, width=width, model__tail_width=128, training=training, seed=seed) for seed in range(4)]
    assert memory_bytes(trials[0]) == pytest.approx(held_bytes(trials) / 4, rel=0.15)
