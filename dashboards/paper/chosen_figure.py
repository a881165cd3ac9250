"""One figure of a run for a paper: which, how wide, which of its panels, with or without the rival laws."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import matplotlib
from matplotlib.figure import Figure

from dashboards.paper.figures import TWO_COLUMNS_IN, custom_figure, laws_figure, losses_figure, phase_figure, threshold_figure
from dashboards.plots import (
    Chart,
    ChartFigure,
    CustomFigure,
    cell_views,
    custom_figures,
    loss_charts,
    phase_diagrams,
    read_shown_curves,
    residual_charts,
    threshold_charts,
)
from stsq_core.configs import UserError
from sweeps.findings import Findings

FIGURES = ("thresholds", "phases", "laws", "losses")

TEX_SYSTEMS = ("xelatex", "pdflatex", "lualatex")
"""What measures texts for pgf, in the order of preference; matplotlib takes the first, installed or not."""


def chosen_figure(
    findings: Findings, name: str = "", *, width_in: float | None = None, panels: Sequence[str] = (), has_rival: bool = True
) -> Figure:
    """A figure of a run, as matplotlib draws it for a paper.

    Args:
        findings: of the run.
        name: `thresholds`, `phases`, `laws` or `losses`, or the name of a drawing of the sweep; by default the first.
        width_in: in inches; by default that of a page of two columns.
        panels: the panels to show, by their numbers from 1 or the beginnings of their titles; by default all.
        has_rival: whether to draw, in grey, the laws that theory expects of the other architecture.

    Raises:
        UserError: the run has no such figure or panel.
    """
    customs = _customs(findings)
    names = tuple(customs) or FIGURES
    name = name or names[0]
    if name not in names:
        raise UserError(f"{findings.spec.name} has no figure {name!r}: give one of {', '.join(names)}")
    custom = customs.get(name)
    if custom is not None and not isinstance(custom, ChartFigure):
        return custom_figure(custom, width_in=width_in)
    charts = custom.charts if custom else _charts(findings, name)
    if not charts:
        raise UserError(f"{findings.run.path} has nothing to draw for {name} yet")
    shown = [one if has_rival else _without_rival(one) for one in _selected(charts, panels)]
    if custom is not None:
        return custom_figure(replace(custom, charts=tuple(shown)), width_in=width_in)
    match name:
        case "thresholds":
            return threshold_figure(shown, width_in=width_in)
        case "phases":
            return phase_figure(shown, width_in=width_in)
        case "laws":
            return laws_figure(shown, None, width_in=width_in or TWO_COLUMNS_IN)
        case _:
            return losses_figure(shown, width_in=width_in or TWO_COLUMNS_IN)


def first_figure(findings: Findings) -> str:
    """The name of the figure that a run shows where none is named."""
    return next(iter(_customs(findings)), FIGURES[0])


def _customs(findings: Findings) -> dict[str, CustomFigure]:
    level = findings.spec.criterion.level
    figures = (
        custom_figures(findings.spec.drawings, findings.observations, findings.run, level=level)
        if findings.spec.drawings
        else []
    )
    return {one.name: one for one in figures}


def _charts(findings: Findings, name: str) -> Sequence[Chart]:
    match name:
        case "thresholds":
            return threshold_charts(findings.regimes)
        case "phases":
            return phase_diagrams(findings.regimes)
        case "laws":
            return residual_charts(findings.regimes)
        case _:
            return loss_charts(cell_views(findings.thresholds, read_shown_curves(findings)))


def _selected(charts: Sequence[Chart], panels: Sequence[str]) -> list[Chart]:
    """The charts that panels name, in their order; all where none is named."""
    places: dict[int, None] = {}
    for panel in panels:
        word = panel.strip().lower()
        own = [
            place
            for place, chart in enumerate(charts, start=1)
            if (place == int(word) if word.isdigit() else word and chart.title.lower().startswith(word))
        ]
        if not own:
            titles = "; ".join(f"{place} {chart.title}" for place, chart in enumerate(charts, start=1))
            raise UserError(f"there is no panel {panel!r}: give the numbers or the beginnings of the titles of {titles}")
        places |= dict.fromkeys(own)
    return [charts[place - 1] for place in places] or list(charts)


def _without_rival(chart: Chart) -> Chart:
    return replace(chart, layers=tuple(one for one in chart.layers if getattr(one, "role", "") != "rival"))


@contextmanager
def installed_tex() -> Iterator[None]:
    """Measure the texts of a figure that is written as pgf by a TeX that is installed.

    Raises:
        UserError: there is none.
    """
    system = next(filter(shutil.which, TEX_SYSTEMS), None)
    if system is None:
        raise UserError(
            f"--format pgf needs {', '.join(TEX_SYSTEMS[:-1])} or {TEX_SYSTEMS[-1]} to measure its texts, and none is installed"
        )
    with matplotlib.rc_context({"pgf.texsystem": system}):
        yield
