"""Sums of whole vectors have one order, whatever LLVM makes of the loop around them."""

import numpy as np
import pytest

from stsq_core.kernels.jit import jitted
from stsq_core.kernels.vectors import VECTOR_BYTES, add_dots


@jitted
def dots(C, A, B, columns):
    add_dots(C, 0, A, 0, columns, len(C), B, 0, 0, columns)


def halved(lanes: np.ndarray) -> np.ndarray:
    while lanes.shape[-1] > 1:
        low, high = np.split(lanes, 2, -1)
        lanes = low + high
    return lanes[..., 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [16, 32, 48, 64, 80, 144])
def test_inner_products_take_vectors_side_by_side_in_pairs_and_then_halves_of_vectors(columns: int, dtype: type) -> None:
    """Products of eleven bits by eleven are exact, so that a fused addition rounds as another does."""
    draws, rows = np.random.default_rng(columns), 4
    A = draws.integers(-2047, 2048, (rows, columns)).astype(dtype) * dtype(2.0) ** draws.integers(-9, 9, (rows, columns))
    B = draws.integers(-2047, 2048, columns).astype(dtype)
    found = np.zeros(rows, dtype)
    dots(found, A.reshape(-1).astype(dtype), B, columns)
    lanes, products, total = VECTOR_BYTES // found.itemsize, A.astype(dtype) * B, np.zeros(rows, dtype)
    side = 4 if VECTOR_BYTES == 64 else 2
    main = columns // (side * lanes) * side * lanes
    if main:
        sums = np.moveaxis(products[:, :main].reshape(rows, -1, side, lanes), 2, 0).cumsum(2, dtype=dtype)[:, :, -1]
        pairs = sums[::2] + sums[1::2]
        total = halved(pairs.sum(0, dtype=dtype))
    if main < columns:
        first = np.zeros((rows, 1, lanes // 2), dtype)
        first[:, 0, 0] = total
        rest = products[:, main:].reshape(rows, -1, lanes // 2)
        total = halved(np.concatenate([first, rest], 1).cumsum(1, dtype=dtype)[:, -1])
    np.testing.assert_array_equal(found, total)
