"""Code books against plain loops over their definition."""

import pytest
import torch

from stsq_core.configs.stacking import padded_tokens
from stsq_core.kernels import kernels_for
from stsq_core.programs.codebook import CodeBook, DenseBook, OneHotBook

CPU = kernels_for(torch.device("cpu"))


def padded(codes: torch.Tensor) -> torch.Tensor:
    T = codes.shape[1]
    return torch.nn.functional.pad(codes, (0, 0, 0, padded_tokens(T) - T))


@pytest.mark.parametrize(("T", "d_e"), [(9, 8), (32, 20), (50, 24)])
def test_a_dense_book_is_its_matrix(T: int, d_e: int) -> None:
    generator = torch.Generator().manual_seed(0)
    E, W_e = torch.randn(3, T, d_e, generator=generator), torch.randn(3, d_e, d_e, generator=generator, requires_grad=True)
    book = DenseBook(padded(E), "sum", CPU)
    u, p = torch.randn(3, 5, d_e, generator=generator), torch.randn(3, 7, padded_tokens(T), generator=generator)
    torch.testing.assert_close(book.pull(u)[..., :T], u @ E.mT)
    torch.testing.assert_close(book.push(p), p[..., :T] @ E)
    scores = E @ W_e.mT @ E.mT
    torch.testing.assert_close(book.scores(W_e.detach())[:, :T, :T], scores.detach(), rtol=1e-4, atol=1e-4)
    G = torch.randn(3, padded_tokens(T), padded_tokens(T), generator=generator)
    (expected,) = torch.autograd.grad((scores * G[:, :T, :T]).sum(), W_e)
    torch.testing.assert_close(book.gradient(G), expected, rtol=1e-4, atol=1e-4)
    for tokens in (book.pull(u), book.scores(W_e.detach())):
        assert tokens.shape[-1] == padded_tokens(T)
        assert not tokens[..., T:].any()


@pytest.mark.parametrize("query", ["sum", "dual"])
def test_a_one_hot_book_is_the_dense_book_of_unit_vectors(query: str) -> None:
    T = 7
    one_hot: CodeBook = OneHotBook(T, torch.float32)
    dense = DenseBook(padded(torch.eye(T).expand(2, T, T)), query, CPU)
    y = torch.rand(2, 5, T, generator=torch.Generator().manual_seed(1)).topk(3).indices
    u, p, W, G = torch.rand(2, 5, T), torch.rand(2, 5, 32), torch.rand(2, T, T), torch.rand(2, 32, 32)
    torch.testing.assert_close(one_hot.coefficients(y), dense.coefficients(y))
    torch.testing.assert_close(one_hot.pull(u), dense.pull(u))
    torch.testing.assert_close(one_hot.push(p), dense.push(p))
    torch.testing.assert_close(one_hot.scores(W), dense.scores(W))
    torch.testing.assert_close(one_hot.gradient(G), dense.gradient(G))
