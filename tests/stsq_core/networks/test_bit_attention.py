"""A head over bits with weights set by hand: it computes an AND, and its attention lies on the hidden bits."""

import numpy as np
import pytest
import torch

from stsq_core.tasks.examples import Batch

TASK = {"kind": "sparse_boolean", "T": 12, "q": 3, "function": "and"}


@pytest.fixture
def by_hand(program):
    """The program of a head that attends to each trial's hidden bits alone, or away from them, and its parameters."""

    def make(sign: float):
        ours = program(TASK, {"kind": "bit_attention", "width": 4, "mlp_width": 3}, batch=200)
        parameters = {name: torch.zeros_like(value) for name, value in ours.initial().items()}
        place, kind = 0, 1
        parameters["c"][0, 0, place] = 100 * sign
        parameters["P"][0, ours.examples.hidden(ours.source(0, fresh=False))[0, 0], place] = 1
        parameters["E"][0, :, kind] = torch.tensor([-1.0, 1.0])
        for name in ("W_Q", "W_K", "W_V"):
            parameters[name][0] = torch.eye(4)
        # The mean of three bits of +-1 is 1, or at most 1/3: 3 relu(mean) - 2 has the sign of their AND.
        parameters["W1"][0, 0, kind] = 1
        parameters["W2"][0, 0, 0], parameters["W2"][0, 0, 3] = 3, -2
        return ours, parameters

    return make


def test_one_head_computes_an_and_of_hidden_bits(by_hand) -> None:
    ours, parameters = by_hand(1.0)
    batch, source = ours.training_batch(0), ours.source(0, fresh=False)
    answers = ours.network.outputs(parameters, batch, source)
    assert set(batch.target.flatten().tolist()) == {-1.0, 1.0}
    assert not ours.examples.relative_losses(answers, batch).any()
    mass = ours.network.attention_mass(parameters, batch, source)
    torch.testing.assert_close(mass, torch.ones_like(mass))


def test_a_head_that_looks_away_has_no_attention_on_them(by_hand) -> None:
    ours, parameters = by_hand(-1.0)
    batch, source = ours.training_batch(0), ours.source(0, fresh=False)
    assert float(ours.network.attention_mass(parameters, batch, source).max()) < 1e-12
    losses = ours.examples.relative_losses(ours.network.outputs(parameters, batch, source), batch)
    assert float(losses.mean()) > 0.5


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("keys", ["positions", "embeddings"])
def test_values_of_bits_answer_by_a_weighted_sum_of_bits(program, keys, seed) -> None:
    """By hand: the share of attention on true bits is the share s of their positions, or `e^D s / (e^D s + 1 - s)` where keys
    know bits, D what a true bit adds to a score; a linear readout with a gap starts as that share less 1/2, times the gap.
    """
    model = {"kind": "bit_attention", "width": 16, "keys": keys, "values": "bits", "mlp_width": 0, "answer_gap": 20.0}
    ours = program(TASK, model, batch=50, seed=seed)
    parameters, batch, source = ours.initial(), ours.training_batch(0), ours.source(0, fresh=False)
    query = (parameters["c"] @ parameters["W_Q"].mT @ parameters["W_K"]).mT / 4
    a = (parameters["P"] @ query).mT.softmax(-1)
    is_true = (batch.X[..., 0] + 1) / 2
    share = (is_true * a).sum(-1)
    if keys == "embeddings":
        false, true = (parameters["E"] @ query)[:, :, 0].unbind(1)
        raised = (true - false).exp()[:, None] * share
        share = raised / (raised + 1 - share)
    answers = ours.network.outputs(parameters, batch, source)
    torch.testing.assert_close(answers[:, :, 0, 0], 20 * share - 10, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mlp_width", [0, 15])
def test_parameters_are_counted_right(program, mlp_width) -> None:
    """Sizes at which inputs and bias fill an aligned layer."""
    ours = program(TASK, {"kind": "bit_attention", "width": 15, "mlp_width": mlp_width})
    assert ours.network.model.num_parameters(ours.task) == sum(value.numel() for value in ours.initial().values())


def test_attention_of_keys_that_know_no_bits_is_the_same_for_all_samples(program) -> None:
    ours = program(TASK, {"kind": "bit_attention", "width": 16, "keys": "positions"}, batch=50)
    parameters, batch, source = ours.initial(), ours.training_batch(0), ours.source(0, fresh=False)
    mass = ours.network.attention_mass(parameters, batch, source)
    assert mass.shape == (1, 50)
    assert 0 < float(mass.min()) == float(mass.max()) < 1


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("mlp_width", [0, 32])
def test_a_gap_starts_every_readout_with_true_bits_raising_the_answer(program, mlp_width, seed) -> None:
    model = {"kind": "bit_attention", "width": 16, "mlp_width": mlp_width, "embedding_scale": 0.2, "answer_gap": 20.0}
    ours = program(TASK, model | {"readout_rate": 0.1}, seed=seed)
    parameters = ours.initial()
    parameters["P"] = torch.zeros_like(parameters["P"])
    batch = ours.training_batch(0)
    for sign in (-1.0, 1.0):
        bits = Batch(torch.full_like(batch.X, sign), None, batch.target)
        answers = ours.network.outputs(parameters, bits, ours.source(0, fresh=False))
        torch.testing.assert_close(answers, torch.full_like(answers, 10 * sign))


def test_a_net_that_does_not_tell_true_from_false_starts_without_a_gap(program) -> None:
    """A single hidden unit is off for both in some starts."""
    model = {"kind": "bit_attention", "width": 4, "mlp_width": 1, "embedding_scale": 0.01, "answer_gap": 20.0}
    starts = [program(TASK, model, seed=seed).initial()["W2"] for seed in range(20)]
    assert all(bool(W2.isfinite().all()) for W2 in starts)
    assert 0 < sum(bool((W2 == 0).all()) for W2 in starts) < 20


def test_a_slower_readout_computes_the_same_and_moves_less(program) -> None:
    """Its arrays are kept as W / rate: equal steps of the arrays, as Adam takes, move W by rate times as much."""
    usual, slower = (program(TASK, {"kind": "bit_attention", "width": 8, "readout_rate": rate}) for rate in (1.0, 0.1))
    one, two = usual.initial(), slower.initial()
    source, batch = usual.source(0, fresh=False), usual.training_batch(0)
    torch.testing.assert_close(usual.network.outputs(one, batch, source), slower.network.outputs(two, batch, source))
    printed, part = usual.gradients(one, 0)[1], slower.gradients(two, 0)[1]
    for name in one:
        factor = 0.1 if name in ("W_V", "W1", "W2") else 1.0
        torch.testing.assert_close(two[name] * factor, one[name])
        torch.testing.assert_close(part[name], printed[name] * factor)
        np.testing.assert_allclose(slower.weights(two, 0)[name], usual.weights(one, 0)[name])


def test_attention_of_a_start_is_near_uniform(program) -> None:
    ours = program(TASK, {"kind": "bit_attention", "width": 32, "embedding_scale": 0.05}, batch=50)
    batch, source = ours.training_batch(0), ours.source(0, fresh=False)
    mass = ours.network.attention_mass(ours.initial(), batch, source)
    torch.testing.assert_close(mass, torch.full_like(mass, 3 / 12), rtol=0, atol=0.01)
