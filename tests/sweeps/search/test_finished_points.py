"""What Optuna gets of a point that has ended."""

import math

import pytest
from optuna.trial import TrialState

from sweeps.cells.expanded_sweep import searched_cells
from sweeps.schema.spec import Criterion
from sweeps.search.finished_points import finished_points
from sweeps.thresholds.search_points import CellPoints, outcomes_by_cell


@pytest.fixture
def points(hunt, fcn, record):
    """Points of these losses, one a width."""

    def make(*losses):
        cell = searched_cells(hunt().spec)[0]
        records = [record(fcn(8 + place, seed=place), loss) for place, loss in enumerate(losses)]
        return CellPoints.of(cell, outcomes_by_cell([cell], records)[cell.cell_id])

    return make


def test_a_point_at_the_target_is_solved_and_one_above_it_is_not(points):
    ended = finished_points(points(0.5, 0.500001, math.inf, None), Criterion(target_loss=0.5), "threshold")
    assert [one.attributes["status"] for one in ended] == ["solved", "unsolved", "diverged", "failed"]
    assert [one.constraint is not None and one.constraint <= 0 for one in ended] == [True, False, False, False]
    assert [one.state for one in ended] == [TrialState.COMPLETE] * 2 + [TrialState.FAIL] * 2


@pytest.mark.parametrize(("sampler", "is_distance"), [("threshold", False), ("random", False), ("tpe", True), ("gp", True)])
def test_samplers_that_minimise_get_the_distance_from_the_target_on_either_side(points, sampler, is_distance):
    values = [one.value for one in finished_points(points(0.05, 0.2), Criterion(target_loss=0.1), sampler)]
    assert values == pytest.approx([math.log(2)] * 2 if is_distance else [0.05, 0.2])
