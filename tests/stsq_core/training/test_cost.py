"""Counted costs against the engine's own arrays and against what its tensors hold at a time."""

import pytest
import torch

from stsq_core.training.cost import evaluation_operations, memory_bytes, num_parameters, step_cost, step_operations
from stsq_core.training.pack import discard
from stsq_core.training.stack import Stack, build_program
from tests.stsq_core.held_memory import NETS, SHAPES, HeldBytes

CPU = torch.device("cpu")


def held_bytes(configs) -> int:
    with HeldBytes() as held:
        Stack(tuple(configs), CPU).train(discard, lambda: None)
    return held.peak


def test_parameters_are_counted_right(transformer, fcn) -> None:
    for trial in (
        transformer(d_e=20),
        transformer(d_e=20, training__objective="minibatch"),
        transformer(d_e=20, training__objective="minibatch", model__init="gaussian"),
        transformer(training__objective="minibatch", model__positions={"kind": "learned", "d_e": 20}),
        fcn(width=16),
        fcn(width=16, model__depth=4),
        fcn(width=16, model__y_enters="second"),
    ):
        program = build_program((trial,), CPU)
        trained = sum(array.size for array in program.weights(program.initial(), 0).values())
        match trial.model.kind, trial.training.objective:
            case "transformer", "population":
                trained = 20 * 20 + 1
            case "transformer", _ if not trial.model.extensions:
                trained -= trial.width * trial.task.d  # the fast program does not hold the X columns of W

        assert num_parameters(trial) == trained


def test_costs_grow_with_what_they_should(transformer, fcn) -> None:
    assert step_operations(transformer(T=64)) > step_operations(transformer(T=32))
    assert step_operations(transformer(training__objective="minibatch")) > step_operations(transformer())
    full = {"training__objective": "minibatch", "model__init": "gaussian"}
    assert step_operations(transformer(**full, model__positions__kind="learned")) > step_operations(transformer(**full))
    sampled = step_operations(transformer(**full, model__positions__redraw="per_sample"))
    assert sampled > step_operations(transformer(**full, model__positions__redraw="per_step"))
    assert step_operations(fcn(width=64)) > step_operations(fcn(width=8))
    assert step_operations(fcn(), pack=1) > step_operations(fcn(), pack=32)
    assert 0 < step_cost(fcn()).products < step_cost(fcn()).least < step_cost(fcn()).effort
    assert memory_bytes(transformer(training__dtype="float64")) > 1.9 * memory_bytes(transformer())


def test_evaluations_count_as_often_as_they_come(transformer) -> None:
    plain = transformer(T=64, training__steps=100)
    once, often, far = (
        transformer(T=64, training__steps=100, evaluation=printed)
        for printed in ({"q_test": [1]}, {"q_test": [1], "every": 30}, {"q_test": [1], "T_test": [200]})
    )
    assert evaluation_operations(plain) == 0
    assert evaluation_operations(often) == 5 * evaluation_operations(once) > 0
    assert evaluation_operations(far) > 2 * evaluation_operations(once)
    assert memory_bytes(far) > memory_bytes(once) == memory_bytes(plain)
    assert memory_bytes(far, "cuda") > memory_bytes(far)


@pytest.mark.parametrize("objective", ["population", "minibatch"])
def test_the_memory_of_an_evaluation_on_more_tokens_is_at_most_what_is_counted(transformer, objective: str) -> None:
    training = {"objective": objective, "steps": 3, "batch_size": 64}
    shared = {"T": 32, "d": 5, "d_e": 32, "training": training, "evaluation": {"T_test": [300], "describe": True}}
    trials = [transformer(seed=seed, **shared) for seed in range(4)]
    held_bytes(trials)  # a loop that is compiled meanwhile keeps tensors alive in its compiler's frames
    assert 0.5 * memory_bytes(trials[0]) < held_bytes(trials) / 4 < memory_bytes(trials[0])


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_memory_of_a_transformer_is_what_it_holds(transformer, shape) -> None:
    shape = shape | {"training": shape["training"] | {"steps": 3}}
    trials = [transformer(optimizer={"kind": "adam", "lr": 0.01}, seed=seed, **shape) for seed in range(4)]
    assert memory_bytes(trials[0]) == pytest.approx(held_bytes(trials) / 4, rel=0.15)


@pytest.mark.parametrize(("T", "width", "batch"), NETS)
def test_the_memory_of_a_net_is_what_it_holds(fcn, T: int, width: int, batch: int) -> None:
    training = {"steps": 3, "batch_size": batch}
    trials = [fcn(T=T, width=width, model__tail_width=128, training=training, seed=seed) for seed in range(4)]
    assert memory_bytes(trials[0]) == pytest.approx(held_bytes(trials) / 4, rel=0.15)
