"""The criterion `statistic: solved`: fractions by hand, isotonic fits against pooling, and the coverage of the interval."""

import math

import numpy as np
import pytest

from stsq_core.configs.errors import UserError
from sweeps.schema.spec import Criterion
from sweeps.thresholds.crossings import chosen_rates, isotonic, solved_crossing
from sweeps.thresholds.thresholds import width_thresholds

WIDTHS = [8, 16, 32, 64]
SOLVED = Criterion(target_loss=0.1, success_rate=0.8, statistic="solved")


def crossing(fractions: list[float], *, num: int = 10, success_rate: float = 0.8) -> tuple[float, bool]:
    """The threshold where so many of the seeds are solved exactly (loss zero) and the others at a loss of one half."""
    losses = [[-math.inf if seed < round(share * num) else math.log(0.5) for seed in range(num)] for share in fractions]
    found, again = solved_crossing(
        np.log(WIDTHS[: len(fractions)]), np.array([losses]), log_target=math.log(0.1), success_rate=success_rate
    )
    return math.exp(found[0]), bool(again[0])


def test_the_fraction_is_linear_in_the_log_of_the_size() -> None:
    assert crossing([0.0, 0.6, 1.0, 1.0])[0] == pytest.approx(16 * 2**0.5)
    assert crossing([0.0, 0.8, 1.0, 1.0])[0] == pytest.approx(16)


def test_fractions_that_fall_are_pooled_and_a_loss_of_the_last_is_told() -> None:
    # 0.9 and 0.5 pool to 0.7: 0.8 lies a third of the way on to 1.
    assert crossing([0.0, 0.9, 0.5, 1.0]) == (pytest.approx(32 * 2 ** (1 / 3)), False)
    assert crossing([0.0, 1.0, 1.0, 0.7]) == (pytest.approx(8 * 2 ** (0.8 / 0.9)), True)


def test_ends_are_censored() -> None:
    assert crossing([0.9, 1.0])[0] == 0
    assert crossing([0.0, 0.2, 0.7])[0] == math.inf
    assert crossing([0.0, 0.3, 0.3], num=10, success_rate=0.3)[0] == pytest.approx(16)


def test_isotonic_fractions_are_those_of_pooling() -> None:
    def pooled(solved: np.ndarray, counts: np.ndarray) -> list[float]:
        blocks: list[tuple[float, float, int]] = []
        for own, num in zip(solved.tolist(), counts.tolist(), strict=True):
            block = (own, num, 1)
            while blocks and blocks[-1][0] * block[1] >= block[0] * blocks[-1][1]:
                before = blocks.pop()
                block = (before[0] + block[0], before[1] + block[1], before[2] + block[2])
            blocks.append(block)
        return [own / num for own, num, length in blocks for _ in range(length)]

    rng = np.random.default_rng(1)
    counts = rng.integers(1, 12, size=(200, 7))
    solved = rng.binomial(counts, rng.uniform(size=(200, 7)))
    np.testing.assert_allclose(isotonic(solved, counts), [pooled(*row) for row in zip(solved, counts, strict=True)])


def test_where_nothing_is_known_nothing_is_solved() -> None:
    np.testing.assert_allclose(isotonic(np.array([[0, 3, 0, 4]]), np.array([[0, 4, 0, 4]])), [[0, 0.75, 0.75, 1]])


def test_a_diverged_seed_is_unsolved_and_a_failed_one_is_left_out() -> None:
    logs = np.array([[[0.0] * 5, [-9.0] * 3 + [np.inf, np.nan], [-9.0] * 5]])
    found, _ = solved_crossing(np.log([8, 16, 32]), logs, log_target=math.log(0.1), success_rate=0.8)
    assert math.exp(found[0]) == pytest.approx(16 * 2 ** (0.05 / 0.25))


@pytest.mark.slow
@pytest.mark.parametrize("scatter", [0.02, 0.3])
def test_the_interval_holds_the_threshold_as_often_as_it_says(cell_records, scatter: float) -> None:
    """Seeds are solved from a size of their own on, losses zero or one half: thresholds anywhere between the grid's sizes."""
    grid, rng, num, held, errors = [16, 20, 24, 28, 34, 40, 48, 58, 70], np.random.default_rng(2), 60, 0, []
    eight_in_ten = scatter * 0.8416
    for case in range(num):
        middle = math.exp(rng.uniform(math.log(22), math.log(44)))
        own = {seed: middle * math.exp(scatter * rng.standard_normal()) for seed in range(100 * case, 100 * case + 20)}
        records = cell_records(grid, own, lambda m, seed, own=own: 0.0 if m >= own[seed] else 0.5, T=8 + case)
        (threshold,) = width_thresholds(records, SOLVED)
        truth = middle * math.exp(eight_in_ten)
        assert threshold.status == "found"
        held += (threshold.low or 0) <= truth <= (threshold.high or math.inf)
        errors.append(math.log(threshold.m_star / truth))
    assert held >= 0.83 * num
    assert abs(np.mean(errors)) < 0.06  # a third of the way between two sizes


def test_losses_that_jump_to_zero_do_not_move_it_to_the_last_unsolved_size(cell_records) -> None:
    records = cell_records([16, 32], range(10), lambda m, _: 0.0 if m == 32 else 0.5)
    (by_loss,) = width_thresholds(records, Criterion(target_loss=0.1, success_rate=0.8))
    (solved,) = width_thresholds(records, SOLVED)
    assert by_loss.m_star < 17
    assert solved.m_star == pytest.approx(16 * 2**0.8)
    assert solved.low < 18
    assert solved.high > 30


def test_a_search_needs_losses(hunt) -> None:
    with pytest.raises(UserError, match="a search looks at losses; got statistic=solved"):
        hunt("criterion.statistic=solved")


def test_the_rate_that_solves_most_seeds_is_taken_where_medians_tie() -> None:
    lost = np.array([[-27.0] * 6 + [0.0] * 4, [-27.0] * 10])
    assert chosen_rates(lost) == 0
    assert chosen_rates(lost, log_target=math.log(0.1)) == 1
    assert chosen_rates(np.array([[0.0, np.inf, np.inf], [-9.0, np.inf, np.nan]]), log_target=math.log(0.1)) == 1


def test_an_unknown_size_encloses_nothing() -> None:
    logs = np.repeat(np.array([[[0.0] * 4, [np.nan] * 4, [-9.0] * 4]]), 300, axis=0)
    places, again = solved_crossing(
        np.log([8, 16, 32]), logs, log_target=math.log(0.1), success_rate=0.8, stream=np.random.default_rng(0)
    )
    assert np.exp(places).min() < 9
    assert np.exp(places).max() > 31
    assert not again.any()
    unsolved = np.array([[[0.0] * 4, [np.nan] * 4, [0.0] * 4]])
    assert not solved_crossing(np.log([8, 16, 32]), unsolved, log_target=math.log(0.1), success_rate=0.8)[1].any()
