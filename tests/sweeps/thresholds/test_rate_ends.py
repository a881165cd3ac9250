"""A best learning rate at an end of those that were tried is told once, with the cells in which it is near the threshold."""

import math

import pytest

from sweeps.schema.spec import Criterion
from sweeps.thresholds.rate_ends import rate_end, rate_end_lines
from sweeps.thresholds.thresholds import width_thresholds

WIDTHS = (6, 12, 15, 18, 22, 27, 33, 66)
LARGEST = "The best learning rate is the largest tried, 0.03, in {} of {}: a larger one might lower m*."


@pytest.fixture
def cell(cell_records):
    """Records of a cell with its threshold at 20.5, at `best` among `rates`, by width if it is a function of it."""

    def make(best, rates=(0.01, 0.03), **fields):
        def loss(rate):
            def at(width, seed):
                own = best(width) if callable(best) else best
                return 0.1 * (20.5 / width) ** 4 * (1 + abs(math.log(rate / own)))

            return at

        return [one for lr in rates for one in cell_records(WIDTHS, range(3), loss(lr), lr=lr, **fields)]

    return make


def lines(*cells):
    return rate_end_lines(width_thresholds([record for own in cells for record in own], Criterion()))


def test_the_largest_rate_of_all_cells_is_told_once(cell):
    assert lines(cell(0.03), cell(0.03, T=16), cell(0.03, T=24)) == (LARGEST.format(3, "3 cells"),)
    assert lines(cell(0.03)) == (LARGEST.format(1, "1 cell"),)


def test_both_ends_are_told_each_with_its_cells(cell):
    smallest = "The best learning rate is the smallest tried, 0.01, in 1 of 3 cells: a smaller one might lower m*."
    assert lines(cell(0.03), cell(0.01, T=16), cell(0.03, T=24)) == (LARGEST.format(2, "3 cells"), smallest)


def test_a_best_rate_inside_or_a_single_rate_is_not_told(cell):
    assert lines(cell(0.03, rates=(0.01, 0.03, 0.1)), cell(0.03, rates=(0.03,), T=16)) == ()


def test_cells_of_other_rates_are_counted_apart(cell):
    own = lines(cell(0.03), cell(0.03, rates=(0.01, 0.03, 0.1), T=16), cell(0.1, rates=(0.01, 0.03, 0.1), T=24))
    assert own == (
        LARGEST.format(1, "the 1 cell with rates from 0.01 to 0.03"),
        "The best learning rate is the largest tried, 0.1, in 1 of the 2 cells with rates from 0.01 to 0.1: "
        "a larger one might lower m*.",
    )


@pytest.mark.parametrize(
    ("best", "end"),
    [
        (lambda width: 0.03 if 12 < width < 30 else 0.01, "largest"),
        (lambda width: 0.01 if 12 < width < 30 else 0.03, "smallest"),
    ],
)
def test_widths_far_from_the_threshold_say_nothing(cell, best, end):
    (threshold,) = width_thresholds(cell(best), Criterion())
    assert rate_end(threshold) == end


def test_above_the_range_the_largest_widths_count(cell):
    (threshold,) = width_thresholds(cell(lambda width: 0.03 if width > 20 else 0.01), Criterion(target_loss=1e-4))
    assert threshold.status == "above_range"
    assert rate_end(threshold) == "largest"


def test_of_several_targets_a_cell_counts_once(cell):
    thresholds = width_thresholds(cell(0.03), Criterion(target_loss=[0.1, 0.2]))
    assert len(thresholds) == 2
    assert rate_end_lines(thresholds) == (LARGEST.format(1, "1 cell"),)
