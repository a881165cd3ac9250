"""The gradient through dual queries against autograd on the pseudo-inverse."""

import pytest
import torch

from stsq_core.programs.certificate import dual_coefficients, through_dual

F64 = torch.float64
T = 9


def test_dependent_codes_that_nearly_cancel_have_the_nearest_query() -> None:
    """Three codes in a plane that sum to almost nothing: rounding must not be taken for a direction that is left to search."""
    angles = torch.tensor([0.1, 2.2244, 4.2888])
    E = torch.stack([angles.cos(), angles.sin()], 1)[None]
    c = dual_coefficients(E, torch.arange(3).view(1, 1, 3))[0, 0]
    exact = (torch.linalg.pinv(E[0].double()) @ torch.ones(3, dtype=F64)).float()
    torch.testing.assert_close(c @ E[0], exact, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("members", ["any", "equal", "opposite"])
@pytest.mark.parametrize(("d_e", "q"), [(7, 3), (3, 3), (2, 3), (1, 2), (5, 6)])
def test_the_gradient_is_that_of_the_minimum_norm_least_squares_query(d_e: int, q: int, members: str) -> None:
    """Whether an exact certificate exists (q <= d_e, independent members), or the query is the nearest one, or undetermined."""
    generator = torch.Generator().manual_seed(d_e)
    E = torch.randn((2, T, d_e), generator=generator, dtype=F64)
    y = torch.stack([torch.stack([torch.randperm(T, generator=generator)[:q] for _ in range(5)]) for _ in range(2)])
    y[:, 0] = torch.arange(q)
    if members != "any":
        E[:, 1] = E[:, 0] if members == "equal" else -E[:, 0]
    w = E.new_zeros((2, 5, T)).scatter_(2, y, dual_coefficients(E, y)) @ E
    g = torch.randn(w.shape, generator=generator, dtype=F64)

    leaf = E.clone().requires_grad_()
    rows = torch.stack([leaf[trial][y[trial]] for trial in range(2)])
    defined = (torch.linalg.pinv(rows, rtol=1e-8) @ torch.ones((q, 1), dtype=F64)).squeeze(-1)
    torch.testing.assert_close(w, defined.detach(), rtol=1e-7, atol=1e-7)
    (expected,) = torch.autograd.grad((defined * g).sum(), leaf)
    A, B = through_dual(E, y, w, g)
    torch.testing.assert_close(A.mT @ B, expected, rtol=1e-5, atol=1e-6)
