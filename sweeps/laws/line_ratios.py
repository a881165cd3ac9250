"""Measured thresholds of fully connected nets over the exact bound, cell by cell: how far above the floor training ends."""

from collections.abc import Iterable
from dataclasses import dataclass

from stsq_core.configs import WIDTH, Fcn, Stsq
from stsq_core.oracles import theory
from sweeps.schema import LOSS
from sweeps.thresholds import WidthThreshold


@dataclass(frozen=True)
class LineRatio:
    """A measured FCN threshold over the exact bound: `ratio = m* / fcn_width_bound`, `low` and `high` likewise."""

    cell_id: str
    label: str
    m_star: float
    M: int
    bound: float
    ratio: float
    low: float | None
    high: float | None


def has_fcn_bound(threshold: WidthThreshold) -> bool:
    """Whether the exact floor bounds the threshold: one of the width of a fully connected net that learns token selection."""
    sample = threshold.config_sample
    is_of_the_loss = threshold.size == WIDTH and threshold.metric == LOSS
    return type(sample.model) is Fcn and type(sample.task) is Stsq and is_of_the_loss


def fcn_line(thresholds: Iterable[WidthThreshold]) -> tuple[LineRatio, ...]:
    """Each found FCN threshold against the exact bound on the width at its target loss."""
    ratios = []
    for threshold in thresholds:
        if has_fcn_bound(threshold) and threshold.m_star is not None and threshold.M is not None:
            task = threshold.config_sample.task
            bound = theory.fcn_width_bound(threshold.target_loss, T=task.T, d=task.d, q=task.q)
            low, high = (None if end is None else end / bound for end in (threshold.low, threshold.high))
            ratio = threshold.m_star / bound
            ratios.append(LineRatio(threshold.cell_id, threshold.label, threshold.m_star, threshold.M, bound, ratio, low, high))
    return tuple(ratios)
