"""The points of a searched cell, from whatever its ledger holds."""

import math

import numpy as np
import pytest

from sweeps.cells.expanded_sweep import searched_cells
from sweeps.thresholds.search_points import CellPoints, outcomes_by_cell


@pytest.fixture
def cell(hunt):
    return searched_cells(hunt("optimizer.lr=0.01,0.02").spec)[0]


def points_of(cell, records):
    return CellPoints.of(cell, outcomes_by_cell([cell], records)[cell.cell_id])


def test_a_point_is_evidence_once_all_of_its_rates_have_ended(cell, fcn, record):
    records = [record(fcn(8, seed=1, lr=0.01), 0.5), record(fcn(8, seed=1, lr=0.02), 0.3), record(fcn(9, seed=2, lr=0.01), 0.2)]
    points = points_of(cell, records)
    assert points.pairs == ((8, 1), (9, 2))
    assert points.complete.tolist() == [True, False]
    assert points.evidence.tolist() == [True, False]
    assert math.exp(points.judged[0]) == pytest.approx(0.3)


def test_other_rates_widths_and_cells_are_left_out(cell, fcn, record):
    mine = [record(fcn(8, lr=lr), 0.5) for lr in (0.01, 0.02)]
    others = [record(fcn(8, lr=0.5), 0.5), record(fcn(3), 0.5), record(fcn(257), 0.5), record(fcn(8, T=9), 0.5)]
    assert points_of(cell, [*others, *mine]).pairs == ((8, 0),)


def test_diverged_is_evidence_of_failing_and_failed_is_none(cell, fcn, record):
    rates = (0.01, 0.02)
    records = [record(fcn(8, seed=1, lr=lr), math.inf) for lr in rates] + [record(fcn(8, seed=2, lr=lr), None) for lr in rates]
    points = points_of(cell, records)
    assert points.complete.all()
    assert points.evidence.tolist() == [True, False]
    assert points.judged[0] == np.inf


def test_the_rate_changes_with_the_width_where_the_neighbourhoods_disagree(cell, fcn, record):
    def loss(width, lr):
        return 0.2 if (width < 50) == (lr == 0.01) else 0.6

    widths = [*range(8, 14), *range(200, 206)]
    records = [record(fcn(width, seed=width, lr=lr), loss(width, lr)) for width in widths for lr in (0.01, 0.02)]
    points = points_of(cell, records)
    assert [cell.rates[place] for place in points.chosen] == [0.01] * 6 + [0.02] * 6


def test_a_lucky_seed_does_not_choose_its_own_rate(cell, fcn, record):
    def loss(seed, lr):
        if lr == 0.01:
            return 0.3
        return 0.01 if seed == 3 else 0.6

    records = [record(fcn(20 + seed, seed=seed, lr=lr), loss(seed, lr)) for seed in range(8) for lr in (0.01, 0.02)]
    assert set(points_of(cell, records).chosen.tolist()) == {0}
