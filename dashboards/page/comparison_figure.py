"""Runs side by side in one figure: the thresholds of one architecture, a colour and a place of its own for each run."""

from collections.abc import Sequence

import plotly.graph_objects as go

from dashboards.page.interactive import Spec, base_layout, log_axis, spec_of
from dashboards.plots import Axis, Mark, mark_of
from dashboards.words import LINES, Shade, mark_shape, round_numbers
from sweeps.thresholds import WidthThreshold

APART = 1.035
"""Marks of different runs stand this factor apart along the axis, so that equal thresholds do not hide each other."""

MARGIN = 1.2


def run_shade(place: int) -> Shade:
    """The colour of the place-th run."""
    return LINES[place % len(LINES)]


def comparison_axis(thresholds: Sequence[WidthThreshold]) -> Axis:
    """The letter of the task that varies: T if it does, else q, else d."""
    names: tuple[Axis, ...] = ("T", "q", "d")
    varies = (name for name in names if len({getattr(one.config_sample.task, name) for one in thresholds}) > 1)
    return next(varies, "T")


def comparison_plot(kind: str, of_runs: Sequence[tuple[str, Sequence[WidthThreshold]]]) -> Spec | None:
    """The thresholds of one architecture by run; None where none can be drawn."""
    axis = comparison_axis([one for _, own in of_runs for one in own])
    figure, drawn = go.Figure(), list[Mark]()
    middle = (len(of_runs) - 1) / 2
    for place, (name, thresholds) in enumerate(of_runs):
        marks = [mark for one in thresholds if (mark := mark_of(one, axis)) is not None]
        drawn += marks
        _add_run(figure, kind, name, marks, run_shade(place).light, shift=APART ** (place - middle))
    if not drawn:
        return None
    xs, ys = [mark.x for mark in drawn], [end for mark in drawn for end in (mark.low, mark.high)]
    x_range, y_range = (min(xs) / MARGIN, max(xs) * MARGIN), (min(ys) / MARGIN, max(ys) * MARGIN)
    words = next(one.size for _, own in of_runs for one in own)
    ticks = tuple(sorted(set(xs))) if len(set(xs)) <= 8 else round_numbers(*x_range)
    figure.update_layout(
        base_layout(left=50, bottom=42),
        xaxis=log_axis(x_range, ticks, f"<i>{axis}</i>"),
        yaxis=log_axis(y_range, round_numbers(*y_range), f"{words.threshold_words} <i>{words.letter}</i>*"),
        showlegend=False,
    )
    return spec_of(figure)


def _add_run(figure: go.Figure, kind: str, name: str, marks: Sequence[Mark], colour: str, *, shift: float) -> None:
    """Found thresholds as marks with their intervals, the others as open marks over the widths that are left to them."""
    for is_found in (True, False):
        own = [mark for mark in marks if (mark.m is not None) is is_found]
        if not own:
            continue
        heights = [mark.m if mark.m is not None else (mark.high if mark.high_open else mark.low) for mark in own]
        symbol = mark_shape(kind)[0] + ("" if is_found else "-open")
        figure.add_scatter(
            x=[mark.x * shift for mark in own], y=heights, mode="markers", name=name,
            text=[f"{mark.text}<br>{name}" for mark in own], hovertemplate="%{text}<extra></extra>",
            marker={"symbol": symbol, "size": 9, "color": colour},
            error_y={
                "type": "data", "symmetric": False, "color": colour, "thickness": 1.6, "width": 4,
                "array": [mark.high - height for mark, height in zip(own, heights, strict=True)],
                "arrayminus": [height - mark.low for mark, height in zip(own, heights, strict=True)],
            },
        )  # fmt: skip
