"""The rows of the tidy tables: every declared trial with its status, and every measurement of the journals."""

from collections.abc import Iterator, Sequence
from typing import Any

from sweeps.cells import Cell
from sweeps.findings import Findings
from sweeps.schema import flattened, free_fields
from sweeps.store import MEASURED, LedgerRecord, RunDirectory, read_curves, read_metrics, trials_of_journal

Row = dict[str, Any]
RENAMED = {"model.kind", "task.T", "task.q", "task.d"}
"""Fields whose column has a shorter name, as those of width, rate and seed have."""

ENDED = (*MEASURED, "device", "finished_at", "reason")


def trial_rows(findings: Findings, cells: Sequence[Cell]) -> list[Row]:
    """A row a declared trial, in the order in which the sweep declares them."""
    ended = {record.trial_id: record for record in findings.records}
    chosen = {
        trial_id
        for threshold in findings.thresholds
        for trial_id in threshold.points.take(threshold.points.chosen).outcomes.trial_ids
    }
    journals = findings.run.curves.glob("*.jsonl")
    training = {trial_id for path in journals for trial_id in trials_of_journal(path)} - ended.keys()
    axes = _axes(cells)
    return [
        row | _end(ended.get(row["trial_id"]), row["trial_id"], chosen, training, findings.spec.criterion.target_loss)
        for cell in cells
        for row in _declared(cell, axes)
    ]


def measurement_rows(run: RunDirectory) -> Iterator[tuple[str, int, str, float]]:
    """Trial, step, metric and value of every measurement."""
    for trial_id, (steps, losses) in read_curves(run).items():
        for step, loss in zip(steps.tolist(), losses.tolist(), strict=True):
            yield trial_id, step, "relative_loss", loss
    for trial_id, metrics in read_metrics(run).items():
        for name, (steps, values) in metrics.items():
            for step, value in zip(steps.tolist(), values.tolist(), strict=True):
                yield trial_id, step, name, value


def _declared(cell: Cell, axes: Sequence[str]) -> Iterator[Row]:
    config, trials = cell.trials[0], cell.trials
    fields = flattened(config.model_dump(mode="json"))
    shared = {
        "cell_id": cell.cell_id,
        "cell": cell.label,
        "architecture": config.model.kind,
        **{letter: getattr(config.task, letter) for letter in ("T", "q", "d")},
        **{axis: fields.get(axis) for axis in axes},
    }
    columns = (trials.trial_ids, trials.widths.tolist(), trials.rates.tolist(), trials.seeds.tolist())
    for trial_id, m, lr, seed in zip(*columns, strict=True):
        yield {"trial_id": trial_id, **shared, "m": m, "lr": lr, "seed": seed}


def _end(record: LedgerRecord | None, trial_id: str, chosen: set[str], training: set[str], target: float) -> Row:
    """The status and result of a trial."""
    if record is None:
        status = "training" if trial_id in training else "waiting"
        return {"status": status, "solved": None, "chosen": None, **dict.fromkeys(ENDED)}
    solved = record.relative_loss is not None and record.relative_loss <= target
    result = {name: getattr(record, name) for name in ENDED}
    return {"status": record.status, "solved": solved, "chosen": trial_id in chosen, **result, **(record.metrics or {})}


def _axes(cells: Sequence[Cell]) -> tuple[str, ...]:
    """The other fields in which cells of one architecture differ."""
    by_kind: dict[str, list[Row]] = {}
    for cell in cells:
        config = cell.trials[0]
        by_kind.setdefault(config.model.kind, []).append(flattened(config.model_dump(mode="json")))
    axes: dict[str, None] = {}
    for fields in by_kind.values():
        names = dict.fromkeys(name for own in fields for name in own if name not in RENAMED.union(free_fields()))
        axes |= {name: None for name in names if len({repr(own[name]) for own in fields if name in own}) > 1}
    return tuple(axes)
