"""`stsq run` of a sweep with searches: inline, as its users type it, and on a real Ray with workers and drivers that are
killed.
"""

import json
import os
import re
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest

from cluster.run.budgets import Budgets
from sweeps.search.study_storage import open_storage
from sweeps.store.ledger import Ledger

Write = Callable[..., Path]
Here = Callable[..., Any]
Numbers = Callable[[Path], dict[str, tuple[object, ...]]]

QUIET = ("--inline", "--wandb", "disabled")


@pytest.fixture
def hunt(small: dict[str, Any]) -> dict[str, Any]:
    """The small sweep with its widths searched, in two rounds at least."""
    small |= {"name": "hunt", "criterion": {"target_loss": 0.5}, "search": {"batch": 4, "cap": 12}}
    transformer, fcn = small["trials"]
    for group, model, search in (
        (transformer, {"kind": "transformer", "positions": {"kind": "random_sign"}}, {"low": 3, "high": 24}),
        (fcn, {"kind": "fcn", "tail_width": 16}, {"low": 2, "high": 24}),
    ):
        group["base"]["model"] = model
        del group["grid"], group["seeds"]
        group["search"] = search
    transformer["base"]["training"]["steps"] = 40
    fcn["base"]["training"]["steps"] = 100
    return small


def slow(hunt: dict[str, Any], steps: int) -> dict[str, Any]:
    hunt["trials"][0]["base"]["training"] |= {"steps": steps, "log_every": 100}
    return hunt


def states(run: Path) -> Counter[str]:
    """The states of all trials of a run's studies."""
    storage = open_storage(None, run / "study.journal")
    studies = [optuna.load_study(study_name=name, storage=storage) for name in optuna.get_all_study_names(storage)]
    return Counter(trial.state.name for study in studies for trial in study.trials)


def test_a_search_leaves_thresholds_studies_and_a_page(
    stsq: Any, write_sweep: Write, hunt: dict[str, Any], numbers: Numbers
) -> None:
    ended = stsq.run("run", write_sweep(hunt), "--inline")
    run = stsq.folder / "runs/hunt"
    assert ended.code == 0, ended
    assert "2 cells to search" in ended.err
    assert "trials ended" in ended.err
    assert states(run) == {"COMPLETE": len(numbers(run))}
    assert (run / "report/index.html").stat().st_size > 10_000
    assert len(list(run.glob("wandb/offline-run-*/*.wandb"))) == len(numbers(run)) + 2  # and one a cell
    rows = json.loads(stsq.run("show", run, "--json").out)["thresholds"]
    assert {row["search"] for row in rows} <= {"precise", "cap", "above_range", "below_range"}
    trial_id = next(iter(numbers(run)))
    assert "reproduced bit for bit" in stsq.run("trial", run, trial_id).out


@pytest.mark.slow
def test_codes_of_one_width_answer_a_search_with_what_came_of_it(
    here: Here, tmp_path: Path, write_sweep: Write, hunt: dict[str, Any]
) -> None:
    """T = 6 in the small sweep, d = 2: one-hot codes have m = 8."""
    hunt["trials"] = hunt["trials"][:1]
    (group,) = hunt["trials"]
    del group["base"]["model"]["positions"], group["base"]["training"]["objective"]
    group["zip"] = {"model.positions.kind": ["learned", "one_hot"], "model.positions.query": ["dual", "dual"]}
    sweep = write_sweep(hunt)
    assert re.search(r"one_hot/never/dual adam minibatch\s+8\s+\S+\s+4\s+4\s+0", here("plan", sweep).out)
    ended = here("run", sweep, *QUIET)
    assert ended.code == 0, ended
    [row] = [row for row in ended.out.splitlines() if "one_hot" in row and "only 8" in row]
    assert row.rstrip().endswith("solved")
    rows = {row["search"]: row for row in json.loads(here("show", tmp_path / "runs/hunt", "--json").out)["thresholds"]}
    assert rows[None]["status"] in ("solved", "not_solved")
    assert (rows[None]["m_star"], rows[None]["narrowest"], rows[None]["num_seeds"]) == (None, 8, 4)
    assert here("report", tmp_path / "runs/hunt").code == 0
    page = (tmp_path / "runs/hunt/report/index.html").read_text()
    for words in ("only 8", "is the only width: median relative loss", "solved at the only width"):
        assert words in page
    again = here("run", sweep, *QUIET)
    assert "nothing to train: hunt is complete" in again.err


@pytest.mark.slow
def test_the_same_search_again_trains_nothing(here: Here, tmp_path: Path, write_sweep: Write, hunt: dict[str, Any]) -> None:
    first = here("run", write_sweep(hunt), *QUIET)
    ledger = (tmp_path / "runs/hunt/ledger.jsonl").read_bytes()
    again = here("run", write_sweep(hunt), *QUIET)
    assert (first.code, again.code) == (0, 0)
    assert "nothing to train: hunt is complete, 2 cells searched" in again.err
    assert (tmp_path / "runs/hunt/ledger.jsonl").read_bytes() == ledger
    assert again.out == first.out == here("show", tmp_path / "runs/hunt").out


OF_SAMPLES = {"model": {"kind": "fcn", "width": 8, "tail_width": 16}, "training": {"batch_size": 16, "steps": 40}}
OF_STEPS = {"model": {"kind": "fcn", "width": 8, "tail_width": 16}, "training": {"batch_size": 16}}
OF_RANK = {
    "model": {"kind": "attention", "init": "gaussian", "positions": {"kind": "one_hot"}},
    "training": {"batch_size": 16, "steps": 20},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("of", "base", "low", "high"),
    [
        ("training.num_samples", OF_SAMPLES, 4, 256),
        ("training.steps", OF_STEPS, 4, 64),
        ("model.rank", OF_RANK, 1, 8),
    ],
)
def test_a_search_of_another_size_trains_to_its_end(
    here: Here,
    write_sweep: Write,
    hunt: dict[str, Any],
    numbers: Numbers,
    tmp_path: Path,
    of: str,
    base: Any,
    low: int,
    high: int,
) -> None:
    hunt["criterion"]["of"] = of
    hunt["trials"] = hunt["trials"][1:]
    hunt["trials"][0]["base"] |= base
    hunt["trials"][0]["search"] = {"low": low, "high": high}
    ended = here("run", write_sweep(hunt), *QUIET)
    assert ended.code in (0, 3), ended
    assert here("show", tmp_path / "runs/hunt").out == ended.out
    [row] = json.loads(here("show", tmp_path / "runs/hunt", "--json").out)["thresholds"]
    assert row["of"] == of
    assert row["search"] in ("precise", "cap", "above_range", "below_range", "not_reached")
    assert row["num_trials"] == len(numbers(tmp_path / "runs/hunt")) >= 8
    again = here("run", write_sweep(hunt), *QUIET)
    assert "nothing to train: hunt is complete, 1 cells searched" in again.err


def test_a_driver_killed_in_mid_search_goes_on_to_the_same_bits(
    stsq: Any, here: Here, write_sweep: Write, hunt: dict[str, Any], until: Any, numbers: Numbers
) -> None:
    """Scenario 7: kill the driver, run again: the same study, nothing twice."""
    sweep = write_sweep(slow(hunt, 1_500))
    assert here("run", sweep, *QUIET, "--out", "undisturbed").code == 0
    run = stsq.folder / "runs/hunt"
    process = stsq.start("run", sweep, *QUIET, "--checkpoint-every", 0.1)
    until(lambda: (run / "ledger.jsonl").exists() and len((run / "ledger.jsonl").read_text().splitlines()) >= 3)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert here("run", sweep, *QUIET).code == 0
    assert numbers(run) == numbers(stsq.folder / "undisturbed")
    assert states(run) == states(stsq.folder / "undisturbed") == {"COMPLETE": len(numbers(run))}


def test_ctrl_c_leaves_no_trial_running_and_the_same_command_goes_on(
    stsq: Any, here: Here, write_sweep: Write, hunt: dict[str, Any], until: Any, numbers: Numbers
) -> None:
    sweep, run = write_sweep(slow(hunt, 1_500)), stsq.folder / "runs/hunt"
    process = stsq.start("run", sweep, *QUIET)
    until(lambda: (run / "ledger.jsonl").exists(), what="the first result")
    process.send_signal(signal.SIGINT)
    ended = stsq.wait(process)
    assert ended.code == 130, ended
    assert "Traceback" not in ended.err
    assert "RUNNING" not in states(run)
    num = len(numbers(run))
    assert here("run", sweep, *QUIET).code == 0
    assert len(numbers(run)) > num
    assert not {"RUNNING", "WAITING"} & states(run).keys()


@pytest.mark.slow
def test_a_grid_stopped_in_the_middle_trains_exactly_the_rest(
    here: Here, tmp_path: Path, write_sweep: Write, small: dict[str, Any], numbers: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 8: kill a grid with 2 of 5 seeds of a width done: exactly the other 3, and all of the others."""
    small["trials"] = small["trials"][1:]
    sweep = write_sweep(small)
    assert here("run", sweep, *QUIET, "--set", "seeds=5", "--set", "model.width=2").code == 3  # two units learn nothing
    run = tmp_path / "runs/small"
    lines = (run / "ledger.jsonl").read_text().splitlines(keepends=True)
    whole = numbers(run)
    (run / "ledger.jsonl").write_text("".join(lines[:2]))
    again = here("run", sweep, *QUIET, "--set", "seeds=5", "--set", "model.width=2")
    assert again.code == 3
    assert "3 trials ended" in again.err
    assert numbers(run) == whole


def test_all_trials_diverging_is_exit_code_3_and_no_number(here: Here, write_sweep: Write, hunt: dict[str, Any]) -> None:
    """Scenario 21: threshold not found (all diverged), its own exit code, no number."""
    hunt["trials"] = hunt["trials"][1:]
    hunt["trials"][0]["base"]["optimizer"] = {"kind": "gd", "lr": 1e6}
    ended = here("run", write_sweep(hunt), *QUIET)
    assert ended.code == 3, ended
    assert "not found: all diverged" in ended.out
    assert "none" in ended.out


@pytest.mark.slow
def test_one_diverging_rate_is_told_and_does_not_move_the_threshold(
    here: Here, tmp_path: Path, write_sweep: Write, hunt: dict[str, Any]
) -> None:
    """Scenario 20: a learning rate of 1e6: the trial is diverged, the sweep goes on, the threshold ignores it and says so."""
    hunt["trials"] = hunt["trials"][1:]
    hunt["trials"][0]["base"]["optimizer"] = {"kind": "gd", "lr": 0.1}
    alone = here("run", write_sweep(hunt), *QUIET, "--out", "alone")
    hunt["trials"][0]["grid"] = {"optimizer.lr": [0.1, 1e6]}
    ended = here("run", write_sweep(hunt), *QUIET)
    assert alone.code == ended.code == 3, ended  # at this rate nothing is learned
    records = Ledger(tmp_path / "runs/hunt/ledger.jsonl").read()
    assert {r.status for r in records if r.config["optimizer"]["lr"] == 1e6} == {"diverged"}
    rows = [json.loads(here("show", tmp_path / run, "--json").out)["thresholds"][0] for run in ("alone", "runs/hunt")]
    assert (rows[0]["status"], rows[0]["m_star"]) == (rows[1]["status"], rows[1]["m_star"])
    assert f"{len(records) // 2} of {len(records)} trials diverged" in rows[1]["note"]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("fcn:search.low=0", "a width is a whole number of units from 1 to 16777216; got low=0"),
        ("transformer:search.low=2", "low must exceed d"),
        ("search.high=1", "high must exceed low"),
        ("search.sampler=bayes", "must be 'threshold', 'tpe', 'gp', 'random' or 'grid'; got 'bayes'"),
        ("search.batch=100", "cap must be at least batch"),
        ("fcn:model.width=8", "the width is searched; got model.width=8 as well: leave width out"),
        ("fcn:seeds=3", "a search takes a fresh seed for every point"),
        pytest.param("search.storage=sqlite:////no/such/x.db", "cannot be used", marks=pytest.mark.slow),
    ],
)
def test_a_search_that_cannot_be_meant_is_refused_in_words(
    here: Here, write_sweep: Write, hunt: dict[str, Any], setting: str, words: str
) -> None:
    """Scenario 24: 0 is refused with a message."""
    ended = here("run", write_sweep(hunt), *QUIET, "--set", setting)
    assert ended.code == 2, ended
    assert words in ended.err


@pytest.mark.slow
def test_a_time_budget_that_ends_in_mid_search_is_exit_code_1_and_goes_on(
    here: Here, tmp_path: Path, write_sweep: Write, hunt: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Budgets, "time_spent", property(lambda self: self._queue.done > 0))
    first = here("run", write_sweep(hunt), "--set", "budget.minutes=5", *QUIET)
    assert first.code == 1, first
    assert "searches done" in first.err
    assert "RUNNING" not in states(tmp_path / "runs/hunt")
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert here("run", write_sweep(hunt), "--set", "budget.minutes=50", *QUIET).code == 0


@pytest.mark.slow
def test_points_of_a_former_seed_are_completed(here: Here, tmp_path: Path, write_sweep: Write, hunt: dict[str, Any]) -> None:
    hunt |= {"trials": hunt["trials"][1:], "search": {"batch": 4, "cap": 4}}
    hunt["trials"][0]["base"]["training"]["steps"] = 10
    run = tmp_path / "runs/hunt"
    assert here("run", write_sweep(hunt), *QUIET).code in (0, 3)
    former = {record.config["seed"] for record in Ledger(run / "ledger.jsonl").read()}
    (run / "study.journal").unlink()
    assert here("run", run, "--set", "optimizer.lr=0.01,0.02", "--set", "search.seed=1", *QUIET).code in (0, 3)
    points = Counter(record.config["seed"] for record in Ledger(run / "ledger.jsonl").read())
    assert points == dict.fromkeys(former, 2)


@pytest.mark.slow
def test_a_recheck_says_whether_steps_or_width_was_the_limit(
    here: Here, tmp_path: Path, write_sweep: Write, hunt: dict[str, Any]
) -> None:
    sweep, run = write_sweep(hunt), tmp_path / "runs/hunt"
    assert here("run", sweep, *QUIET, "--recheck").code == 0
    rows = json.loads(here("show", run, "--json").out)["thresholds"]
    checked = [row for row in rows if row["limit"] is not None]
    assert checked
    assert all(f"{row['limit']} {'were' if row['limit'] == 'steps' else 'was'} the limit" in row["note"] for row in checked)
    before = (run / "ledger.jsonl").read_bytes()
    again = here("run", sweep, *QUIET, "--recheck")
    assert again.code == 0
    assert "nothing to train" in again.err
    assert (run / "ledger.jsonl").read_bytes() == before
    assert "does not declare" not in again.err


@pytest.mark.slow
def test_a_plan_of_searches_says_what_is_expected_and_the_most(here: Here, write_sweep: Write, hunt: dict[str, Any]) -> None:
    sweep = write_sweep(hunt)
    printed = here("plan", sweep).out
    assert "2 cells to search: about 16 points more, at most 24" in printed
    assert "3 to 24" in printed
    here("run", sweep, *QUIET)
    assert "about 0 points more, at most 0" in here("plan", sweep).out


@pytest.mark.ray
def test_a_killed_worker_and_a_killed_driver_leave_no_trial_running(
    stsq: Any, here: Here, write_sweep: Write, hunt: dict[str, Any], until: Any, numbers: Numbers
) -> None:
    """Scenario 22: SIGKILL a worker: no Optuna trial stays RUNNING after the restart; and scenario 7, the driver."""
    sweep, run = write_sweep(slow(hunt, 3_000)), stsq.folder / "runs/hunt"
    assert here("run", sweep, *QUIET, "--out", "undisturbed").code == 0
    options = ("--wandb", "disabled", "--workers", 2)
    process = stsq.start("run", sweep, *options, "--checkpoint-every", 0.2)
    state = until(lambda: next(run.glob("checkpoints/*.state"), None), timeout_s=300, what="a checkpoint")
    worker = _training(run, state.stem)
    if worker is not None:
        os.kill(worker, signal.SIGKILL)
    until(lambda: len(_lines(run)) >= 2, timeout_s=300, what="some results")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    again = stsq.run("run", sweep, *options, timeout_s=600)
    assert again.code == 0, again
    assert numbers(run) == numbers(stsq.folder / "undisturbed")
    assert states(run) == {"COMPLETE": len(numbers(run))}


def _training(run: Path, pack_id: str) -> int | None:
    claim = run / "checkpoints" / f"{pack_id}.claim"
    printed = re.match(r"process (\d+)", claim.read_text() if claim.exists() else "")
    return int(printed.group(1)) if printed else None


def _lines(run: Path) -> list[str]:
    ledger = run / "ledger.jsonl"
    return ledger.read_text().splitlines() if ledger.exists() else []


def test_a_metric_is_searched_and_another_judges_the_run_without_training(
    here: Here, write_sweep: Write, hunt: dict[str, Any], tmp_path: Path
) -> None:
    codes = hunt["trials"][0]
    codes["base"] |= {
        "evaluation": {"T_test": [12], "describe": True},
        "training": {"objective": "population", "batch_size": 16, "steps": 100},
    }
    hunt |= {"trials": [codes], "criterion": {"metric": "loss@2T", "target_loss": 0.7}}
    path, run = write_sweep(hunt), tmp_path / "runs/hunt"
    first = here("run", path, *QUIET)
    assert first.code == 0, first
    assert "A trial is solved where its relative loss at 2T is at most 0.7." in first.out
    ledger = (run / "ledger.jsonl").read_bytes()
    (row,) = json.loads(here("show", run, "--json").out)["thresholds"]
    solved = {record.trial_config.width: record.metrics["loss@T=12"] <= 0.7 for record in Ledger(run / "ledger.jsonl").read()}
    assert row["metric"] == "loss@2T"
    assert row["status"] == "found"
    assert min(width for width, is_solved in solved.items() if is_solved) <= row["high"]
    again = here("run", run, *QUIET, "--set", "criterion.metric=loss", "--set", "search.cap=4")
    assert again.code in (0, 3), again
    assert (run / "ledger.jsonl").read_bytes() == ledger
    (other,) = json.loads(here("show", run, "--json").out)["thresholds"]
    assert other["metric"] == "loss"
    assert other["m_star"] is None or other["m_star"] < row["m_star"]
