"""The fully connected net for any task against the program with derived gradients."""

import pytest
import torch

from stsq_core import TrialConfig
from stsq_core.networks.network_program import NetworkProgram
from stsq_core.programs.fcn import FcnProgram
from stsq_core.training.descent import Descent

CPU = torch.device("cpu")


@pytest.mark.parametrize("y_enters", ["first", "second", "both"])
@pytest.mark.parametrize(("depth", "activation"), [(2, "relu"), (3, "tanh"), (4, "gelu")])
def test_it_trains_as_the_derived_program_does(y_enters: str, depth: int, activation: str) -> None:
    """The same start, draws, losses and weights, step after step, in float64."""
    model = {"kind": "fcn", "width": 11, "depth": depth, "tail_width": 13, "y_enters": y_enters, "activation": activation}
    data = {
        "task": {"kind": "stsq", "T": 5, "q": 2, "d": 3},
        "model": model,
        "optimizer": {"kind": "adam", "lr": 0.02},
        "training": {"steps": 6, "batch_size": 10, "dtype": "float64"},
    }
    configs = tuple(TrialConfig.model_validate(data | {"seed": s}) for s in (0, 4))
    derived, network = FcnProgram(configs, CPU), NetworkProgram(configs, CPU)
    states = [(program, program.initial()) for program in (derived, network)]
    descents = [Descent(tuple(c.optimizer for c in configs), 6, dtype=torch.float64, kernels=derived.kernels) for _ in states]
    moments = [d.moments(parameters) for d, (_, parameters) in zip(descents, states, strict=True)]
    for step in range(6):
        losses = []
        for (program, parameters), descent, moment in zip(states, descents, moments, strict=True):
            loss, gradients = program.gradients(parameters, step)
            descent.update(parameters, gradients, moment, step)
            losses.append(loss)
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-11, atol=0)
    for place in range(2):
        expected = derived.weights(states[0][1], place)
        for name, array in network.weights(states[1][1], place).items():
            torch.testing.assert_close(torch.from_numpy(array), torch.from_numpy(expected[name]), rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(network.fresh_losses(states[1][1], 2, q=1), derived.fresh_losses(states[0][1], 2, q=1))


def test_it_reads_tokens_alone_where_no_positions_are_shown() -> None:
    data = {
        "task": {"kind": "sparse_boolean", "T": 8, "q": 2, "function": "and"},
        "model": {"kind": "fcn", "width": 5, "tail_width": 6},
        "optimizer": {"kind": "adam", "lr": 0.02},
        "training": {"steps": 3},
    }
    network = NetworkProgram((TrialConfig.model_validate(data),), CPU)
    assert network.weights(network.initial(), 0)["W1"].shape == (5, 9)
