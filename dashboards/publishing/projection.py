"""W&B runs as plain values: name, group, config, rows and summary, and those of a trial.

The run's id is made from the run directory's id and `trial_id`, so that a later publication continues the same run. Its config
is that of the trial, in the papers' letters (see `keys`).
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np

from dashboards.publishing.keys import run_config
from stsq_core.configs import SAMPLES, WIDTH, Size, TrialConfig
from sweeps.schema import Criterion
from sweeps.store import MEASURED, Curve, LedgerRecord, is_solved

NO_CURVE: Curve = (np.zeros(0, dtype=int), np.zeros(0))
NO_METRICS: Mapping[str, Curve] = {}

MAX_GROUP = 128
"""Upper limit of W&B on the characters of a group's name."""


@dataclass(frozen=True)
class Row:
    """One row of a run's history: W&B's step, which only increases, and the values by key (numbers may be nan or inf)."""

    step: int
    values: Mapping[str, Any]


@dataclass(frozen=True)
class Table:
    """A table that is shown with a run."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Outcome:
    """The end of a run in W&B: the summary, an exit code that is 0 where nothing failed, and tables by name.

    `ended_at` is in seconds since 1970.
    """

    summary: Mapping[str, Any]
    exit_code: int
    ended_at: float
    tables: Mapping[str, Table] = field(default_factory=dict)


@dataclass(frozen=True)
class RunProjection:
    """One W&B run: a trial, or in large sweeps a cell; `key` is the id of either. `outcome` is None until the run is complete.

    `axes` has, by pattern of keys (`training_loss/*`), the key of the x axis where that is not W&B's step.
    """

    key: str
    run_id: str
    name: str
    group: str
    job_type: str
    tags: tuple[str, ...]
    config: Mapping[str, Any]
    rows: tuple[Row, ...]
    outcome: Outcome | None
    axes: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def digest(self) -> str:
        """Sixteen hex digits over everything that is sent to W&B: equal digests need no second publication."""
        rows = [(row.step, dict(row.values)) for row in self.rows]
        ended: list[Any] = []
        if self.outcome is not None:
            tables = {name: [table.columns, table.rows] for name, table in self.outcome.tables.items()}
            ended = [dict(self.outcome.summary), self.outcome.exit_code, tables]
        content = [self.run_id, self.name, self.group, self.job_type, self.tags, dict(self.config), rows, ended]
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]


def project_trial(
    config: TrialConfig,
    rows: Sequence[Row],
    outcome: Outcome | None = None,
    *,
    directory_id: str,
    cell: str,
    cell_id: str,
    tags: tuple[str, ...] = (),
    size: Size = WIDTH,
) -> RunProjection:
    """The W&B run of a trial in the group of its cell; one that diverged or failed also has that as a tag."""
    status = "finished" if outcome is None else outcome.summary["status"]
    trial_id = config.trial_id
    sizes = f"m={config.width}" + ("" if size in (WIDTH, SAMPLES) else f" {size.letter}={size.of(config)}")
    return RunProjection(
        key=trial_id,
        run_id=f"{directory_id}-{trial_id}",
        name=f"{config.model.kind} T={config.task.T} {sizes} lr={config.optimizer.lr:g} seed={config.seed}",
        group=short(cell),
        job_type=config.model.kind,
        tags=tags if status == "finished" else (*tags, status),
        config=run_config(config, cell=cell, cell_id=cell_id, directory_id=directory_id, size=size),
        rows=tuple(rows),
        outcome=outcome,
    )


def rows_of(curve: Curve, metrics: Mapping[str, Curve] = NO_METRICS) -> Iterator[Row]:
    """The rows of a trial: the relative loss of the training batch at each step, and the metrics of an evaluation there."""
    at: dict[int, dict[str, float]] = {}
    for name, (steps, values) in metrics.items():
        for step, value in zip(steps.tolist(), values.tolist(), strict=True):
            at.setdefault(step, {})[name] = value
    for step, loss in zip(*curve, strict=True):
        yield trial_row(int(step), float(loss), at.get(int(step), {}))


def trial_row(step: int, relative_loss: float, metrics: Mapping[str, float]) -> Row:
    """One logged step of a trial."""
    return Row(step, {"step": step, "relative_loss": relative_loss} | dict(metrics))


def trial_outcome(record: LedgerRecord, *, criterion: Criterion, counts: bool | None) -> Outcome:
    """The end of a trial: its final evaluation, whether it is `solved`, and whether it `counts_for_threshold`.

    `solved` is None for a trial that says nothing of its width, as a failed one; of several targets it is that of the least,
    and each has its own, `solved@0.3`; `counts` is None while that is not known.
    """
    summary = {
        "status": record.status,
        **{name: getattr(record, name) for name in MEASURED},
        "solved": is_solved(record, criterion),
        **{f"solved@{one.target:g}": is_solved(record, one) for one in criterion.each if one is not criterion},
        "reason": record.reason,
        **({} if counts is None else {"counts_for_threshold": counts}),
        **(record.metrics or {}),
    }
    ended_at = datetime.fromisoformat(record.finished_at).timestamp()
    return Outcome(summary, exit_code=1 if record.status == "failed" else 0, ended_at=ended_at)


def short(label: str) -> str:
    """A label within W&B's limit; a shortened one ends in a hash, so that cells stay apart."""
    if len(label) <= MAX_GROUP:
        return label
    return f"{label[: MAX_GROUP - 9]}~{hashlib.sha256(label.encode()).hexdigest()[:8]}"
