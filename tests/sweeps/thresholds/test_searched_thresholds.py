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
