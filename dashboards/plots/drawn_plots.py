"""What each drawing of a sweep shows; heat maps are of the first seed of each cell whose arrays were kept."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dashboards.plots.plots import Plot, curves_plot, profile_plot
from dashboards.words import setting_words
from stsq_core.configs import UserError
from sweeps.findings import Observation, cells_of, differing, selected
from sweeps.schema import Curves, Drawing, Matrices, Profile
from sweeps.store import RunDirectory, load_weights


@dataclass(frozen=True)
class Heat:
    """One matrix; `edges` are the rows and columns at which blocks begin."""

    title: str
    matrix: np.ndarray
    edges_x: tuple[int, ...] = ()
    edges_y: tuple[int, ...] = ()


@dataclass(frozen=True)
class HeatPlot:
    """Rows of heat maps whose colours share a scale."""

    name: str
    title: str
    rows: tuple[tuple[Heat, ...], ...]


def drawn(
    drawings: Sequence[Drawing], observations: Sequence[Observation], run: RunDirectory, *, level: float
) -> list[Plot | HeatPlot]:
    """What each drawing shows, those left out for which there is nothing to show yet."""
    plots: list[Plot | HeatPlot | None] = []
    for drawing in drawings:
        match drawing:
            case Curves():
                plots.append(curves_plot(drawing, observations, level=level))
            case Profile():
                plots.append(profile_plot(drawing, observations, level=level))
            case Matrices():
                plots.append(heat_plot(drawing, observations, run))
    return [plot for plot in plots if isinstance(plot, HeatPlot) or (plot is not None and any(p.traces for p in plot.panels))]


def heat_plot(drawing: Matrices, observations: Sequence[Observation], run: RunDirectory) -> HeatPlot | None:
    """Arrays at initialisation and after training; None where none were kept."""
    chosen = selected(observations, drawing)
    names = differing(chosen)
    rows: list[tuple[Heat, ...]] = []
    for cell in cells_of(chosen):
        one = cell[0]
        try:
            after = load_weights(run.path, one.config.trial_id)
        except UserError:
            continue
        from stsq_core.training import initial_weights

        before = initial_weights(one.config)
        words = setting_words((name, one.fields.get(name)) for name in names)
        for name in drawing.arrays:
            if name not in after:
                continue
            edges_y, edges_x = one.config.model.block_edges(one.config.task, name)
            label = f"${name}$" if len(name) == 1 else name
            titles = [f"{label} {when}{f', {words}' if words else ''}" for when in ("at initialisation", "after training")]
            rows.append(
                tuple(
                    Heat(title, arrays[name], edges_x=edges_x, edges_y=edges_y)
                    for title, arrays in zip(titles, (before, after), strict=True)
                )
            )
    return HeatPlot(drawing.name, drawing.title, tuple(rows)) if rows else None
