"""Width thresholds: the width from which a cell's task is learned, with an interval, and an honest word where there is none.

Definition. With the learning rate chosen for each width, S(m) is the fraction of seeds whose relative loss is at most the
target. The threshold `m*` is the least m where S(m) reaches the success rate. It is estimated from a grid by each seed's own
crossings of the target loss, log loss interpolated linearly in log width between adjacent widths (module `crossings`), and
never extrapolated.

Which trials count. A diverged trial is an unsolved one. A failed one (lost worker, out of memory) says nothing about the
width: it is counted, and the seed's line is drawn past it; only at the least width, and where rates are chosen, does it count
as unsolved. The rate of a width is the one with the least median log
loss over seeds, never one for each seed. Sampling error of the final evaluation is part of the spread between seeds and not
added to it.

Interval. Seeds are drawn with replacement, jointly for all widths where the grid shares them, else within each width; rates
are chosen anew in each of `NUM_REPLICATES` replicates; percentiles are widened for the number of seeds (module `intervals`).
An end that lies beyond the widths tried is marked as censored and given no number.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from stsq_core.trial import TrialConfig
from sweeps.crossings import chosen_rates, least_crossing
from sweeps.expansion import cell_of
from sweeps.intervals import attainable_level, interval_of
from sweeps.ledger import LedgerRecord, Status
from sweeps.plan import distinct_labels
from sweeps.spec import Criterion

NUM_REPLICATES = 2000
LEAST_LOSS = 1e-12
"""Relative losses below this are rounding; taken literally, a loss of zero would draw every line to the width before it."""

CHUNK_NUMBERS = 4_000_000
"""Losses resampled at a time, so that a large cell does not fill the memory."""


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


@dataclass(frozen=True)
class WidthThreshold:
    """The width threshold of one cell.

    `found`: `m_star` is the threshold and `M` the whole number of units. `above_range` (`below_range`): it lies above (below)
    every width tried. `failed`: no trial gave a number. `low` and `high` bound it at the `level`: None where the end is
    censored (`low_censored`: it lies below the least width; `high_censored`: above the largest) or where one seed cannot give
    an interval. `replicates` are bootstrap replicates of log m*, -inf below and inf above the range.
    """

    cell_id: str
    label: str
    config_sample: TrialConfig
    status: Literal["found", "above_range", "below_range", "failed"]
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
    points: tuple[Point, ...] = field(repr=False)
    note: str
    replicates: np.ndarray = field(repr=False, compare=False)

    @property
    def kind(self) -> str:
        """The architecture: `transformer` or `fcn`."""
        return self.config_sample.model.kind


def width_thresholds(records: Iterable[LedgerRecord], criterion: Criterion) -> tuple[WidthThreshold, ...]:
    """The threshold of every cell that has records, transformers first, then by q, d and T.

    The same records and criterion give the same numbers, intervals included: each cell's bootstrap is seeded by its name.
    """
    cells: dict[str, list[LedgerRecord]] = {}
    for record in records:
        cells.setdefault(cell_of(record.trial_config), []).append(record)
    labels = distinct_labels([members[0].trial_config for members in cells.values()])
    found = [
        _threshold(cell_id, label, members, criterion) for (cell_id, members), label in zip(cells.items(), labels, strict=True)
    ]
    return tuple(sorted(found, key=_order))


def _order(threshold: WidthThreshold) -> tuple[object, ...]:
    task = threshold.config_sample.task
    return threshold.kind != "transformer", task.q, task.d, task.T, threshold.label, threshold.cell_id


@dataclass(frozen=True)
class _Losses:
    """The losses of a cell. `log_losses` [width, rate, seed]: inf where diverged, nan where missing.

    `shared` where seeds are the same at all widths; else a column holds the i-th seed of each width.
    """

    widths: tuple[int, ...]
    rates: tuple[float, ...]
    log_losses: np.ndarray
    shared: bool

    @property
    def num_seeds(self) -> int:
        return int(self.log_losses.shape[-1])


@dataclass(frozen=True)
class _Estimate:
    """What the losses of a cell say: log m*, whether S falls below the success rate again, its replicates, the rates."""

    crossing: float
    again: bool
    replicates: np.ndarray
    chosen: dict[int, float]


def _estimate(losses: _Losses, criterion: Criterion, cell_id: str) -> _Estimate:
    crossings, again = _cross(losses, np.arange(losses.num_seeds)[None, None, :], criterion)
    chosen = {width: losses.rates[rate] for width, rate in zip(losses.widths, chosen_rates(losses.log_losses), strict=True)}
    return _Estimate(float(crossings[0]), bool(again[0]), _bootstrap(losses, criterion, cell_id), chosen)


_NOTHING = _Estimate(math.nan, False, np.array([]), {})


def _threshold(cell_id: str, label: str, records: Sequence[LedgerRecord], criterion: Criterion) -> WidthThreshold:
    losses = _losses_of(records)
    estimate = _estimate(losses, criterion, cell_id) if losses else _NOTHING
    status = _status(estimate.crossing)
    m_star = _width(estimate.crossing) if status == "found" else None
    low, high = _ends(estimate, losses, criterion)
    return WidthThreshold(
        cell_id=cell_id,
        label=label,
        config_sample=records[0].trial_config,
        status=status,
        m_star=m_star,
        M=None if m_star is None else math.ceil(m_star),
        low=low or None,
        high=None if high == math.inf else high,
        low_censored=low == 0,
        high_censored=high == math.inf,
        level=criterion.level,
        target_loss=criterion.target_loss,
        success_rate=criterion.success_rate,
        widths=tuple(sorted({record.trial_config.width for record in records})),
        num_seeds=losses.num_seeds if losses else 0,
        num_trials=len(records),
        num_diverged=_count(records, "diverged"),
        num_failed=_count(records, "failed"),
        crosses_more_than_once=estimate.again,
        points=_points(records, estimate.chosen),
        note="; ".join(_notes(records, losses, estimate, criterion)),
        replicates=estimate.replicates,
    )


def _count(records: Sequence[LedgerRecord], status: Status) -> int:
    return sum(record.status == status for record in records)


def _status(crossing: float) -> Literal["found", "above_range", "below_range", "failed"]:
    if math.isnan(crossing):
        return "failed"
    if math.isinf(crossing):
        return "above_range" if crossing > 0 else "below_range"
    return "found"


def _losses_of(records: Sequence[LedgerRecord]) -> _Losses | None:
    """The losses of a cell as an array; None where no trial finished."""
    told = [(record, record.trial_config) for record in records if record.status != "failed"]
    if not any(record.status == "finished" for record, _ in told):
        return None
    widths = tuple(sorted({config.width for _, config in told}))
    rates = tuple(sorted({config.optimizer.lr for _, config in told}))
    by_width = {width: sorted({config.seed for _, config in told if config.width == width}) for width in widths}
    seeds = sorted({seed for some in by_width.values() for seed in some})
    shared = len(widths) == 1 or sum(map(len, by_width.values())) > len(seeds)
    columns = dict.fromkeys(widths, seeds) if shared else by_width
    log_losses = np.full((len(widths), len(rates), max(map(len, columns.values()))), np.nan)
    for record, config in told:
        place = widths.index(config.width), rates.index(config.optimizer.lr), columns[config.width].index(config.seed)
        log_losses[place] = _log_loss(record)
    return _Losses(widths, rates, log_losses, shared)


def _log_loss(record: LedgerRecord) -> float:
    if record.status != "finished" or record.relative_loss is None:
        return math.inf
    return math.log(max(record.relative_loss, LEAST_LOSS))


def _bootstrap(losses: _Losses, criterion: Criterion, cell_id: str) -> np.ndarray:
    """Replicates of log m* [NUM_REPLICATES] over draws of the seeds with replacement."""
    stream = np.random.default_rng(int(cell_id, 16))
    num_widths = len(losses.widths)
    chunk = max(1, min(NUM_REPLICATES, CHUNK_NUMBERS // losses.log_losses.size))
    replicates = []
    for start in range(0, NUM_REPLICATES, chunk):
        size = (1 if losses.shared else num_widths, min(chunk, NUM_REPLICATES - start), losses.num_seeds)
        replicates.append(_cross(losses, stream.integers(losses.num_seeds, size=size), criterion)[0])
    return np.concatenate(replicates)


def _cross(losses: _Losses, draws: np.ndarray, criterion: Criterion) -> tuple[np.ndarray, np.ndarray]:
    """Log m* and the flag for each draw of seeds; `draws` is [width or 1, replicate, seed]."""
    drawn = np.take_along_axis(losses.log_losses[:, :, None, :], draws[:, None], axis=-1)  # [width, rate, replicate, seed]
    drawn = np.moveaxis(drawn, 2, 0)  # [replicate, width, rate, seed]
    rates = chosen_rates(drawn)[:, :, None, None]
    return least_crossing(
        np.log(losses.widths),
        np.take_along_axis(drawn, rates, axis=2)[:, :, 0, :],
        log_target=math.log(criterion.target_loss),
        success_rate=criterion.success_rate,
    )


def _ends(estimate: _Estimate, losses: _Losses | None, criterion: Criterion) -> tuple[float | None, float | None]:
    """The interval's ends as widths: 0 or inf where an end lies beyond the range, None where there is no interval."""
    if losses is None or losses.num_seeds < 2:
        return None, None
    low, high = interval_of(estimate.replicates, level=criterion.level, num=losses.num_seeds)
    # Of an interval wholly beyond the range, the inner end is the last width that was tried.
    low = min(low, estimate.crossing, math.log(losses.widths[-1]))
    high = max(high, estimate.crossing, math.log(losses.widths[0]))
    return _width(low), _width(high)


def _width(log_width: float) -> float:
    """A width from its logarithm, without the last digits in which 20 would become 20.000000000000004 and be rounded up."""
    return round(math.exp(log_width), 9)


def _points(records: Sequence[LedgerRecord], chosen: dict[int, float]) -> tuple[Point, ...]:
    points = [
        Point(
            trial_id=record.trial_id,
            width=config.width,
            seed=config.seed,
            lr=config.optimizer.lr,
            status=record.status,
            relative_loss=record.relative_loss,
            relative_loss_stderr=record.relative_loss_stderr,
            chosen=chosen.get(config.width) == config.optimizer.lr,
        )
        for record in records
        for config in [record.trial_config]
    ]
    return tuple(sorted(points, key=lambda point: (point.width, point.lr, point.seed)))


def _notes(records: Sequence[LedgerRecord], losses: _Losses | None, estimate: _Estimate, criterion: Criterion) -> Iterator[str]:
    """What a reader must know before using the number, in a few words each."""
    num_diverged, num_failed = _count(records, "diverged"), _count(records, "failed")
    if losses is None:
        ways = [way for way, count in (("diverged", num_diverged), ("failed", num_failed)) if count]
        yield f"not found: all {' or '.join(ways)}"
        return
    if estimate.crossing == math.inf:
        yield f"above {losses.widths[-1]}, the largest width tried"
    if estimate.crossing == -math.inf:
        yield f"at or below {losses.widths[0]}, the least width tried"
    if estimate.again:
        yield "solved, then unsolved again at a larger width: the least crossing is given"
    if num_diverged:
        yield f"{num_diverged} of {len(records)} trials diverged"
    if num_failed:
        yield f"{num_failed} of {len(records)} trials failed and are left out"
    if attainable_level(losses.num_seeds, criterion.success_rate) < criterion.level:
        yield _few_seeds(losses.num_seeds, criterion)
    edges = [width for width, rate in estimate.chosen.items() if rate in (losses.rates[0], losses.rates[-1])]
    if len(losses.rates) > 2 and edges:
        yield f"the best rate is at the end of the rates tried at m = {', '.join(map(str, edges))}"


def _few_seeds(num_seeds: int, criterion: Criterion) -> str:
    if num_seeds == 1:
        return "one seed gives no interval"
    share = attainable_level(num_seeds, criterion.success_rate)
    return f"{num_seeds} seeds cannot give a {criterion.level:.0%} interval: it covers at most {share:.0%}"
