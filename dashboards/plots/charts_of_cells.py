"""The charts of one cell: loss against its size, loss through training, and the strips of its psychometric picture.

The picture has three strips over one axis of log m: above, the density of the threshold's replicates; in the middle, the share
of trials at each width that reach the target; below, the loss of every seed.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dashboards.plots.cells import LEAST_SHOWN, CellView, median_words
from dashboards.plots.chart import Axis, Chart, Layer, Line, Marks, Rule, Span, size_label
from dashboards.words import (
    INK,
    MUTED,
    TARGET,
    Formula,
    architecture_name,
    loss_ticks,
    round_numbers,
    series_shade,
    width_shade,
)
from stsq_core.configs import SAMPLES
from sweeps.store import FAILED
from sweeps.thresholds import Points, samples_to_target

MAX_SEED_LINES = 24
"""Seeds joined by lines; the lines of more cannot be distinguished."""

DENSITY_POINTS = 160


def loss_charts(cells: Sequence[CellView]) -> list[Chart]:
    """Loss against width, a chart a cell: a dot a seed, their median, the target, the exact floor, the threshold's interval."""
    return [_loss_chart(cell, _dots(cell)) for cell in cells]


def curve_charts(cells: Sequence[CellView]) -> list[Chart]:
    """Loss through training, a chart a cell: the median over the seeds of every width, in colours from narrow to wide."""
    charts = []
    for cell in cells:
        letter, num = cell.threshold.size.letter, len(cell.curves)
        lines = [
            Line(
                curve.steps, curve.losses, width_shade(place, num), width=1.6,
                hover=f"{letter} = {curve.width}, step {{x}}<br>{{y:.4g}}",
            )
            for place, curve in enumerate(cell.curves)
        ]  # fmt: skip
        x, y = Axis(Formula.of("step"), log=False), _loss_axis("relative loss of the batch", cell.curve_range)
        rules = [] if cell.target_of_batch is None else [Rule("y", cell.target_of_batch, TARGET)]
        charts.append(Chart(_title(cell), x, y, (*lines, *rules)))
    return charts


def share_loss_axis(charts: Sequence[Chart]) -> list[Chart]:
    """The charts with one loss axis that spans all of theirs."""
    ends = [chart.y.ends for chart in charts if chart.y.ends is not None]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    return [replace(chart, y=replace(chart.y, ends=(low, high), ticks=loss_ticks(low, high))) for chart in charts]


def cell_strips(view: CellView) -> tuple[Chart, Chart, Chart]:
    """The picture of a cell: the density of its threshold, the share of seeds solved, and the losses, above each other."""
    threshold, shade, letter = view.threshold, series_shade(view.kind, 0), view.threshold.size.letter
    points = threshold.points.take(threshold.points.chosen)
    seeds = points.outcomes.trials.seeds
    distinct = np.unique(seeds).tolist()
    is_counted = threshold.size == SAMPLES
    if not is_counted and not view.quantiles and len(distinct) <= MAX_SEED_LINES:
        dots: list[Layer] = [_seed(view, points.take(seeds == seed), seed) for seed in distinct]
    else:
        dots = [replace(_dots(view), size=6)]
    losses = _loss_chart(view, *dots, median_width=2.6)
    ticks = round_numbers(*view.width_range) or view.width_ticks
    losses = replace(
        losses,
        x=replace(losses.x, ticks=ticks),
        layers=tuple(layer for layer in losses.layers if not isinstance(layer, Span)),
    )
    sizes, shares = shares_reached(points) if is_counted else shares_solved(points, view.target_loss)
    solved = Marks(
        sizes, shares, shade, size=5, dash="solid", width=1.4, hover=f"{letter} = {{x}}<br>{{y:.0%}} solved"
    )  # fmt: skip
    share_axis = Axis(Formula.of("solved"), log=False, ends=(-0.08, 1.08), ticks=(0, 0.5, 1))
    above: list[Layer] = []
    if (found := density(threshold.replicates, view.width_range)) is not None:
        above.append(Line(*found, shade, width=1.6, low=np.zeros_like(found[1]), high=found[1]))
    if threshold.m_star is not None:
        above.append(Rule("x", threshold.m_star, shade, width=1.4))
    if threshold.low is not None and threshold.high is not None:
        above.append(Span(threshold.low, threshold.high, shade, 0.1))
    density_axis = Axis(Formula.of(f"${letter}^*$"), log=False, ticks=(), grid=False)
    return (
        Chart("", losses.x, density_axis, tuple(above)),
        Chart("", losses.x, share_axis, (solved, Rule("y", threshold.success_rate, MUTED, "dotted", 1))),
        losses,
    )


def density(replicates: np.ndarray, reach: tuple[float, float]) -> tuple[np.ndarray, np.ndarray] | None:
    """Widths between the ends of `reach` and the density of log m* there; None of replicates that all lie beyond the range.

    A Gaussian kernel (Silverman's width) over the replicates within the range, of which the area is their share.
    """
    finite = replicates[np.isfinite(replicates)]
    if not len(finite):
        return None
    grid = np.linspace(np.log(reach[0]), np.log(reach[1]), DENSITY_POINTS)
    width = max(0.9 * float(finite.std()) * len(finite) ** -0.2, (grid[-1] - grid[0]) / DENSITY_POINTS)
    counts, edges = np.histogram(finite, bins=4 * DENSITY_POINTS, range=(grid[0], grid[-1]))
    middles = (edges[:-1] + edges[1:]) / 2
    kernels = np.exp(-0.5 * ((grid[:, None] - middles[None, :]) / width) ** 2)
    return np.exp(grid), kernels @ counts / (len(replicates) * width * np.sqrt(2 * np.pi))


def shares_solved(points: Points, target_loss: float) -> tuple[list[int], list[float]]:
    """The widths and the share of trials at each that reach the target; failed trials are left out."""
    losses, known = points.outcomes.relative_loss, points.outcomes.status != FAILED
    widths = [width for width in np.unique(points.widths).tolist() if known[points.widths == width].any()]
    return widths, [float((losses[(points.widths == width) & known] <= target_loss).mean()) for width in widths]


def shares_reached(points: Points) -> tuple[list[int], list[float]]:
    """The numbers of samples at which seeds reached the target, and the share that had by then; failed trials are left out."""
    samples = samples_to_target(points.outcomes)
    known = samples[~np.isnan(samples)]
    places = np.unique(known[np.isfinite(known)])
    return [int(place) for place in places], [float((known <= place).mean()) for place in places]


def _loss_chart(cell: CellView, *dots: Layer, median_width: float = 2) -> Chart:
    threshold, shade, letter = cell.threshold, series_shade(cell.kind, 0), cell.threshold.size.letter
    layers: list[Layer] = []
    if threshold.status == "found" and threshold.low is not None and threshold.high is not None:
        layers.append(Span(threshold.low, threshold.high, shade))
    if cell.floor is not None:
        layers.append(Line(*cell.floor, INK, "dotted", 1.2, role="floor"))
    shown = median_words(cell.median_seeds, threshold.size.noun)
    median = Line(
        cell.median_widths, cell.median_losses, shade, width=median_width, hover=f"{letter} = {{x}}<br>{{y:.4g}}, {shown}"
    )
    layers += [*dots, median, Rule("y", cell.target_loss, TARGET)]
    x = Axis(size_label(threshold.size), ends=cell.width_range, ticks=cell.width_ticks)
    return Chart(_title(cell), x, _loss_axis(threshold.measure, cell.loss_range), tuple(layers))


def _title(cell: CellView) -> str:
    return f"{architecture_name(cell.kind, short=True)}, {cell.name}"


def _loss_axis(label: str, ends: tuple[float, float]) -> Axis:
    return Axis(Formula.of(label), ends=ends, ticks=loss_ticks(*ends))


def _dots(cell: CellView) -> Marks:
    hover = f"{cell.threshold.size.letter} = {{x}}<br>{cell.threshold.measure} {{y:.4g}}"
    return Marks(cell.dot_widths, cell.dot_losses, series_shade(cell.kind, 0), size=5, opacity=0.5, hover=hover)


def _seed(view: CellView, own: Points, seed: int) -> Marks:
    """The losses of one seed, joined where it was trained at several widths."""
    losses = own.outcomes.relative_loss
    known = np.isfinite(losses)
    texts = [f"seed {seed}, trial {trial_id}" for trial_id, one in zip(own.outcomes.trial_ids, known, strict=True) if one]
    return Marks(
        own.widths[known].tolist(),
        np.maximum(losses[known], LEAST_SHOWN).tolist(),
        series_shade(view.kind, 0),
        size=6,
        opacity=0.55,
        dash="solid",
        width=1,
        joined_opacity=0.28,
        texts=tuple(texts),
        hover=f"{view.threshold.size.letter} = {{x}}<br>{view.threshold.measure} {{y:.4g}}<br>{{text}}",
    )
