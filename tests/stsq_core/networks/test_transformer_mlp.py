"""The transformer with a net: torch's attention with the same weights, and hand-set weights that solve qSTR."""

import math

import numpy as np
import torch

from stsq_core.networks.layers import columns
from stsq_core.tasks.retrieval import hidden_directions

TASK = {"kind": "qstr", "T": 6, "q": 1, "d": 4}


def test_with_one_head_the_answers_are_those_of_torchs_attention(program) -> None:
    ours = program(TASK, {"kind": "transformer_mlp", "width": 11})
    D = ours.task.prompt_size
    parameters = ours.initial()
    for name, value in parameters.items():  # biases that are not zero
        value[..., D if name != "W2" else 11] += 0.1 * torch.randn(value.shape[1], dtype=torch.float64)
        if name in ("W_Q", "W_K", "W_V"):
            value[:, D:] = 0
    arrays = {name: torch.from_numpy(array) for name, array in ours.weights(parameters, 0).items()}
    attention = torch.nn.MultiheadAttention(D, 1, batch_first=True, dtype=torch.float64)
    projections = [arrays[name][0] for name in ("W_Q", "W_K", "W_V")]
    with torch.no_grad():
        attention.in_proj_weight.copy_(torch.cat([p[:, :D] for p in projections]))
        attention.in_proj_bias.copy_(torch.cat([p[:, D] for p in projections]))
        attention.out_proj.weight.copy_(arrays["W_O"][:, :D])
        attention.out_proj.bias.copy_(arrays["W_O"][:, D])
    source, batch = ours.source(0, fresh=False), ours.training_batch(0)
    Z = ours.examples.prompt(batch, source)[0]
    seen = attention(Z, Z, Z, need_weights=False)[0]
    hidden = (seen @ arrays["W1"][:, :D].mT + arrays["W1"][:, D]).relu()
    answers = hidden @ arrays["W2"][:, :11].mT + arrays["W2"][:, 11]
    torch.testing.assert_close(ours.network.outputs(parameters, batch, source)[0], answers)
    np.testing.assert_allclose(arrays["W_QK1"], projections[1][:, :D].T @ projections[0][:, :D])


def test_heads_that_look_up_the_codes_asked_for_solve_qstr(program) -> None:
    """Head j scores `<w_s, w_{t_ij}>` steeply; a net of `relu(s - c)` at many c then follows the second Hermite polynomial."""
    d, d_e, q, knots = 4, 24, 2, 400
    task = {"kind": "qstr", "T": 6, "q": q, "d": d, "d_e": d_e, "link": "hermite2"}
    ours = program(task, {"kind": "transformer_mlp", "heads": q, "width": knots + 1})
    D, parameters = ours.task.prompt_size, {name: torch.zeros_like(value) for name, value in ours.initial().items()}
    rows = parameters["W_Q"].shape[1] // q
    code, u = torch.eye(d_e, dtype=torch.float64), hidden_directions(ours.task, ours.source(0, fresh=False))[0]
    for j in range(q):
        first = j * rows
        parameters["W_K"][0, first : first + d_e, d : d + d_e] = code
        asked = d + (1 + j) * d_e
        parameters["W_Q"][0, first : first + d_e, asked : asked + d_e] = 1e4 * code
        parameters["W_V"][0, first : first + d, :d] = torch.eye(d)
        parameters["W_O"][0, j * D : j * D + d, j * D : j * D + d] = torch.eye(d)
        parameters["W1"][0, :, j * D : j * D + d] = u[j]
    at = torch.linspace(-6, 6, knots + 1, dtype=torch.float64)
    values = (at * at - 1) / math.sqrt(2)
    slopes = values.diff() / at.diff()
    parameters["W1"][0, :, q * D] = -at
    parameters["W2"][0, 0, :knots] = torch.cat([slopes[:1], slopes.diff()])
    parameters["W2"][0, 0, columns(knots + 1, torch.float64) - (columns(knots + 1, torch.float64) - knots - 1)] = values[0]
    losses = ours.fresh_losses(parameters, 0)
    assert float(losses.max()) < 1e-4
    mass = ours.fresh_attention_mass(parameters, 0)
    assert mass is not None
    # Each head has all its attention on one of the two tokens asked for, which are one where they coincide.
    torch.testing.assert_close(mass, torch.ones_like(mass))


def test_it_reads_longer_prompts_than_it_was_made_for(program) -> None:
    ours = program(TASK, {"kind": "transformer_mlp", "width": 11})
    losses = ours.fresh_losses(ours.initial(), 0, T=9)
    assert losses.shape == (1, 64)
    assert bool(losses.isfinite().all())
