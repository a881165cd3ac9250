"""Counted costs against the engine's own arrays."""

import torch

from stsq_core.cost import _parameters, memory_bytes, step_operations
from stsq_core.stack import build_program


def test_parameters_are_counted_right(transformer, fcn) -> None:
    for trial in (
        transformer(d_e=20),
        transformer(d_e=20, training__objective="minibatch"),
        fcn(width=16),
        fcn(width=16, model__depth=4),
    ):
        program = build_program((trial,), torch.device("cpu"))
        trained = sum(array.size for array in program.weights(program.initial(), 0).values())
        match trial.model.kind, trial.training.objective:
            case "transformer", "population":
                trained = 20 * 20 + 1
            case "transformer", _:
                trained -= trial.width * trial.task.d  # the X columns of W are never trained

        assert _parameters(trial) == trained


def test_costs_grow_with_what_they_should(transformer, fcn) -> None:
    assert step_operations(transformer(T=64)) > step_operations(transformer(T=32))
    assert step_operations(transformer(training__objective="minibatch")) > step_operations(transformer())
    assert step_operations(fcn(width=64)) > step_operations(fcn(width=8))
    assert memory_bytes(transformer(training__dtype="float64")) == 2 * memory_bytes(transformer())
