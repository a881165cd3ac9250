"""The search as a strategy, driven by a simulated trainer: what it asks for, what it tells Optuna, and every way of stopping
it.
"""

import math
from collections import Counter

import numpy as np
import pytest
from optuna.trial import TrialState

from sweeps.cells.searched import point_seed
from sweeps.findings.run_findings import read_findings
from sweeps.store.ledger import Ledger

TWO_CELLS = ("task.T=8,16",)


def points_of(study):
    return {(t.params["m"], t.user_attrs["seed"]): t for t in study.trials if "status" in t.user_attrs}


def states(studies):
    return Counter(trial.state.name for study in studies for trial in study.trials)


def test_a_search_finds_a_known_threshold_with_few_points(hunt, simulated):
    one = hunt()
    search = one.go(simulated)
    assert search.finished
    (threshold,) = one.thresholds()
    assert threshold.status == "found"
    assert threshold.low <= 40 <= threshold.high
    assert threshold.m_star == pytest.approx(40, rel=0.1)
    assert threshold.search.reason == "precise"
    assert threshold.num_seeds == len(one.asked) <= 40


@pytest.mark.slow
def test_every_point_has_a_seed_of_its_own_also_at_a_width_that_comes_again(hunt, simulated):
    """Scenario 19: a repeated width always carries a new seed."""
    one = hunt(*TWO_CELLS, "search.sampler=grid", "search.tolerance=0.02", "search.cap=32", "search.batch=4")
    one.go(simulated)
    widths = Counter((config.task.T, config.width) for config in one.asked)
    assert max(widths.values()) > 1
    assert len({config.seed for config in one.asked}) == len(one.asked) == 64


def test_both_ends_of_the_range_are_asked_for(hunt, simulated):
    """Scenario 24: widths 4 to 256: 256 is reachable."""
    one = hunt()
    one.go(simulated)
    assert {4, 256} <= {config.width for config in one.asked}


def test_a_point_has_all_rates_and_its_rate_is_its_neighbourhoods(hunt, simulated):
    one = hunt("optimizer.lr=0.001,0.01,0.1")

    def loss(config):
        if config.optimizer.lr == 0.1:
            return math.nan
        return simulated(config) * (1 if config.optimizer.lr == 0.01 else 2)

    search = one.go(loss)
    assert search.finished
    rates = Counter((config.width, config.seed) for config in one.asked)
    assert set(rates.values()) == {3}
    (threshold,) = one.thresholds()
    assert threshold.m_star == pytest.approx(40, rel=0.12)
    assert {point.lr for point in threshold.points if point.chosen} == {0.01}
    (study,) = one.studies()
    for trial in points_of(study).values():
        assert trial.user_attrs["lr"] == 0.01
        assert set(trial.user_attrs["losses"]) == {"0.001", "0.01", "0.1"}
        assert trial.user_attrs["losses"]["0.1"] is None
        assert trial.value == trial.user_attrs["losses"]["0.01"]


def test_a_rate_that_is_best_for_one_seed_only_is_not_chosen_for_it(hunt, simulated):
    one = hunt("optimizer.lr=0.01,0.1")

    def loss(config):
        lucky = config.seed % 10 == 0
        return simulated(config) * (1.0 if config.optimizer.lr == 0.01 else (0.5 if lucky else 2.0))

    one.go(loss)
    (threshold,) = one.thresholds()
    assert {point.lr for point in threshold.points if point.chosen} == {0.01}


def test_optuna_is_told_what_a_dashboard_shows(hunt, simulated):
    one = hunt()
    one.go(simulated)
    (study,) = one.studies()
    records = {record.trial_id: record for record in Ledger(one.run.ledger).read()}
    assert states([study]) == {"COMPLETE": len(records)}
    for trial in study.trials:
        record = records[trial.user_attrs["trial_ids"]["0.01"]]
        assert trial.value == pytest.approx(record.relative_loss)
        assert trial.user_attrs["stderr"] == record.relative_loss_stderr
        assert trial.constraints["target"] == pytest.approx(math.log(trial.value / 0.1))
        assert trial.user_attrs["status"] == ("solved" if trial.value <= 0.1 else "unsolved")
    assert study.user_attrs["stsq:state"] == "precise"
    (threshold,) = one.thresholds()
    assert study.user_attrs["stsq:estimate"] == pytest.approx(threshold.m_star, abs=0.01)
    assert study.best_trial.value <= 0.1


def test_the_course_of_a_point_is_its_intermediate_values(hunt, simulated):
    one = hunt()
    search = one.strategy()
    search._curves = lambda ended_in: {trial: (np.arange(0, 101, 5), np.linspace(1, 0.5, 21)) for trial in ended_in}
    one.go(simulated, search=search)
    (study,) = one.studies()
    assert study.trials
    for trial in study.trials:
        assert len(trial.intermediate_values) == 8
        assert trial.intermediate_values[0] == 1.0
        assert trial.intermediate_values[100] == 0.5


@pytest.mark.slow
@pytest.mark.parametrize("ended", [0, 1, 5, 8, 11, 17])
def test_a_search_that_is_killed_goes_on_with_the_same_points(hunt, simulated, ended):
    """Scenario 7: kill the driver, run again: the same study, nothing twice."""
    undisturbed = hunt(*TWO_CELLS, name="undisturbed")
    undisturbed.go(simulated)
    one = hunt(*TWO_CELLS)
    one.go(simulated, trials=ended)
    assert states(one.studies())["RUNNING"] > 0
    again = one.go(simulated)
    assert again.finished
    assert sorted(config.trial_id for config in one.asked) == sorted(config.trial_id for config in undisturbed.asked)
    assert states(one.studies()).keys() == {"COMPLETE"}
    assert len(one.studies()) == 2


def test_a_point_half_of_whose_rates_have_ended_is_completed(hunt, simulated):
    """Scenario 8, for a search: exactly the trials that are missing are trained."""
    one = hunt("optimizer.lr=0.01,0.02")
    one.go(simulated, trials=5)
    one.go(simulated)
    assert len({config.trial_id for config in one.asked}) == len(one.asked)
    assert set(Counter((config.width, config.seed) for config in one.asked).values()) == {2}
    assert states(one.studies()).keys() == {"COMPLETE"}


def test_a_study_that_is_gone_is_made_again_from_the_ledger(hunt, simulated):
    one = hunt("optimizer.lr=0.01,0.02")
    one.go(simulated, trials=13)
    one.run.studies.unlink()
    one.go(simulated)
    assert len({config.trial_id for config in one.asked}) == len(one.asked)
    (study,) = one.studies()
    before = set(points_of(study))
    assert len(before) == len(one.asked) / 2
    one.run.studies.unlink()
    assert one.go(simulated).finished
    (study,) = one.studies()
    assert set(points_of(study)) == before
    assert states([study]) == {"COMPLETE": len(before)}


def test_a_study_that_says_what_the_ledger_does_not_is_made_again(hunt, simulated):
    one = hunt()
    one.go(simulated)
    lines = one.run.ledger.read_text().splitlines(keepends=True)
    one.run.ledger.write_text("".join(lines[:10]))
    search = one.strategy()
    search.ask()
    (study,) = one.studies()
    assert len(points_of(study)) == 10


def test_what_the_ledger_holds_of_a_grid_starts_the_search(hunt, simulated, fcn, record):
    grid = [fcn(width, seed=seed) for width in (24, 32, 40, 48) for seed in range(5)]
    one = hunt()
    Ledger(one.run.ledger).append([record(config, simulated(config)) for config in grid])
    search = one.go(simulated)
    assert search.finished
    assert len(one.asked) <= 8
    assert {config.seed for config in one.asked}.isdisjoint(range(5))
    (study,) = one.studies()
    assert len(points_of(study)) == 20 + len(one.asked)


def test_a_search_that_is_stopped_leaves_nothing_running(hunt, simulated):
    one = hunt()
    search = one.go(simulated, trials=3)
    search.close()
    assert states(one.studies()).keys() == {"COMPLETE", "FAIL", "WAITING"}
    before = [config.trial_id for config in one.asked]
    one.go(simulated)
    undisturbed = hunt(name="undisturbed")
    undisturbed.go(simulated)
    assert before == [config.trial_id for config in undisturbed.asked][:3]
    assert {c.trial_id for c in one.asked[:8]} == {c.trial_id for c in undisturbed.asked[:8]}
    assert not {"RUNNING", "WAITING"} & states(one.studies()).keys()


def test_a_diverged_point_is_a_lapse_and_does_not_end_the_search(hunt, simulated):
    """Scenario 20: the trial is diverged, the sweep goes on, and the threshold says so."""
    one = hunt()
    search = one.go(lambda config: math.inf if config.seed % 7 == 0 else simulated(config))
    assert search.finished
    (study,) = one.studies()
    diverged = [trial for trial in study.trials if trial.user_attrs.get("status") == "diverged"]
    assert diverged
    assert {trial.state for trial in diverged} == {TrialState.FAIL}
    (threshold,) = one.thresholds()
    assert threshold.status == "found"
    assert f"{len(diverged)} of {len(one.asked)} trials diverged" in threshold.note


def test_all_points_diverging_ends_the_search_without_a_number(hunt):
    """Scenario 21, the search: one round, no number, in words."""
    one = hunt()
    assert one.go(lambda config: math.inf).finished
    (threshold,) = one.thresholds()
    assert (threshold.status, threshold.m_star, threshold.low, threshold.high) == ("failed", None, None, None)
    assert threshold.note == "not found: all diverged"
    assert len(one.asked) == 8


def test_points_that_fail_are_no_evidence_and_are_tried_again_on_request(hunt, simulated):
    one = hunt()
    failing = {point_seed(next(iter(one.strategy()._cells)), number) for number in (2, 9)}
    one.go(lambda config: None if config.seed in failing else simulated(config))
    (threshold,) = one.thresholds()
    assert threshold.num_failed == 2
    assert threshold.status == "found"
    num = len(one.asked)
    one.go(simulated, search=one.strategy(retry_failed=True))
    assert {config.seed for config in one.asked[num : num + 2]} == failing
    assert one.thresholds()[0].num_failed == 0
    (study,) = one.studies()
    assert states([study]).keys() == {"COMPLETE"}


def test_a_search_repeated_with_another_seed_asks_for_other_points(hunt, simulated):
    first, again, fresh = hunt(), hunt(name="again"), hunt("search.seed=1", name="fresh")
    for one in (first, again, fresh):
        one.go(simulated)
    seeds = [{config.seed for config in one.asked} for one in (first, again, fresh)]
    assert seeds[0] == seeds[1]
    assert not seeds[0] & seeds[2]
    assert [config.width for config in first.asked[:8]] == [config.width for config in fresh.asked[:8]]
    assert fresh.thresholds()[0].status == "found"


def test_a_search_of_which_every_trial_fails_ends(hunt):
    one = hunt()
    assert one.go(lambda config: None).finished
    assert len(one.asked) == 8
    assert one.thresholds()[0].note == "not found: all failed"


@pytest.mark.parametrize(
    ("loss_at", "status", "note"),
    [
        (lambda m: 1e-3, "below_range", "at or below 4, the least width searched (try a smaller low)"),
        (lambda m: 0.95 * (4 / m) ** 0.4, "above_range", "above 256, the largest width searched (try a larger high)"),
        (lambda m: max(0.5, 4 / m), "not_reached", "not reached: least loss {loss:.2g} at m = {m:.0f}, not falling beyond"),
        (
            lambda m: 0.2 + abs(math.log(m / 30)) / 4,
            "not_reached",
            "not reached: least loss {loss:.2g} at m = {m:.0f}, rising beyond (try more ",
        ),
        (lambda m: 1.0, "not_reached", "not reached: nothing learned at any width, loss 1.00 throughout (try more steps or"),
    ],
)
def test_a_threshold_that_is_not_within_the_range_is_told_by_what_was_seen(hunt, loss_at, status, note):
    """The least loss is that of four neighbours: their median, at the median of their widths, both of logarithms."""

    def loss(config):
        return loss_at(config.width) * (1 + 0.01 * (config.seed % 7 - 3))

    one = hunt()
    assert one.go(loss).finished
    (threshold,) = one.thresholds()
    points = np.log(sorted((config.width, loss(config)) for config in one.asked))
    groups = [np.exp(np.median(points[start : start + 4], axis=0)) for start in range(len(points) - 3)]
    m, least = min(groups, key=lambda medians: medians[1])
    assert threshold.status == status
    assert threshold.m_star is None
    assert threshold.search.reason == status
    assert threshold.note.startswith(note.format(loss=least, m=m))
    assert len(one.asked) <= 32


def test_a_valley_narrower_than_the_range_is_found_and_its_far_side_told(hunt):
    """Solved from 24 to 96 only: log-linear to a least loss of 0.03 at 48 and up again."""
    one = hunt("search.cap=48")
    assert one.go(
        lambda config: 0.03 * math.exp(1.737 * abs(math.log(config.width / 48))) * (1 + config.seed % 7 / 50)
    ).finished
    (threshold,) = one.thresholds()
    assert threshold.m_star == pytest.approx(24, rel=0.1)
    assert "solved, then unsolved again at m = " in threshold.note


def test_widths_that_fail_are_no_evidence_of_a_threshold_beyond_them(hunt):
    """Widths above 32 fail, and none up to there is solved: the bound is the largest width that finished.

    After two rounds with failures, a round asks for no width at or above the least that failed before.
    """
    one = hunt("search.cap=40")

    def loss(config):
        return None if config.width > 32 else 0.95 * (4 / config.width) ** 0.3 * (1 + config.seed % 7 / 100)

    assert one.go(loss).finished
    (threshold,) = one.thresholds()
    assert (threshold.status, threshold.m_star) == ("above_range", None)
    assert 16 <= max(threshold.widths) <= 32
    assert f"every width tried above {max(threshold.widths)} failed: worker lost" in threshold.note
    rounds = [[config.width for config in one.asked[start : start + 8]] for start in range(0, len(one.asked), 8)]
    assert len(rounds) >= 3
    assert all(max(rounds[place]) > 32 for place in (0, 1))
    for place in range(2, len(rounds)):
        assert max(rounds[place]) < min(width for before in rounds[:place] for width in before if width > 32)


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["threshold", "tpe", "random", "grid"])
def test_after_two_failed_rounds_no_width_is_asked_at_or_above_the_least_that_failed(hunt, simulated, sampler):
    """The threshold is 40; widths above 64 fail."""
    one = hunt("search.cap=48", f"search.sampler={sampler}", "search.tolerance=0.001")
    one.go(lambda config: None if config.width > 64 else simulated(config))
    (threshold,) = one.thresholds()
    assert threshold.status == "found"
    rounds = [[config.width for config in one.asked[start : start + 8]] for start in range(0, len(one.asked), 8)]
    assert len(rounds) == 6
    failed = [place for place, widths in enumerate(rounds) if max(widths) > 64]
    for place in range(failed[1] + 1 if len(failed) > 1 else 6, 6):
        assert max(rounds[place]) < min(width for before in rounds[:place] for width in before if width > 64)
    assert sampler not in ("random", "grid") or len(failed) >= 2


def test_a_rate_that_fails_makes_its_points_no_evidence(hunt, simulated):
    """The better of two rates fails above 60: what the other one gives there says nothing."""
    one = hunt("optimizer.lr=0.01,0.1", "search.cap=64")

    def loss(config):
        if config.optimizer.lr == 0.01:
            return 0.83
        return None if config.width > 60 else simulated(config)

    one.go(loss)
    (threshold,) = one.thresholds()
    assert threshold.status == "found"
    assert threshold.m_star == pytest.approx(40, rel=0.12)
    assert "every width tried above" in threshold.note


@pytest.mark.slow
def test_a_search_that_is_stopped_asks_for_whole_rounds_afterwards(hunt, simulated):
    """A session that is ended by hand tells the study that its points in flight failed: they did not."""
    settings = "search.sampler=threshold", "search.tolerance=0.01", "search.cap=32"
    whole = hunt(*settings)
    whole.go(simulated)
    one = hunt(*settings, name="stopped")
    for trials in (3, 5, 9, None):
        search = one.go(simulated, trials=trials)
        search.close()
    assert [c.width for c in one.asked] == [c.width for c in whole.asked]
    assert [c.seed for c in one.asked] == [c.seed for c in whole.asked]


def test_the_mean_of_a_valley_crosses_on_its_falling_side(hunt):
    one = hunt("search.cap=48", "criterion.statistic=mean")
    one.go(lambda config: 0.03 * math.exp(1.737 * abs(math.log(config.width / 48))) * (1 + config.seed % 7 / 50))
    (threshold,) = one.thresholds()
    assert threshold.m_star == pytest.approx(24, rel=0.15)
    assert "solved, then unsolved again at m = " in threshold.note


@pytest.mark.parametrize(
    ("loss_at", "note"),
    [
        (lambda m, u: math.inf if m > 20 else 0.9 * (4 / m) ** 0.5, "not reached: least loss 0."),
        (lambda m, u: 0.01 if u < 7 else 0.6, " trials reach the target, at no width 90% of them (try more steps"),
    ],
)
def test_lapses_and_divergences_are_told_as_such(hunt, loss_at, note):
    one = hunt("search.cap=40", "criterion.success_rate=0.9")
    one.go(lambda config: loss_at(config.width, config.seed % 10))
    (threshold,) = one.thresholds()
    assert threshold.status == "not_reached"
    assert note in threshold.note
    if "least loss" in note:
        assert ", and wider ones diverged (try a smaller rate or a schedule)" in threshold.note
        assert "every width tried above" in threshold.note


def test_widths_that_fail_again_far_above_the_threshold_are_told(hunt, simulated):
    one = hunt("search.cap=40", "search.sampler=grid", "search.tolerance=0.01")
    one.go(lambda config: 0.9 if config.width > 90 else simulated(config))
    (threshold,) = one.thresholds()
    assert threshold.crosses_more_than_once or threshold.status == "above_range"


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["tpe", "gp", "random", "grid"])
def test_the_same_search_runs_with_optunas_samplers(hunt, simulated, sampler):
    few = f"search.sampler={sampler}", "search.cap=18", "search.batch=6"
    one = hunt(*few)
    assert one.go(simulated).finished
    assert len(one.asked) <= 18
    (threshold,) = one.thresholds()
    assert threshold.status == "found"
    assert threshold.low <= 48
    assert threshold.high >= 33
    again = hunt(*few, name="again")
    again.go(simulated, trials=9)
    again.go(simulated)
    assert [config.trial_id for config in again.asked[:6]] == [config.trial_id for config in one.asked[:6]]
    assert states(again.studies()).keys() == {"COMPLETE"}


def test_more_points_after_the_cap_was_raised(hunt, simulated):
    one = hunt("search.cap=8")
    one.go(simulated)
    assert "stopped at the cap of 8 points" in one.thresholds()[0].note
    more = hunt("search.cap=64")
    more.go(simulated)
    assert more.thresholds()[0].search.reason == "precise"
    assert len({config.seed for config in one.asked + more.asked}) == len(one.asked + more.asked)
    fewer = hunt("search.cap=8", "search.tolerance=0.01")
    fewer.go(simulated)
    num = len(one.asked + more.asked)
    assert f"{num} points of earlier searches are more than the cap of 8: none was asked" in fewer.thresholds()[0].note


@pytest.mark.slow
def test_a_code_length_is_searched_to_the_tolerance_whatever_d_is(hunt, simulated):
    """The threshold of d_e is 40 at d = 200: 10% of m = 240 is more than half of it."""
    model = "{kind: transformer, positions: {kind: random_sign}}"
    settings = (f"model={model}", "task.d=200", "search.of=d_e")
    ratios = {}
    for of in ("m", "d_e"):
        one = hunt(*settings, f"search.tolerance_of={of}", name=of)
        one.go(lambda config: simulated(config.model_copy(update={"task": config.task.model_copy(update={"d": 0})})))
        [threshold] = one.thresholds()
        assert threshold.search.reason == "precise"
        assert threshold.low <= 240 <= threshold.high
        ratios[of] = (threshold.high - 200) / (threshold.low - 200)
    assert ratios["d_e"] <= 1.1**2 + 1e-9 < ratios["m"]


def test_a_search_that_finished_with_a_tolerance_of_m_stays_finished(hunt, simulated):
    """Its sweep was kept before a file could say of what the tolerance is: of d_e, 40 of 240, it was never within it."""
    one = hunt(
        "model={kind: transformer, positions: {kind: random_sign}}", "task.d=200", "search.of=d_e", "search.tolerance_of=m"
    )
    one.go(lambda config: simulated(config.model_copy(update={"task": config.task.model_copy(update={"d": 0})})))
    _, _, text = one.run.spec.read_text().partition("\n")  # without its checksum
    assert "  tolerance_of: m\n" in text
    for former, complete in ((text.replace("  tolerance_of: m\n", ""), True), (text.replace("_of: m", "_of: d_e"), False)):
        one.run.spec.write_text(former)
        assert read_findings(one.run.path).complete is complete


@pytest.mark.parametrize("has_study", [True, False])
@pytest.mark.parametrize("is_stopped", [True, False])
def test_points_half_done_go_on_after_the_seed_of_the_search_has_changed(hunt, simulated, has_study, is_stopped):
    one = hunt("optimizer.lr=0.01,0.02")
    search = one.go(simulated, trials=5)
    if is_stopped:
        search.close()
    if not has_study:
        one.run.studies.unlink()
    other = hunt("optimizer.lr=0.01,0.02", "search.seed=1")
    assert other.go(simulated).finished
    asked = [*one.asked, *other.asked]
    assert set(Counter((config.width, config.seed) for config in asked).values()) == {2}
    assert len({config.trial_id for config in asked}) == len(asked)
    assert states(other.studies()).keys() <= {"COMPLETE", "FAIL"}
