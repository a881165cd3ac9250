"""Training on a real GPU against the CPU, and replayed against called."""

import gc

import pytest
import torch

import stsq_core.training.stack
from stsq_core import train_pack
from stsq_core.kernels import kernels_for
from stsq_core.training.cost import GPU_FIXED_BYTES, memory_bytes
from stsq_core.training.stepper import EagerStepper, GraphStepper, stepper_for

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU: these tests compare it with the CPU"),
]


def outcome(trials, device: str = "cuda"):
    reports: list = []
    results = train_pack(trials, report=reports.append, device=device)
    return [loss for report in reports for loss in report.relative_loss] + [r.relative_loss for r in results]


def test_losses_are_those_of_the_cpu(pack) -> None:
    assert outcome(pack) == pytest.approx(outcome(pack, "cpu"), rel=1e-4)


def test_replays_give_the_bits_of_calls(pack, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("triton")
    made: list = []

    def noted(*arguments, **named):
        made.append(stepper_for(*arguments, **named))
        return made[-1]

    monkeypatch.setattr(stsq_core.training.stack, "stepper_for", noted)
    replayed = outcome(pack)
    assert {type(stepper) for stepper in made} == {GraphStepper}
    assert outcome(pack) == replayed

    def called(program, descent, parameters, moments, *, step):
        return EagerStepper(program, descent, parameters, moments)

    monkeypatch.setattr(stsq_core.training.stack, "stepper_for", called)
    assert outcome(pack) == replayed


def test_a_diverged_trial_disturbs_nobody(transformer) -> None:
    training = {"steps": 40, "batch_size": 8}
    calm = [transformer(T=9, d_e=9, seed=s, training=training) for s in range(3)]
    wild = transformer(T=9, d_e=9, optimizer={"kind": "gd", "lr": 1e6}, training=training)
    results = train_pack([calm[0], wild, *calm[1:]], device="cuda")
    assert [r.status for r in results] == ["finished", "diverged", "finished", "finished"]
    alone = train_pack(calm, device="cuda")
    assert [r.relative_loss for r in (results[0], *results[2:])] == pytest.approx([r.relative_loss for r in alone], rel=1e-4)


def test_draws_are_those_of_the_cpu() -> None:
    """Signs and subsets to the bit, normals to the rounding of their functions."""
    from stsq_core.kernels import StreamKeys

    drawn = []
    for device in (torch.device("cpu"), torch.device("cuda")):
        kernels = kernels_for(device)
        keys = kernels.keys(torch.arange(5, device=device), 12345)
        draws = StreamKeys(keys, torch.tensor([0, 1, 2, 3, 4, 2], device=device))
        drawn.append(
            (
                kernels.signs(draws, tokens=224, length=80, dtype=torch.float32).cpu(),
                kernels.subsets(draws, rows=256, T=200, q=5).cpu(),
                kernels.normals(draws, rows=64, numbers=1000, dtype=torch.float32).cpu(),
            )
        )
    (signs, subsets, normals), (signs_there, subsets_there, normals_there) = drawn
    assert torch.equal(signs, signs_there)
    assert torch.equal(subsets, subsets_there)
    torch.testing.assert_close(normals_there, normals, rtol=2.4e-7, atol=4e-7)


def test_a_billion_words_give_no_normal_that_is_not_finite() -> None:
    """The rare words, too: a step of a large pack draws hundreds of millions of them."""
    from stsq_core.kernels import StreamKeys

    kernels = kernels_for(torch.device("cuda"))
    draws = StreamKeys(kernels.keys(torch.arange(4, device="cuda"), 7), torch.arange(4, device="cuda"))
    drawn = kernels.normals(draws, rows=2**13, numbers=2**15, dtype=torch.float32)
    assert bool(drawn.isfinite().all())
    assert drawn.abs().max() < 6
    assert float(drawn.double().var()) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize("objective", ["minibatch", "population"])
@pytest.mark.parametrize(("T", "d_e", "batch", "k"), [(200, 64, 256, 128), (200, 64, 256, 512), (32, 32, 64, 1024)])
def test_the_memory_of_a_pack_is_what_was_counted(transformer, objective: str, T: int, d_e: int, batch: int, k: int) -> None:
    """Within 15% of the allocator's own peak, the fixed part of a process with it."""
    training = {"objective": objective, "batch_size": batch, "steps": 3, "log_every": 3}
    codes = {"kind": "random_sign", "d_e": d_e, "query": "dual"}
    pack = [transformer(T=T, d=5, model__positions=codes, training=training, seed=seed) for seed in range(k)]
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    train_pack(pack, device="cuda")
    peak = torch.cuda.max_memory_allocated()
    assert peak == pytest.approx(k * memory_bytes(pack[0], "cuda") + GPU_FIXED_BYTES, rel=0.15)
