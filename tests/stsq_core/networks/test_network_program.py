"""Networks: a model that knows no task obeys the law of the pack, and its gradient is that of its loss."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from stsq_core import TrialConfig, train_pack
from stsq_core.networks.network_program import NetworkProgram
from stsq_core.numerics.checkpoint import Checkpoint
from stsq_core.numerics.products import product
from stsq_core.plugins import load, read_plugin
from stsq_core.plugins.loading import unload_all

PLUGIN = Path(__file__).parents[3] / "docs" / "plugins" / "selected_max.py"
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _plugin() -> Iterator[None]:
    """The plugin of the docs: a task and a net of its own."""
    load(read_plugin(PLUGIN))
    yield
    unload_all()


class Interrupted(Exception):  # noqa: N818  (an order to stop, as KeyboardInterrupt)
    """Raised by the test's checkpoint in the place of a kill."""


class Interrupting(Checkpoint):
    """Saves once, after some steps, and breaks off."""

    def __init__(self, steps: int) -> None:
        self.state: bytes | None = None
        self.steps = steps

    def load(self) -> bytes | None:
        return self.state

    def due(self) -> bool:
        self.steps -= 1
        return self.steps == 0

    def save(self, state: bytes) -> None:
        self.state = state
        raise Interrupted


def trial(
    *, width: int = 6, T: int = 5, d: int = 2, seed: int = 0, lr: float = 0.02, optimizer: str = "adam", **training: object
) -> TrialConfig:
    return TrialConfig.model_validate(
        {
            "task": {"kind": "selected_max", "T": T, "q": 2, "d": d},
            "model": {"kind": "pooled", "width": width},
            "optimizer": {"kind": optimizer, "lr": lr},
            "training": {"batch_size": 12, "steps": 12, "log_every": 4, **training},
            "seed": seed,
        }
    )


def numbers(results):
    return [(r.config.trial_id, r.status, r.relative_loss, r.relative_loss_stderr) for r in results]


def a_pack(**training: object) -> list[TrialConfig]:
    """Widths, rates, seeds and optimizers mixed; d = 1 makes the net's last product one with a vector."""
    kinds = ("adam", "gd")
    return [
        trial(width=(1, 6, 7)[i % 3], d=1 + i % 2, seed=i % 4, lr=0.01 * (i + 1), optimizer=kinds[i % 2], **training)
        for i in range(12)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("training", [{}, {"num_samples": 20}, {"dtype": "float64"}])
def test_a_trial_alone_is_the_trial_in_company(training: dict[str, object]) -> None:
    configs = a_pack(**training)
    together = train_pack(configs)
    assert numbers(together) == [numbers(train_pack([config]))[0] for config in configs]
    assert numbers(train_pack(configs[::-1])) == numbers(together)[::-1]


def test_an_interrupted_pack_goes_on_to_the_same_numbers() -> None:
    configs = a_pack()
    checkpoint = Interrupting(steps=17)
    with pytest.raises(Interrupted):
        train_pack(configs, checkpoint=checkpoint)
    assert numbers(train_pack(configs, checkpoint=checkpoint)) == numbers(train_pack(configs))


def test_one_that_diverges_leaves_and_the_others_do_not_notice() -> None:
    wild = trial(lr=1e18, optimizer="gd", seed=7)
    calm = [trial(seed=seed) for seed in range(3)]
    together = train_pack([calm[0], wild, *calm[1:]])
    assert together[1].status == "diverged"
    assert numbers([together[0], *together[2:]]) == numbers(train_pack(calm))


def test_the_gradient_is_that_of_the_loss() -> None:
    program = NetworkProgram((trial(dtype="float64"), trial(dtype="float64", seed=1)), CPU)
    parameters = program.initial()
    _, gradients = program.gradients(parameters, 3)
    batch = program.training_batch(3)

    def objectives() -> torch.Tensor:
        outputs = program.network.outputs(parameters, batch, program.source(3, fresh=False))
        return program.examples.objective(outputs, batch).mean(-1)

    step = 1e-6
    for name, value in parameters.items():
        for place in ((0, 0, 1), (1, 1, 0)):
            value[place] += step
            above = objectives()
            value[place] -= 2 * step
            below = objectives()
            value[place] += step
            slope = (above - below) / (2 * step)
            assert float(gradients[name][place]) == pytest.approx(float(slope[place[0]]), rel=1e-5, abs=1e-9)
            assert float(slope[1 - place[0]]) == 0, "another trial's parameter moves a trial's loss"


def test_a_finite_training_set_holds_no_more_samples_than_it_says() -> None:
    program = NetworkProgram((trial(num_samples=5), trial(num_samples=5, seed=1)), CPU)
    batches = [program.training_batch(step) for step in range(6)]
    assert not torch.equal(batches[0].X, batches[1].X)
    for member in range(2):
        rows = torch.cat([batch.X[member].flatten(1) for batch in batches])
        assert len(torch.unique(rows, dim=0)) == 5
    fresh = program.examples.batch(program.source(0, fresh=True), 12)
    assert not set(fresh.X[0, :, 0, 0].tolist()) & set(batches[0].X[0, :, 0, 0].tolist())


@pytest.mark.parametrize("shape", [(1, 3, 5), (1, 16, 16), (2, 1, 7), (3, 5, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradient_of_a_product_does_not_depend_on_the_stack(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    M, K, N = shape
    torch.manual_seed(0)
    a, b, weights = (torch.randn(5, *sizes, dtype=dtype) for sizes in ((M, K), (K, N), (M, N)))

    def gradients(place: slice) -> list[torch.Tensor]:
        leaves = [value[place].contiguous().requires_grad_() for value in (a, b)]
        return list(torch.autograd.grad((product(*leaves) * weights[place]).sum(), leaves))

    together = gradients(slice(None))
    for place in range(5):
        alone = gradients(slice(place, place + 1))
        assert all(torch.equal(own[0], whole[place]) for own, whole in zip(alone, together, strict=True))
    torch.testing.assert_close(together[0], weights @ b.mT)
    torch.testing.assert_close(together[1], a.mT @ weights)
