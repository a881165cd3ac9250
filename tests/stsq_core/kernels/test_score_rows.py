"""Rows of scores that are taken four at a time have the bits of the loops that take a row alone."""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import llvmlite.binding
import numba
import numpy as np
import pytest

from stsq_core.kernels import attended_loops

WIDTHS = [(1, 16), (5, 16), (16, 16), (7, 32), (32, 32), (33, 48), (33, 64), (64, 64), (77, 80)]
"""Columns, and these filled up; the last are more than fit."""


@pytest.fixture(scope="module", params=["own", "narrow"])
def loops(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The loops of this machine, and as one without AVX-512 has them, under another name because Numba keeps them by file."""
    if request.param == "own":
        yield attended_loops
        return
    folder = tmp_path_factory.mktemp("loops") / "narrow_rows"
    folder.mkdir()
    (folder / "__init__.py").touch()
    for path in Path(attended_loops.__file__).parent.glob("[a-z]*.py"):
        (folder / path.name).write_text(path.read_text().replace("stsq_core.kernels.", "narrow_rows."))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder.parent))
        patch.setattr(llvmlite.binding, "get_host_cpu_features", dict)
        found = importlib.import_module("narrow_rows.attended_loops")
    assert found.VECTOR_BYTES == 32
    yield found


def scores(rows: int, T: int, width: int, seed: int, dtype: type = np.float32) -> np.ndarray:
    draws = np.random.default_rng(seed)
    S = np.zeros((rows, width), dtype)
    S[:, :T] = draws.normal(size=(rows, T)) * 30 * draws.random((rows, 1))
    return S


def weighed(loops: ModuleType, S: np.ndarray, T: int, at_once: int) -> np.ndarray:
    """The weights of rows, so many of them passed at once."""
    found, width, dtype = S.copy(), S.shape[1], S.dtype
    rest, ones, sums = np.zeros(width, dtype), np.ones(width, dtype), np.zeros(len(S), dtype)
    for r in range(0, len(S), at_once):
        rows = min(at_once, len(S) - r)
        loops.weigh(found.reshape(-1), r * width, rows, width, T, loops.SOFTMAX, 1, dtype.type(0), sums, rest, ones)
    return found


def same_bits(found: np.ndarray, expected: np.ndarray) -> None:
    """NaN may be any NaN."""
    np.testing.assert_array_equal(found, expected)
    there = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(found[there]), np.signbit(expected[there]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("T", "width"), WIDTHS)
def test_weights_of_many_rows_are_those_of_each_alone(loops: ModuleType, T: int, width: int, dtype: type) -> None:
    S = scores(11, T, width, T, dtype)
    S[1, 0], S[2, T - 1], S[3, T // 2], S[5] = np.nan, np.inf, -np.inf, -0.0
    S[6, :T], S[7, 0], S[8, : T - 1] = -np.inf, np.nan, -1e9
    found = weighed(loops, S, T, 11)
    same_bits(found, weighed(loops, S, T, 1))
    same_bits(found, weighed(loops, S, T, 6))
    assert np.all(found[[0, 4, 9], T:] == 0)
    assert np.allclose(found[[0, 3 if T > 1 else 0, 4, 5, 8, 9]].sum(1), 1)
    assert np.all(np.isnan(found[[1, 2, 6, 7], 0]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("T", "width"), WIDTHS)
def test_slopes_of_many_rows_are_those_of_each_alone(loops: ModuleType, T: int, width: int, dtype: type) -> None:
    p, g = weighed(loops, scores(11, T, width, T, dtype), T, 1), scores(11, T, width, T + 1, dtype)
    g[1, 0], g[2, 0], g[3], p[5] = np.nan, np.inf, -0.0, 0
    sums, found, alone = np.zeros(11, dtype), g.copy(), g.copy()
    loops.slopes_of(p.reshape(-1), 0, found.reshape(-1), 0, 11, width, loops.SOFTMAX, sums)
    for r in range(11):
        loops.slopes_of(p.reshape(-1), r * width, alone.reshape(-1), r * width, 1, width, loops.SOFTMAX, sums)
    same_bits(found, alone)


@pytest.fixture(scope="module")
def one_by_one(loops: ModuleType) -> Callable[..., None]:
    """A row at a time: products, sums, weights, and gradients at scores."""
    add_scores, weigh, softmax, multiply_rows = loops._add_scores, loops.weigh, loops.SOFTMAX, loops.multiply_rows
    slopes_of, add_each, add_dots, add_rows = loops.slopes_of, loops.add_each, loops.add_dots, vectors_of(loops).add_rows

    @numba.njit(error_model="numpy")
    def run(A, B, T, width, steps, P, factors, directions, G, D, dots, sums):
        none, rest, ones, one = np.zeros(1, np.int64), np.zeros(width, P.dtype), np.ones(width, P.dtype), P.dtype.type(1)
        room = np.zeros(T, P.dtype)
        for t in range(T):
            add_scores(P, t * width, A, t, B, 1, width, steps, none)
            weigh(P, t * width, 1, width, T, softmax, 1, P.dtype.type(0), room, rest, ones)
            multiply_rows(G, t * width, width, factors, t, 1, width, 1, directions, 0, 2, width, none)
            slopes_of(P, t * width, G, t * width, 1, width, softmax, room)
            add_rows(sums, t * width, A, t * steps, B, t * width, width, steps, width)
        for j in range(steps):
            add_dots(dots, j * width, G, 0, width, T, B, j * width, 0, width)
        add_each(D, 0, G, 0, one, T * width)

    return run


def vectors_of(loops: ModuleType) -> ModuleType:
    return importlib.import_module(loops.__name__.replace("attended_loops", "vectors"))


@pytest.mark.parametrize("steps", [3, 4, 9])
@pytest.mark.parametrize(("T", "width"), WIDTHS)
def test_four_rows_have_the_bits_of_each_alone_from_their_products_to_their_sums(
    loops: ModuleType, one_by_one: Callable[..., None], T: int, width: int, steps: int
) -> None:
    draws, tall = np.random.default_rng(T), max(T, 2 * steps)

    def drawn(rows: int) -> np.ndarray:
        return draws.normal(size=(rows, width)).astype(np.float32)

    A, B, start, factors, directions, D = drawn(tall), drawn(T + steps), drawn(T), drawn(2), drawn(2), drawn(T)
    for values in (B, start, directions):
        values[:, T:] = 0
    expected = [start.copy(), np.zeros_like(start), D.copy(), np.ones((steps, width), np.float32), start.copy()]
    P, G, to_D, dots, sums = [values.reshape(-1) for values in expected]
    A, B, start, factors, directions = (values.reshape(-1) for values in (A, B, start, factors, directions))
    one_by_one(A, B, T, width, steps, P, factors, directions, G, to_D, dots, sums)

    weights, zeros = np.full_like(P, 7), np.zeros(width, np.float32)
    slopes, to, many, mixed = np.full_like(P, 7), D.reshape(-1).copy(), np.ones_like(dots), start.copy()
    fits = width * 4 <= loops.PANEL * loops.VECTOR_BYTES
    done = loops.weigh_fours(weights, 0, start, 0, A, 0, B, 0, width, steps, T, T)
    assert done == (T // 4 * 4 if fits else 0)
    same_bits(weights[: done * width], P[: done * width])
    loops.slope_fours(slopes, 0, zeros, 0, 0, factors, 0, directions, 0, width, 2, P, 0, to, 0, 1, T)
    same_bits(slopes[: done * width], G[: done * width])
    same_bits(to[: done * width], to_D[: done * width])
    assert np.all(weights[done * width :] == 7)
    assert np.all(slopes[done * width :] == 7)
    loops.add_dots_of_all(many, 0, width, G, 0, width, T, B, 0, width, steps, width)
    same_bits(many, dots)
    loops.add_rows_of_all(mixed, 0, width, A, 0, steps, B, 0, width, T, steps, width)
    same_bits(mixed, sums)
