"""Writes each trial that has ended as the offline file that W&B's own client would write, without running that client.

The client takes some 70 ms of CPU a run, this module one or two. The records are the wandb package's own protobuf classes, so
their schema is that of the installed package; `log` frames them.

Source: `wandb/proto/wandb_internal.proto`, and files of wandb 0.31: `test_files.py` compares the two.
"""

import json
import math
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wandb.proto import wandb_internal_pb2

from dashboards.publishing.log import pack
from dashboards.publishing.projection import Outcome, RunProjection
from sweeps.store import disk_errors, write_atomically

MIN_CONSUMER = "0.70.0"
"""The oldest reader that can take the file; wandb 0.31 says the same of its own."""

Record: Any = wandb_internal_pb2.Record  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Target:
    """Where runs go: the local files to `directory/wandb`, the runs to a project of an entity (None: the account's default)."""

    directory: Path
    project: str
    entity: str | None = None

    @property
    def files(self) -> Path:
        """The folder of the local files."""
        return self.directory / "wandb"


def write_offline(projections: Sequence[RunProjection], target: Target) -> dict[str, Path]:
    """Write trials that have ended, each as one complete offline file that replaces every local file of that trial.

    A file is there as a whole or not at all, whenever the process or the machine stops.

    Returns:
        The files by key.

    Raises:
        UserError: the disk is full or may not be written.
    """
    delete_local(target, [projection.run_id for projection in projections])
    return {projection.key: _write(projection, target) for projection in projections}


def local_files(target: Target, run_id: str) -> tuple[Path, ...]:
    """Every local `.wandb` file of a run."""
    return tuple(sorted(target.files.glob(f"*run-*-{run_id}/run-{run_id}.wandb")))


def delete_local(target: Target, run_ids: Iterable[str]) -> None:
    """Delete every local file of some runs: the journal holds all of it, and two fragments would be uploaded twice."""
    endings = frozenset(run_ids)
    if not target.files.is_dir():
        return
    with os.scandir(target.files) as entries:  # named offline-run-<date>_<time>-<run_id>, or run-... where they were online
        found = [entry.path for entry in entries if entry.name.rpartition("run-")[2].partition("-")[2] in endings]
    for path in found:
        shutil.rmtree(path, ignore_errors=True)


def _write(projection: RunProjection, target: Target) -> Path:
    outcome = projection.outcome
    if outcome is None:
        raise ValueError(f"run {projection.key} has not ended: only ended trials are written offline")
    began = datetime.fromtimestamp(_began(outcome), UTC)
    folder = target.files / f"offline-run-{began:%Y%m%d_%H%M%S}-{projection.run_id}"
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"run-{projection.run_id}.wandb"
    write_atomically(path, pack(_numbered(_records(projection, outcome, target))))
    return path


def _numbered(records: Iterable[Any]) -> Iterator[bytes]:
    for number, record in enumerate(records, start=1):
        record.num = number
        yield record.SerializeToString()


def _records(projection: RunProjection, outcome: Outcome, target: Target) -> Iterator[Any]:
    """The records of a run in the order in which the client writes them."""
    yield Record(header={"version_info": {"producer": "stsq", "min_consumer": MIN_CONSUMER}})
    yield Record(run=_run(projection, _began(outcome), target))
    last: dict[str, Any] = {}  # the newest value of every key: not every row has the metrics of an evaluation
    for row in _history(projection, outcome):
        yield Record(history={"item": _items(row), "step": {"num": row["_step"]}})
        last |= row
    seconds = _seconds(outcome)
    runtime = {"nested_key": ["_wandb", "runtime"], "value_json": str(round(seconds))}
    yield Record(summary={"update": [*_items(last | {"_runtime": seconds} | dict(outcome.summary)), runtime]})
    yield Record(exit={"exit_code": outcome.exit_code, "runtime": round(seconds)})


def _run(projection: RunProjection, began: float, target: Target) -> dict[str, Any]:
    whole, fraction = divmod(began, 1)
    return {
        "run_id": projection.run_id,
        "entity": target.entity or "",
        "project": target.project,
        "config": {"update": _items(projection.config)},
        "run_group": projection.group,
        "job_type": projection.job_type,
        "display_name": projection.name,
        "tags": projection.tags,
        "start_time": {"seconds": int(whole), "nanos": int(fraction * 1e9)},
    }


def _history(projection: RunProjection, outcome: Outcome) -> Iterator[dict[str, Any]]:
    """The rows as the client would log them, at times spread evenly over the trial's steps: journals hold none."""
    began, seconds = _began(outcome), _seconds(outcome)
    for row in projection.rows:
        runtime = seconds * row.step / max(1, projection.rows[-1].step)
        clock = {"_step": row.step, "_runtime": runtime, "_timestamp": began + runtime}
        yield dict(row.values) | clock


def _items(values: Mapping[str, Any]) -> list[dict[str, str]]:
    """Keys with their values in JSON; what is not finite is NaN, Infinity or -Infinity, as the client spells it."""
    return [{"key": name, "value_json": _spelled(value)} for name, value in values.items()]


def _spelled(value: Any) -> str:
    """A value in JSON; most are finite numbers, which need none of its care."""
    return repr(value) if type(value) is float and math.isfinite(value) else json.dumps(value)


def _seconds(outcome: Outcome) -> float:
    return float(outcome.summary["seconds"])


def _began(outcome: Outcome) -> float:
    return outcome.ended_at - _seconds(outcome)
