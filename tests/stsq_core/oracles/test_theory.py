"""The oracles against brute force, quadrature-free simulation and each other."""

import math
from itertools import combinations

import numpy as np
import pytest

from stsq_core import UserError
from stsq_core.oracles import theory


def best_linear_loss(A: np.ndarray, *, T: int, d: int, q: int) -> float:
    """Relative loss of the best predictor of the target from (A vec X, y): a Gaussian regression's residual, over all y."""
    projector = A.T @ np.linalg.pinv(A @ A.T) @ A if len(A) else np.zeros((T * d, T * d))
    losses = []
    for y in combinations(range(T), q):
        B = np.zeros((d, T * d))
        for t in y:
            for j in range(d):
                B[j, t * d + j] = 1 / q
        losses.append(np.trace(B @ (np.eye(T * d) - projector) @ B.T) / (d / q))
    return float(np.mean(losses))


@pytest.mark.parametrize(("T", "d", "q"), [(4, 2, 2), (5, 1, 3), (6, 2, 2), (4, 3, 4)])
def test_fcn_floor_is_the_least_over_linear_maps(T: int, d: int, q: int) -> None:
    # The loss is linear in the projector, so the best rank-m map keeps the top m eigenvectors of the mean quadratic form.
    quadratic = np.zeros((T * d, T * d))
    subsets = list(combinations(range(T), q))
    for y in subsets:
        hot = np.zeros(T)
        hot[list(y)] = 1 / q
        quadratic += np.kron(np.outer(hot, hot), np.eye(d)) / len(subsets)
    _, vectors = np.linalg.eigh(quadratic)
    rng = np.random.default_rng(0)
    for m in range(T * d + 1):
        best = vectors[:, T * d - m :].T
        assert best_linear_loss(best, T=T, d=d, q=q) == pytest.approx(theory.fcn_floor(m, T=T, d=d, q=q), abs=1e-12)
        assert best_linear_loss(rng.normal(size=(m, T * d)), T=T, d=d, q=q) >= theory.fcn_floor(m, T=T, d=d, q=q) - 1e-12


@pytest.mark.parametrize(("T", "d", "q"), [(8, 2, 2), (16, 2, 2), (12, 4, 3), (5, 1, 5)])
def test_width_bound_inverts_the_floor(T: int, d: int, q: int) -> None:
    for loss in (0.0, 0.05, 0.1, 0.5, 0.95, 1.0):
        width = theory.fcn_width_bound(loss, T=T, d=d, q=q)
        assert 0 <= width <= T * d
        # Where the floor jumps (q = T) or is flat the bound is the least width that reaches the loss.
        assert theory.fcn_floor(width, T=T, d=d, q=q) <= loss + 1e-12
        if width > 1e-9:
            assert theory.fcn_floor(width * (1 - 1e-6), T=T, d=d, q=q) > loss


def test_width_bound_gives_the_published_numbers() -> None:
    assert theory.fcn_width_bound(0.1, T=8, d=2, q=2) == pytest.approx(14.1, abs=0.05)
    assert theory.fcn_width_bound(0.1, T=16, d=2, q=2) == pytest.approx(28.6, abs=0.05)


def test_gap_loss_is_the_loss_of_attention_with_that_gap() -> None:
    T, q, gap = 10, 3, 1.3
    p = np.exp(np.r_[np.full(q, gap), np.zeros(T - q)])
    p /= p.sum()
    hot = np.r_[np.full(q, 1 / q), np.zeros(T - q)]
    v = (p @ hot) / (p @ p)
    assert theory.one_hot_gap_loss(gap, T=T, q=q) == pytest.approx(q * ((v * p - hot) ** 2).sum(), rel=1e-12)


def test_one_hot_descent_is_gradient_descent_on_the_population_loss() -> None:
    T, q, d, lr, steps = 6, 2, 3, 0.7, 60
    W, V = np.zeros((T, T)), np.zeros((d, d))
    subsets = list(combinations(range(T), q))
    losses = []
    for _ in range(steps + 1):
        loss, grad_W, grad_V = 0.0, np.zeros_like(W), np.zeros_like(V)
        for y in subsets:
            hot = np.zeros(T)
            hot[list(y)] = 1.0
            p = np.exp(W @ hot)
            p /= p.sum()
            # E over X of 1/2 ||V X p - X hot/q||^2 with X of iid normals.
            loss += 0.5 * ((V @ V.T).trace() * p @ p - 2 * V.trace() * p @ hot / q + d / q) / len(subsets)
            grad_V += (V * (p @ p) - np.eye(d) * (p @ hot / q)) / len(subsets)
            grad_p = (V**2).sum() * p - V.trace() * hot / q
            grad_W += np.outer(p * (grad_p - p @ grad_p), hot) / len(subsets)
        losses.append(loss)
        W -= lr * grad_W
        V -= lr * grad_V
    np.testing.assert_allclose(theory.one_hot_descent(T=T, q=q, d=d, lr=lr, steps=steps), losses, rtol=1e-10)


@pytest.mark.parametrize(("T", "q", "d"), [(12, 3, 5), (16, 2, 2)])
def test_inverse_loss_grows_by_four_lr_over_T_minus_one(T: int, q: int, d: int) -> None:
    lr = 0.05
    losses = theory.one_hot_descent(T=T, q=q, d=d, lr=lr, steps=200_000)
    slope = (1 / losses[-1] - 1 / losses[-10_001]) / 10_000
    assert slope == pytest.approx(4 * lr / (T - 1), rel=0.02)


@pytest.mark.parametrize(
    ("query", "d_e", "loss"), [("dual", 16, 0.78), ("dual", 32, 0.14), ("sum", 16, 0.66), ("sum", 32, 0.41), ("sum", 64, 0.24)]
)
def test_attention_reference_gives_the_known_values(query: str, d_e: int, loss: float) -> None:
    assert theory.attention_reference(T=200, q=3, d_e=d_e, query=query) == pytest.approx(loss, abs=0.025)


def test_attention_reference_is_the_loss_of_that_construction_in_the_engine(transformer) -> None:
    import torch

    from stsq_core.training.stack import build_program

    program = build_program((transformer(T=40, q=3, d_e=24),), torch.device("cpu"))
    losses = []
    for beta in np.linspace(4, 14, 11):
        weights = {"W_e": beta * torch.eye(24)[None], "v": torch.tensor([1.0])}
        mean, square = 0.0, 0.0
        for chunk in range(64):
            at_one = program.fresh_losses(weights, chunk).mean().item()
            at_zero = program.fresh_losses(weights | {"v": torch.tensor([0.0])}, chunk).mean().item()
            at_minus = program.fresh_losses(weights | {"v": torch.tensor([-1.0])}, chunk).mean().item()
            square += (at_one + at_minus - 2 * at_zero) / 2 / 64
            mean += (at_minus - at_one) / 4 / 64
        losses.append(1 - mean**2 / square)
    assert theory.attention_reference(T=40, q=3, d_e=24, query="dual") == pytest.approx(min(losses), abs=0.02)


def test_nonsense_is_refused() -> None:
    with pytest.raises(UserError, match="q=9"):
        theory.fcn_floor(3, T=8, d=2, q=9)
    with pytest.raises(UserError, match=r"got 1\.5"):
        theory.fcn_width_bound(1.5, T=8, d=2, q=2)
    assert math.isclose(theory.fcn_floor(0, T=8, d=2, q=2), 1.0)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_at_the_step_size_bound_gradient_descent_only_descends(d: int) -> None:
    assert theory.step_size_bound(d) == pytest.approx(0.05 / d**2)
    losses = theory.one_hot_descent(T=12, q=2, d=d, lr=theory.step_size_bound(d), steps=2000)
    assert np.all(np.diff(losses) < 0)
    with pytest.raises(UserError, match="d=0"):
        theory.step_size_bound(0)
