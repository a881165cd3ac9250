"""Floors by brute force: exact enumeration, sampling, and the best of many projections."""

from itertools import combinations

import numpy as np
import pytest

from stsq_core import UserError
from stsq_core.configs.selected_tokens import Moment, SelectedMean
from stsq_core.oracles import theory
from stsq_core.tasks.selected_tokens import covariance, target_variance, weights_of
from tests.stsq_core.oracles import floors

CORRELATED = {"kind": "correlated", "rho": 0.4}


def mean_task(*, T: int = 6, q: int = 2, d: int = 2, **fields) -> SelectedMean:
    return SelectedMean.model_validate({"kind": "selected_mean", "T": T, "q": q, "d": d, **fields})


@pytest.mark.parametrize(("T", "q", "d"), [(6, 2, 2), (5, 5, 1), (7, 1, 3), (1, 1, 2)])
def test_the_plain_mean_has_the_floor_of_sparse_token_selection(T: int, q: int, d: int) -> None:
    task = mean_task(T=T, q=q, d=d)
    for width in range(T * d + 2):
        assert floors.linear_floor(task, width) == pytest.approx(theory.fcn_floor(width, T=T, d=d, q=q), abs=1e-12)
    assert d * target_variance(task) == pytest.approx(d / q)


@pytest.mark.parametrize("fields", [{"decay": 1.5}, {"tokens": CORRELATED}, {"tokens": CORRELATED, "decay": 2.0, "noise": 0.5}])
def test_no_linear_map_comes_below_the_floor_and_the_best_one_reaches_it(fields: dict) -> None:
    """The least mean error of predicting all targets from m functionals, averaged over every subset."""
    task = mean_task(**fields)
    w, C = weights_of(task), covariance(task)
    assert np.mean(w**2) == pytest.approx(1)
    a = np.array([[w[t] * (t in y) / task.q for t in range(task.T)] for y in combinations(range(task.T), task.q)])
    assert np.mean(np.einsum("yt,ts,ys->y", a, C, a)) == pytest.approx(target_variance(task))

    def missed(A: np.ndarray) -> float:
        """Of d = 2 coordinates, each seen through its own rows A of half the width."""
        explained = C @ A.T @ np.linalg.solve(A @ C @ A.T, A @ C)
        left = np.mean(np.einsum("yt,ts,ys->y", a, C - explained, a)) / target_variance(task)
        noise = floors.noise_floor(task.noise)
        return noise + (1 - noise) * float(left)

    rng = np.random.default_rng(0)
    values, vectors = np.linalg.eigh(C)
    root = vectors * np.sqrt(values) @ vectors.T
    _, directions = np.linalg.eigh(root @ (a.T @ a / len(a)) @ root)
    for rank in (1, 3, 5):
        floor = floors.linear_floor(task, task.d * rank)
        assert all(missed(rng.normal(size=(rank, task.T))) >= floor - 1e-12 for _ in range(20))
        best = directions[:, -rank:].T @ np.linalg.inv(root)
        assert missed(best) == pytest.approx(floor, abs=1e-10)


def test_the_floor_of_a_second_moment_is_a_straight_line() -> None:
    """`E Var(target | P x)` by its exact formula, over random projections and over those onto coordinates."""
    T, q, rng = 5, 2, np.random.default_rng(1)
    task = Moment.model_validate({"kind": "moment", "T": T, "q": q, "d": 1, "order": 2})
    subsets = list(combinations(range(T), q))

    def missed(P: np.ndarray) -> float:
        explained = [sum(P[t, s] ** 2 for t in y for s in y) / q for y in subsets]
        return float(1 - np.mean(explained))

    for m in range(1, T + 1):
        floor = floors.moment_floor(task, m)
        for _ in range(50):
            basis, _ = np.linalg.qr(rng.normal(size=(T, m)))
            assert missed(basis @ basis.T) >= floor - 1e-12
        assert missed(np.diag([1.0] * m + [0.0] * (T - m))) == pytest.approx(floor)


def test_what_a_projection_explains_of_hermite_polynomials_is_a_power_of_it() -> None:
    """`E [E[He_k(x_t) | P x] E[He_k(x_s) | P x]] = k! P_ts^k`, sampled: what the straight line rests on."""
    rng = np.random.default_rng(2)
    basis, _ = np.linalg.qr(rng.normal(size=(4, 2)))
    P = basis @ basis.T
    x = rng.normal(size=(400_000, 4))
    seen = x @ P
    # Given P x, coordinate t is normal about (P x)_t with variance 1 - P_tt.
    rest = 1 - np.diag(P)
    second = seen**2 + rest - 1
    third = seen**3 + 3 * seen * rest - 3 * seen
    for values, k, factorial in ((second, 2, 2), (third, 3, 6)):
        np.testing.assert_allclose(values.T @ values / len(x), factorial * P**k, atol=0.06)


@pytest.mark.parametrize("fields", [{"order": 1}, {"order": 2, "about": "mean"}])
def test_a_floor_that_is_not_derived_is_refused(fields: dict) -> None:
    with pytest.raises(UserError, match="none is derived"):
        floors.moment_floor(Moment.model_validate({"kind": "moment", "T": 5, "q": 2, "d": 1, **fields}), 3)


@pytest.mark.parametrize(("query", "q"), [("sum", 2), ("sum", 3), ("dual", 1), ("dual", 2)])
def test_linear_attention_is_best_at_a_multiple_of_the_identity(query: str, q: int) -> None:
    """Least squares over all of W on sampled codes comes no lower than the closed form."""
    T, d_e, rng = 6, 4, np.random.default_rng(3)
    gram, against, size = np.zeros((d_e**2, d_e**2)), np.zeros(d_e**2), 0.0
    for _ in range(6000):
        E = rng.choice([-1.0, 1.0], (T, d_e)) / d_e**0.5
        y = rng.choice(T, q, replace=False)
        w = E[y].sum(0) if query == "sum" else np.linalg.pinv(E[y]) @ np.ones(q)
        rows = np.einsum("ti,j->tij", E, w).reshape(T, -1)
        target = np.isin(np.arange(T), y) / q
        gram += rows.T @ rows
        against += rows.T @ target
        size += float(target @ target)
    W = np.linalg.solve(gram, against)
    exact = floors.linear_attention_loss(T=T, d_e=d_e, query=query, q=q)
    assert 1 - against @ W / size == pytest.approx(exact, abs=0.02)
    W = W.reshape(d_e, d_e)
    np.testing.assert_allclose(W, np.eye(d_e) * W.trace() / d_e, atol=0.05)


def test_a_closed_form_that_is_not_there_is_refused() -> None:
    with pytest.raises(UserError, match="q = 1 and 2"):
        floors.linear_attention_loss(T=9, d_e=4, query="dual", q=3)
    with pytest.raises(UserError, match="width must be at least 0"):
        floors.linear_floor(mean_task(), -1)
