"""What rival laws predict, how probable they are, and where they differ: against closed forms of a linear model."""

import math

import numpy as np
import pytest

from sweeps.laws.decision import spread_order
from sweeps.laws.formulas import ATTENTION, ATTENTION_OFFSET, EXCESS_Q_POWER, T_POWER, Tasks
from sweeps.laws.rivals import PRIOR_SD, Candidates, Rival, Standoff, rival_of

T = np.array([8.0, 16, 32, 64, 128, 256])


def candidates(y, sd, q=1.0, rounds=2.0) -> Candidates:
    """Cells of the T above; an infinite `sd` leaves one unmeasured."""
    num = len(T)
    tasks = Tasks(T, np.full(num, q), np.full(num, 4.0), 0.1)
    return Candidates(tasks, np.asarray(y), np.zeros(num, dtype=int), np.asarray(sd), np.full(num, rounds))


def test_what_a_law_predicts_is_the_gaussian_given_all_measurements() -> None:
    """`T_power` is linear in ln m: condition the joint distribution of numbers, cells and measurements by hand."""
    noise = np.random.default_rng(0).normal(size=6)
    sd = np.array([0.05, np.inf, 0.1, 0.03, np.inf, 0.2])
    known = candidates(math.log(3) + 0.4 * np.log(T) + 0.05 * noise, sd)
    rival = rival_of(T_POWER, known)
    assert rival is not None
    seen, s = np.isfinite(sd), rival.scatter
    X = np.column_stack([np.ones(6), np.log(T)])
    weight = np.diag(1 / (sd[seen] ** 2 + s**2))
    theta = np.linalg.solve(X[seen].T @ weight @ X[seen], X[seen].T @ weight @ known.y[seen])
    prior = np.linalg.inv(X.T @ X / (6 * PRIOR_SD**2))
    cells = X @ prior @ X.T + s**2 * np.eye(6)
    gain = cells[:, seen] @ np.linalg.inv(cells[np.ix_(seen, seen)] + np.diag(sd[seen] ** 2))
    assert rival.means == pytest.approx(X @ theta + gain @ (known.y - X @ theta)[seen], abs=1e-6)
    assert rival.variances == pytest.approx(np.diag(cells - gain @ cells[seen]), rel=1e-6)


def test_a_law_that_what_is_known_does_not_determine_is_no_rival_yet() -> None:
    sd = np.array([0.05, *[np.inf] * 5])
    known = candidates(np.log(4 + 2.4 * np.log(T)), sd)
    assert rival_of(ATTENTION, known) is not None
    assert rival_of(EXCESS_Q_POWER, known) is None
    assert Standoff.of((ATTENTION, EXCESS_Q_POWER), known) is None


@pytest.mark.parametrize(
    ("law", "place"),
    [(4 + 2.4 * np.log(T), 0), (4 + 4.0 * T**0.3, 1), (12 + 2.4 * np.log(T), 2)],
)
def test_the_law_that_precise_thresholds_obey_is_the_most_probable(law: np.ndarray, place: int) -> None:
    found = Standoff.of((ATTENTION, EXCESS_Q_POWER, ATTENTION_OFFSET), candidates(np.log(law), np.full(6, 0.01)))
    assert found is not None
    assert int(np.argmax(found.probabilities)) == place
    assert found.odds > 5
    assert found.probabilities.sum() == pytest.approx(1)


def test_laws_that_predict_alike_leave_the_odds_to_what_they_cost() -> None:
    """With wide errors nothing is decided: the plain law leads by its fewer numbers, and by less than a decision needs."""
    found = Standoff.of((ATTENTION, ATTENTION_OFFSET), candidates(np.log(4 + 2.4 * np.log(T)), np.full(6, 0.2)))
    assert found is not None
    assert 1 < found.odds < 20


def test_the_criterion_is_box_and_hills_and_with_equal_variances_t_optimality() -> None:
    known = candidates(np.zeros(6), np.full(6, 0.1), rounds=4.0)
    means = np.linspace(0, 0.5, 6)
    noise = 0.1**2 * 4
    assert known.round_sd == pytest.approx(np.full(6, math.sqrt(noise)))
    one, other = (Rival(ATTENTION, 0.0, 0.0, mean, np.full(6, 0.01)) for mean in (np.zeros(6), means))
    standoff = Standoff((one, other), np.array([0.7, 0.3]), known)
    assert standoff.discrimination() == pytest.approx(0.7 * 0.3 * means**2 / (0.01 + noise))
    unsure = Standoff((one, Rival(ATTENTION, 0.0, 0.0, np.zeros(6), means + 0.01)), np.array([0.5, 0.5]), known)
    v, w = 0.01 + noise, means + 0.01 + noise
    assert unsure.discrimination() == pytest.approx(0.25 * (v - w) ** 2 / (v * w) / 2)
    low, high = standoff.span(5)
    assert (low, high) == pytest.approx((-0.2 - 0.25, 0.5 + 0.2 + 0.25))


def test_a_cell_that_is_known_well_is_not_asked_again_before_one_that_is_not() -> None:
    law = np.log(4 + 2.4 * np.log(T))
    known = candidates(law, np.array([0.01, np.inf, 0.01, np.inf, 0.01, 0.15]))
    found = Standoff.of((ATTENTION, EXCESS_Q_POWER), known)
    assert found is not None
    gains = found.discrimination()
    assert gains[5] > max(gains[0], gains[2])


def test_the_first_cells_lie_far_apart() -> None:
    T, q = (letter.ravel() for letter in np.meshgrid([8.0, 64, 512], [1.0, 2, 3]))
    order = spread_order(Tasks(T, q, np.full(9, 4.0), 0.1))
    assert {(T[place], q[place]) for place in order[:4]} == {(8, 1), (512, 3), (8, 3), (512, 1)}
    assert sorted(order) == list(range(9))
