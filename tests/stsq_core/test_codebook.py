"""Code books against plain loops over their definition, and the dual query against a pseudo-inverse."""

import pytest
import torch

from stsq_core.codebook import DenseBook, OneHotBook, SampleBook, dual_coefficients


def random_signs(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randint(0, 2, shape, generator=generator) * 2.0 - 1) / shape[-1] ** 0.5


def random_subsets(k: int, count: int, T: int, q: int) -> torch.Tensor:
    return torch.rand(k, count, T, generator=torch.Generator().manual_seed(1)).topk(q).indices


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("d_e", "q"), [(2, 3), (3, 3), (4, 3), (6, 2), (5, 5), (6, 4), (24, 3), (8, 6), (16, 8)])
def test_the_dual_query_is_the_minimum_norm_least_squares_solution(d_e: int, q: int, dtype: torch.dtype) -> None:
    E = random_signs(3, 12, d_e).to(dtype)
    y = random_subsets(3, 300, 12, q)
    z = DenseBook(E).queries(y, "dual").double()
    members = torch.stack([E[i][y[i]] for i in range(3)]).double()
    expected = (torch.linalg.pinv(members, rtol=1e-5) @ torch.ones(q, 1, dtype=torch.float64)).squeeze(-1)
    torch.testing.assert_close(z, expected, rtol=2e-6, atol=2e-6)


def test_the_dual_query_scores_one_on_every_member_where_it_can() -> None:
    E = random_signs(1, 20, 32).double()
    y = random_subsets(1, 50, 20, 3)
    scores = DenseBook(E).scores(DenseBook(E).queries(y, "dual"))
    torch.testing.assert_close(scores.gather(2, y), torch.ones(1, 50, 3, dtype=torch.float64))


def test_dual_coefficients_share_out_equal_codes_and_give_up_on_opposite_ones() -> None:
    equal = torch.tensor([[1.0, 1.0], [1.0, 1.0]], dtype=torch.float64).unsqueeze(-1)
    opposite = torch.tensor([[1.0, -1.0], [-1.0, 1.0]], dtype=torch.float64).unsqueeze(-1)
    torch.testing.assert_close(dual_coefficients(equal).squeeze(), torch.tensor([0.5, 0.5], dtype=torch.float64))
    assert torch.equal(dual_coefficients(opposite).squeeze(), torch.zeros(2, dtype=torch.float64))


@pytest.mark.parametrize("query", ["sum", "dual"])
def test_a_one_hot_book_is_the_dense_book_of_unit_vectors(query: str) -> None:
    eye = torch.eye(7).expand(2, 7, 7).contiguous()
    y, p, u = random_subsets(2, 5, 7, 3), torch.rand(2, 5, 7), torch.rand(2, 5, 7)
    one_hot, dense = OneHotBook(7, torch.float32), DenseBook(eye)
    torch.testing.assert_close(one_hot.queries(y, query), dense.queries(y, query))
    torch.testing.assert_close(one_hot.queries(y, "sum"), one_hot.queries(y, "dual"))
    torch.testing.assert_close(one_hot.scores(u), dense.scores(u))
    torch.testing.assert_close(one_hot.mixture(p), dense.mixture(p))


@pytest.mark.parametrize("query", ["sum", "dual"])
def test_a_sample_book_is_one_dense_book_a_sample(query: str) -> None:
    codes = random_signs(2, 5, 9, 8)
    y, p, u = random_subsets(2, 5, 9, 3), torch.rand(2, 5, 9), torch.rand(2, 5, 8)
    book = SampleBook(codes)
    for b in range(5):
        dense = DenseBook(codes[:, b].contiguous())
        torch.testing.assert_close(book.queries(y, query)[:, b], dense.queries(y[:, b : b + 1], query)[:, 0])
        torch.testing.assert_close(book.scores(u)[:, b], dense.scores(u[:, b : b + 1])[:, 0])
        torch.testing.assert_close(book.mixture(p)[:, b], dense.mixture(p[:, b : b + 1])[:, 0])
