"""Matrix products of a stack whose bits do not depend on a slice's place in it.

MKL picks its kernels by the alignment of the operands. In a contiguous stack slice i starts i slices after the first, so a
slice whose size is no multiple of 64 bytes is aligned differently at different places, and rounds differently there; and a
product with a vector goes to another kernel in a stack of one. Zero columns bring every slice to an aligned size that is no
vector. Engine shapes are chosen so that this is rarely needed.
"""

import functools

import torch

ALIGNMENT_BYTES = 64

FEW = 4
"""So many numbers torch adds one after another, on any machine."""


def aligned(size: int, dtype: torch.dtype) -> int:
    """The least multiple of a cache line that holds `size` numbers, in numbers."""
    line = ALIGNMENT_BYTES // dtype.itemsize
    return -(-size // line) * line


def dot(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Inner products along the last axis."""
    return (a * b).sum(-1)


def sum_of_few(values: torch.Tensor, axis: int) -> torch.Tensor:
    """`values.sum(axis)` with its bits: over the few numbers of a token it takes several times as long as the additions."""
    parts = values.unbind(axis)
    return functools.reduce(torch.add, parts) if 1 < len(parts) <= FEW else values.sum(axis)


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """`a @ b` for stacks of shape (k, M, K) and (k, K, N), slice by slice: shape (k, M, N)."""
    N = b.shape[2]
    M = a.shape[1]
    padding = _padding(M, a.shape[2], N, a.dtype)
    if padding is None:  # every slice begins on a cache line: MKL takes the same kernel for all of them
        return torch.bmm(a, b)
    more_M, more_K, more_N = padding
    if more_K or more_M:
        a = torch.nn.functional.pad(a, (0, more_K, 0, more_M))
    if more_K or more_N:
        b = torch.nn.functional.pad(b, (0, more_N, 0, more_K))
    a, b = a.contiguous(), b.contiguous()
    return torch.bmm(a, b)[:, :M, :N]


@functools.cache
def _padding(M: int, K: int, N: int, dtype: torch.dtype) -> tuple[int, int, int] | None:
    """Zeros to be added to M, K and N; None where every slice is aligned and no vector."""
    if M > 1 and N > 1 and all(size == aligned(size, dtype) for size in (M * K, K * N, M * N)):
        return None
    # One more row where there is one: a product with a vector would go to another kernel in a stack of one.
    return int(M == 1), aligned(K, dtype) - K, aligned(N, dtype) - N
