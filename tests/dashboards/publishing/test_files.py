"""Our offline files are those of W&B's client: the same records, and W&B's own command reads the same numbers in them.

A release of wandb that changes its format fails here.
"""

import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from wandb_files import read_run, unpack

from dashboards.publishing.client import write_client_files
from dashboards.publishing.files import Target, delete_local, local_files, write_quick_files
from dashboards.publishing.projection import Outcome, RunProjection, trial_row
from dashboards.publishing.wandb_border import record_class

CLOCK = ("_runtime", "_timestamp", "_wandb.runtime")
"""What tells when a row was logged, which no two writings share."""

DOUBLES = np.random.default_rng(0).integers(0, 2**63, 3000, dtype=np.uint64).view(np.float64).tolist()


@pytest.fixture
def projection() -> RunProjection:
    """A trial whose numbers are hard to spell and whose records do not fit in a block."""
    losses = [0.1, 1 / 3, 3.0, 1e22, 1e16, 5e-324, *DOUBLES, math.inf, math.nan]
    outcome = Outcome(
        {"status": "failed", "relative_loss": None, "relative_loss_stderr": 1e-9, "steps": 9, "seconds": 0.31,
         "reason": "worker lost: <killed> \N{SKULL}" * 3000},
        exit_code=1,
        ended_at=1.8e9,
    )  # fmt: skip
    return RunProjection(
        key="0123456789abcdef",
        run_id="89abcdef-0123456789abcdef",
        name='fcn T=4 "q"',
        group="fcn T=4 q=2 d=2 é",
        job_type="fcn",
        tags=("synthetic", "failed"),
        config={"task.T": 4, "optimizer.lr": 0.1, "training.decay": 1e-7, "model.tail": None, "widths": [1, 2], "on": True},
        rows=tuple(
            trial_row(
                1 + 3 * place, loss, {} if place % 100 else {"loss": loss / 3, "loss@T=250": 0.1 + place, "cosine": math.nan}
            )
            for place, loss in enumerate(losses)
        ),
        outcome=outcome,
    )


def untimed(values: dict[str, Any]) -> dict[str, Any]:
    """Values without the clock's, of which the keys must be there all the same; numbers as their bits."""
    return {key: None if key in CLOCK else bits(value) for key, value in values.items()}


def bits(value: Any) -> Any:
    """A number as the bits of a double: the client writes 3.0 as 3."""
    return float(value).hex() if isinstance(value, int | float) else value


def test_the_records_are_those_of_wandbs_client(projection: RunProjection, tmp_path: Path) -> None:
    (ours,) = write_quick_files([projection], Target(tmp_path / "ours", "stsq")).values()
    (tmp_path / "theirs").mkdir()
    (theirs,) = write_client_files([projection], Target(tmp_path / "theirs", "stsq")).values()
    our_run, their_run = read_run(ours), read_run(theirs)
    assert list(map(untimed, our_run.history)) == list(map(untimed, their_run.history))
    assert untimed(our_run.summary) == untimed(their_run.summary)
    rest = {"history": (), "summary": {}}
    assert asdict(our_run) | rest == asdict(their_run) | rest
    assert first_record(ours).header.version_info.min_consumer == first_record(theirs).header.version_info.min_consumer
    assert ours.name == theirs.name
    assert len(ours.parent.name) == len(theirs.parent.name)


def first_record(path: Path) -> Any:
    return record_class().FromString(next(unpack(path.read_bytes())))


@pytest.mark.slow
def test_wandbs_own_command_reads_the_same_numbers(
    projection: RunProjection, tmp_path: Path, wandb_command: Callable[..., str]
) -> None:
    target = Target(tmp_path, "stsq", "lab")
    (path,) = write_quick_files([projection], target).values()
    text = wandb_command("leet", "inspect", "--json", str(path))
    records = [json.loads(line) for line in text.splitlines()]
    assert [record["num"] for record in records] == list(range(1, len(records) + 1))
    assert [record["type"] for record in records] == ["header", "run", *["history"] * len(projection.rows), "summary", "exit"]
    history = [record["history"]["item"] for record in records if record["type"] == "history"]
    assert [row["step"] for row in history] == [row["_step"] for row in history] == [row.step for row in projection.rows]
    losses = [float(row["relative_loss"]).hex() for row in history]
    assert losses == [row.values["relative_loss"].hex() for row in projection.rows]
    run, summary, outcome = records[1]["run"], records[-2]["summary"]["update"], projection.outcome
    assert outcome is not None
    assert run["config"]["update"] == projection.config
    assert (run["run_id"], run["display_name"]) == (projection.run_id, projection.name)
    assert (run["project"], run["entity"]) == ("stsq", "lab")
    assert (run["run_group"], run["job_type"], tuple(run["tags"])) == (projection.group, "fcn", projection.tags)
    assert summary.items() >= outcome.summary.items()
    assert records[-1]["exit"]["exit_code"] == 1


@pytest.mark.parametrize("write", [write_quick_files, write_client_files])
def test_files_are_named_below_the_target_also_where_that_is_relative(
    write: Callable[..., Any], projection: RunProjection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run").mkdir()
    short = RunProjection(**{**vars(projection), "rows": projection.rows[:2]})
    (path,) = write([short], Target(Path("run"), "stsq")).values()
    assert path.is_relative_to(Path("run/wandb"))
    assert len(read_run(path).history) == 2


def test_the_clock_runs_from_the_trials_start_to_its_end(projection: RunProjection, tmp_path: Path) -> None:
    (path,) = write_quick_files([projection], Target(tmp_path, "stsq")).values()
    history = read_run(path).history
    times = [row["_timestamp"] for row in history]
    assert times == sorted(times)
    assert history[-1]["_runtime"] == read_run(path).summary["_runtime"] == 0.31
    assert times[-1] == pytest.approx(1.8e9, abs=1e-5)


def test_a_trial_without_rows_is_written(projection: RunProjection, tmp_path: Path) -> None:
    bare = RunProjection(**{**vars(projection), "rows": ()})
    (path,) = write_quick_files([bare], Target(tmp_path, "stsq")).values()
    assert read_run(path).history == ()
    assert read_run(path).exit_code == 1


def test_writing_again_leaves_one_file(projection: RunProjection, tmp_path: Path) -> None:
    target = Target(tmp_path, "stsq")
    write_quick_files([projection], target)
    later = Outcome({**projection.outcome.summary, "seconds": 5.0}, 0, 1.9e9) if projection.outcome else None
    (path,) = write_quick_files([RunProjection(**{**vars(projection), "outcome": later})], target).values()
    assert local_files(target, projection.run_id) == (path,)
    delete_local(target, ["another"])
    assert path.exists()
    delete_local(target, [projection.run_id])
    assert local_files(target, projection.run_id) == ()


def test_a_trial_that_trains_is_refused(projection: RunProjection, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has not ended"):
        write_quick_files([RunProjection(**{**vars(projection), "outcome": None})], Target(tmp_path, "stsq"))
