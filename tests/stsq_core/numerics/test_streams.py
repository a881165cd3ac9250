"""Random streams: functions of (seed, purpose, step), exact subsets, codes that are prefixes of wider ones."""

import math
from itertools import combinations

import pytest
import torch

from stsq_core.kernels import StreamKeys, kernels_for
from stsq_core.numerics.streams import Purpose, Streams, mix

KERNELS = kernels_for(torch.device("cpu"))


def draws_of(seeds: tuple[int, ...], step: int = 3) -> dict[str, torch.Tensor]:
    streams = Streams(seeds, KERNELS)
    return {
        "normals": KERNELS.normals(streams.draws(Purpose.TOKENS, step), rows=5, numbers=7, dtype=torch.float32),
        "uniforms": KERNELS.uniforms(streams.draws(Purpose.INIT, step), numbers=35, dtype=torch.float32),
        "subsets": KERNELS.subsets(streams.draws(Purpose.SUBSETS, step), rows=11, T=9, q=3),
        "signs": KERNELS.signs(streams.draws(Purpose.CODES, step), tokens=6, length=40, dtype=torch.float32),
    }


def one_seed(seed: int, purpose: Purpose, step: int = 0) -> StreamKeys:
    return Streams((seed,), KERNELS).draws(purpose, step)


def test_a_trials_draws_do_not_depend_on_its_neighbours() -> None:
    alone, together = draws_of((7,)), draws_of((3, 7, 3, 2**62, 7))
    for name, draw in alone.items():
        assert torch.equal(together[name][1], draw[0]), name
        assert torch.equal(together[name][4], draw[0]), name
        assert not torch.equal(together[name][0], draw[0]), name


def stream_key(seed: int, purpose: Purpose, step: int) -> int:
    """A 64-bit key for the triple, by three rounds of the SplitMix64 finaliser."""
    return mix(mix(mix(seed) + purpose) + step)


def test_keys_are_those_of_seed_purpose_and_step() -> None:
    seeds = (0, 1, 2**63 - 1)
    for purpose in Purpose:
        for step in (0, 1, 10**6):
            keys = Streams(seeds, KERNELS).draws(purpose, step).keys
            assert [key % 2**64 for key in keys.tolist()] == [stream_key(seed, purpose, step) for seed in seeds]


def test_steps_and_purposes_have_streams_of_their_own() -> None:
    keys = {stream_key(seed, purpose, step) for seed in (0, 1, 2**62) for purpose in Purpose for step in range(50)}
    assert len(keys) == 3 * len(Purpose) * 50
    assert not torch.equal(draws_of((7,), 3)["normals"], draws_of((7,), 4)["normals"])


def test_a_short_draw_is_a_prefix_of_a_long_one() -> None:
    draws = Streams((1, 2), KERNELS).draws(Purpose.CODES, 1)
    long = KERNELS.signs(draws, tokens=6, length=150, dtype=torch.float32)
    short = KERNELS.signs(draws, tokens=4, length=33, dtype=torch.float32)
    assert long.shape == (2, 6, 150)
    assert torch.equal(long[:, :4, :33], short)
    assert set(long.unique().tolist()) == {-1.0, 1.0}
    numbers = KERNELS.normals(draws, rows=4, numbers=100, dtype=torch.float32)
    assert torch.equal(numbers[:, :3, :37], KERNELS.normals(draws, rows=3, numbers=37, dtype=torch.float32))


@pytest.mark.parametrize(("T", "q"), [(5, 1), (6, 2), (6, 3), (5, 5)])
def test_subsets_are_uniform(T: int, q: int) -> None:
    count = 30_000
    y = KERNELS.subsets(one_seed(4, Purpose.SUBSETS), rows=count, T=T, q=q)[0].sort(-1).values
    every = list(combinations(range(T), q))
    codes, counts = torch.unique(y, dim=0, return_counts=True)
    assert [tuple(row) for row in codes.tolist()] == every
    expected = count / len(every)
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    # Mean len - 1, standard deviation sqrt(2 (len - 1)); the seed is fixed, so this does not flake.
    assert chi_squared < len(every) - 1 + 4 * (2 * len(every)) ** 0.5


def test_signs_are_fair_and_uncorrelated() -> None:
    signs = KERNELS.signs(one_seed(9, Purpose.CODES), tokens=4000, length=64, dtype=torch.float64)[0]
    gram = signs.T @ signs / len(signs)
    off = gram - torch.eye(64)
    assert signs.mean(0).abs().max() < 5 / len(signs) ** 0.5
    assert off.abs().max() < 5 / len(signs) ** 0.5


def test_normals_are_normal_and_uncorrelated() -> None:
    """The empirical distribution (Kolmogorov and Smirnov), the moments, and correlations between neighbours in every order."""
    x = KERNELS.normals(one_seed(5, Purpose.TOKENS), rows=2000, numbers=320, dtype=torch.float64)[0]
    n = x.numel()
    ordered = x.flatten().sort().values
    cdf = 0.5 * (1 + torch.erf(ordered / math.sqrt(2)))
    steps = torch.arange(1, n + 1, dtype=torch.float64) / n
    assert (cdf - steps).abs().max() * math.sqrt(n) < 1.63  # passed by 99% of true samples; the seed is fixed
    for power, moment, spread in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(float((x**power).mean()) - moment) < 4 * math.sqrt(spread / n)
    for shift in range(1, 40):
        assert abs(float((x[:, shift:] * x[:, :-shift]).mean())) < 5 / math.sqrt(n * (1 - shift / 320))
    assert abs(float((x[1:] * x[:-1]).mean())) < 5 / math.sqrt(n)
    assert abs(float((x[:, 1:] ** 2 * x[:, :-1] ** 2).mean() - 1)) < 5 * math.sqrt(8 / n)


def test_the_tails_are_those_of_a_normal() -> None:
    """How many of 32 million numbers lie beyond a bound: the upper tail is `erfc(bound / sqrt(2)) / 2`."""
    n = 2**22
    beyond = torch.zeros(2, 4)
    bounds = torch.tensor([3.0, 4.0, 4.5, 5.0])
    for step in range(8):
        x = KERNELS.normals(one_seed(11, Purpose.TOKENS, step), rows=1, numbers=n, dtype=torch.float32).flatten()
        far = x[x.abs() > 3]
        beyond += torch.stack([(sign * far.unsqueeze(-1) > bounds).sum(0) for sign in (1, -1)])
    expected = 8 * n * torch.erfc(bounds.double() / math.sqrt(2)) / 2
    assert expected[-1] > 9
    assert ((beyond - expected).abs() < 4 * expected.sqrt()).all()


def test_seeds_and_steps_are_uncorrelated_place_by_place() -> None:
    """Numbers and their squares, of neighbouring seeds and of neighbouring steps."""
    n = 200_000
    drawn = {
        (seed, step): KERNELS.normals(one_seed(seed, Purpose.TOKENS, step), rows=1, numbers=n, dtype=torch.float64).flatten()
        for seed, step in ((5, 3), (6, 3), (5, 4))
    }
    for other in ((6, 3), (5, 4)):
        x, y = drawn[5, 3], drawn[other]
        assert abs(float((x * y).mean())) < 4 / math.sqrt(n)
        assert abs(float(((x**2 - 1) * (y**2 - 1)).mean())) < 4 * 2 / math.sqrt(n)


def test_uniforms_fill_their_interval() -> None:
    u = KERNELS.uniforms(one_seed(2, Purpose.INIT), numbers=100_000, dtype=torch.float64)[0]
    assert -1 < u.min() < -0.999
    assert 0.999 < u.max() < 1
    assert abs(float(u.mean())) < 4 * math.sqrt(1 / 3 / 100_000)
    assert abs(float((u**2).mean()) - 1 / 3) < 4 * math.sqrt(4 / 45 / 100_000)
