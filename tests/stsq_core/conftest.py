"""Packs of every kind of program, one thread (tiny tensors lose much to a second), and Triton on CPU tensors."""

import os

import pytest
import torch

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when Triton is imported: the GPU's kernels run on CPU tensors


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    torch.set_num_threads(1)


ADAM, GD = {"kind": "adam", "lr": 0.02}, {"kind": "gd", "lr": 0.5}
TRAINING = {"steps": 12, "batch_size": 40, "log_every": 5}
POPULATION = TRAINING | {"objective": "population"}
CODES = {"kind": "random_sign", "d_e": 9, "query": "dual"}
FULL = {"model__init": "gaussian", "model__x_query": "gaussian", "model__attend_query": True}


@pytest.fixture(
    params=[
        "population",
        "minibatch",
        "descent",
        "float64",
        "one_hot",
        "all",
        "per_sample",
        "gaussian",
        "full",
        "learned",
        "fcn",
    ]
)
def pack(request: pytest.FixtureRequest, transformer, fcn) -> list:
    """Trials of one kind of program, optimizers mixed and seeds shared where it can be, reported at 0, 5, 10 and 12."""
    match request.param:
        case "population":
            return [transformer(T=40, optimizer=o, seed=i, training=POPULATION) for i, o in enumerate((ADAM, GD, ADAM))]
        case "minibatch":
            return [transformer(T=40, d=5, optimizer=ADAM, seed=i // 2, training=TRAINING) for i in range(6)]
        case "descent":
            return [transformer(optimizer=GD, seed=i, training=TRAINING) for i in range(2)]
        case "float64":
            return [transformer(T=40, d=3, seed=i, training=TRAINING | {"dtype": "float64"}) for i in range(2)]
        case "one_hot":
            return [transformer(optimizer=o, model__positions={"kind": "one_hot"}, training=TRAINING) for o in (ADAM, GD)]
        case "all":
            fixed, every = CODES | {"redraw": "never"}, POPULATION | {"batch_size": "all"}
            return [transformer(T=6, model__positions=fixed, training=every, seed=i) for i in range(2)]
        case "per_sample":
            codes = CODES | {"redraw": "per_sample"}
            return [
                transformer(T=9, model__positions=codes, training=t, seed=i) for i in range(2) for t in (TRAINING, POPULATION)
            ]
        case "gaussian":
            codes = {"kind": "gaussian", "d_e": 9}
            return [
                transformer(T=9, model__positions=codes | {"redraw": r}, training=t, seed=i)
                for i, r in enumerate(("per_step", "per_sample"))
                for t in (TRAINING, POPULATION)
            ]
        case "full" | "learned":
            codes = {"kind": "gaussian" if request.param == "full" else "learned", "d_e": 9}
            return [
                transformer(T=20, d=3, model__positions=codes, optimizer=o, seed=i, training=TRAINING, **FULL)
                for i, o in enumerate((ADAM, GD))
            ]
        case "fcn":
            return [fcn(width=5 + i, optimizer=o, seed=i, training=TRAINING) for i, o in enumerate((ADAM, GD, ADAM))]
    raise AssertionError(request.param)
