"""The end of a W&B run that shows a cell: its threshold as the summary, and a table of its trials."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from dashboards.publishing.client import INTERRUPTED
from dashboards.publishing.projection import Outcome, Table
from sweeps.schema import LOSS
from sweeps.thresholds import WidthThreshold

COLUMNS = ("trial_id", "m", "lr", "seed", "status", "relative_loss", "relative_loss_stderr", "solved", "counts_for_threshold")
MAX_TABLE_ROWS = 10_000
"""Upper limit on the rows of a table that W&B shows; of a larger cell the table has the trials of least width."""


def cell_outcome(thresholds: Sequence[WidthThreshold], *, is_complete: bool) -> Outcome:
    """The end of a cell; of several targets the least is its own, and each has its numbers, `m_star@0.3`."""
    threshold = min(thresholds, key=lambda one: one.target_loss)
    points, target = threshold.points, threshold.target_loss

    def found(one: WidthThreshold, suffix: str = "") -> dict[str, Any]:
        values = {"status": one.status if is_complete else "interrupted"}
        values |= {name: getattr(one, name) for name in ("M", "m_star", "low", "high")}
        return {f"{name}{suffix}": value for name, value in values.items()}

    summary = found(threshold)
    for one in thresholds if len(thresholds) > 1 else ():
        summary |= found(one, f"@{one.target_loss:g}")
    summary |= {
        "level": threshold.level,
        "target_loss": target,
        **({} if threshold.metric == LOSS else {"metric": threshold.metric}),
        "num_ended": threshold.num_trials,
        "num_solved": int((points.outcomes.relative_loss <= target).sum()),
        "num_diverged": threshold.num_diverged,
        "num_failed": threshold.num_failed,
    }
    exit_code = (1 if threshold.num_failed else 0) if is_complete else INTERRUPTED
    last = max(datetime.fromisoformat(text).timestamp() for text in points.outcomes.finished_at.tolist())
    names = {"m": threshold.size.letter}
    if threshold.metric != LOSS:
        names |= {"relative_loss": threshold.measure, "relative_loss_stderr": f"standard error of {threshold.measure}"}
    columns = tuple(names.get(name, name) for name in COLUMNS)
    return Outcome(summary, exit_code, last, {"trials": Table(columns, tuple(_trial_rows(threshold)))})


def _trial_rows(threshold: WidthThreshold) -> Iterator[tuple[Any, ...]]:
    for point in threshold.points[:MAX_TABLE_ROWS]:
        loss = point.relative_loss
        solved = None if point.status == "failed" else loss is not None and loss <= threshold.target_loss
        counts = point.chosen and point.status != "failed"
        yield (
            point.trial_id, point.width, point.lr, point.seed, point.status, loss, point.relative_loss_stderr, solved, counts,
        )  # fmt: skip
