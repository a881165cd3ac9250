"""A trial's summary says whether it is solved and whether it counts for its cell's threshold, as the thresholds do."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from wandb_files import OfflineRun, read_run

from dashboards.publishing.publisher import publish
from sweeps.store.ledger import Ledger
from sweeps.store.run_directory import RunDirectory
from sweeps.thresholds.thresholds import width_thresholds

pytestmark = pytest.mark.slow
MakeRun = Callable[..., RunDirectory]


def runs_of(run: RunDirectory) -> dict[str, OfflineRun]:
    read = [read_run(path) for path in run.wandb.glob("offline-run-*/*.wandb")]
    return {one.config["trial_id"]: one for one in read}


def test_solved_is_the_criterions_word_and_open_for_a_failed_trial(
    make_run: MakeRun, small: dict[str, Any], synthetic: Any, diverged: Any
) -> None:
    def outcome(config: Any) -> Any:
        if config.task.T == 8:
            return diverged(config) if config.width == 4 else "worker lost"
        return synthetic(config)

    run = make_run(trials=[small | {"seeds": 3}], outcome=outcome, criterion={"target_loss": 0.6})
    publish(run.path)
    shown = runs_of(run)
    said = set()
    for record in Ledger(run.ledger).read():
        solved = shown[record.trial_id].summary["solved"]
        wanted = {"failed": None, "diverged": False}.get(record.status, (record.relative_loss or 0) <= 0.6)
        assert solved == wanted
        assert shown[record.trial_id].summary["counts_for_threshold"] == (record.status != "failed")
        said.add(solved)
    assert said == {True, False, None}


def test_with_several_rates_membership_comes_with_the_cells_last_trial_and_adds_no_row(
    make_run: MakeRun, small: dict[str, Any], server: Any, fill: Callable[..., None]
) -> None:
    group = small | {"grid": {"model.width": [4, 8], "optimizer.lr": [0.01, 0.03, 0.1]}, "seeds": 3}
    whole = make_run("whole", trials=[group])
    run = make_run(trials=[group])
    lines = whole.ledger.read_text().splitlines(keepends=True)
    run.ledger.write_text("".join(lines[:-1]))
    assert publish(run.path).num_published == len(lines) - 1
    assert not any("counts_for_threshold" in one.summary for one in server.runs.values())
    rows = [one.num_received for one in server.runs.values()]
    run.ledger.write_text("".join(lines))
    assert publish(run.path).num_published == len(lines)
    (threshold,) = width_thresholds(Ledger(run.ledger).read(), run.read_spec().criterion)
    chosen = {point.trial_id: point.chosen for point in threshold.points}
    assert {one.config["trial_id"]: one.summary["counts_for_threshold"] for one in server.runs.values()} == chosen
    assert sum(chosen.values()) == 6
    assert [one.num_received for one in server.runs.values()][: len(rows)] == rows


@pytest.fixture
def by_metric(make_run: MakeRun, small: dict[str, Any], synthetic: Any) -> Callable[..., RunDirectory]:
    """A run judged by the loss at q = 1, four times the loss."""

    def outcome(config: Any) -> Any:
        result = synthetic(config)
        return replace(result, metrics={"loss": result.relative_loss, "loss@q=1": 4 * result.relative_loss})

    base = small["base"] | {"evaluation": {"q_test": [1]}}
    criterion = {"metric": "loss@q=1", "target_loss": 0.6}
    return lambda **fields: make_run(
        trials=[small | {"base": base, "seeds": 3}], outcome=outcome, criterion=criterion, **fields
    )


def test_solved_is_by_the_metric_of_the_criterion(by_metric: Callable[..., RunDirectory]) -> None:
    run = by_metric()
    publish(run.path)
    shown, unlike = runs_of(run), 0
    for record in Ledger(run.ledger).read():
        loss = record.relative_loss or 0
        assert shown[record.trial_id].summary["solved"] == (4 * loss <= 0.6)
        assert shown[record.trial_id].summary["relative_loss"] == loss
        unlike += loss <= 0.6 < 4 * loss
    assert unlike > 0


def test_a_run_of_a_cell_counts_by_the_metric_and_its_table_names_it(by_metric: Callable[..., RunDirectory]) -> None:
    run = by_metric(wandb={"max_trial_runs": 1})
    publish(run.path)
    records = {record.trial_id: record for record in Ledger(run.ledger).read()}
    for one in (read_run(path) for path in run.wandb.glob("offline-run-*/*.wandb")):
        assert one.summary["metric"] == "loss@q=1"
        T = one.config["task"]["T"]
        losses = {
            m: [r.relative_loss for r in records.values() if (r.config["task"]["T"], r.trial_config.width) == (T, m)]
            for m in (4, 8)
        }
        last = [row for row in one.history if "num_ended" in row][-1]
        for m, own in losses.items():
            if f"success_rate/m={m}" in last:
                assert last[f"success_rate/m={m}"] == np.mean([4 * loss <= 0.6 for loss in own])
                np.testing.assert_allclose(last[f"relative_loss/m={m}"], np.exp(np.median(np.log(own))))
        assert one.summary["num_solved"] == sum(4 * loss <= 0.6 for own in losses.values() for loss in own)
    tables = [json.loads(path.read_text()) for path in run.wandb.glob("offline-run-*/files/media/table/*.table.json")]
    assert tables
    for table in tables:
        place = table["columns"].index("relative loss at q = 1")
        assert "relative_loss" not in table["columns"]
        for row in table["data"]:
            assert row[place] == 4 * records[row[0]].relative_loss
