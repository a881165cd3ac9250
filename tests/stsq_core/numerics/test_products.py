"""Sums and products in the order that trials' bits rest on."""

import pytest
import torch

from stsq_core.numerics import sum_of_few


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("rest", [1, 3, 16, 37])
def test_a_sum_of_few_has_the_bits_of_torchs(count: int, rest: int, dtype: torch.dtype) -> None:
    draws = torch.Generator().manual_seed(count)
    values = torch.randn(5, 33, count, rest, generator=draws, dtype=dtype)
    assert torch.equal(sum_of_few(values, 2), values.sum(2))
    side_by_side = values.mT.contiguous()
    assert torch.equal(sum_of_few(side_by_side, -1), side_by_side.sum(-1))
