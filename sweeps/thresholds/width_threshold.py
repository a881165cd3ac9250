"""The threshold of a cell, as a record, and the points it rests on."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, overload

import numpy as np

from stsq_core.configs import WIDTH, Size, TrialConfig
from sweeps.sampler import SearchState
from sweeps.schema import LOSS, Criterion, Statistic, metric_words
from sweeps.store import STATUSES, Outcomes, Status, none_of_nan
from sweeps.thresholds.recheck import Recheck
from sweeps.thresholds.resampling import attainable_level

ThresholdStatus = Literal["found", "above_range", "below_range", "not_reached", "solved", "not_solved", "failed", "open"]

MAX_REASON = 60
"""Characters of a failed trial's reason that a note repeats."""


@dataclass(frozen=True)
class Point:
    """One trial of a cell; `chosen` where its learning rate is the one that its width was judged by."""

    trial_id: str
    width: int
    seed: int
    lr: float
    status: Status
    relative_loss: float | None
    relative_loss_stderr: float | None
    chosen: bool


class Points(Sequence[Point]):
    """The trials of a cell by width, rate and seed; a point is made when it is asked for. `chosen` is a mask."""

    def __init__(self, outcomes: Outcomes, chosen: np.ndarray) -> None:
        self.outcomes = outcomes
        self.chosen = chosen

    @classmethod
    def of(cls, outcomes: Outcomes, chosen: np.ndarray) -> "Points":
        """From outcomes in any order."""
        trials = outcomes.trials
        order = np.lexsort((trials.seeds, trials.rates, trials.widths))
        return cls(outcomes.take(order), chosen[order])

    @property
    def widths(self) -> np.ndarray:
        return self.outcomes.trials.widths

    @property
    def rates(self) -> tuple[float, ...]:
        """The learning rates, each once."""
        return tuple(np.unique(self.outcomes.trials.rates).tolist())

    def take(self, places: np.ndarray) -> "Points":
        """Some of the points: places, or a mask."""
        return Points(self.outcomes.take(places), self.chosen[places])

    def __len__(self) -> int:
        return len(self.chosen)

    @overload
    def __getitem__(self, place: int) -> Point: ...
    @overload
    def __getitem__(self, place: slice) -> "Points": ...
    def __getitem__(self, place: int | slice) -> "Point | Points":
        if isinstance(place, slice):
            return self.take(np.arange(len(self))[place])
        outcomes, trials = self.outcomes, self.outcomes.trials
        return Point(
            trial_id=outcomes.trial_ids[place],
            width=trials.widths[place].item(),
            seed=trials.seeds[place].item(),
            lr=trials.rates[place].item(),
            status=STATUSES[outcomes.status[place]],
            relative_loss=none_of_nan(outcomes.relative_loss[place].item()),
            relative_loss_stderr=none_of_nan(outcomes.relative_loss_stderr[place].item()),
            chosen=bool(self.chosen[place]),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(self.outcomes)


@dataclass(frozen=True)
class WidthThreshold:
    """The threshold of one cell: of the width, unless `size` says of what else; then `widths` and `m_star` are such sizes.

    `found`: `m_star` is the threshold and `M` the whole number of units. `above_range` (`below_range`): it lies above
    (below) every width tried. `not_reached`: at no width enough seeds are solved, and the loss is not seen to fall at the
    largest ones, so that none is known to lie beyond. `solved` (`not_solved`): the task leaves the model one width, as
    one-hot codes have m = T + d, and enough seeds are solved there (too few); there is no threshold. `failed`: no trial
    gave a number. `open`: a search goes on whose points do not tell it yet. `low` and `high` bound it at the `level`: None
    where the end is censored (`low_censored`: it lies below the least width; `high_censored`: above the largest) or where
    one seed cannot give an interval. `replicates` are bootstrap replicates of log m*, or draws from its posterior where the
    widths were searched (then `search` says how far the search is); -inf below and inf above the range. `recheck` is what
    came of twice the steps. Where the criterion judges by another `metric`, that stands in its points in place of the
    relative loss; of its several targets (`num_targets`) each has a threshold of the cell.
    """

    cell_id: str
    label: str
    config_sample: TrialConfig
    status: ThresholdStatus
    m_star: float | None
    M: int | None
    low: float | None
    high: float | None
    low_censored: bool
    high_censored: bool
    level: float
    target_loss: float
    success_rate: float
    widths: tuple[int, ...]
    num_seeds: int
    num_trials: int
    num_diverged: int
    num_failed: int
    crosses_more_than_once: bool
    points: Points = field(repr=False)
    note: str
    replicates: np.ndarray = field(repr=False, compare=False)
    statistic: Statistic = "median"
    search: SearchState | None = field(default=None, repr=False, compare=False)
    recheck: Recheck | None = None
    size: Size = WIDTH
    metric: str = LOSS
    num_targets: int = 1

    @property
    def key(self) -> str:
        """Its cell's id, with its target where the cell has several thresholds."""
        return self.cell_id if self.num_targets == 1 else f"{self.cell_id}-{self.target_loss:g}"

    @property
    def measure(self) -> str:
        """What is judged against the target, in words."""
        return metric_words(self.metric)

    @property
    def is_bounded(self) -> bool:
        """Whether it is a number or known to lie beyond one: what laws, claims and figures rest on."""
        return self.status in ("found", "above_range", "below_range")

    @property
    def kind(self) -> str:
        """The architecture, as `transformer` or `fcn`."""
        return self.config_sample.model.kind


def threshold_of(
    cell_id: str,
    label: str,
    sample: TrialConfig,
    outcomes: Outcomes,
    criterion: Criterion,
    *,
    crossing: float,
    ends: tuple[float, float] | None,
    widths: tuple[int, ...],
    num_seeds: int,
    points: Points,
    notes: Iterable[str],
    replicates: np.ndarray,
    again: bool = False,
    search: SearchState | None = None,
    without: ThresholdStatus = "failed",
) -> WidthThreshold:
    """The record of a threshold, from its estimate in log width.

    Args:
        crossing: log m*; -inf below the range, inf above it, nan where there is none.
        ends: of the interval of log m*, -inf and inf where censored; None for no interval.
        points: the trials that it rests on; `outcomes` are all trials of the cell.
        again: whether larger widths miss the target again.
        without: the status of a threshold without a crossing.
    """
    m_star = width_of(crossing) if math.isfinite(crossing) else None
    beyond: ThresholdStatus = without if math.isnan(crossing) else "above_range" if crossing > 0 else "below_range"
    low, high = (math.nan, math.nan) if ends is None else ends
    return WidthThreshold(
        cell_id=cell_id,
        label=label,
        config_sample=sample,
        status="found" if m_star is not None else beyond,
        m_star=m_star,
        M=None if m_star is None else math.ceil(m_star),
        low=width_of(low) if math.isfinite(low) else None,
        high=width_of(high) if math.isfinite(high) else None,
        low_censored=low == -math.inf,
        high_censored=high == math.inf,
        level=criterion.level,
        target_loss=criterion.target,
        success_rate=criterion.success_rate,
        widths=widths,
        num_seeds=num_seeds,
        num_trials=len(outcomes),
        num_diverged=outcomes.num_ended("diverged"),
        num_failed=outcomes.num_ended("failed"),
        crosses_more_than_once=again,
        points=points,
        note="; ".join(notes),
        replicates=replicates,
        statistic=criterion.statistic,
        search=search,
        size=criterion.size,
        metric=criterion.metric,
    )


def width_of(log_width: float) -> float:
    """A width from its logarithm, without the last digits in which 20 would become 20.000000000000004 and be rounded up."""
    return round(math.exp(log_width), 9)


def few_seeds(num_seeds: int, criterion: Criterion) -> str:
    """Why the interval of so few seeds has less than the level that is asked for, in words."""
    if num_seeds == 1:
        return "one seed gives no interval"
    share = attainable_level(num_seeds, criterion.success_rate)
    return f"{num_seeds} seeds cannot give a {criterion.level:.0%} interval: it covers at most {share:.0%}"


def widths_words(widths: Iterable[int], letter: str) -> str:
    """Widths in words: all of them where they are few, else their span."""
    distinct = sorted(set(widths))
    values = ", ".join(map(str, distinct)) if len(distinct) <= 3 else f"{distinct[0]} to {distinct[-1]}"
    return f"{letter} = {values}"


def notes_on_ends(outcomes: Outcomes) -> Iterator[str]:
    """How many trials gave no number, in words."""
    if num_diverged := outcomes.num_ended("diverged"):
        yield f"{num_diverged} of {len(outcomes)} trials diverged"
    if num_failed := outcomes.num_ended("failed"):
        yield f"{num_failed} of {len(outcomes)} trials failed and are left out"


def notes_on_stretches(sizes: np.ndarray, ends: np.ndarray, reasons: Sequence[str | None], noun: str) -> Iterator[str]:
    """Beyond which sizes all diverged or all failed, in words: sizes [n], places in `STATUSES` [n] and reasons of failure."""
    for way, others in (("diverged", ("finished",)), ("failed", ("finished", "diverged"))):
        is_way = ends == STATUSES.index(way)
        if not is_way.any():
            continue
        known = sizes[np.isin(ends, [STATUSES.index(other) for other in others])]
        if not len(known):
            continue
        for side, end, beyond in (("above", known.max(), sizes > known.max()), ("below", known.min(), sizes < known.min())):
            if places := np.flatnonzero(beyond & is_way).tolist():
                (reason, _), *_ = Counter(reasons[place] for place in places).most_common(1)
                yield f"every {noun} tried {side} {end} {way}" + (f": {_first_line(reason)}" if reason else "")


def _first_line(reason: str) -> str:
    """The first line of a reason, cut where it is long."""
    line = reason.strip().partition("\n")[0]
    return line if len(line) <= MAX_REASON else f"{line[: MAX_REASON - 3]}..."
