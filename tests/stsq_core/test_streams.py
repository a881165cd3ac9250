"""Random streams: functions of (seed, purpose, step), exact subsets, codes that are prefixes of wider ones."""

from itertools import combinations

import pytest
import torch

from stsq_core.streams import Purpose, Streams, stream_key

CPU = torch.device("cpu")


def draws_of(seeds: tuple[int, ...], step: int = 3) -> dict[str, torch.Tensor]:
    streams = Streams(seeds, CPU)
    return {
        "normals": streams.normals((5, 7), Purpose.TOKENS, step, torch.float32),
        "uniforms": streams.uniforms((5, 7), Purpose.INIT, step, torch.float32),
        "subsets": streams.subsets(T=9, q=3, count=11, purpose=Purpose.SUBSETS, steps=(step,))[0],
        "signs": streams.signs(length=40, tokens=(6,), purpose=Purpose.CODES, steps=(step,), dtype=torch.float32)[0],
    }


def test_a_trials_draws_do_not_depend_on_its_neighbours() -> None:
    alone, together = draws_of((7,)), draws_of((3, 7, 3, 2**62, 7))
    for name, draw in alone.items():
        assert torch.equal(together[name][1], draw[0]), name
        assert torch.equal(together[name][4], draw[0]), name
        assert not torch.equal(together[name][0], draw[0]), name


def test_steps_and_purposes_have_streams_of_their_own() -> None:
    keys = {stream_key(seed, purpose, step) for seed in (0, 1, 2**62) for purpose in Purpose for step in range(50)}
    assert len(keys) == 3 * len(Purpose) * 50
    assert not torch.equal(draws_of((7,), 3)["normals"], draws_of((7,), 4)["normals"])


@pytest.mark.parametrize("tokens", [(6,), (4, 6)])
def test_a_short_codes_signs_are_a_prefix_of_a_long_ones(tokens: tuple[int, ...]) -> None:
    streams = Streams((1, 2), CPU)
    long = streams.signs(length=70, tokens=tokens, purpose=Purpose.CODES, steps=(1,), dtype=torch.float32)[0]
    short = streams.signs(length=33, tokens=tokens, purpose=Purpose.CODES, steps=(1,), dtype=torch.float32)[0]
    assert long.shape == (2, *tokens, 70)
    assert torch.equal(long[..., :33], short)
    assert set(long.unique().tolist()) == {-1.0, 1.0}


@pytest.mark.parametrize(("T", "q"), [(5, 1), (6, 2), (6, 3), (5, 5)])
def test_subsets_are_uniform(T: int, q: int) -> None:
    count = 30_000
    y = Streams((4,), CPU).subsets(T=T, q=q, count=count, purpose=Purpose.SUBSETS, steps=(0,))[0, 0].sort(-1).values
    every = list(combinations(range(T), q))
    codes, counts = torch.unique(y, dim=0, return_counts=True)
    assert [tuple(row) for row in codes.tolist()] == every
    expected = count / len(every)
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    # Mean len - 1, standard deviation sqrt(2 (len - 1)); the seed is fixed, so this does not flake.
    assert chi_squared < len(every) - 1 + 4 * (2 * len(every)) ** 0.5


def test_signs_are_fair_and_uncorrelated() -> None:
    signs = Streams((9,), CPU).signs(length=64, tokens=(4000,), purpose=Purpose.CODES, steps=(0,), dtype=torch.float64)[0, 0]
    gram = signs.T @ signs / len(signs)
    off = gram - torch.eye(64)
    assert signs.mean(0).abs().max() < 5 / len(signs) ** 0.5
    assert off.abs().max() < 5 / len(signs) ** 0.5


def test_a_block_of_steps_is_its_steps() -> None:
    streams = Streams((4, 2, 4), CPU)
    block = streams.subsets(T=9, q=3, count=11, purpose=Purpose.SUBSETS, steps=range(5, 9))
    signs = streams.signs(length=40, tokens=(6,), purpose=Purpose.CODES, steps=range(5, 9), dtype=torch.float32)
    for i, step in enumerate(range(5, 9)):
        alone = draws_of((4, 2, 4), step)
        assert torch.equal(block[i], alone["subsets"])
        assert torch.equal(signs[i], alone["signs"])
