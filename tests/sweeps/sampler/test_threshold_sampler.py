"""The threshold sampler as Optuna's users run it: in `optimize`, by ask and tell, in threads and in processes, and resumed."""

import math
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import optuna
import pytest
from optuna.study import Study
from optuna.trial import Trial, TrialState
from simulation import SimulatedCell, smooth_cell

import sweeps.sampler.study_points
from sweeps.sampler.threshold_sampler import ThresholdSampler, constrain

CELL = smooth_cell(4, slope=3.0, log_target=math.log(0.1))
M_STAR = math.exp(CELL.log_threshold(0.1))
ROOT = Path(__file__).parents[3]


def sampler_of(**settings: float) -> ThresholdSampler:
    return ThresholdSampler(**({"target_loss": 0.1, "seed": 0} | settings))


def study_of(storage: str | None = None, **settings: float) -> Study:
    return optuna.create_study(storage=storage, sampler=sampler_of(**settings))


def trained(cell: SimulatedCell = CELL) -> Callable[[Trial], float]:
    return lambda trial: cell.relative_loss(trial.suggest_int("m", 2, 8192, log=True), trial.number)


def widths_of(study: Study) -> list[int]:
    return [trial.params["m"] for trial in study.trials]


def ask(study: Study, num: int = 8) -> list[Trial]:
    trials = [study.ask() for _ in range(num)]
    for trial in trials:
        trial.suggest_int("m", 2, 8192, log=True)
    return trials


def tell(study: Study, trials: list[Trial]) -> None:
    for trial in trials:
        study.tell(trial, CELL.relative_loss(trial.params["m"], trial.number))


def test_optimize_stops_when_the_interval_is_narrow_and_says_what_it_found() -> None:
    study = study_of()
    study.optimize(trained(), n_trials=96)
    assert len(study.trials) < 40
    low, high = study.user_attrs["stsq:interval"]
    assert study.user_attrs["stsq:state"] == "precise"
    assert high / low <= 1.1**2 + 0.01
    assert study.user_attrs["stsq:estimate"] == pytest.approx(M_STAR, rel=0.15)
    assert study.user_attrs["stsq:points"] == len(study.trials)


@pytest.mark.slow
def test_the_tolerance_of_a_width_with_a_fixed_part_is_of_the_rest() -> None:
    """A cell seen as m = 20,000 + d_e: 10% of m is two thirds of the threshold of d_e, so 10% of d_e takes more points."""
    fixed = 20_000

    def loss(trial: Trial) -> float:
        return CELL.relative_loss(trial.suggest_int("m", fixed + 500, fixed + 30_000, log=True) - fixed, trial.number)

    lengths, numbers = [], []
    for offset in (0, fixed):
        study = study_of(offset=offset)
        study.optimize(loss, n_trials=96)
        assert study.user_attrs["stsq:state"] == "precise"
        low, high = study.user_attrs["stsq:interval"]
        lengths.append((high - fixed) / (low - fixed))
        numbers.append(len(study.trials))
        assert low <= fixed + M_STAR <= high
    assert lengths[0] > 1.1**2 + 0.01 >= lengths[1]
    assert numbers[0] < numbers[1]


def test_two_threads_share_a_search() -> None:
    study = study_of()
    study.optimize(trained(), n_trials=96, n_jobs=2)
    assert study.sampler.state(study).reason == "precise"
    assert math.exp(study.sampler.state(study).posterior.median) == pytest.approx(M_STAR, rel=0.15)


def test_a_batch_is_asked_before_any_of_it_is_told_and_spreads() -> None:
    study = study_of()
    first = ask(study)
    assert len({trial.params["m"] for trial in first}) == 8
    tell(study, first)
    second = {trial.params["m"] for trial in ask(study)}
    assert len(second) == 8
    assert min(second) < M_STAR < max(second)


@pytest.mark.slow
def test_the_same_seed_asks_the_same_widths_and_another_one_does_not() -> None:
    asked = []
    for seed in (1, 1, 2):
        study = study_of(seed=seed, tolerance=0.01)
        study.optimize(trained(), n_trials=20)
        asked.append(widths_of(study))
    assert asked[0] == asked[1]
    assert asked[0] != asked[2]


@pytest.mark.slow
def test_a_pickled_sampler_and_a_resumed_study_go_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/study.db"
    whole, halves = study_of(tolerance=0.01), study_of(storage, tolerance=0.01)
    whole.optimize(trained(), n_trials=16)
    halves.optimize(trained(), n_trials=8)
    copy = pickle.loads(pickle.dumps(halves.sampler))
    resumed = optuna.load_study(study_name=halves.study_name, storage=storage, sampler=copy)
    resumed.optimize(trained(), n_trials=8)
    assert widths_of(resumed) == widths_of(whole)


@pytest.mark.slow
def test_processes_share_a_search_through_a_database(tmp_path: Path) -> None:
    storage = f"sqlite:///{tmp_path}/study.db"
    optuna.create_study(study_name="cell", storage=storage)
    code = f"""
import sys
import optuna
from sweeps.sampler.threshold_sampler import ThresholdSampler
sys.path.append("tests/benchmarks")
from simulation import smooth_cell
cell = smooth_cell(4, slope=3.0, log_target=-2.302585092994046)
study = optuna.load_study(study_name="cell", storage={storage!r}, sampler=ThresholdSampler(target_loss=0.1, seed=0))
study.optimize(lambda trial: cell.relative_loss(trial.suggest_int("m", 2, 8192, log=True), trial.number), n_trials=60)
"""
    workers = [subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) for _ in range(2)]
    assert [worker.wait() for worker in workers] == [0, 0]
    study = optuna.load_study(study_name="cell", storage=storage, sampler=sampler_of())
    assert all(trial.state == TrialState.COMPLETE for trial in study.trials)
    state = study.sampler.state(study)
    assert state.finished
    assert math.exp(state.posterior.median) == pytest.approx(M_STAR, rel=0.15)


def test_a_diverged_trial_is_a_lapse_and_a_lost_one_is_no_evidence() -> None:
    study = study_of()
    trials = ask(study)
    trials[0].set_user_attr("status", "diverged")
    for trial in trials[:2]:
        study.tell(trial, state=TrialState.FAIL)
    tell(study, trials[2:])
    posterior = study.sampler.state(study).posterior
    assert len(posterior.widths) == 7
    assert sum(math.isinf(loss) for loss in posterior.log_losses) == 1


def test_where_all_diverge_the_search_ends_without_a_threshold() -> None:
    study = study_of()
    while study.sampler.batch_size(study):
        for trial in ask(study):
            trial.set_user_attr("status", "diverged")
            study.tell(trial, state=TrialState.FAIL)
    assert len(study.trials) == 8
    assert study.sampler.state(study).reason == "diverged"
    assert study.user_attrs["stsq:estimate"] is None


def test_no_width_is_asked_at_or_above_the_least_that_fails() -> None:
    """Every trial above 8 raises: the search is about the widths up to there, and says that the threshold lies above them."""
    study = study_of()

    def relative_loss(trial: optuna.Trial) -> float:
        width = trial.suggest_int("m", 2, 64, log=True)
        if width > 8:
            raise MemoryError(f"no memory for {width} units")
        return 0.95 - 0.05 * width

    study.optimize(relative_loss, n_trials=96, catch=MemoryError)
    asked = [trial.params["m"] for trial in study.trials]
    failed = [trial.params["m"] for trial in study.trials if trial.state == TrialState.FAIL]
    assert study.user_attrs["stsq:state"] == "above_range"
    assert study.user_attrs["stsq:estimate"] is None
    second = next(place for place, width in enumerate(asked) if place >= 8 and width > 8)  # the first of the second batch
    assert len(asked) > second + 1
    for place in range(second + 1, len(asked)):
        assert asked[place] < min(width for width in asked[:place] if width > 8)
    assert len(failed) <= 8


def test_an_estimate_is_published_only_within_the_widths_that_finished() -> None:
    """Widths up to 12 train, and the loss falls so that it would cross at 30."""
    study = study_of()

    def relative_loss(trial: optuna.Trial) -> float:
        width = trial.suggest_int("m", 4, 256, log=True)
        if width > 12:
            raise MemoryError(f"no memory for {width} units")
        return 0.1 * (30 / width) ** 1.05

    study.optimize(relative_loss, n_trials=60, catch=MemoryError)
    assert study.user_attrs["stsq:estimate"] is None
    assert study.user_attrs["stsq:state"] == "above_range"


def test_stopped_points_of_a_study_of_ours_are_none() -> None:
    study = study_of(only_told=True)
    for trial in ask(study):
        study.tell(trial, state=TrialState.FAIL)
    assert study.sampler.state(study).num_points == 0
    for trial in ask(study):
        trial.set_user_attr("status", "failed")
        study.tell(trial, state=TrialState.FAIL)
    assert study.sampler.state(study).num_points == 8


def test_a_study_of_which_all_trials_fail_ends() -> None:
    study = study_of()

    def relative_loss(trial: optuna.Trial) -> float:
        raise MemoryError(f"no memory for {trial.suggest_int('m', 2, 64)} units")

    study.optimize(relative_loss, n_trials=96, catch=MemoryError)
    assert (len(study.trials), study.sampler.state(study).reason) == (8, "failed")


@pytest.mark.parametrize(("loss", "reason"), [(0.97, "not_reached"), (0.003, "below_range")])
def test_a_threshold_beyond_the_range_ends_the_search(loss: float, reason: str) -> None:
    study = study_of()
    study.optimize(lambda trial: loss + 0 * trial.suggest_int("m", 4, 256, log=True), n_trials=96)
    assert study.user_attrs["stsq:state"] == reason
    assert len(study.trials) <= 32


def test_the_ends_of_a_range_are_reachable() -> None:
    study = study_of()
    trials = [study.ask() for _ in range(8)]
    asked = [trial.suggest_int("m", 4, 256, log=True) for trial in trials]
    assert (min(asked), max(asked)) == (4, 256)


def test_no_search_exceeds_its_cap() -> None:
    study = study_of(cap=12, tolerance=1e-4)
    study.optimize(trained(smooth_cell(8, slope=1.0, log_target=math.log(0.1))), n_trials=96)
    assert len(study.trials) == 12
    state = study.sampler.state(study)
    assert (state.finished, state.reason, study.sampler.batch_size(study)) == (True, "cap", 0)


def test_a_batch_never_exceeds_what_the_cap_leaves() -> None:
    study = study_of(cap=12)
    assert study.sampler.batch_size(study) == 8
    trials = ask(study)
    assert study.sampler.batch_size(study) == 4
    tell(study, trials)
    assert study.sampler.batch_size(study) <= 4


def test_the_state_of_trials_is_that_of_their_study() -> None:
    study = study_of()
    tell(study, ask(study))
    of_study, of_trials = (study.sampler.state(it) for it in (study, study.trials))
    assert of_trials.reason == of_study.reason
    assert of_trials.posterior.interval(0.9) == of_study.posterior.interval(0.9)
    assert sampler_of().state([]).posterior is None


def test_a_trial_is_read_once_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    points, counts = sweeps.sampler.study_points.StudyPoints, []
    read = points._note
    monkeypatch.setattr(
        points, "_note", lambda own, trial: (trial.state.is_finished() and counts.append(trial.number)) or read(own, trial)
    )
    study = study_of(cap=10_000)
    distribution = optuna.distributions.IntDistribution(2, 8192, log=True)
    width = round(M_STAR)
    study.add_trials(
        [
            optuna.trial.create_trial(
                params={"m": width + number % 9}, distributions={"m": distribution}, value=CELL.relative_loss(width, number)
            )
            for number in range(2000)
        ]
    )
    tell(study, ask(study))
    ask(study)
    assert len(counts) == 2008


@pytest.mark.slow
def test_one_sampler_keeps_two_studies_apart(tmp_path: Path) -> None:
    sampler, storage = sampler_of(), f"sqlite:///{tmp_path}/studies.db"
    studies = [optuna.create_study(study_name=name, storage=storage, sampler=sampler) for name in ("one", "two")]
    tell(studies[0], ask(studies[0]))
    assert len(sampler.state(studies[0]).posterior.widths) == 8
    assert sampler.state(studies[1]).posterior is None


def test_the_widths_of_a_seed_are_those_of_the_record() -> None:
    """Recorded once: a changed shift, spread or order of the quantiles asks for other widths."""
    study = optuna.create_study(sampler=ThresholdSampler(target_loss=0.1, seed=5))
    distribution = optuna.distributions.IntDistribution(4, 400, log=True)
    for width in (4, 9, 20, 44, 97, 212, 400, 30):
        loss = 0.1 * (60 / width) ** 3
        study.add_trial(optuna.trial.create_trial(params={"m": width}, distributions={"m": distribution}, value=loss))
    assert [study.ask({"m": distribution}).params["m"] for _ in range(6)] == [86, 56, 50, 64, 53, 45]


def test_a_constraint_says_whether_a_point_reaches_the_target() -> None:
    study = optuna.create_study(sampler=sampler_of())
    for loss in (0.05, 0.2):
        trial = study.ask()
        trial.suggest_int("m", 2, 64)
        constrain(trial, loss, 0.1)
        study.tell(trial, loss)
    assert [trial.constraints["target"] for trial in study.trials] == pytest.approx([math.log(0.5), math.log(2)])


def test_an_objective_is_one() -> None:
    with pytest.raises(ValueError, match="multi-objective"):
        optuna.create_study(directions=["minimize", "minimize"], sampler=sampler_of()).ask().suggest_int("m", 2, 64)
