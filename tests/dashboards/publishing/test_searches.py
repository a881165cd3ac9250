"""What is being searched is in W&B while it trains, as the trials of a grid are."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hunted_runs import GROUP, LONG, WIDE, Hunt
from synthetic_runs import NUM_POINTS
from wandb_files import OfflineRun, read_run

from dashboards.publishing.cell_log import cell_rows
from dashboards.publishing.damage import publishing_damage
from dashboards.publishing.form import form_of, kept_form
from dashboards.publishing.publisher import publish
from dashboards.publishing.search_runs import SearchRuns
from dashboards.publishing.trial_runs import TrialRuns
from sweeps.cells import WHOLE, Shard, cell_of
from sweeps.findings import planned_trials, read_findings
from sweeps.schema import WandbSettings
from sweeps.store.journal import read_curves
from sweeps.store.ledger import Ledger
from sweeps.store.rounds import round_lines
from sweeps.store.run_directory import RunDirectory, create_or_open
from sweeps.store.shards import create_shard
from sweeps.thresholds import width_thresholds


@pytest.fixture
def hunt(tmp_path: Path) -> Callable[..., Hunt]:
    return lambda name="run", **changes: Hunt(tmp_path / name, **changes)


def of_trials(server: Any) -> dict[str, Any]:
    return {one.config["trial_id"]: one for one in [*server.runs.values()] if "trial_id" in one.config}


def when(*stages: tuple[Callable[[], bool], Callable[[], None]]) -> Callable[[], bool]:
    """A publisher's `stop` that waits for one thing after another, does something at each, and is true after the last."""
    left, deadline = list(stages), time.monotonic() + 300

    def stop() -> bool:
        assert time.monotonic() < deadline, "waited too long"
        while left and left[0][0]():
            left.pop(0)[1]()
        return not left

    return stop


@pytest.mark.slow
def test_rows_of_a_searched_trial_are_on_the_server_before_it_has_ended(hunt: Any, server: Any) -> None:
    one = hunt()
    packs = one.ask()
    trial_ids = {trial_id for pack in packs for trial_id in pack.trial_ids}
    assert len(trial_ids) == 8
    one.train(packs, 5)
    held: dict[str, list[Any]] = {}

    def has_rows(num: int) -> Callable[[], bool]:
        return lambda: [len(run.rows) for run in of_trials(server).values()] == [num] * len(trial_ids)

    def look() -> None:
        assert not one.run.ledger.exists()
        held.update({trial_id: run.rows.copy() for trial_id, run in of_trials(server).items()})
        one.train(packs, 9)

    stop = when((has_rows(5), look), (has_rows(9), lambda: one.end(packs)))
    report = publish(one.run.path, stop=stop, poll_s=0.2)
    curves = read_curves(one.run)
    assert held.keys() == trial_ids
    for trial_id, run in of_trials(server).items():
        steps, losses = curves[trial_id]
        assert [row["relative_loss"] for row in held[trial_id]] == losses.tolist()[:5]
        assert [(row["step"], row["relative_loss"]) for row in run.rows] == [*zip(steps, losses, strict=True)]
        assert run.num_received == NUM_POINTS
        assert run.exit_code == 0
        assert run.fields["groupName"].startswith(f"fcn T={run.config['task']['T']} ")
    assert report.num_missing == 0


def rows_of(runs: TrialRuns) -> dict[str, list[int]]:
    runs.read_on()
    return {one.key: [row.step for row in one.rows] for one in runs.live()}


def test_a_journal_is_followed_from_its_first_row_when_its_round_becomes_known_later(hunt: Any) -> None:
    """A directory of an older version has no rounds: the session that resumes it writes them, after a first look."""
    one = hunt()
    one.train(packs := one.ask(), 3)
    rounds = one.run.rounds.rename(one.run.path / "kept")
    runs = TrialRuns(one.run, one.sweep, WHOLE, identity="0" * 8, tags=())
    assert rows_of(runs) == {}
    rounds.rename(one.run.rounds)
    shown = rows_of(runs)
    assert shown.keys() == {trial_id for pack in packs for trial_id in pack.trial_ids}
    assert set(map(len, shown.values())) == {3}
    one.end(packs)
    assert rows_of(runs) == {}
    assert runs.ended_keys == shown.keys()


def test_each_shard_of_a_publication_streams_its_own_points_and_a_resumed_search_those_that_go_on(hunt: Any) -> None:
    one = hunt()
    packs = one.ask()
    one.end(packs[:1])
    one.again()
    one.train(going_on := one.ask(), 4)
    shards = [TrialRuns(one.run, one.sweep, Shard(index, 2), identity="0" * 8, tags=()) for index in (0, 1)]
    shown = [rows_of(runs) for runs in shards]
    left = {trial_id for pack in packs[1:] for trial_id in pack.trial_ids}
    assert left
    assert {trial_id for pack in going_on for trial_id in pack.trial_ids} == left
    assert shown[0].keys() | shown[1].keys() == left
    assert not shown[0].keys() & shown[1].keys()


def of_cells(server: Any) -> dict[str, Any]:
    return {one.config["cell_id"]: one for one in [*server.runs.values()] if "trial_id" not in one.config}


def offline(run: RunDirectory) -> dict[str, OfflineRun]:
    """The offline files of the run by the trial or the cell that each shows."""
    read = [read_run(path) for path in sorted(run.wandb.glob("offline-run-*/*.wandb"))]
    return {one.config.get("trial_id", one.config["cell_id"]): one for one in read}


def assert_phases(one: Hunt, held: dict[str, tuple[Any, ...]], *, num_rounds: int) -> None:
    """`held`: the rows of each cell's run. Each row has the threshold of the points that had ended by then."""
    spec, rounds = one.sweep.spec, [*round_lines(one.run.rounds)]
    lines = Ledger(one.run.ledger).read()
    assert held.keys() == {cell.cell_id for cell in one.sweep.searched}
    for cell in one.sweep.searched:
        rows, own, past = held[cell.cell_id], [r for r in rounds if r.cell_id == cell.cell_id], 0
        assert len(rows) == len(own) >= num_rounds
        assert [row["_step"] for row in rows] == [*range(len(rows))]
        for row, asked in zip(rows, own, strict=True):
            past += len(asked.points)
            records = [record for record in lines if cell_of(record.trial_config) == cell.cell_id][:past]
            [known] = width_thresholds(records, spec.criterion, searched=[cell], settings=spec.search)
            assert (row["num_points"], row["num_ended"]) == (past, past)
            assert [row.get(f"search/{name}") for name in ("m_star", "low", "high")] == [known.m_star, known.low, known.high]
        assert "search/m_star" in rows[-1]
        assert rows[-1]["search/high"] / rows[-1]["search/low"] < rows[0].get("search/high", 64) / rows[0].get("search/low", 2)


def test_each_search_has_a_run_whose_rows_are_its_interval_round_by_round(hunt: Any) -> None:
    one = hunt()
    one.go()
    publish(one.run.path)
    shown = offline(one.run)
    cells = {cell.cell_id: cell for cell in one.sweep.searched}
    assert len(shown) == len(Ledger(one.run.ledger).read()) + 2
    assert_phases(one, {cell_id: shown[cell_id].history for cell_id in cells}, num_rounds=2)
    known = {threshold.cell_id: threshold for threshold in read_findings(one.run.path).thresholds}
    for cell_id, cell in cells.items():
        run, threshold = shown[cell_id], known[cell_id]
        assert (run.name, run.group, run.job_type, run.exit_code) == (cell.label, cell.label, "fcn", 0)
        assert run.tags == ("synthetic", "cell", "search")
        assert run.config["searched"] == {"low": 2, "high": 64}
        for name in ("status", "m_star", "low", "high", "M", "level"):
            assert run.summary[name] == getattr(threshold, name)
        assert run.summary["num_ended"] == threshold.num_trials
    assert publish(one.run.path).num_published == 0


@pytest.mark.slow
def test_the_interval_is_on_the_server_as_each_round_ends_and_once_whoever_publishes(hunt: Any, server: Any) -> None:
    one = hunt(**LONG)
    num_rows: list[int] = []

    def has_rows(num: int) -> Callable[[], bool]:
        return lambda: [len(run.rows) for run in of_cells(server).values()] == [num, num]

    def next_round() -> None:
        num_rows.append(sum(len(run.rows) for run in of_cells(server).values()))
        one.go(rounds=1)

    one.go(rounds=1)
    publish(one.run.path, stop=when((has_rows(1), next_round), (has_rows(2), next_round)), poll_s=0.2)
    assert num_rows == [2, 4]
    assert not one.search.finished
    assert {run.exit_code for run in of_cells(server).values()} == {130}
    one.again()
    one.go()
    publish(one.run.path)
    assert_phases(one, {cell_id: run.rows for cell_id, run in of_cells(server).items()}, num_rounds=7)
    assert all(run.num_received == len(run.rows) for run in server.runs.values())
    assert {run.exit_code for run in of_cells(server).values()} == {0}
    assert len(of_trials(server)) == len(Ledger(one.run.ledger).read())


FEW = {"max_trial_runs": 10}
MANY = {"max_trial_runs": 1000}


def keys_of(run: RunDirectory) -> tuple[set[str], set[str]]:
    """The trials and the cells that have a run of their own."""
    shown = offline(run)
    trials = {key for key, one in shown.items() if "trial_id" in one.config}
    return trials, shown.keys() - trials


def test_a_search_whose_plan_has_too_many_trials_has_one_run_a_cell_from_the_start_and_keeps_it(hunt: Any) -> None:
    one = hunt(wandb=FEW)
    cells = {cell.cell_id for cell in one.sweep.searched}
    assert planned_trials(one.sweep) == 2 * 8
    one.go(rounds=1)
    assert len(Ledger(one.run.ledger).read()) == 8  # fewer than the limit
    publish(one.run.path)
    assert keys_of(one.run) == (set(), cells)
    assert {run.exit_code for run in offline(one.run).values()} == {130}
    assert kept_form(one.run.wandb / "form.json") == "cell"
    one.again()
    one.go()
    publish(one.run.path)
    assert keys_of(one.run) == (set(), cells)
    for run in offline(one.run).values():
        assert (run.group, run.exit_code, run.summary["status"]) == ("fcn", 0, "found")
    tables = [json.loads(path.read_text()) for path in one.run.wandb.glob("offline-run-*/files/media/table/*.table.json")]
    shown = {row[0] for table in tables for row in table["data"]}
    assert shown == {record.trial_id for record in Ledger(one.run.ledger).read()}


@pytest.mark.slow
def test_a_search_that_grows_beyond_the_limit_keeps_a_run_a_trial(hunt: Any) -> None:
    one = hunt(wandb={"max_trial_runs": 16}, **LONG)
    assert planned_trials(one.sweep) == 16
    one.go(rounds=1)
    publish(one.run.path)
    one.again()
    one.go()
    trial_ids = {record.trial_id for record in Ledger(one.run.ledger).read()}
    assert len(trial_ids) == 56
    publish(one.run.path)
    assert keys_of(one.run)[0] == trial_ids


@pytest.mark.slow
@pytest.mark.parametrize(("first", "later", "form"), [(FEW, MANY, "cell"), (MANY, FEW, "trial")])
def test_another_limit_and_a_longer_sweep_change_no_form_that_was_published(
    hunt: Any, first: Any, later: Any, form: str
) -> None:
    one = hunt(wandb=first)
    one.go(rounds=1)
    publish(one.run.path)
    more = GROUP | {"zip": {"task.T": [4, 6, 8]}}
    again = hunt(wandb=later, trials=[more])
    again.go()
    publish(again.run.path)
    trials, cells = keys_of(again.run)
    assert len(cells) == 3
    assert trials == ({record.trial_id for record in Ledger(again.run.ledger).read()} if form == "trial" else set())


@pytest.mark.slow
@pytest.mark.parametrize("limit", [FEW, MANY])
def test_shards_of_the_publication_and_of_the_run_have_the_form_of_the_whole(hunt: Any, limit: Any) -> None:
    one = hunt(wandb=limit)
    one.go()
    reports = [publish(one.run.path, shard=Shard(index, 3)) for index in range(3)]
    trials, cells = keys_of(one.run)
    assert cells == {cell.cell_id for cell in one.sweep.searched}
    assert trials == ({record.trial_id for record in Ledger(one.run.ledger).read()} if limit is MANY else set())
    assert sum(report.num_published for report in reports) == len(trials) + len(cells)


def test_a_shard_with_few_trials_of_its_own_decides_as_the_whole_sweep_does(hunt: Any, tmp_path: Path) -> None:
    """Half of the cells have 8 of 16 trials that the plan expects: alone they would be below the limit."""
    one = hunt("other", wandb={"max_trial_runs": 10})
    owners = [next(index for index in (0, 1) if Shard(index, 2).owns(cell.cell_id)) for cell in one.sweep.searched]
    shard = create_shard(tmp_path / "run", one.sweep, Shard(owners[0], 2))
    assert len(shard.read_sweep().searched) == owners.count(owners[0])
    assert form_of(shard) == "cell"
    whole = create_or_open(tmp_path / "run", one.sweep.spec.model_copy(update={"wandb": WandbSettings(max_trial_runs=1000)}))
    assert form_of(whole) == "cell"


@pytest.mark.slow
def test_a_directory_of_an_older_version_keeps_the_form_of_its_runs(hunt: Any) -> None:
    """It has no form: with one run a trial, also of a search that has grown beyond the limit, as it was published."""
    one = hunt(wandb=MANY)
    one.go()
    publish(one.run.path)
    published = one.run.wandb / "published.jsonl"
    cells = {cell.cell_id for cell in one.sweep.searched}
    old = [line for line in published.read_text().splitlines(keepends=True) if not any(cell in line for cell in cells)]
    (one.run.wandb / "form.json").unlink()
    published.write_text("".join(old))
    again = hunt(wandb=FEW)
    report = publish(again.run.path)
    assert (report.num_published, report.num_up_to_date) == (2, len(old))
    assert kept_form(one.run.wandb / "form.json") == "trial"


@pytest.mark.slow
def test_a_damaged_form_is_named_and_made_again_as_it_was(hunt: Any) -> None:
    one = hunt(wandb=FEW)
    one.go()
    publish(one.run.path)
    (one.run.wandb / "form.json").write_text('{"one_run_a": "week"}')
    [named] = publishing_damage(one.run)
    assert "form.json is damaged" in named.what
    again = hunt(wandb=MANY)
    assert publish(again.run.path).num_published == 0
    assert kept_form(one.run.wandb / "form.json") == "cell"
    assert list(publishing_damage(one.run)) == []


def logged(one: Hunt) -> dict[str, list[dict[str, Any]]]:
    """The rows that a publisher which begins now makes of the directory, without an end of the sweep."""
    shutil.rmtree(one.run.wandb, ignore_errors=True)
    search_runs(one).read_on()
    return rows_in(one.run)


def search_runs(one: Hunt) -> SearchRuns:
    return SearchRuns(one.run, one.sweep, WHOLE, identity="0" * 8, tags=(), form="trial")


def rows_in(run: RunDirectory) -> dict[str, list[dict[str, Any]]]:
    return {path.stem: [*cell_rows(path)] for path in sorted(run.wandb.glob("cells/*.jsonl"))}


@pytest.mark.slow
def test_a_publisher_that_follows_a_search_makes_the_rows_of_one_that_comes_later(hunt: Any) -> None:
    """Also where the search is stopped in the middle of a round and goes on with the points that had not ended."""
    one = hunt(**LONG)
    runs = search_runs(one)
    for _ in range(5):
        packs = one.ask()
        for pack in packs[:2]:
            one.end((pack,))
            runs.read_on()
        one.again()
        for pack in one.ask():
            runs.read_on()
            one.end((pack,))
            runs.read_on()
    followed = rows_in(one.run)
    for rows in followed.values():
        assert [row["num_points"] for row in rows] == [4 * place for place in range(1, len(rows) + 1)]
        assert len(rows) >= 5
    assert logged(one) == followed


@pytest.mark.slow
def test_a_search_of_several_rates_and_targets_has_a_row_a_round_with_each_target(hunt: Any) -> None:
    group = GROUP | {"grid": {"optimizer.lr": [0.01, 0.03]}}
    one = hunt(trials=[group], criterion={"target_loss": [0.3, 0.5]})
    one.go()
    for cell_id, rows in logged(one).items():
        known = [threshold for threshold in read_findings(one.run.path).thresholds if threshold.cell_id == cell_id]
        assert len(known) == 2
        assert [row["num_points"] for row in rows] == [4 * place for place in range(1, len(rows) + 1)]
        assert rows[-1]["num_ended"] == 2 * rows[-1]["num_points"] == known[0].num_trials
        for threshold in known:
            suffix = f"@{threshold.target_loss:g}"
            shown = [rows[-1][f"search/{name}{suffix}"] for name in ("m_star", "low", "high")]
            assert shown == [threshold.m_star, threshold.low, threshold.high]


@pytest.mark.slow
def test_without_rounds_every_batch_of_points_is_one(hunt: Any) -> None:
    one = hunt(**LONG)
    one.go()
    one.run.rounds.unlink()
    for rows in logged(one).values():
        assert [row["num_points"] for row in rows] == [4, 8, 12, 16, 20, 24, 28]


def test_an_interval_without_an_end_has_no_key_for_it(hunt: Any) -> None:
    one = hunt(trials=[WIDE | {"search": {"low": 2, "high": 16}}])
    one.go(rounds=1)
    for rows in logged(one).values():
        [row] = rows
        assert "search/m_star" not in row
        assert "search/high" not in row
        assert row["num_points"] == 4
