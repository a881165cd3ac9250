"""The points of a searched cell, from whatever its ledger holds."""

import math

import numpy as np
import pytest

from sweeps.cells.expanded_sweep import searched_cells
from sweeps.schema.search_spec import SearchSettings
from sweeps.schema.spec import Criterion
from sweeps.thresholds.search_points import CellPoints, outcomes_by_cell
from sweeps.thresholds.search_state import state_of


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


def test_points_of_another_size_than_the_width_are_found_among_the_records(hunt, fcn, record):
    cell = searched_cells(hunt("criterion.of=training.num_samples", "model={kind: fcn, width: 8}").spec)[0]
    sample = cell.family.sample
    points = [cell.family.member(num, 0.01, seed) for num, seed in ((20, 1), (50, 2))]
    other = sample.model_copy(update={"model": sample.model.of_size(9)})
    assert points_of(cell, [record(config, 0.5) for config in (*points, other)]).pairs == ((20, 1), (50, 2))


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


def state_after(cell, fcn, record, losses, **settings):
    """The state after points of these losses, one rate after the other at widths across the range."""
    records = [record(fcn(4 + 8 * place, seed=place, lr=lr), loss) for place, loss in enumerate(losses) for lr in cell.rates]
    return state_of(points_of(cell, records), Criterion(), SearchSettings(**settings))


@pytest.mark.parametrize(("loss", "reason"), [(math.inf, "diverged"), (None, "failed")])
def test_a_search_without_one_loss_ends_with_its_first_round(cell, fcn, record, loss, reason):
    assert [state_after(cell, fcn, record, [loss] * num, batch=6).reason for num in (7, 8)] == ["", reason]


def test_failed_points_are_no_evidence_and_spend_the_cap(cell, fcn, record):
    losses = [0.5, 0.05, *[None] * 9]
    assert [state_after(cell, fcn, record, losses[:num], cap=10).reason for num in (9, 10)] == ["", "cap"]


def test_widths_at_the_ends_of_the_range_are_points(cell, fcn, record):
    records = [
        record(fcn(width, lr=lr), 0.5) for width in (cell.low - 1, cell.low, cell.high, cell.high + 1) for lr in cell.rates
    ]
    assert points_of(cell, records).widths.tolist() == [cell.low, cell.high]


def test_a_rate_is_chosen_by_the_nearest_points_or_by_all_within_a_quarter(cell, fcn, record):
    """Five points far below prefer the other rate: they are reached only where fewer than five points are near."""

    def chosen(near):
        widths = [*[20] * 5, *near]
        losses = {width: (0.2, 0.6) if width == 20 else (0.6, 0.2) for width in widths}
        records = [
            record(fcn(width, seed=seed, lr=lr), losses[width][place])
            for seed, width in enumerate(widths)
            for place, lr in enumerate(cell.rates)
        ]
        points = points_of(cell, records)
        return cell.rates[points.chosen[points.widths == 100][0]]

    assert chosen([100, 130, 140, 150, 160]) == 0.02
    assert chosen([100, 130, 140, 150]) == 0.01
    # Within a quarter of the width more than five count, and none beyond it.
    many = [70, 70, 70, 70, 70, 80, 80, 80, 80, 81, 124, 124, 124, 124, 124, 124]
    assert spread_choice(cell, fcn, record, many) == 0.02


def spread_choice(cell, fcn, record, widths):
    """The rate at 100 where lower widths prefer the first rate and higher ones the second."""
    records = [
        record(fcn(width, seed=seed, lr=lr), 0.2 if (width < 100) == (place == 0) else 0.6)
        for seed, width in enumerate([100, *widths])
        for place, lr in enumerate(cell.rates)
    ]
    points = points_of(cell, records)
    return cell.rates[points.chosen[points.widths == 100][0]]
