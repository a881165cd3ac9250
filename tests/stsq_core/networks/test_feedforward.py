"""The feedforward net: torch's layers with the same weights, and the floor of a fixed training set."""

import math

import torch

from stsq_core import TrialConfig, train_pack


def test_answers_are_those_of_torchs_layers(program) -> None:
    ours = program({"kind": "qstr", "T": 5, "q": 1, "d": 3}, {"kind": "ffn", "tail_width": 9})
    arrays = {name: torch.from_numpy(array) for name, array in ours.weights(ours.initial(), 0).items()}
    source, batch = ours.source(0, fresh=False), ours.training_batch(0)
    values = ours.examples.prompt(batch, source)[0].flatten(1)
    assert [array.shape[0] for array in arrays.values()] == [15, 9, 5]
    for name, array in arrays.items():
        inputs = values.shape[1]
        values = values @ array[:, :inputs].mT + array[:, inputs]
        values = values if name == "W3" else values.relu()
    torch.testing.assert_close(ours.network.outputs(ours.initial(), batch, source)[0, :, :, 0], values)


def test_with_n_samples_no_net_is_below_its_floor_on_simple_qstr() -> None:
    """Averaged over the hidden direction u, `1 - n/(N d)`: what n samples do not span of the N d coordinates stays unknown."""
    N, d, n = 6, 6, 12
    trials = [
        TrialConfig.model_validate(
            {
                "task": {"kind": "simple_qstr", "T": N, "q": 1, "d": d},
                "model": {"kind": "ffn", "tail_width": 64},
                "optimizer": {"kind": "adamw", "lr": 0.003},
                "training": {"steps": 400, "batch_size": 12, "num_samples": n},
                "seed": seed,
            }
        )
        for seed in range(8)
    ]
    losses = [result.relative_loss for result in train_pack(trials)]
    assert all(loss is not None for loss in losses)
    mean = math.fsum(losses) / len(losses)
    assert mean > 1 - n / (N * d)
