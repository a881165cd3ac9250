"""A large sweep has one run a cell: its history is written once whatever happens, and its numbers are those of the ledger."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wandb_files import read_run

from dashboards.publishing.cell_log import CellLog, cell_rows
from dashboards.publishing.publisher import publish, sync
from sweeps.cells.trials import cell_of
from sweeps.store.ledger import Ledger
from sweeps.store.run_directory import RunDirectory
from sweeps.thresholds.thresholds import width_thresholds

MakeRun = Callable[..., RunDirectory]
CELLS = {"max_trial_runs": 10, "tags": ["synthetic"]}


@pytest.fixture
def large(small: dict[str, Any]) -> dict[str, Any]:
    """72 trials in two cells: three widths, two rates, six seeds."""
    return small | {"grid": {"model.width": [4, 8, 16], "task.T": [4, 8], "optimizer.lr": [0.01, 0.03]}, "seeds": 6}


def assert_tells(run: RunDirectory, held: dict[str, Any]) -> None:
    """`held`: history and summary of each cell's run, by cell."""
    thresholds = {threshold.cell_id: threshold for threshold in width_thresholds(Ledger(run.ledger).read(), _criterion(run))}
    assert held.keys() == thresholds.keys()
    for cell_id, (rows, summary) in held.items():
        threshold = thresholds[cell_id]
        log = list(cell_rows(run.wandb / "cells" / f"{cell_id}.jsonl"))
        assert [{name: value for name, value in row.items() if not name.startswith("_")} for row in rows] == log
        assert [row["_step"] for row in rows] == list(range(len(log)))
        assert log[-1]["num_ended"] == summary["num_ended"] == threshold.num_trials == 36
        for name in ("status", "M", "m_star", "low", "high", "level"):
            assert summary.get(name) == getattr(threshold, name), name
        points = threshold.points.take(threshold.points.chosen)
        for width in threshold.widths:
            losses = points.outcomes.relative_loss[points.widths == width]
            last = next(row for row in reversed(log) if f"relative_loss/m={width}" in row)
            np.testing.assert_allclose(last[f"relative_loss/m={width}"], np.exp(np.median(np.log(losses))), rtol=1e-12)
            assert last[f"success_rate/m={width}"] == np.mean(losses <= threshold.target_loss)
            curve = [row["step"] for row in log if f"training_loss/m={width}" in row]
            assert len(curve) == 12
            assert curve == sorted(curve)


def _criterion(run: RunDirectory) -> Any:
    return run.read_spec().criterion


def online(server: Any) -> dict[str, Any]:
    return {one.config["cell_id"]: (one.rows, one.summary) for one in server.runs.values()}


@pytest.mark.slow
def test_offline_one_file_a_cell_reads_back_as_its_log_and_its_threshold(make_run: MakeRun, large: dict[str, Any]) -> None:
    run = make_run(trials=[large], wandb=CELLS)
    report = publish(run.path)
    assert (report.mode, report.num_published, report.num_missing) == ("offline", 2, 0)
    read = [read_run(path) for path in sorted(run.wandb.glob("offline-run-*/*.wandb"))]
    assert_tells(run, {one.config["cell_id"]: (one.history, one.summary) for one in read})
    for one in read:
        assert (one.job_type, one.exit_code, one.tags) == ("fcn", 0, ("synthetic", "cell"))
        assert "lr" not in one.config["optimizer"]
        assert one.config["rates"] == [0.01, 0.03]
    assert publish(run.path).num_up_to_date == 2


@pytest.mark.slow
def test_each_of_several_targets_has_its_numbers_and_a_cell_that_was_interrupted_has_no_status_of_any(
    make_run: MakeRun, large: dict[str, Any]
) -> None:
    run = make_run(trials=[large], wandb=CELLS, criterion={"target_loss": [0.5, 0.1]}, keep=lambda place: place != 0)
    publish(run.path)
    thresholds: dict[str, list[Any]] = {}
    for threshold in width_thresholds(Ledger(run.ledger).read(), _criterion(run)):
        thresholds.setdefault(threshold.cell_id, []).append(threshold)
    read = {one.config["cell_id"]: one for one in map(read_run, sorted(run.wandb.glob("offline-run-*/*.wandb")))}
    assert read.keys() == thresholds.keys()
    assert sorted(one.exit_code for one in read.values()) == [0, 130]
    for cell_id, one in read.items():
        for threshold in thresholds[cell_id]:
            status = "interrupted" if one.exit_code else threshold.status
            assert one.summary[f"status@{threshold.target_loss:g}"] == status
            for name in ("M", "m_star", "low", "high"):
                assert one.summary.get(f"{name}@{threshold.target_loss:g}") == getattr(threshold, name)
        assert one.summary["target_loss"] == 0.1
        assert [one.summary.get(name) for name in ("status", "m_star")] == [
            one.summary.get(f"{name}@0.1") for name in ("status", "m_star")
        ]


def test_the_table_holds_every_trial_of_the_cell(make_run: MakeRun, large: dict[str, Any]) -> None:
    run = make_run(trials=[large], wandb=CELLS)
    publish(run.path)
    tables = sorted(run.wandb.glob("offline-run-*/files/media/table/*.table.json"))
    read = [json.loads(path.read_text()) for path in tables]
    rows = [dict(zip(table["columns"], row, strict=True)) for table in read for row in table["data"]]
    records = {record.trial_id: record for record in Ledger(run.ledger).read()}
    assert {row["trial_id"] for row in rows} == records.keys()
    for row in rows:
        record = records[row["trial_id"]]
        assert (row["m"], row["lr"]) == (record.trial_config.width, record.config["optimizer"]["lr"])
        assert (row["status"], row["relative_loss"]) == (record.status, record.relative_loss)


@pytest.mark.slow
def test_online_rows_are_sent_once_while_the_sweep_goes_on_and_again_adds_none(
    make_run: MakeRun, large: dict[str, Any], server: Any
) -> None:
    whole = make_run("whole", trials=[large], wandb=CELLS)
    run = make_run(trials=[large], wandb=CELLS)
    lines = whole.ledger.read_text().splitlines(keepends=True)
    run.ledger.write_text("".join(lines[:20]))
    assert publish(run.path).mode == "online"
    assert {one.exit_code for one in server.runs.values()} == {130}
    run.ledger.write_text("".join(lines[:50]))
    publish(run.path)
    run.ledger.write_text("".join(lines))
    report = publish(run.path)
    assert (report.mode, report.num_published) == ("online", 2)
    assert_tells(run, online(server))
    assert all(one.num_received == len(one.rows) for one in server.runs.values())
    assert {one.exit_code for one in server.runs.values()} == {0}
    for one in server.runs.values():
        table = one.summary["trials"]
        (stored,) = (data for path, data in server.files.items() if path.endswith(table["path"]))
        assert len(json.loads(stored)["data"]) == table["nrows"] == 36
    assert sync(run.path).num_up_to_date == 2
    assert all(one.num_received == len(one.rows) for one in server.runs.values())


@pytest.mark.slow
def test_a_killed_publisher_tells_the_same_rows_once_after_the_next(
    make_run: MakeRun, large: dict[str, Any], server: Any
) -> None:
    run = make_run(trials=[large], wandb=CELLS)
    server.fail_in_mid_run("hang", after=1)
    process = subprocess.Popen([sys.executable, "-m", "dashboards.publishing", str(run.path)], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while server.failure != "hang":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    server.heal()
    assert publish(run.path).mode == "online"
    assert_tells(run, online(server))


def test_a_group_of_rows_that_was_cut_off_is_dropped_and_written_again(tmp_path: Path) -> None:
    path = tmp_path / "cell.jsonl"
    log = CellLog(path)
    log.append([{"num_lines": 1, "num_ended": 1, "relative_loss/m=4": 0.5}])
    whole = path.read_bytes()
    group = [{"num_lines": 2, "step": 10, "training_loss/m=4": 0.25}, {"num_lines": 2, "num_ended": 2}]
    log.append(group)
    for size in range(len(whole), os.path.getsize(path)):
        torn = tmp_path / f"{size}.jsonl"
        torn.write_bytes(path.read_bytes()[:size])
        again = CellLog(torn)
        assert [row.values["num_lines"] for row in again.rows] == [1]
        again.append(group)
        assert torn.read_bytes() == path.read_bytes()


def test_at_the_limit_every_trial_has_a_run_of_its_own_and_above_it_none(make_run: MakeRun, small: dict[str, Any]) -> None:
    at, above = (make_run(f"limit-{n}", trials=[small], wandb={"max_trial_runs": n}) for n in (4, 3))
    assert publish(at.path).num_published == 4
    assert publish(above.path).num_published == 2
    cells = {cell_of(record.trial_config) for record in Ledger(above.ledger).read()}
    assert {read_run(path).config["cell_id"] for path in above.wandb.glob("offline-run-*/*.wandb")} == cells
