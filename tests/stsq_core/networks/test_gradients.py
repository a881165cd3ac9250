"""Every network of prompts: its gradient is the slope of its objective, in float64."""

from dataclasses import replace
from typing import get_args

import pytest
import torch

from stsq_core import TrialConfig
from stsq_core.configs import Scores
from stsq_core.kernels.plain import PlainKernels
from stsq_core.networks.attention import AttentionNetwork
from stsq_core.networks.network import Network
from stsq_core.networks.network_program import NetworkProgram

QSTR = {"kind": "qstr", "T": 5, "q": 2, "d": 3, "link": "hermite2"}
SELECTION = {"kind": "stsq", "T": 5, "q": 2, "d": 3}
BITS = {"kind": "sparse_boolean", "T": 9, "q": 3, "function": "majority"}
PAIRS = [
    (QSTR, {"kind": "transformer_mlp", "heads": 2, "width": 7}),
    (SELECTION, {"kind": "transformer_mlp", "width": 7}),
    (QSTR, {"kind": "rnn", "width": 9}),
    (QSTR, {"kind": "rnn", "width": 9, "cell": "tanh", "bidirectional": False}),
    (SELECTION, {"kind": "rnn", "width": 9, "cell": "gru"}),
    (SELECTION, {"kind": "rnn", "width": 9, "cell": "relu"}),
    (QSTR, {"kind": "ffn", "tail_width": 8}),
    (SELECTION, {"kind": "ffn", "width": 6, "depth": 2}),
    (SELECTION, {"kind": "stream_transformer", "width": 6, "init_scale": 0.5}),
    (SELECTION, {"kind": "stream_transformer", "width": 6, "init_scale": 0.5, "positions": "fixed"}),
    (BITS, {"kind": "bit_attention", "width": 6}),
    (BITS, {"kind": "bit_attention", "width": 6, "answer_gap": 1.0, "readout_rate": 0.3}),
    (BITS, {"kind": "bit_attention", "width": 6, "keys": "positions", "mlp_width": 0}),
    (BITS, {"kind": "bit_attention", "width": 6, "values": "bits", "mlp_width": 5}),
    (BITS, {"kind": "ffn", "width": 6, "depth": 2}),
    (BITS, {"kind": "fcn", "width": 6, "tail_width": 9, "depth": 4}),
    ({"kind": "selected_mean", "T": 5, "q": 2, "d": 3}, {"kind": "fcn", "width": 6, "tail_width": 9, "y_enters": "second"}),
    ({"kind": "qstr", "T": 5, "q": 2, "d": 3}, {"kind": "fcn", "width": 6, "tail_width": 9, "y_enters": "both"}),
]
SIGNS = {"kind": "random_sign", "d_e": 7}
STARTED = {"kind": "attention", "positions": SIGNS, "init": "gaussian", "init_scale": 0.3}
ATTENTION = [
    *(STARTED | {"scores": scores, "layers": layers} for scores in get_args(Scores) for layers in (1, 2)),
    STARTED | {"layers": 2, "heads": 3},
    STARTED | {"layers": 2, "heads": 2, "rank": 2, "scores": "sigmoid"},
    *(
        STARTED | {"layers": layers, "positions": positions}
        for layers in (1, 2)
        for positions in ({"kind": "one_hot"}, {"kind": "learned", "d_e": 7}, SIGNS | {"redraw": "per_sample"})
    ),
]
"""On 35 tokens, which do not fill the rows of the loops, of one coordinate or more."""

PAIRS += [({"kind": "stsq", "T": 35, "q": 3, "d": 1 + n % 5}, model) for n, model in enumerate(ATTENTION)]


@pytest.mark.parametrize(("task", "model"), PAIRS, ids=lambda record: "-".join(str(v) for v in record.values()))
def test_the_gradient_is_the_slope_of_the_objective(program, slopes, task, model) -> None:
    printed, measured = slopes(program(task, model))
    assert printed == pytest.approx(measured, rel=1e-5, abs=1e-9)
    assert abs(printed) > 1e-4


@pytest.mark.parametrize(("task", "model"), PAIRS, ids=lambda record: "-".join(str(v) for v in record.values()))
def test_compiled_loops_find_what_tensor_operations_find(program, monkeypatch, task, model) -> None:
    ours = program(task, model)
    parameters = ours.initial()
    losses, gradients = ours.gradients(parameters, 0)
    for name in ("gru", "gru_back", "elman", "elman_back"):
        monkeypatch.setattr(type(ours.kernels), name, getattr(PlainKernels, name))
    for name in ("fuses",):
        monkeypatch.setattr(type(ours.kernels), name, False)
    plain_losses, plain_gradients = ours.gradients(parameters, 0)
    torch.testing.assert_close(losses, plain_losses, rtol=1e-12, atol=0)
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, plain_gradients[name], rtol=1e-9, atol=1e-13)


def test_the_loop_over_layers_takes_targets_of_any_strides() -> None:
    data = {
        "task": SELECTION,
        "model": STARTED,
        "training": {"steps": 2, "batch_size": 24},
        "optimizer": {"kind": "gd", "lr": 0.1},
    }
    program = NetworkProgram((TrialConfig.model_validate(data),), torch.device("cpu"))
    network, parameters = program.network, program.initial()
    assert isinstance(network, AttentionNetwork)
    batch, source = program.training_batch(1), program.source(1, fresh=False)
    turned = replace(batch, target=batch.target.transpose(1, 3).contiguous().transpose(1, 3))
    found = [network._learned(parameters, one, source, rounds=False) for one in (batch, turned)]
    (outputs, gradients), (others, again) = (one for one in found if one is not None)
    assert not turned.target.is_contiguous()
    assert torch.equal(outputs, others)
    assert all(torch.equal(gradients[name], again[name]) for name in gradients)


LOOPED = [
    *(STARTED | {"scores": scores, "layers": layers} for scores in get_args(Scores) for layers in (1, 2)),
    *(STARTED | {"heads": 2, "layers": layers, "scores": scores} for layers in (1, 2) for scores in ("softmax", "sigmoid")),
    {"kind": "transformer", "positions": SIGNS | {"query": "dual"}, "x_query": "gaussian", "init": "gaussian"},
]


@pytest.mark.parametrize("task", [SELECTION | {"T": 35, "d": 1}, SELECTION | {"T": 16, "d": 4}, QSTR | {"T": 9}], ids=str)
@pytest.mark.parametrize("model", LOOPED, ids=lambda record: "-".join(str(v) for v in record.values()))
def test_the_loop_over_layers_finds_what_autograd_finds(task, model) -> None:
    """To the last bit where its sums have torch's order, as a trial's bits must not depend on the way that they are found."""
    data = {"task": task, "model": model, "training": {"steps": 2, "batch_size": 24}, "optimizer": {"kind": "gd", "lr": 0.1}}
    program = NetworkProgram(
        tuple(TrialConfig.model_validate(data | {"seed": seed}) for seed in (0, 1, 1)), torch.device("cpu")
    )
    network, parameters = program.network, program.initial()
    assert isinstance(network, AttentionNetwork)
    batch, source = program.training_batch(1), program.source(1, fresh=False)
    outputs, gradients = Network.learned(network, parameters, batch, source)
    for rounds in (False, True):
        found = network._learned(parameters, batch, source, rounds=rounds)
        assert found is not None
        torch.testing.assert_close(found[0], outputs, rtol=1e-4, atol=1e-5)
        for name, gradient in gradients.items():
            torch.testing.assert_close(found[1][name], gradient, rtol=1e-3, atol=2e-5 * float(gradient.abs().max()))
    chosen = network.learned(parameters, batch, source)
    assert torch.equal(chosen[0], outputs)
    assert all(torch.equal(chosen[1][name], gradient) for name, gradient in gradients.items())
