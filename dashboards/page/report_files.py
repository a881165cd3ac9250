"""The files beside the page: tables and figures for papers, and the sweep file."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from dashboards.paper import (
    heat_figure,
    laws_csv,
    laws_figure,
    laws_latex,
    losses_figure,
    plot_figure,
    save_figure,
    threshold_figure,
    thresholds_csv,
    thresholds_json,
    thresholds_latex,
    trials_csv,
    verdicts_json,
)
from dashboards.plots import CellView, Exponent, HeatPlot, Panel, Plot, ResidualPanel
from sweeps.findings import Findings
from sweeps.store import disk_errors, write_atomically

ENDINGS = ("png", "pdf")
Draw = Callable[[], Figure]


def write_tables(findings: Findings, folder: Path) -> list[str]:
    """Write the tables of a run and its sweep file, and give their names."""
    tables = {"trials.csv": trials_csv(findings.records), "sweep.yaml": findings.spec.as_yaml()}
    if findings.spec.drawings:
        tables["verdicts.json"] = verdicts_json(findings.verdicts)
    else:
        tables["thresholds.csv"] = thresholds_csv(findings.thresholds, findings.laws)
        tables["thresholds.tex"] = thresholds_latex(findings.thresholds, findings.comparisons)
        tables["thresholds.json"] = thresholds_json(findings.thresholds, findings.comparisons)
        tables["laws.csv"] = laws_csv(findings.comparisons, findings.thresholds)
        tables["laws.tex"] = laws_latex(findings.comparisons, findings.thresholds)
    for name, text in tables.items():
        write_atomically(folder / name, text.encode())
    return list(tables)


def threshold_figures(
    panels: Sequence[Panel],
    residuals: tuple[ResidualPanel, ...],
    powers: tuple[Exponent, ...],
    views: Sequence[CellView],
    *,
    level: float,
) -> dict[str, Draw]:
    """What draws the figures for which there is something to draw."""
    drawn: dict[str, Draw] = {}
    if panels:
        drawn["thresholds"] = partial(threshold_figure, panels, level=level)
    if residuals:
        drawn["laws"] = partial(laws_figure, residuals, powers)
    if views:
        drawn["losses"] = partial(losses_figure, views)
    return drawn


def drawing_figures(plots: Sequence[Plot | HeatPlot]) -> dict[str, Draw]:
    """What draws the drawings of a sweep."""
    return {plot.name: partial(plot_figure, plot) if isinstance(plot, Plot) else partial(heat_figure, plot) for plot in plots}


def figure_names(figures: dict[str, Draw]) -> list[str]:
    """The names of the files that `write_figures` writes."""
    return [f"{name}.{ending}" for name in figures for ending in ENDINGS]


def write_figures(figures: dict[str, Draw], folder: Path) -> None:
    """Draw the figures; one of an earlier report for which there is nothing to draw any more is removed."""
    with disk_errors(folder):
        for name, draw in figures.items():
            save_figure(draw(), folder, name)
        for name in {"thresholds", "laws", "losses"} - figures.keys():
            for ending in ENDINGS:
                (folder / f"{name}.{ending}").unlink(missing_ok=True)
