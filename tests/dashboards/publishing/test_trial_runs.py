"""A trial's summary says whether it is solved and whether it counts for its cell's threshold, as the thresholds do."""

from collections.abc import Callable
from typing import Any

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
