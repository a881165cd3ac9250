"""One cell as the small figures show it: losses against width, curves through training, all thinned to what can be seen."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dashboards.words import OfCell, axes_of, round_numbers
from stsq_core.configs import SAMPLES
from stsq_core.oracles import theory
from sweeps.findings import Findings
from sweeps.laws import has_fcn_bound
from sweeps.schema import LOSS
from sweeps.store import Curve, read_curves, read_metrics
from sweeps.thresholds import Points, WidthThreshold

MAX_CELLS = 48
"""Cells of one architecture with small figures on the page; the files hold all."""

MAX_DOTS = 240
"""More trials than this in a cell are shown by quantiles."""

QUANTILES = (0.05, 0.25, 0.75, 0.95)
MAX_CURVES = 12
MAX_CURVE_POINTS = 60
LEAST_SHOWN = 1e-6


@dataclass(frozen=True)
class MedianCurve:
    """The median over seeds of the relative training loss of one width; of one seed its own curve."""

    width: int
    steps: np.ndarray
    losses: np.ndarray
    num_seeds: int


@dataclass(frozen=True)
class CellView:
    """What the small figures of a cell show; trials with the chosen rate of each width only.

    `floor` is the exact floor of a fully connected net over the widths tried; `quantiles` says that dots are quantiles and not
    trials, and `median_seeds` of how many seeds each median is one: points of a search mostly have one each.
    """

    threshold: WidthThreshold
    name: str
    dot_widths: tuple[int, ...]
    dot_losses: tuple[float, ...]
    quantiles: bool
    median_widths: tuple[int, ...]
    median_losses: tuple[float, ...]
    median_seeds: tuple[int, ...]
    floor: tuple[np.ndarray, np.ndarray] | None
    curves: tuple[MedianCurve, ...]

    @property
    def kind(self) -> str:
        """The architecture."""
        return self.threshold.kind

    @property
    def target_loss(self) -> float:
        """The relative loss, or what is judged in its place, that counts as solved."""
        return self.threshold.target_loss

    @property
    def target_of_batch(self) -> float | None:
        """The target beside training losses; None where something else is judged."""
        return self.target_loss if self.threshold.metric == LOSS else None

    @property
    def width_range(self) -> tuple[float, float]:
        """The widths tried, or the samples at which losses are shown, with room around them."""
        is_counted = self.threshold.size == SAMPLES and self.dot_widths
        ends = self.dot_widths if is_counted else self.threshold.widths
        room = 1.12 if len(set(ends)) > 1 else 2.0
        return min(ends) / room, max(ends) * room

    @property
    def width_ticks(self) -> tuple[float, ...]:
        """At most four round widths."""
        ticks = round_numbers(*self.width_range)
        return ticks[:: max(1, math.ceil(len(ticks) / 4))] or (float(self.threshold.widths[0]),)

    @property
    def loss_range(self) -> tuple[float, float]:
        """The losses shown and the target, with room around them."""
        return _range([*self.dot_losses, *self.median_losses, self.target_loss])

    @property
    def curve_range(self) -> tuple[float, float]:
        """The training losses shown and their target, with room around them."""
        target = [] if self.target_of_batch is None else [self.target_of_batch]
        return _range([*target, *(float(loss) for curve in self.curves for loss in curve.losses)] or [self.target_loss])


def cell_views(thresholds: Sequence[WidthThreshold], curves: Mapping[str, Curve]) -> tuple[CellView, ...]:
    """The view of every cell with a finished trial; its name has the settings that vary between cells of its architecture."""
    return tuple(
        _view(threshold, name, curves)
        for threshold, name in zip(thresholds, cell_names(thresholds), strict=True)
        if threshold.is_bounded
    )


def cell_names(thresholds: Sequence[OfCell]) -> tuple[str, ...]:
    """A short name for each cell, T and the other settings that vary within its architecture: `T = 16, query = sum`.

    Cells that would share a name have their whole labels.
    """
    configs = [threshold.config_sample for threshold in thresholds]
    axes = axes_of(thresholds)
    letters = [
        "T",
        *(name for name in ("q", "d") if len({(t.kind, getattr(t.config_sample.task, name)) for t in thresholds}) > 2),
    ]
    names = [
        ", ".join(
            [
                *(f"{letter} = {getattr(config.task, letter)}" for letter in letters),
                *(setting.replace("=", " = ") for setting in axes.family_settings(threshold)),
            ]
        )
        for threshold, config in zip(thresholds, configs, strict=True)
    ]
    keys = [(threshold.kind, name) for threshold, name in zip(thresholds, names, strict=True)]
    counts = Counter(keys)
    return tuple(t.label if counts[key] > 1 else key[1] for t, key in zip(thresholds, keys, strict=True))


def read_shown_curves(findings: Findings) -> dict[str, Curve]:
    """The curves of the trials that the small figures show: training losses, or fresh losses where samples are counted.

    Only the first `MAX_CELLS` cells of each architecture have a small figure.
    """
    shown: dict[str, list[WidthThreshold]] = {}
    for threshold in findings.thresholds:
        if threshold.is_bounded:
            shown.setdefault(threshold.kind, []).append(threshold)
    ended_in: dict[str, str] = {}
    for threshold in (threshold for cells in shown.values() for threshold in cells[:MAX_CELLS]):
        chosen = threshold.points.take(threshold.points.chosen)
        drawn = chosen.take(np.isin(chosen.widths, _drawn_widths(np.unique(chosen.widths).tolist()))).outcomes
        ended_in |= zip(drawn.trial_ids, drawn.pack_id.tolist(), strict=True)
    if findings.spec.criterion.size != SAMPLES:
        return read_curves(findings.run, ended_in, ended_in=ended_in)
    metrics = read_metrics(findings.run, ended_in, ended_in=ended_in)
    return {trial_id: own["loss"] for trial_id, own in metrics.items() if "loss" in own and len(own["loss"][0])}


def _view(threshold: WidthThreshold, name: str, curves: Mapping[str, Curve]) -> CellView:
    points = threshold.points.take(threshold.points.chosen)
    if is_counted := threshold.size == SAMPLES:
        dots, logs = _through_samples(threshold, [curves[i] for i in points.outcomes.trial_ids if i in curves])
    else:
        losses = np.maximum(points.outcomes.relative_loss, LEAST_SHOWN)
        chosen = {width: points.widths == width for width in np.unique(points.widths).tolist()}
        known = ~np.isnan(losses)
        dots = list(zip(points.widths[known].tolist(), losses[known].tolist(), strict=True))
        logs = {width: _ordered_logs(losses[own]) for width, own in chosen.items()}
    quantiles = len(dots) > MAX_DOTS
    if quantiles:
        dots = [(width, _quantile(own, share)) for width, own in logs.items() for share in QUANTILES]
    medians = [(width, _quantile(own, 0.5), len(own)) for width, own in logs.items()]
    medians = [(width, loss, num_seeds) for width, loss, num_seeds in medians if math.isfinite(loss)]
    dots = [(width, loss) for width, loss in dots if math.isfinite(loss)]
    return CellView(
        threshold=threshold,
        name=name,
        dot_widths=tuple(width for width, _ in dots),
        dot_losses=tuple(loss for _, loss in dots),
        quantiles=quantiles,
        median_widths=tuple(width for width, _, _ in medians),
        median_losses=tuple(loss for _, loss, _ in medians),
        median_seeds=tuple(num_seeds for _, _, num_seeds in medians),
        floor=_floor(threshold),
        curves=() if is_counted else tuple(_curves(points, curves)),
    )


def _through_samples(
    threshold: WidthThreshold, courses: Sequence[Curve]
) -> tuple[list[tuple[int, float]], dict[int, list[float]]]:
    """Fresh losses against the samples drawn: a dot an evaluation of a seed, and the ordered log losses at each.

    A seed that stopped at the target is below every loss from then on. Of very many evaluations some are shown.
    """
    batch = threshold.config_sample.batch
    steps = np.unique(np.concatenate([own for own, _ in courses])) if courses else np.array([], dtype=int)
    steps = steps[steps > 0]
    if len(steps) > MAX_CURVE_POINTS:
        steps = steps[np.unique(np.round(np.geomspace(1, len(steps), MAX_CURVE_POINTS)).astype(int) - 1)]
    dots: list[tuple[int, float]] = []
    logs: dict[int, list[float]] = {}
    for step in steps.tolist():
        at = [_at_step(own_steps, losses, step) for own_steps, losses in courses]
        dots += [(step * batch, loss) for loss in at if math.isfinite(loss) and loss > 0]
        logs[step * batch] = sorted(-math.inf if loss == 0 else math.log(loss) for loss in at if not math.isnan(loss))
    return dots, {samples: own for samples, own in logs.items() if own}


def _at_step(steps: np.ndarray, losses: np.ndarray, step: int) -> float:
    """The loss of a course at a step: 0 once it has ended, nan where it has none between."""
    if step > steps[-1]:
        return 0.0
    own = losses[steps == step]
    return float(max(own[0], LEAST_SHOWN)) if len(own) and math.isfinite(own[0]) else math.nan


def _floor(threshold: WidthThreshold) -> tuple[np.ndarray, np.ndarray] | None:
    """The exact floor of a fully connected net's loss, where it is above zero."""
    if not has_fcn_bound(threshold):
        return None
    task = threshold.config_sample.task
    widths = np.geomspace(
        min(threshold.widths), max(min(threshold.widths) + 1e-9, min(max(threshold.widths), 0.995 * task.T * task.d)), 60
    )
    return widths, np.array([theory.fcn_floor(width, T=task.T, d=task.d, q=task.q) for width in widths])


def _curves(chosen: Points, curves: Mapping[str, Curve]) -> Iterable[MedianCurve]:
    if not curves:
        return
    for width in _drawn_widths(np.unique(chosen.widths).tolist()):
        trial_ids = chosen.take(chosen.widths == width).outcomes.trial_ids
        own_curves = [curves[trial_id] for trial_id in trial_ids if trial_id in curves and len(curves[trial_id][0])]
        if own_curves:
            yield median_curve(width, own_curves)


def _drawn_widths(widths: Sequence[int]) -> Sequence[int]:
    """At most `MAX_CURVES` widths, the least and the largest among them."""
    if len(widths) <= MAX_CURVES:
        return widths
    return [widths[round(i * (len(widths) - 1) / (MAX_CURVES - 1))] for i in range(MAX_CURVES)]


def median_curve(width: int, curves: Sequence[Curve]) -> MedianCurve:
    """The median at each step at which any seed reports; a seed that has diverged counts as infinite from then on."""
    steps = np.unique(np.concatenate([steps for steps, _ in curves]))
    if len(steps) > MAX_CURVE_POINTS:
        steps = steps[np.unique(np.round(np.linspace(0, len(steps) - 1, MAX_CURVE_POINTS)).astype(int))]
    losses = np.full((len(curves), len(steps)), np.inf)
    for row, (own_steps, own_losses) in zip(losses, curves, strict=True):
        places = np.searchsorted(own_steps, steps)
        present = (places < len(own_steps)) & (own_steps[np.minimum(places, len(own_steps) - 1)] == steps)
        row[present] = np.where(np.isfinite(own_losses[places[present]]), own_losses[places[present]], np.inf)
    medians = np.sort(losses, axis=0)[(len(curves) - 1) // 2]
    finite = np.isfinite(medians)
    return MedianCurve(width, steps[finite], np.maximum(medians[finite], LEAST_SHOWN), len(curves))


def median_words(num_seeds: Iterable[int], noun: str) -> str:
    """What a line through one loss of each width (the `noun`) shows, by the number of seeds of each."""
    several = {num > 1 for num in num_seeds}
    if several == {False}:
        return f"one seed at each {noun}"
    return "median over seeds" if several != {True, False} else f"median over seeds, or the only seed of a {noun}"


def curve_words(curves: Sequence[MedianCurve], noun: str) -> str:
    """What the training curves of a cell or of several show, by the number of seeds of each."""
    several = {curve.num_seeds > 1 for curve in curves}
    if several == {False}:
        return f"one seed of each {noun}"
    rest = " (where it has several)" if several == {True, False} else ""
    return f"the median over seeds of each {noun}{rest}"


def _ordered_logs(losses: np.ndarray) -> list[float]:
    """Log losses in order, diverged and failed trials above all others."""
    return sorted(math.inf if math.isnan(loss) else math.log(loss) for loss in losses.tolist())


def _quantile(logs: Sequence[float], share: float) -> float:
    """A quantile of ordered log losses; between two seeds, in the logarithm."""
    place = share * (len(logs) - 1)
    low, high = logs[math.floor(place)], logs[math.ceil(place)]
    weight = place - math.floor(place)
    return math.exp(low if weight == 0 else low + weight * (high - low)) if math.isfinite(low) else math.inf


def _range(values: Sequence[float]) -> tuple[float, float]:
    return min(values) / 1.3, max(values) * 1.3
