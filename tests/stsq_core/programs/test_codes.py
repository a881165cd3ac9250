"""Positional codes against their definitions; what every kind keeps true."""

import math

import pytest
import torch

from stsq_core import UserError, train_pack
from stsq_core.configs import positions
from stsq_core.kernels import kernels_for
from stsq_core.numerics.streams import Purpose, Streams
from stsq_core.plugins import Plugin, load
from stsq_core.plugins.loading import unload_all
from stsq_core.programs.codebook import BookSource
from stsq_core.programs.codes import Codes, codes_for, sinusoids

CPU = kernels_for(torch.device("cpu"))
SEEDS, WIDTHS = (4, 9, 4), (17, 20, 18)
DRAWN = [positions.RandomSign, positions.Gaussian]
KINDS = [*DRAWN, positions.Sinusoidal, positions.Learned]


def made(kind: type, widths: tuple[int, ...] = WIDTHS, *, dtype: torch.dtype = torch.float64) -> Codes:
    codes: tuple[positions.Positions, ...] = tuple(kind(d_e=width) for width in widths)
    return codes_for(codes, length=max(20, *widths), dtype=dtype, kernels=CPU)


def rows(codes: Codes, count: int, *, seeds: tuple[int, ...] = SEEDS, step: int = 0) -> torch.Tensor:
    return codes.rows(Streams(seeds, CPU).draws(Purpose.CODES, step), count)


@pytest.mark.parametrize("kind", KINDS)
def test_codes_have_unit_norm_in_their_own_coordinates_and_nothing_beyond(kind: type) -> None:
    E = rows(made(kind), 40)
    torch.testing.assert_close(E.norm(dim=-1), torch.ones(3, 40, dtype=torch.float64))
    for place, width in enumerate(WIDTHS):
        assert not E[place, :, width:].any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_more_rows_leave_the_first_ones_and_neighbours_change_nothing(kind: type, dtype: torch.dtype) -> None:
    E = rows(made(kind, dtype=dtype), 70)
    assert torch.equal(rows(made(kind, dtype=dtype), 33), E[:, :33])
    for place, (seed, width) in enumerate(zip(SEEDS, WIDTHS, strict=True)):
        assert torch.equal(rows(made(kind, (width,), dtype=dtype), 70, seeds=(seed,))[0], E[place])


@pytest.mark.parametrize("kind", DRAWN)
def test_drawn_codes_are_new_at_every_step(kind: type) -> None:
    codes = made(kind)
    assert not torch.equal(rows(codes, 9, step=1), rows(codes, 9, step=2))


def test_random_signs_are_the_signs_of_the_kernels_over_the_root_of_d_e() -> None:
    """Learned codes start from the same ones."""
    signs = CPU.signs(Streams(SEEDS, CPU).draws(Purpose.CODES, 0), tokens=9, length=20, dtype=torch.float32)
    for kind in (positions.RandomSign, positions.Learned):
        E = rows(made(kind, dtype=torch.float32), 9)
        for place, width in enumerate(WIDTHS):
            scale = torch.tensor(1 / math.sqrt(width), dtype=torch.float32)
            assert torch.equal(E[place, :, :width], signs[place, :, :width] * scale)


@pytest.mark.parametrize("d_e", [1, 2, 3, 7])
def test_gaussian_codes_are_uniform_on_the_sphere(d_e: int) -> None:
    """Inner products of different codes: mean 0, variance 1/d_e, fourth moment 3 / (d_e (d_e + 2))."""
    E = rows(made(positions.Gaussian, (d_e,)), 20_000, seeds=(3,))[0, :, :d_e]
    inner = (E[::2] * E[1::2]).sum(-1)
    for power, moment in ((1, 0.0), (2, 1 / d_e), (3, 0.0), (4, 3 / (d_e * (d_e + 2)))):
        error = float((inner**power).std()) / len(inner) ** 0.5
        assert abs(float((inner**power).mean()) - moment) < 4 * error + 1e-9
    assert E.mean(0).abs().max() < 4 / (20_000 * d_e) ** 0.5


ROTARY = """
from typing import Literal
import torch
from stsq_core.plugins import Codes, PositionalCode

class Turning(PositionalCode):
    \"\"\"`R_t e_0` with RoFormer's rotations, angles `t / base^(2i/d_e)`, of `e_0 = (1, 0, 1, 0, ...)` over its norm.\"\"\"
    kind: Literal["turning"] = "turning"
    redraw: Literal["never"] = "never"
    base: float = 10_000.0
    def codes(self):
        return TurningCodes

class TurningCodes(Codes):
    def rows(self, draws, count):
        codes = torch.zeros((len(self.positions), count, self.length), dtype=self.dtype)
        for own, code in zip(codes, self.positions):
            for t in range(count):
                for i in range(code.d_e // 2):
                    angle = torch.tensor(t / code.base ** (2 * i / code.d_e), dtype=torch.float64)
                    R = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
                    own[t, 2 * i : 2 * i + 2] = R @ torch.tensor([1.0, 0.0], dtype=torch.float64) / (code.d_e / 2) ** 0.5
        return codes.to(self.kernels.device)
"""


@pytest.mark.parametrize("base", [10_000.0, 20.0])
@pytest.mark.parametrize("optimizer", [{"kind": "gd", "lr": 0.5}, {"kind": "adam", "lr": 0.02}], ids=["gd", "adam"])
def test_rotary_codes_train_as_sinusoidal_ones_do(transformer, optimizer: dict, base: float) -> None:
    load(Plugin("turning.py", ROTARY, "turning.py"))
    try:
        for objective in ("population", "minibatch"):
            training = {"objective": objective, "steps": 40, "batch_size": 16, "dtype": "float64", "log_every": 1}
            courses, ends = [], []
            for kind in ("sinusoidal", "turning"):
                codes, losses = {"kind": kind, "d_e": 8, "base": base}, []
                trial = transformer(T=12, q=2, model__positions=codes, training=training, optimizer=optimizer)
                (end,) = train_pack([trial], report=lambda m, own=losses: own.extend(m.relative_loss), keep_weights=True)
                courses.append(losses)
                ends.append(end.weights["W"][2:, 2:])
            assert courses[1] == pytest.approx(courses[0], rel=1e-6)
            swapped = [i ^ 1 for i in range(8)]
            assert abs(ends[0]).max() > 0.01
            assert ends[1] == pytest.approx(ends[0][swapped][:, swapped], rel=1e-4, abs=1e-6)
    finally:
        unload_all()


def test_inner_products_of_sinusoidal_codes_depend_on_the_distance_alone() -> None:
    E = sinusoids(20, 10, base=50.0)
    rates = 50.0 ** (-torch.arange(0, 10, 2, dtype=torch.float64) / 10)
    distance = torch.arange(20, dtype=torch.float64).view(-1, 1, 1) - torch.arange(20).view(1, -1, 1)
    torch.testing.assert_close(E @ E.mT, (distance * rates).cos().mean(-1))


@pytest.mark.parametrize("d_e", [2, 3, 6, 11])
def test_sinusoidal_codes_are_the_published_ones_over_their_norm(d_e: int) -> None:
    for t in (0, 1, 5, 317):
        wave = [math.sin(t / 10000 ** (j / d_e)) if j % 2 == 0 else math.cos(t / 10000 ** ((j - 1) / d_e)) for j in range(d_e)]
        expected = torch.tensor(wave, dtype=torch.float64) / math.hypot(*wave)
        torch.testing.assert_close(sinusoids(318, d_e, base=1e4)[t], expected)
    torch.testing.assert_close(rows(made(positions.Sinusoidal, (d_e,)), 9, seeds=(1,))[0, :, :d_e], sinusoids(9, d_e, base=1e4))


def test_a_single_sine_is_a_sign_and_zero_at_the_start() -> None:
    assert sinusoids(5, 1, base=1e4).flatten().tolist() == [0.0, 1.0, 1.0, 1.0, -1.0]


def source(code: positions.Positions, T: int = 9) -> BookSource:
    codes = codes_for((code,), length=code.d_e, dtype=torch.float64, kernels=CPU)
    return BookSource(codes, code, T=T, streams=Streams((5,), CPU), kernels=CPU)


def codes_in(books: BookSource, T: int, *, chunk: int = 0) -> torch.Tensor:
    padded = torch.eye(-(-T // 32) * 32, dtype=torch.float64)[None]
    return books.fresh(chunk, T=T).push(padded)[0]


@pytest.mark.parametrize(
    "code",
    [
        positions.RandomSign(d_e=8),
        positions.RandomSign(d_e=8, redraw="never"),
        positions.Gaussian(d_e=8),
        positions.Gaussian(d_e=8, redraw="never"),
        positions.Sinusoidal(d_e=8),
    ],
    ids=lambda p: f"{p.kind}-{p.redraw}",
)
def test_a_longer_book_begins_with_the_shorter_one(code: positions.Positions) -> None:
    books = source(code)
    short, long = codes_in(books, 9), codes_in(books, 40)
    assert torch.equal(long[:9], short[:9])
    assert not short[9:].any()
    assert not long[40:].any()
    assert long[:40].norm(dim=-1).min() > 0.99
    same = torch.equal(codes_in(books, 40, chunk=1), long)
    assert same == (code.redraw == "never")


def test_a_shorter_book_of_unit_vectors_is_the_first_of_them_and_there_is_no_longer_one() -> None:
    books = source(positions.OneHot(d_e=9))
    assert torch.equal(codes_in(books, 4)[:4], torch.eye(4, 9, dtype=torch.float64))
    assert not codes_in(books, 4)[4:].any()
    with pytest.raises(UserError, match="T=10 beyond T=9"):
        books.fresh(0, T=10)
