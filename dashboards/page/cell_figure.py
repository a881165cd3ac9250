"""The psychometric picture of one cell: loss against width by seed, the share of seeds solved, where the threshold may lie.

Three strips over one axis of log m: above, the density of the threshold's replicates; in the middle, the share of trials at
each width that reach the target; below, every seed's loss.
"""

import numpy as np

from dashboards.page.interactive import Spec, base_axis, base_layout, log_axis, spec_of, stroke
from dashboards.page.plain_figure import PlainFigure
from dashboards.plots import LEAST_SHOWN, CellView
from dashboards.words import INK, MUTED, TARGET, loss_ticks, round_numbers, series_shade, translucent
from stsq_core.configs import SAMPLES, Size
from sweeps.store import FAILED
from sweeps.thresholds import Points, samples_to_target

MAX_SEED_LINES = 24
"""Seeds joined by lines; more make a thicket."""

DENSITY_POINTS = 160
STRIPS = {"yaxis": (0.0, 0.6), "yaxis2": (0.65, 0.81), "yaxis3": (0.86, 1.0)}
"""Parts of the height: losses, share solved, density."""


def cell_plot(view: CellView) -> Spec:
    """The picture of a cell of which a trial finished."""
    colour = series_shade(view.kind, 0).light
    points = view.threshold.points.take(view.threshold.points.chosen)
    figure = PlainFigure()
    _add_floor(figure, view)
    _add_losses(figure, view, points, colour)
    _add_shares(figure, view, points, colour)
    _add_density(figure, view, colour)
    _add_threshold(figure, view, colour)
    x_axis = log_axis(
        view.width_range, round_numbers(*view.width_range) or view.width_ticks, axis_html(view.threshold.size)
    ) | {"anchor": "y"}
    figure.update_layout(
        base_layout(left=54, bottom=44),
        xaxis=x_axis,
        yaxis=log_axis(view.loss_range, loss_ticks(*view.loss_range), "relative loss") | {"domain": STRIPS["yaxis"]},
        yaxis2=base_axis()
        | {"domain": STRIPS["yaxis2"], "range": [-0.08, 1.08], "tickvals": [0, 0.5, 1], "title": _title("solved")},
        yaxis3=base_axis()
        | {
            "domain": STRIPS["yaxis3"],
            "showgrid": False,
            "showticklabels": False,
            "rangemode": "tozero",
            "title": _title(f"<i>{view.threshold.size.letter}</i>*"),
        },
        showlegend=False,
        hovermode="closest",
    )
    return spec_of(figure)


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
    """The widths and the share of trials at each that reach the target; a failed one tells nothing and is left out."""
    losses, told = points.outcomes.relative_loss, points.outcomes.status != FAILED
    widths = [width for width in np.unique(points.widths).tolist() if told[points.widths == width].any()]
    return widths, [float((losses[(points.widths == width) & told] <= target_loss).mean()) for width in widths]


def shares_reached(points: Points) -> tuple[list[int], list[float]]:
    """The numbers of samples at which seeds reached the target, and the share that had by then; failed trials are left out."""
    samples = samples_to_target(points.outcomes)
    told = samples[~np.isnan(samples)]
    places = np.unique(told[np.isfinite(told)])
    return [int(place) for place in places], [float((told <= place).mean()) for place in places]


def axis_html(size: Size) -> str:
    """The label of an axis of sizes."""
    return f"{size.axis} <i>{size.letter}</i>" if size.axis else size.quantity


def _add_floor(figure: PlainFigure, view: CellView) -> None:
    if view.floor is not None:
        figure.add_scatter(x=view.floor[0], y=view.floor[1], mode="lines", line=stroke(INK.light, 1.4, "dot"), hoverinfo="skip")


def _add_losses(figure: PlainFigure, view: CellView, points: Points, colour: str) -> None:
    seeds = points.outcomes.trials.seeds
    distinct = np.unique(seeds)
    if view.threshold.size != SAMPLES and not view.quantiles and len(distinct) <= MAX_SEED_LINES:
        for seed in distinct.tolist():
            _add_seed(figure, points.take(seeds == seed), seed, colour, view.threshold.size.letter)
    else:
        figure.add_scatter(
            x=view.dot_widths, y=view.dot_losses, mode="markers", name="",
            marker={"size": 6, "color": translucent(colour, 0.5)},
            hovertemplate=f"{view.threshold.size.letter} = %{{x}}<br>relative loss %{{y:.4g}}",
        )  # fmt: skip
    figure.add_scatter(
        x=view.median_widths, y=view.median_losses, mode="lines", line=stroke(colour, 2.6), name="",
        hovertemplate=f"{view.threshold.size.letter} = %{{x}}<br>median %{{y:.4g}}",
    )  # fmt: skip


def _add_seed(figure: PlainFigure, own: Points, seed: int, colour: str, letter: str) -> None:
    """One seed: its losses, joined where it was trained at several widths."""
    losses = own.outcomes.relative_loss
    known = np.isfinite(losses)
    texts = [f"seed {seed}, trial {trial_id}" for trial_id, one in zip(own.outcomes.trial_ids, known, strict=True) if one]
    figure.add_scatter(
        x=own.widths[known].tolist(), y=np.maximum(losses[known], LEAST_SHOWN).tolist(),
        mode="lines+markers", name="", text=texts,
        line=stroke(translucent(colour, 0.28), 1), marker={"size": 6, "color": translucent(colour, 0.55)},
        hovertemplate=f"{letter} = %{{x}}<br>relative loss %{{y:.4g}}<br>%{{text}}",
    )  # fmt: skip


def _add_shares(figure: PlainFigure, view: CellView, points: Points, colour: str) -> None:
    is_counted = view.threshold.size == SAMPLES
    widths, shares = shares_reached(points) if is_counted else shares_solved(points, view.target_loss)
    figure.add_scatter(
        x=widths, y=shares, yaxis="y2", mode="lines+markers", line=stroke(colour, 1.4), marker={"size": 5, "color": colour},
        name="", hovertemplate=f"{view.threshold.size.letter} = %{{x}}<br>%{{y:.0%}} solved",
    )  # fmt: skip


def _add_density(figure: PlainFigure, view: CellView, colour: str) -> None:
    found = density(view.threshold.replicates, view.width_range)
    if found is not None:
        figure.add_scatter(
            x=found[0], y=found[1], yaxis="y3", mode="lines", line=stroke(colour, 1.6), fill="tozeroy",
            fillcolor=translucent(colour, 0.16), hoverinfo="skip",
        )  # fmt: skip


def _add_threshold(figure: PlainFigure, view: CellView, colour: str) -> None:
    """The target across its strip, the success rate across its own, and the threshold with its interval down all three."""
    threshold = view.threshold
    across = {"type": "line", "xref": "x domain", "x0": 0, "x1": 1}
    figure.add_shape(**across, yref="y", y0=view.target_loss, y1=view.target_loss, line=stroke(TARGET.light, 1.4, "dash"))
    rate = threshold.success_rate
    figure.add_shape(**across, yref="y2", y0=rate, y1=rate, line=stroke(MUTED.light, 1, "dot"))
    down = {"xref": "x", "yref": "paper", "y0": 0, "y1": 1}
    if threshold.m_star is not None:
        figure.add_shape(type="line", **down, x0=threshold.m_star, x1=threshold.m_star, line=stroke(colour, 1.4, "dash"))
    if threshold.low is not None and threshold.high is not None:
        shade = {"fillcolor": translucent(colour, 0.1), "line": {"width": 0}, "layer": "below"}
        figure.add_shape(type="rect", **down, x0=threshold.low, x1=threshold.high, **shade)


def _title(text: str) -> Spec:
    return {"text": text, "standoff": 8, "font": {"size": 12, "color": MUTED.light}}
