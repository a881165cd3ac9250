"""Unsolved points above the interval of a searched cell: when they are lapses, and when the task is unlearned again."""

import pytest

from sweeps.cells.expanded_sweep import searched_cells
from sweeps.schema.search_spec import SearchSettings
from sweeps.schema.spec import Criterion
from sweeps.thresholds.search_points import outcomes_by_cell
from sweeps.thresholds.searched_thresholds import searched_threshold


@pytest.fixture
def threshold_with(hunt, fcn, record):
    """The threshold of a cell that is solved from 40 on, where some points far above are unsolved (`U`) and others not."""

    def make(above: str):
        cell = searched_cells(hunt().spec)[0]
        widths = [*range(20, 61)]
        losses = {width: 0.1 * (40 / width) ** 6 for width in widths}
        losses |= {100 + 10 * place: 0.5 if letter == "U" else 0.001 for place, letter in enumerate(above)}
        records = [record(fcn(width, seed=width), loss) for width, loss in losses.items()]
        outcomes = outcomes_by_cell([cell], records)[cell.cell_id]
        return searched_threshold(cell, "a cell", outcomes, Criterion(), SearchSettings())

    return make


@pytest.mark.parametrize(
    ("above", "again"),
    [
        ("SSSSSSSSSS", False),
        ("SUSSUSSUSS", False),
        ("SUUSSUUSSS", False),
        ("SUUSUSSSSS", True),
        ("SSUUUSSSSS", True),
        ("SSSSSSSSSU", False),
        ("SSSSSSSSUU", True),
        ("SUSSSSSSUU", True),
    ],
)
def test_three_of_four_neighbours_or_the_two_widest_are_no_lapses(threshold_with, above: str, again: bool) -> None:
    found = threshold_with(above)
    assert found.high < 60
    assert found.crosses_more_than_once == again
    assert ("solved, then unsolved again" in found.note) == again
    assert ("points above the interval miss the target" in found.note) == ("U" in above and not again)


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        ({70 + m: 0.01 for m in range(8)}, "not found yet: all of the points so far, from m = 70 to 77, reach the target"),
        ({8: 0.9, 12: 0.8, 60: 0.01}, "not found yet: 3 of the first 8 points have ended"),
        ({100: 0.001}, "not found yet: 1 of the first 8 points have ended"),
    ],
)
def test_a_search_says_what_lies_beyond_its_points_only_when_it_has_ended(hunt, fcn, record, losses, words: str) -> None:
    """A reader takes "below range" for a finding; here the widths below had not been tried yet."""
    cell = searched_cells(hunt().spec)[0]
    assert (cell.low, cell.high) != (min(losses), max(losses))
    records = [record(fcn(width, seed=width), loss) for width, loss in losses.items()]
    outcomes = outcomes_by_cell([cell], records)[cell.cell_id]
    found = searched_threshold(cell, "a cell", outcomes, Criterion(), SearchSettings())
    rest = "; the search is not finished: 8 points so far" if len(losses) == 8 else ""
    assert found.note == words + rest
    assert (found.status, found.m_star, found.low, found.high) == ("open", None, None, None)
