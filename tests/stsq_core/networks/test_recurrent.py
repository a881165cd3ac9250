"""The recurrent nets against torch.nn's, with the same weights: states, answers and gradients."""

import pytest
import torch

from stsq_core.networks.recurrent import padded_units

TASK = {"kind": "qstr", "T": 5, "q": 2, "d": 3}


def torchs(program, bidirectional: bool) -> tuple[torch.nn.Module, torch.nn.Linear]:
    """torch's module and readout with the weights of the program's trial before its first step."""
    model, arrays = program.configs[0].model, program.weights(program.initial(), 0)
    size = {"batch_first": True, "bidirectional": bidirectional, "dtype": torch.float64}
    inputs = program.task.prompt_size
    if model.cell == "gru":
        module: torch.nn.Module = torch.nn.GRU(inputs, model.width, **size)
    else:
        module = torch.nn.RNN(inputs, model.width, nonlinearity=model.cell, **size)
    readout = torch.nn.Linear(model.width * model.num_directions, program.examples.output_size, dtype=torch.float64)
    with torch.no_grad():
        for way, suffix in zip(("forward", "backward"), ("", "_reverse"), strict=True):
            if f"W_x {way}" not in arrays:
                continue
            for name, ours in (("ih", "W_x"), ("hh", "W_h")):
                array = torch.from_numpy(arrays[f"{ours} {way}"])
                getattr(module, f"weight_{name}_l0{suffix}").copy_(array[:, :-1])
                getattr(module, f"bias_{name}_l0{suffix}").copy_(array[:, -1])
        array = torch.from_numpy(arrays["W_out"])
        readout.weight.copy_(array[:, :-1])
        readout.bias.copy_(array[:, -1])
    return module, readout


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("cell", ["gru", "relu", "tanh"])
def test_answers_and_gradients_are_torchs(program, cell: str, bidirectional: bool) -> None:
    ours = program(TASK, {"kind": "rnn", "width": 9, "cell": cell, "bidirectional": bidirectional})
    parameters, source, batch = ours.initial(), ours.source(0, fresh=False), ours.training_batch(0)
    module, readout = torchs(ours, bidirectional)
    answers = readout(module(ours.examples.prompt(batch, source)[0])[0])
    torch.testing.assert_close(ours.network.outputs(parameters, batch, source)[0], answers)
    ((answers - batch.target[0]).square().sum((1, 2)) / 2).mean().backward()
    _, gradients = ours.gradients(parameters, 0)
    gates, units = ours.configs[0].model.num_gates, 9
    blocks = gradients["W_h forward"][0].view(gates, padded_units(units), -1)
    torch.testing.assert_close(blocks[:, :units, :units].reshape(gates * units, units), module.weight_hh_l0.grad)
    torch.testing.assert_close(blocks[:, :units, units].flatten(), module.bias_hh_l0.grad)
    assert not blocks[:, units:].any()
    assert not blocks[..., units + 1 :].any()


def test_one_answer_is_read_from_the_ends_of_both_directions(program) -> None:
    ours = program({"kind": "stsq", "T": 5, "q": 2, "d": 3}, {"kind": "rnn", "width": 9})
    source, batch = ours.source(0, fresh=False), ours.training_batch(0)
    module, readout = torchs(ours, bidirectional=True)
    states = module(ours.examples.prompt(batch, source)[0])[0]
    ends = torch.cat([states[:, -1, :9], states[:, 0, 9:]], -1)
    torch.testing.assert_close(ours.network.outputs(ours.initial(), batch, source)[0, :, 0], readout(ends))


def test_a_gru_of_d_units_reading_forwards_selects_tokens_with_weights_set_by_hand(program) -> None:
    """Whatever T and q: a unit adds a small multiple of its coordinate at tokens asked for and keeps its state elsewhere."""
    d, q, small, sure = 2, 3, 1e-3, 40.0
    ours = program({"kind": "stsq", "T": 11, "q": q, "d": d}, {"kind": "rnn", "width": d, "bidirectional": False}, batch=50)
    parameters = {name: torch.zeros_like(value) for name, value in ours.initial().items()}
    reset, update, new = parameters["W_x forward"][0].view(3, padded_units(d), -1)[:, :d]
    bias = ours.task.prompt_size
    reset[:, bias] = update[:, bias] = sure
    update[:, d] = -sure
    new[:, :d] = small * torch.eye(d)
    parameters["W_h forward"][0].view(3, padded_units(d), -1)[2, :d, :d] = torch.eye(d)
    parameters["W_out"][0, :, :d] = 2 / (small * q) * torch.eye(d)
    batch = ours.training_batch(0)
    answers = ours.network.outputs(parameters, batch, ours.source(0, fresh=False))
    assert float(ours.examples.relative_losses(answers, batch).mean()) < 1e-8
