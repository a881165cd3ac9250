"""Thresholds against curves whose threshold is known, honest censoring, and intervals that cover."""

import math
import random
import warnings

import numpy as np
import pytest

from sweeps.sampler.trend import trend_of, trend_of_widths
from sweeps.schema.spec import Criterion
from sweeps.thresholds.thresholds import width_thresholds

WIDTHS = (12, 15, 18, 22, 27, 33)


def line(where, slope=4.0):
    """A loss that falls as a power of the width and is exactly 0.1 at `where`."""
    return lambda width, seed: 0.1 * (where / width) ** slope


def only(records, **criterion):
    (threshold,) = width_thresholds(records, Criterion(**criterion))
    return threshold


def test_a_known_threshold_is_found_exactly(cell_records):
    found = only(cell_records(WIDTHS, range(5), line(20.5)))
    assert found.status == "found"
    assert found.m_star == pytest.approx(20.5)
    assert found.M == 21
    assert (found.low, found.high) == (pytest.approx(20.5), pytest.approx(20.5))
    assert (found.widths, found.num_seeds, found.num_trials) == (WIDTHS, 5, 30)
    assert (found.num_diverged, found.num_failed, found.note) == (0, 0, "")
    assert not found.crosses_more_than_once


def test_a_whole_number_is_not_rounded_up(cell_records):
    assert only(cell_records((10, 20, 40), range(5), line(20))).M == 20


def test_the_median_of_the_seeds_own_crossings_with_an_interval_around_it(cell_records):
    places = [17.0, 19.0, 20.0, 23.0, 26.0]
    found = only(cell_records(WIDTHS, range(5), lambda width, seed: line(places[seed])(width, seed)))
    assert found.m_star == pytest.approx(20.0)
    assert 17.0 - 1e-9 <= found.low < 20.0 < found.high <= 26.0 + 1e-9
    assert found.replicates.shape == (2000,)


def test_the_same_records_give_the_same_interval_in_any_order(cell_records):
    records = cell_records(WIDTHS, range(4), lambda width, seed: line(18 + seed)(width, seed))
    first = only(records)
    random.Random(0).shuffle(records)
    again = only(records)
    assert (first.m_star, first.low, first.high, first.points) == (again.m_star, again.low, again.high, again.points)
    np.testing.assert_array_equal(first.replicates, again.replicates)


def test_above_and_below_the_range_there_is_a_bound_and_no_number(cell_records):
    above = only(cell_records(WIDTHS, range(5), line(50)))
    assert (above.status, above.m_star, above.M) == ("above_range", None, None)
    assert (above.low, above.high, above.low_censored, above.high_censored) == (pytest.approx(33), None, False, True)
    assert above.note == "above 33, the largest width tried (try larger ones)"
    below = only(cell_records(WIDTHS, range(5), line(5)))
    assert (below.status, below.m_star) == ("below_range", None)
    assert (below.low, below.high, below.low_censored, below.high_censored) == (None, pytest.approx(12), True, False)
    assert below.note == "at or below 12, the least width tried (try smaller ones)"


def test_a_model_of_one_width_is_solved_there_or_not_and_has_no_threshold(transformer, record):
    """One-hot codes at T = 16, d = 4."""
    trials = [transformer(16, seed=seed, kind="one_hot", redraw="never") for seed in range(5)]
    for losses, status, words in (
        ([0.01, 0.02, 0.03, 0.5, 0.04], "solved", "median relative loss 0.03 there, 4 of 5 seeds solved"),
        ([0.2, math.inf, 0.05, 0.3, 0.4], "not_solved", "median relative loss 0.3 there, 1 of 5 seeds solved; 1 of 5"),
    ):
        found = only([record(trial, loss) for trial, loss in zip(trials, losses, strict=True)])
        assert (found.status, found.m_star, found.low, found.high, found.is_bounded) == (status, None, None, None, False)
        assert found.note.startswith(f"m = T + d = 20 is the only width: {words}")
    assert only([record(trials[0], math.inf)]).status == "failed"


def test_an_end_of_the_interval_beyond_the_range_is_censored_not_invented(cell_records):
    places = [20.0, 22.0, 25.0, 60.0, 70.0]
    found = only(cell_records(WIDTHS, range(5), lambda width, seed: line(places[seed])(width, seed)))
    assert (found.status, found.m_star) == ("found", pytest.approx(25.0))
    assert found.low == pytest.approx(20.0)
    assert (found.high, found.high_censored) == (None, True)


def test_a_diverged_trial_is_an_unsolved_one(cell_records):
    found = only(cell_records(WIDTHS, range(3), lambda w, s: math.inf if w < 22 else 0.01))
    assert found.status == "found"
    assert 18 < found.m_star < 22
    assert found.num_diverged == 9
    assert "9 of 18 trials diverged" in found.note


def test_all_diverged_gives_no_number_and_says_so(cell_records):
    found = only(cell_records(WIDTHS, range(3), lambda w, s: math.inf))
    assert (found.status, found.m_star, found.M, found.low, found.high) == ("failed", None, None, None, None)
    assert found.note == "not found: all diverged"
    assert not found.low_censored
    assert not found.high_censored
    assert only(cell_records(WIDTHS, range(3), lambda w, s: None)).note == "not found: all failed"
    assert (
        only(cell_records(WIDTHS, range(3), lambda w, s: None if s else math.inf)).note == "not found: all diverged or failed"
    )


def test_a_failed_trial_is_left_out_and_counted(cell_records):
    clean = only(cell_records(WIDTHS, range(5), line(20.5)))
    found = only(cell_records(WIDTHS, range(5), lambda w, s: None if (w, s) in {(18, 0), (22, 1)} else line(20.5)(w, s)))
    assert found.m_star == pytest.approx(clean.m_star, rel=1e-6)
    assert found.num_failed == 2
    assert "2 of 30 trials failed and are left out" in found.note


def test_the_rate_is_chosen_per_width_by_the_median_over_seeds(cell_records):
    good = cell_records(WIDTHS, range(3), line(20.5), lr=0.01)
    bad = cell_records(WIDTHS, range(3), lambda w, s: 0.9, lr=0.1)
    wild = cell_records(WIDTHS, range(3), lambda w, s: math.inf, lr=1e6)
    found = only([*bad, *wild, *good])
    assert found.m_star == pytest.approx(20.5)
    assert {point.lr for point in found.points if point.chosen} == {0.01}
    assert sum(point.chosen for point in found.points) == 18
    assert "the best rate is at the end of the rates tried at m = 12, 15" in found.note
    lucky = cell_records((12,), range(3), lambda w, s: 0.001 if s == 0 else 0.95, lr=0.001)
    assert only([*good, *bad, *lucky]).m_star == pytest.approx(20.5)


def test_choosing_the_rate_per_seed_would_be_too_low(cell_records):
    """Two rates of pure noise around a loss above the target: each seed's better one often solves it, the median does not."""
    stream = np.random.default_rng(0)
    draw = {}

    def noisy(width, seed):
        return draw.setdefault((width, seed, len(draw)), 0.13 * math.exp(0.4 * stream.normal()))

    records = [*cell_records((20, 30), range(15), noisy, lr=0.01), *cell_records((20, 30), range(15), noisy, lr=0.02)]
    assert only(records).status == "not_reached"


def test_crossing_more_than_once_is_flagged(cell_records):
    found = only(cell_records(WIDTHS, range(3), lambda w, s: 0.5 if w in (12, 22) else 0.01))
    assert found.crosses_more_than_once
    assert 12 < found.m_star < 15
    assert "the least crossing is given" in found.note


def test_lapses_of_a_few_seeds_do_not_move_the_threshold(cell_records):
    clean = only(cell_records(WIDTHS, range(9), line(20.5)))
    lapses = {(22, 0), (27, 1), (33, 2)}
    found = only(cell_records(WIDTHS, range(9), lambda w, s: 1.0 if (w, s) in lapses else line(20.5)(w, s)))
    assert found.m_star == pytest.approx(clean.m_star)
    assert not found.crosses_more_than_once


@pytest.mark.parametrize(
    ("num_seeds", "note"),
    [(1, "one seed gives no interval"), (4, "4 seeds cannot give a 90% interval: it covers at most 88%"), (5, "")],
)
def test_few_seeds_are_said_to_be_few(cell_records, num_seeds, note):
    found = only(cell_records(WIDTHS, range(num_seeds), line(20.5)))
    assert found.note == note
    assert (found.low is None) == (num_seeds == 1)
    assert not found.high_censored


def test_seeds_of_their_own_at_each_width_are_drawn_within_the_width(cell_records):
    places = [17.0, 19.0, 20.0, 23.0, 26.0]
    records = [
        one
        for number, width in enumerate(WIDTHS)
        for one in cell_records([width], range(10 * number, 10 * number + 5), lambda w, s: line(places[s % 10])(w, s))
    ]
    found = only(records)
    assert found.num_seeds == 5
    assert 18 < found.m_star < 22
    assert found.low < found.m_star < found.high


def test_cells_are_kept_apart_and_sorted(cell_records, record, transformer):
    records = [
        *cell_records(WIDTHS, range(3), line(20.5), T=16),
        *cell_records(WIDTHS, range(3), line(15.5), T=12),
        *(record(transformer(d_e, T=32), line(20.0)(d_e + 4, 0)) for d_e in (8, 16, 32)),
    ]
    found = width_thresholds(records, Criterion())
    assert [(one.kind, one.config_sample.task.T) for one in found] == [("transformer", 32), ("fcn", 12), ("fcn", 16)]
    assert [one.m_star for one in found] == [pytest.approx(20.0), pytest.approx(15.5), pytest.approx(20.5)]
    assert found[0].label.startswith("transformer T=32")
    assert width_thresholds([], Criterion()) == ()


def test_another_target_is_another_threshold_of_the_same_records(cell_records):
    records = cell_records(WIDTHS, range(5), line(20.5))
    assert only(records, target_loss=0.2).m_star == pytest.approx(20.5 / 2**0.25)


@pytest.mark.slow
@pytest.mark.parametrize(("num_seeds", "least"), [(4, 0.76), (6, 0.84)])
def test_intervals_cover_a_known_threshold(cell_records, num_seeds, least):
    """Seeds differ by a shift that they keep at all widths, and by noise of their own at each width.

    The highest level that n seeds allow is 1 - 2 / 2^n: 87.5% and 96.9%. Over 100 cells, three standard errors are about 0.1.
    """
    truth, covered, num_cells = 20.5, 0, 100
    stream = np.random.default_rng(1)
    shifts = stream.normal(0, 0.1, (num_cells, num_seeds))
    noise = stream.normal(0, 0.2, (num_cells, num_seeds, len(WIDTHS)))

    def loss(width, seed):
        cell, place = divmod(seed, num_seeds)
        return line(truth * math.exp(shifts[cell, place]), 6.0)(width, seed) * math.exp(noise[cell, place, WIDTHS.index(width)])

    for cell in range(num_cells):
        found = only(cell_records(WIDTHS, range(cell * num_seeds, (cell + 1) * num_seeds), loss, T=16 + cell))
        low = 0 if found.low is None else found.low
        high = math.inf if found.high is None else found.high
        covered += low <= truth <= high
    assert covered / num_cells >= least
    if num_seeds > 4:
        assert covered / num_cells <= 0.99


@pytest.mark.parametrize(("rates", "noted"), [((0.01, 0.02), False), ((0.005, 0.01, 0.02), True), ((0.01, 0.02, 0.04), False)])
def test_a_best_rate_at_the_end_is_noted_where_there_is_a_middle(cell_records, rates, noted):
    """The best rate is 0.02, at every width."""
    records = [
        one
        for lr in rates
        for one in cell_records(WIDTHS, range(3), lambda w, s, lr=lr: line(20.5)(w, s) * (1 if lr == 0.02 else 2), lr=lr)
    ]
    assert ("the best rate is at the end of the rates tried" in only(records).note) == noted


@pytest.mark.parametrize(
    ("losses", "status", "words"),
    [
        ((0.9, 0.7, 0.5, 0.3, 0.2, 0.201), "not_reached", "not reached: least loss 0.2 at m = 64, not falling beyond"),
        ((0.9, 0.7, 0.5, 0.3, 0.2, 0.15), "above_range", "above 128, the largest width tried (try larger ones)"),
        ((0.9, 0.7, 0.5, 0.3, 0.2, 0.35), "not_reached", "not reached: least loss 0.2 at m = 64, rising beyond"),
        (
            (0.9, 0.7, 0.5, 0.3, math.inf, math.inf),
            "not_reached",
            "not reached: least loss 0.3 at m = 32, and wider ones",
        ),
    ],
)
def test_a_grid_says_what_its_losses_do_at_the_largest_width(cell_records, losses, status, words):
    """One seed a width: 4, 8, .. 128."""
    threshold = only(cell_records([4 * 2**place for place in range(6)], [0], lambda m, _: losses[int(math.log2(m)) - 2]))
    assert threshold.status == status
    assert threshold.note.startswith(words)


def test_one_width_shows_no_trend(cell_records):
    threshold = only(cell_records([8], range(5), lambda m, seed: 0.5))
    assert (threshold.status, threshold.widths) == ("above_range", (8,))


def test_a_mean_that_rises_again_though_most_seeds_are_solved_names_no_width(cell_records):
    """At 16 one of five seeds learns nothing: the mean loss is above the target, and the fraction of solved seeds is 0.8."""
    losses = {4: [0.5] * 5, 8: [0.05] * 5, 16: [0.01] * 4 + [0.9]}
    threshold = only(cell_records([4, 8, 16], range(5), lambda m, seed: losses[m][seed]), statistic="mean")
    assert threshold.status == "found"
    assert "solved, then unsolved again at a larger width: the least crossing is given" in threshold.note


def test_a_single_width_at_the_end_of_a_falling_loss_has_no_slope_and_no_warning():
    log_widths = np.concatenate([np.linspace(0, 2.2, 24), np.full(4, 3.0)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert trend_of(log_widths, -2 * log_widths - 1, log_low=0.0, log_high=3.0) == "unclear"


def test_the_trend_of_a_grid_passes_over_widths_without_a_loss():
    nothing = [math.nan] * 2
    falling = np.log([[0.9, 0.91], [0.6, 0.61], nothing, [0.3, 0.31], nothing])
    assert trend_of_widths(np.log([4, 8, 16, 32, 64]), falling) == "falling"
