"""A point of a cell that has ended, as Optuna takes it: its value, its constraint, and what a dashboard shows beside them."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from optuna.trial import TrialState

from sweeps.schema import LOSS, Criterion, SamplerName
from sweeps.store import STATUSES, Curve, none_of_nan
from sweeps.thresholds import CellPoints

CURVE_POINTS = 8
"""Intermediate values of a point: enough to see its course, each one write to the storage."""

Curves = Callable[[Mapping[str, str]], Mapping[str, Curve]]
"""Training curves by trial, of trials given with the packs that they ended in."""


@dataclass(frozen=True)
class FinishedPoint:
    """One point: `value` is None where the point failed for Optuna. `constraint` is at most 0 where the target is reached.

    `trial_id` is the trial at the point's rate, whose curve the point shows, and `pack_id` the pack that it ended in.
    """

    width: int
    seed: int
    state: TrialState
    value: float | None
    constraint: float | None
    attributes: Mapping[str, Any]
    trial_id: str
    pack_id: str

    @property
    def key(self) -> tuple[int, int, float | None, str]:
        """Equal for points with the same result."""
        return self.width, self.seed, self.value, str(self.attributes["status"])


def finished_points(points: CellPoints, criterion: Criterion, sampler: SamplerName) -> tuple[FinishedPoint, ...]:
    """The complete points, in the order of `points`.

    The value is the relative loss, or what the criterion judges in its place, at the point's rate. Optuna's TPE and GP look for
    the least value, so for them it is the distance of the log loss from the log target: they then look for the threshold and
    not for the widest net.
    """
    outcomes, log_target = points.outcomes, math.log(criterion.target)
    ended = []
    for place in np.flatnonzero(points.complete).tolist():
        loss, trial = float(points.judged[place]), int(points.trials[place, points.chosen[place]])
        is_finite, gap = math.isfinite(loss) and bool(points.evidence[place]), loss - log_target
        value = abs(gap) if sampler in ("tpe", "gp") else float(outcomes.relative_loss[trial])
        ended.append(
            FinishedPoint(
                width=int(points.widths[place]),
                seed=int(points.seeds[place]),
                state=TrialState.COMPLETE if is_finite else TrialState.FAIL,
                value=value if is_finite else None,
                constraint=gap if is_finite else None,
                attributes=_attributes(points, place, criterion, solved=gap <= 0),
                trial_id=outcomes.trial_ids[trial],
                pack_id=str(outcomes.pack_id[trial]),
            )
        )
    return tuple(ended)


def _attributes(points: CellPoints, place: int, criterion: Criterion, *, solved: bool) -> dict[str, Any]:
    outcomes, rates, trials = points.outcomes, points.cell.rates, points.trials[place].tolist()
    chosen = int(points.chosen[place])
    status = STATUSES[outcomes.status[trials[chosen]]] if points.evidence[place] else "failed"
    return {
        "seed": int(points.seeds[place]),
        "status": status if status != "finished" else ("solved" if solved else "unsolved"),
        "lr": rates[chosen],
        "relative_loss" if criterion.metric == LOSS else criterion.measure: none_of_nan(
            outcomes.relative_loss[trials[chosen]].item()
        ),
        "stderr": none_of_nan(outcomes.relative_loss_stderr[trials[chosen]].item()),
        "losses": {f"{rate:g}": none_of_nan(outcomes.relative_loss[t].item()) for rate, t in zip(rates, trials, strict=True)},
        "trial_ids": {f"{rate:g}": outcomes.trial_ids[t] for rate, t in zip(rates, trials, strict=True)},
    }


def intermediate_values(point: FinishedPoint, curves: Curves) -> dict[int, float]:
    """Some finite losses of a point's training curve by step, its first and last among them."""
    curve = curves({point.trial_id: point.pack_id}).get(point.trial_id)
    if curve is None:
        return {}
    steps, losses = curve
    kept = np.flatnonzero(np.isfinite(losses))
    if len(kept) > CURVE_POINTS:
        kept = kept[np.unique(np.round(np.linspace(0, len(kept) - 1, CURVE_POINTS)).astype(int))]
    return {int(steps[place]): float(losses[place]) for place in kept.tolist()}
