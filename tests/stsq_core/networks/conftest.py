"""Programs of one trial, in float64, and their gradient against differences of the objective."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from stsq_core import TrialConfig
from stsq_core.networks.network_program import NetworkProgram

Make = Callable[..., NetworkProgram]


@pytest.fixture
def program() -> Make:
    """Makes the program of a task and a model: `program(task, model, seed=3)`."""

    def make(task: dict[str, Any], model: dict[str, Any], *, seed: int = 0, batch: int = 6, **training: Any) -> NetworkProgram:
        data = {
            "task": task,
            "model": model,
            "optimizer": {"kind": "adamw", "lr": 0.001},
            "training": {"steps": 1, "batch_size": batch, "dtype": "float64"} | training,
            "seed": seed,
        }
        return NetworkProgram((TrialConfig.model_validate(data),), torch.device("cpu"))

    return make


def objective(program: NetworkProgram, parameters: dict[str, torch.Tensor]) -> float:
    """The training objective of step 0."""
    source = program.source(0, fresh=False)
    batch = program.training_batch(0)
    return float(program.examples.objective(program.network.outputs(parameters, batch, source), batch).mean())


@pytest.fixture
def slopes() -> Callable[[NetworkProgram], tuple[float, float]]:
    """The slope of the objective along a random direction: from the gradient, and from central differences."""

    def measure(program: NetworkProgram) -> tuple[float, float]:
        generator = torch.Generator().manual_seed(7)
        parameters = program.initial()
        _, gradients = program.gradients(parameters, 0)
        step = {name: torch.randn(value.shape, generator=generator, dtype=value.dtype) for name, value in parameters.items()}
        printed = sum(float((gradients[name] * step[name]).sum()) for name in parameters)
        h = 1e-6
        ahead, behind = ({n: p + sign * h * step[n] for n, p in parameters.items()} for sign in (1, -1))
        return printed, (objective(program, ahead) - objective(program, behind)) / (2 * h)

    return measure
