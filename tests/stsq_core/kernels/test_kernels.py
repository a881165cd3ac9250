"""Every implementation of the kernels against plain operations and against closed results.

Without a GPU those of the GPU run on CPU tensors in Triton's interpreter, which is slow: a few cases of each test.
"""

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from stsq_core.configs.stacking import padded_tokens
from stsq_core.kernels import Kernels, Rates, StreamKeys, cpu
from stsq_core.kernels.cpu import CpuKernels
from stsq_core.kernels.plain import PlainKernels, philox

CPU = torch.device("cpu")
DTYPES = [torch.float32, torch.float64]


class OnTheGpu:
    """Kernels of a GPU that are handed CPU tensors, and hand them back."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._kernels, name)

        def call(*arguments: Any, **named: Any) -> Any:
            there = moved((arguments, named), self._kernels.device)
            result = method(*there[0], **there[1])
            for here, tensor in zip(tensors_of(arguments), tensors_of(there[0]), strict=True):
                here.copy_(tensor)
            return moved(result, CPU)

        return call


def moved(value: Any, device: torch.device) -> Any:
    match value:
        case torch.Tensor():
            return value.to(device)
        case tuple():
            return tuple(moved(part, device) for part in value)
        case dict():
            return {name: moved(part, device) for name, part in value.items()}
        case _ if dataclasses.is_dataclass(value):
            return type(value)(**moved(vars(value), device))
        case _:
            return value


def tensors_of(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    return [tensor for part in value for tensor in tensors_of(part)] if isinstance(value, tuple) else []


INTERPRETED: list[dict[str, Any]] = [
    {"place": 1},
    {"place": 2},
    {"dtype": torch.float32, "numbers": 1},
    {"dtype": torch.float64, "numbers": 77},
    {"dtype": torch.float32, "numbers": 160},
    {"dtype": torch.float32, "d_e": 2, "q": 3},
    {"dtype": torch.float64, "d_e": 24, "q": 3},
    {"dtype": torch.float64, "d_e": 9, "q": 1},
    {"dtype": torch.float32, "d_e": 12, "q": 9},
    {"dtype": torch.float32, "T": 9, "batch": 20, "gradient": True},
    {"dtype": torch.float32, "T": 70, "batch": 3, "gradient": True},
    {"dtype": torch.float64, "T": 32, "batch": 7, "gradient": True},
    {"dtype": torch.float64, "T": 9, "batch": 20, "gradient": False},
]
"""Cases of the parametrised tests that the interpreter runs."""


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.slow)])
def kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Kernels:
    """An implementation that is not the plain one."""
    if request.param == "cpu":
        return CpuKernels(CPU)
    pytest.importorskip("triton")
    from stsq_core.kernels import cuda

    if torch.cuda.is_available():
        return OnTheGpu(cuda.CudaKernels(torch.device("cuda")))  # type: ignore[return-value]
    case = {name: value for name, value in request.node.callspec.params.items() if name not in ("kernels", "bad")}
    if case.keys() - {"dtype"} and case not in INTERPRETED:
        pytest.skip("one of the cases that are left to a GPU, as the interpreter is slow")
    monkeypatch.setattr(cuda, "SCAN", 16)  # so that small cases, too, need several blocks and partial sums
    monkeypatch.setattr(cuda, "LEAST_SAMPLES", 4)
    return cuda.CudaKernels(CPU)


@pytest.fixture
def plain() -> Kernels:
    return PlainKernels(CPU)


def some_draws(kernels: Kernels) -> StreamKeys:
    return StreamKeys(kernels.keys(torch.tensor([5, -7, 2**62]), 3), torch.tensor([0, 1, 2, 1]))


def random_codes(*shape: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return (torch.randint(0, 2, shape, generator=generator) * 2.0 - 1) / shape[-1] ** 0.5


def random_subsets(k: int, count: int, T: int, q: int) -> torch.Tensor:
    return torch.rand(k, count, T, generator=torch.Generator().manual_seed(1)).topk(q).indices


def test_words_are_those_of_the_published_generator() -> None:
    """The all-zero known answer of Random123's philox4x32-7."""
    words = philox(np.zeros(1, np.uint64), np.zeros(1, np.uint64), np.zeros(1, np.uint64))
    assert [hex(int(word)) for word in words[0]] == ["0x5f6fb709", "0xd893f64", "0x4f121f81", "0x4f730a48"]


def test_keys_are_the_same(kernels: Kernels, plain: Kernels) -> None:
    bases = torch.tensor([0, 1, -1, 2**63 - 1, -(2**63)])
    for step in (0, 7, 2**40):
        assert torch.equal(kernels.keys(bases, step), plain.keys(bases, step))
        assert torch.equal(plain.keys(bases, torch.tensor([step])), plain.keys(bases, step))


@pytest.mark.parametrize("place", [1, 2])
def test_the_word_whose_radius_is_zero_gives_zeros(kernels: Kernels, plain: Kernels, place: int) -> None:
    """One word in 2^25, met at once where a step draws millions: its uniform rounds to one, and the pair to zeros."""
    key, counter, pair = {1: (4221274, 6, 0), 2: (6721407, 7, 1)}[place]
    words = philox(np.array([key], np.uint64), np.array([counter], np.uint64), np.zeros(1, np.uint64))
    assert words[0, 2 * pair] >> np.uint64(7) == 0x1FFFFFF
    draws = StreamKeys(torch.tensor([key]), torch.tensor([0]))
    drawn = kernels.normals(draws, rows=1, numbers=64, dtype=torch.float32)
    assert drawn[0, 0, [32 * pair + counter, 32 * pair + 16 + counter]].abs().tolist() == [0, 0]
    torch.testing.assert_close(drawn, plain.normals(draws, rows=1, numbers=64, dtype=torch.float32), rtol=2.4e-7, atol=4e-7)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("numbers", [1, 31, 64, 77, 160])
def test_draws_are_the_same(kernels: Kernels, plain: Kernels, numbers: int, dtype: torch.dtype) -> None:
    draws = some_draws(kernels)
    for name, arguments in {
        "normals": {"rows": 5, "numbers": numbers, "dtype": dtype},
        "uniforms": {"numbers": numbers, "dtype": dtype},
        "signs": {"tokens": 9, "length": numbers, "dtype": dtype},
        "subsets": {"rows": numbers, "T": 9, "q": 4},
    }.items():
        drawn, expected = getattr(kernels, name)(draws, **arguments), getattr(plain, name)(draws, **arguments)
        assert drawn.shape[0] == 4
        rounding = {"rtol": 2.4e-7, "atol": 4e-7} if name == "normals" else {"rtol": 0, "atol": 0}
        torch.testing.assert_close(drawn, expected, **rounding)
        assert torch.equal(drawn[1], drawn[3])
    # Either precision sees the same numbers.
    single = kernels.normals(draws, rows=2, numbers=numbers, dtype=torch.float32)
    assert torch.equal(single.double(), kernels.normals(draws, rows=2, numbers=numbers, dtype=torch.float64))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("d_e", "q"), [(2, 3), (3, 3), (4, 3), (6, 2), (5, 5), (6, 4), (24, 3), (8, 6), (16, 8), (12, 9), (9, 1)]
)
def test_the_dual_query_is_the_minimum_norm_least_squares_solution(
    kernels: Kernels, plain: Kernels, d_e: int, q: int, dtype: torch.dtype
) -> None:
    E = random_codes(3, 12, d_e).to(dtype)
    y = random_subsets(3, 100, 12, q)
    members = torch.stack([E[i][y[i]] for i in range(3)]).double()
    expected = (torch.linalg.pinv(members, rtol=1e-5) @ torch.ones(q, 1, dtype=torch.float64)).squeeze(-1)
    for implementation in (kernels, plain):
        z = (members * implementation.dual(E, y).double().unsqueeze(-1)).sum(2)
        torch.testing.assert_close(z, expected, rtol=2e-6, atol=2e-6)


def test_the_dual_query_shares_out_equal_codes_and_gives_up_on_opposite_ones(kernels: Kernels) -> None:
    equal, opposite = torch.ones(1, 2, 1), torch.tensor([[[1.0], [-1.0]]])
    both = torch.tensor([[[0, 1]]])
    torch.testing.assert_close(kernels.dual(equal, both), torch.full((1, 1, 2), 0.5))
    assert not kernels.dual(opposite, both).any()


def attention_inputs(kernels: Kernels, *, T: int, batch: int, dtype: torch.dtype):
    k, d, q, padded = 4, 3, 4, padded_tokens(T)
    generator = torch.Generator().manual_seed(0)

    def randoms(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype)

    N, K, Q = randoms(k, padded, padded), randoms(k, d, padded), randoms(k, d, padded)
    K[..., T:] = 0
    y = kernels.subsets(some_draws(kernels), rows=batch, T=T, q=q)
    return N, K, Q, randoms(k, d, d), randoms(k), y, randoms(k, batch, q)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("T", "batch"), [(9, 20), (32, 7), (40, 33), (70, 3)])
@pytest.mark.parametrize("gradient", [True, False])
def test_attention_is_the_same(
    kernels: Kernels, plain: Kernels, T: int, batch: int, dtype: torch.dtype, gradient: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = some_draws(kernels)
    N, K, Q, V_x, v, y, c = attention_inputs(kernels, T=T, batch=batch, dtype=dtype)
    monkeypatch.setattr(plain, "normals", kernels.normals)
    tolerance = {torch.float32: {"rtol": 1e-3, "atol": 2e-5}, torch.float64: {"rtol": 1e-10, "atol": 1e-12}}[dtype]
    for fast, slow in (
        (k.attend_population(N, v, y, c, T=T, gradient=gradient) for k in (kernels, plain)),
        (k.attend_tokens(draws, N, K, Q, V_x, y, c, T=T, gradient=gradient) for k in (kernels, plain)),
    ):
        for field in dataclasses.fields(fast):
            torch.testing.assert_close(getattr(fast, field.name), getattr(slow, field.name), msg=field.name, **tolerance)
            if not gradient and field.name != "squares":
                assert not getattr(fast, field.name).any()


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_number_that_is_not_finite_is_not_lost(kernels: Kernels, bad: float) -> None:
    N, K, Q, V_x, v, y, c = attention_inputs(kernels, T=9, batch=5, dtype=torch.float32)
    N[1] = bad
    population = kernels.attend_population(N, v, y, c, T=9, gradient=True)
    tokens = kernels.attend_tokens(some_draws(kernels), N, K, Q, V_x, y, c, T=9, gradient=True)
    for squares in (population.squares, tokens.squares):
        assert not squares[1].isfinite().any()
        assert squares[[0, 2, 3]].isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_layer_is_the_same_and_keeps_nan(kernels: Kernels, plain: Kernels, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    values, hot = torch.randn(3, 7, 32, generator=generator, dtype=dtype)[..., :21], torch.rand(3, 7, 5, dtype=dtype)
    values[1, 2, 3] = float("nan")
    for rectify, rest in ((True, hot), (True, None), (False, hot)):
        fast, slow = (k.layer(values.clone(), rest, columns=32, rectify=rectify) for k in (kernels, plain))
        torch.testing.assert_close(fast, slow, rtol=0, atol=0, equal_nan=True)
        assert fast[1, 2, 3].isnan()
    strided, whole = (kernels.layer(v, hot, columns=32, rectify=False) for v in (values, values.contiguous()))
    torch.testing.assert_close(strided, whole, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("T", [1, 16, 35])
@pytest.mark.parametrize("d", [1, 2, 5, 8, 9])
def test_tokens_are_turned_over(d: int, T: int, dtype: torch.dtype) -> None:
    X = torch.randn(2, 3, T, d, dtype=dtype)
    assert torch.equal(CpuKernels(CPU).turned(X), X.mT)


@pytest.mark.parametrize("dtype", DTYPES)
def test_descent_is_the_same(kernels: Kernels, plain: Kernels, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    k = 4
    adam = torch.tensor([True, False, True, True])
    rates = Rates(*(0.1 + 0.9 * torch.rand(k, generator=generator, dtype=dtype) for _ in range(5)), adam)
    start = [torch.randn(k, 3, 5, generator=generator, dtype=dtype) for _ in range(3)]
    start[2].abs_()
    gradient = torch.randn(k, 5, 3, generator=generator, dtype=dtype).mT
    ends = []
    for implementation in (kernels, plain):
        parameter, m, v = (tensor.clone() for tensor in start)
        implementation.descend(parameter, gradient, (m, v), rates)
        implementation.descend(parameter, gradient, None, rates)
        ends.append((parameter, m, v))
    for fast, slow in zip(*ends, strict=True):
        torch.testing.assert_close(fast, slow)


@pytest.mark.slow
@pytest.mark.parametrize("others_may_write", [False, True])
def test_a_cache_that_may_stand_nowhere_else_is_a_temporary_folder_of_ones_own(tmp_path: Path, others_may_write: bool) -> None:
    """As in a container, whose code and home are read-only."""
    known = tmp_path / f"stsq-numba-{os.getuid()}"
    if others_may_write:
        known.mkdir()
        known.chmod(0o777)
    program = "import numba, stsq_core.kernels.cpu; print(numba.config.CACHE_DIR)"
    nowhere = {"TMPDIR": str(tmp_path), "NUMBA_CACHE_DIR": "", "NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator"}
    shown = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | nowhere, capture_output=True, text=True, check=True
    )
    folder = Path(shown.stdout.strip())
    assert folder.parent == tmp_path
    assert (folder == known) is not others_may_write
    assert folder.stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_copies_of_the_loops_share_what_one_of_them_compiles_until_one_changes(tmp_path: Path) -> None:
    """As Ray unpacks the code of every job into a folder of its own: in a folder that the user provides."""
    program = """
import numpy
from stsq_core.kernels.draws import keys
keys(numpy.zeros(1, int), 0, numpy.zeros(1, int))
print(sum(keys.stats.cache_hits.values()))
"""
    environment = os.environ | {"PYTHONPATH": "", "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    started = []
    for name in ("first", "second", "changed"):
        copy = shutil.copytree(Path(cpu.__file__).parents[1], tmp_path / name / "stsq_core")
        if name == "changed":
            (copy / "kernels/queries.py").write_text("# another module of the loops\n")
        command = [sys.executable, "-c", program]
        started.append(subprocess.Popen(command, cwd=copy.parent, env=environment, stdout=subprocess.PIPE, text=True))
    *same, changed = (int(process.communicate()[0]) for process in started)
    assert (sorted(same), changed) == ([0, 1], 0)
