"""What one trial looks like in W&B: the run's name, group, config, rows and summary, as plain values.

The run's id is made from the run directory's id and `trial_id`, so that a later publication continues the same run and never
starts a second one. Its config is that of the trial, in the papers' letters (see `keys`).
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np

from dashboards.publishing.keys import run_config
from stsq_core import TrialConfig
from sweeps.journal import Curve
from sweeps.ledger import LedgerRecord

NO_CURVE: Curve = (np.zeros(0, dtype=int), np.zeros(0))
NO_METRICS: Mapping[str, Curve] = {}

MAX_GROUP = 128
"""The most characters that W&B takes for a group's name."""


@dataclass(frozen=True)
class Row:
    """One logged step: the relative loss of the training batch (may be nan or inf), and the metrics of an evaluation."""

    step: int
    relative_loss: float
    metrics: Mapping[str, float] = field(default_factory=dict)

    def told(self) -> dict[str, Any]:
        """The keys and values of the step."""
        return {"step": self.step, "relative_loss": self.relative_loss} | dict(self.metrics)


@dataclass(frozen=True)
class Outcome:
    """How the trial ended, as W&B shows it: the summary, and an exit code that is 1 for a failed trial only.

    `ended_at` is in seconds since 1970.
    """

    summary: Mapping[str, Any]
    exit_code: int
    ended_at: float


@dataclass(frozen=True)
class RunProjection:
    """One trial as one W&B run; `outcome` is None while it trains."""

    trial_id: str
    run_id: str
    name: str
    group: str
    job_type: str
    tags: tuple[str, ...]
    config: Mapping[str, Any]
    rows: tuple[Row, ...]
    outcome: Outcome | None

    @cached_property
    def digest(self) -> str:
        """Sixteen hex digits over everything W&B is told: equal digests need no second publication."""
        rows = [(row.step, repr(row.relative_loss), *_spelled(row.metrics)) for row in self.rows]
        ended = None if self.outcome is None else [dict(self.outcome.summary), self.outcome.exit_code]
        told = [self.run_id, self.name, self.group, self.job_type, self.tags, dict(self.config), rows, ended]
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


def project_record(
    record: LedgerRecord,
    curve: Curve,
    metrics: Mapping[str, Curve] = NO_METRICS,
    *,
    directory_id: str,
    cell: str,
    tags: tuple[str, ...] = (),
) -> RunProjection:
    """The W&B run of a trial that has ended, in the group of its cell; one that diverged or failed says so in a tag as well."""
    verdict = () if record.status == "finished" else (record.status,)
    live = project_live(record.trial_config, curve, metrics, directory_id=directory_id, cell=cell, tags=(*tags, *verdict))
    return replace(live, trial_id=record.trial_id, outcome=_outcome(record))


def project_live(
    config: TrialConfig,
    curve: Curve,
    metrics: Mapping[str, Curve] = NO_METRICS,
    *,
    directory_id: str,
    cell: str,
    tags: tuple[str, ...] = (),
) -> RunProjection:
    """The W&B run of a trial that is still training; `metrics` are those of its evaluations, each at steps of the curve."""
    trial_id = config.trial_id
    return RunProjection(
        trial_id=trial_id,
        run_id=f"{directory_id}-{trial_id}",
        name=f"{config.model.kind} T={config.task.T} m={config.width} lr={config.optimizer.lr:g} seed={config.seed}",
        group=_short(cell),
        job_type=config.model.kind,
        tags=tags,
        config=run_config(config, cell=cell, directory_id=directory_id),
        rows=tuple(_rows(curve, metrics)),
        outcome=None,
    )


def _rows(curve: Curve, metrics: Mapping[str, Curve]) -> Iterator[Row]:
    at: dict[int, dict[str, float]] = {}
    for name, (steps, values) in metrics.items():
        for step, value in zip(steps.tolist(), values.tolist(), strict=True):
            at.setdefault(step, {})[name] = value
    for step, loss in zip(*curve, strict=True):
        yield Row(int(step), float(loss), at.get(int(step), {}))


def _spelled(metrics: Mapping[str, float]) -> list[str]:
    return [f"{name} {value!r}" for name, value in sorted(metrics.items())]


def _short(label: str) -> str:
    """A label that W&B takes; a cut one keeps a hash, so that cells stay apart."""
    if len(label) <= MAX_GROUP:
        return label
    return f"{label[: MAX_GROUP - 9]}~{hashlib.sha256(label.encode()).hexdigest()[:8]}"


def _outcome(record: LedgerRecord) -> Outcome:
    summary = {
        "status": record.status,
        "relative_loss": record.relative_loss,
        "relative_loss_stderr": record.relative_loss_stderr,
        "steps": record.steps,
        "seconds": record.seconds,
        "reason": record.reason,
        **(record.metrics or {}),
    }
    ended_at = datetime.fromisoformat(record.finished_at).timestamp()
    return Outcome(summary, exit_code=1 if record.status == "failed" else 0, ended_at=ended_at)
