"""The transformer of one stream: with rooms of their own it is the transformer, it learns, and asks for the rows of y."""

import pytest
import torch

from stsq_core import TrialConfig, train_pack
from stsq_core.configs import StreamTransformer, Stsq

TASK = {"kind": "stsq", "T": 6, "q": 2, "d": 3}
CODES = {"kind": "random_sign", "d_e": 5, "redraw": "never", "query": "sum"}


def test_with_rooms_of_their_own_it_answers_as_the_transformer_does(program) -> None:
    """`A = [I; 0]`, `b_t = [0; e_t]` and the same W and V: both answer the same, with the same attention."""
    two_rooms = program(TASK, {"kind": "attention", "positions": CODES, "init": "gaussian", "init_scale": 0.7}, seed=5)
    stream = program(TASK, {"kind": "stream_transformer", "width": 8}, seed=5)
    own = two_rooms.initial()
    batch, source = two_rooms.training_batch(0), two_rooms.source(0, fresh=False)
    codes = two_rooms.network.columns.samples(own, batch, source).codes.rows[:, :6]
    parameters = {
        "A": torch.cat([torch.eye(3), torch.zeros(5, 3)]).double()[None],
        "W": own["W"],
        "U": own["V"],
        "E": torch.cat([torch.zeros(1, 6, 3).double(), codes], -1),
    }
    expected = two_rooms.network.outputs(own, batch, source)
    assert torch.allclose(stream.network.outputs(parameters, batch, source), expected, atol=1e-12)
    assert expected.abs().max() > 0.05
    masses = [own.network.attention_mass(p, batch, source) for own, p in ((two_rooms, own), (stream, parameters))]
    assert torch.allclose(*masses, atol=1e-12)


def test_answers_are_those_of_the_definition(program) -> None:
    stream = program(TASK, {"kind": "stream_transformer", "width": 4, "init_scale": 0.8}, seed=2, batch=3)
    parameters, batch = stream.initial(), stream.training_batch(0)
    answers = stream.network.outputs(parameters, batch, stream.source(0, fresh=False))
    A, W, U, E = (parameters[name][0] for name in "AWUE")
    for sample in range(3):
        X, y = batch.X[0, sample], batch.y[0, sample, 0]
        h = X @ A.T + E
        p = torch.softmax(h @ W @ E[y].sum(0), 0)
        assert answers[0, sample, 0].tolist() == pytest.approx((U @ (p @ h)).tolist(), abs=1e-12)


def test_fixed_positions_are_those_that_learned_ones_start_from(program) -> None:
    learned, fixed = (program(TASK, {"kind": "stream_transformer", "width": 7, "positions": p}) for p in ("learned", "fixed"))
    start, kept = learned.initial(), fixed.initial()
    assert sorted(kept) == ["A", "U", "W"]
    assert torch.equal(start["A"], kept["A"])
    assert start["E"].abs().unique().tolist() == pytest.approx([7**-0.5])
    assert torch.equal(fixed.network._positions(), start["E"])
    assert not start["W"].any()
    assert not start["U"].any()


def test_it_learns_with_fewer_units_than_rooms_would_have() -> None:
    """Eight units are fewer than d + 2.5 q ln T = 12.4 at T = 8."""
    data = {
        "task": {"T": 8, "q": 2, "d": 2},
        "model": {"kind": "stream_transformer", "width": 8},
        "optimizer": {"kind": "adam", "lr": 0.01, "schedule": {"kind": "cosine"}},
        "training": {"steps": 1500, "batch_size": 64},
    }
    [measured] = train_pack([TrialConfig.model_validate(data)])[0:1]
    assert measured.relative_loss is not None
    assert measured.relative_loss < 0.1


def test_costs_count_every_array() -> None:
    task, model = Stsq(T=6, q=2, d=3), StreamTransformer(width=8)
    assert model.num_parameters(task) == 8 * 3 + 8 * 8 + 3 * 8 + 6 * 8
    assert StreamTransformer(width=8, positions="fixed").num_parameters(task) == 8 * 3 + 8 * 8 + 3 * 8
    assert model.width_on(task) == 8
