"""Samples of the tasks beside sparse token selection: their laws, their targets, and what a model that answers zero loses."""

import numpy as np
import pytest
import torch

from stsq_core import TrialConfig, train_pack
from stsq_core.configs.selected_tokens import Moment, SelectedMean
from stsq_core.configs.task import Stsq
from stsq_core.kernels import kernels_for
from stsq_core.numerics.streams import Streams
from stsq_core.tasks.choice import examples_of
from stsq_core.tasks.examples import Source

KERNELS = kernels_for(torch.device("cpu"))
TASKS = [
    {"kind": "selected_mean"},
    {"kind": "selected_mean", "decay": 2.0},
    {"kind": "selected_mean", "noise": 0.7, "decay": 1.0},
    {"kind": "selected_mean", "tokens": {"kind": "student_t", "freedom": 9.0}},
    {"kind": "selected_mean", "tokens": {"kind": "laplace"}},
    {"kind": "selected_mean", "tokens": {"kind": "correlated", "rho": 0.3}, "decay": 1.0},
    {"kind": "moment", "order": 2},
    {"kind": "moment", "order": 3},
    {"kind": "moment", "order": 2, "about": "mean"},
    {"kind": "moment", "order": 3, "about": "mean"},
]


def source(step: int = 0) -> Source:
    return Source(Streams((0, 7), KERNELS), KERNELS, step, fresh=False, dtype=torch.float64)


def task_of(fields: dict):
    record = SelectedMean if fields["kind"] == "selected_mean" else Moment
    return record.model_validate({"T": 9, "q": 4, "d": 2} | fields)


@pytest.mark.parametrize("fields", TASKS, ids=str)
def test_a_model_that_answers_zero_loses_the_whole_target(fields: dict) -> None:
    """And no other constant loses less: the target's mean is zero."""
    examples = examples_of(task_of(fields))
    batch = examples.batch(source(), 60_000)
    losses = examples.relative_losses(torch.zeros_like(batch.target), batch)
    error = float(losses.std() / losses.numel() ** 0.5)
    assert float(losses.mean()) == pytest.approx(1, abs=4 * error + 1e-9)
    spread = batch.target.std(1) / 60_000**0.5
    assert bool((batch.target.mean(1).abs() <= 5 * spread).all())


@pytest.mark.parametrize(
    ("tokens", "fourth"),
    [
        ({"kind": "gaussian"}, 3.0),
        ({"kind": "student_t", "freedom": 12.0}, 3 + 6 / 8),
        ({"kind": "laplace"}, 6.0),
        ({"kind": "correlated", "rho": 0.3}, 3.0),
    ],
)
def test_tokens_have_variance_one_and_the_fourth_moment_of_their_law(tokens: dict, fourth: float) -> None:
    task = task_of({"kind": "selected_mean", "tokens": tokens})
    X = examples_of(task).batch(source(), 60_000).X
    assert float(X.mean()) == pytest.approx(0, abs=0.02)
    assert float(X.square().mean()) == pytest.approx(1, abs=0.01)
    assert float((X**4).mean()) == pytest.approx(fourth, rel=0.05)
    between = (X[:, :, 0] * X[:, :, 5]).mean()
    assert float(between) == pytest.approx(tokens.get("rho", 0.0), abs=0.02)


def test_student_s_law_at_its_quantiles() -> None:
    """The 97.5% point of t with 5 degrees of freedom is 2.5706 (tables), here put to variance 1."""
    task = task_of({"kind": "selected_mean", "tokens": {"kind": "student_t", "freedom": 5.0}})
    X = examples_of(task).batch(source(), 60_000).X
    share = float((X.abs() > 2.5706 * (3 / 5) ** 0.5).double().mean())
    assert share == pytest.approx(0.05, abs=4 * (0.05 * 0.95 / X.numel()) ** 0.5)


def test_targets_are_the_stated_statistics_of_the_tokens_of_y() -> None:
    def values(fields: dict) -> tuple[np.ndarray, np.ndarray]:
        batch = examples_of(task_of(fields)).batch(source(), 50)
        members = batch.X.gather(2, batch.y[:, :, 0].unsqueeze(-1).expand(-1, -1, -1, 2))
        return members.numpy(), batch.target[:, :, 0].numpy()

    x, second = values({"kind": "moment", "order": 2})
    np.testing.assert_allclose(second, (x**2 - 1).mean(2), atol=1e-12)
    x, third = values({"kind": "moment", "order": 3})
    np.testing.assert_allclose(third, (x**3 - 3 * x).mean(2), atol=1e-12)
    x, variance = values({"kind": "moment", "order": 2, "about": "mean"})
    np.testing.assert_allclose(variance, x.var(2) - 3 / 4, atol=1e-12)
    x, skewed = values({"kind": "moment", "order": 3, "about": "mean"})
    np.testing.assert_allclose(skewed, ((x - x.mean(2, keepdims=True)) ** 3).mean(2), atol=1e-12)


@pytest.mark.parametrize("fields", [{"kind": "selected_mean"}, {"kind": "moment", "order": 1}])
def test_at_their_defaults_they_are_sparse_token_selection(fields: dict) -> None:
    """The same samples, and so the same trained trial."""
    plain = Stsq(T=9, q=4, d=2)
    ours, theirs = examples_of(task_of(fields)).batch(source(3), 20), examples_of(plain).batch(source(3), 20)
    assert torch.equal(ours.X, theirs.X)
    assert torch.equal(ours.y, theirs.y)
    assert torch.equal(ours.target, theirs.target)
    rest = {
        "model": {"kind": "attention", "positions": {"kind": "random_sign", "d_e": 8}},
        "optimizer": {"kind": "adam", "lr": 0.02},
        "training": {"steps": 4},
    }
    tasks = [task_of(fields).model_dump(), plain.model_dump()]
    results = train_pack([TrialConfig.model_validate({"task": task, **rest}) for task in tasks])
    assert results[0].relative_loss == results[1].relative_loss


@pytest.mark.parametrize(("order", "q"), [(1, 4), (3, 2)])
def test_a_central_moment_that_is_always_zero_is_refused(order: int, q: int) -> None:
    with pytest.raises(ValueError, match="always zero"):
        task_of({"kind": "moment", "order": order, "q": q, "about": "mean"})


def test_a_subset_larger_than_the_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="q must be at most T; got q=10, T=9"):
        task_of({"kind": "selected_mean", "q": 10})
