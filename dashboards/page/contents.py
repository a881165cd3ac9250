"""What stands on the page of a run, in which order, and which figures lie beside it."""

from dataclasses import dataclass, replace

from dashboards.page.cell_section import cell_section
from dashboards.page.claims_section import drawings_section, verdicts_section
from dashboards.page.figure_sections import curves_section, losses_section, thresholds_section
from dashboards.page.interval_history import interval_history_section
from dashboards.page.laws_section import laws_section
from dashboards.page.progress import progress_section
from dashboards.page.record_sections import failures_section, provenance_section, rerun_section
from dashboards.page.report_files import Draw, drawing_figures, figure_names, threshold_figures
from dashboards.page.sections import Section
from dashboards.page.table_section import table_section
from dashboards.plots import cell_views, drawn, exponents, read_shown_curves, residual_panels, threshold_panels
from sweeps.findings import Findings, KnownThresholds, Progress


@dataclass(frozen=True)
class Contents:
    """The sections of a page, and what draws the figures that they offer for download."""

    sections: tuple[Section, ...]
    figures: dict[str, Draw]

    def with_section(self, fresh: Section) -> "Contents":
        """The same page with another form of one of its sections."""
        return replace(self, sections=tuple(fresh if one.name == fresh.name else one for one in self.sections))


def contents_of(findings: Findings, progress: Progress, *, given: str, known: KnownThresholds) -> Contents:
    """The page of a run as `given` names it; `known` are thresholds of earlier states that were computed before."""
    shown, figures = _of_drawings(findings) if findings.spec.drawings else _of_thresholds(findings, given, known)
    how_far = progress_section(progress, thresholds=findings.thresholds)
    sections = [
        None if progress.complete else how_far,
        *shown,
        failures_section(findings, given),
        how_far if progress.complete else None,
        rerun_section(findings, given),
        provenance_section(findings),
    ]
    return Contents(tuple(one for one in sections if one is not None), figures)


def _of_thresholds(findings: Findings, given: str, known: KnownThresholds) -> tuple[list[Section | None], dict[str, Draw]]:
    """Width thresholds, the losses behind them and the tables: what a sweep without drawings of its own is shown by."""
    panels = threshold_panels(findings.regimes)
    views = cell_views(findings.thresholds, read_shown_curves(findings))
    residuals, powers = residual_panels(findings.regimes), exponents(findings.comparisons)
    figures = threshold_figures(panels, residuals, powers, views, level=findings.spec.criterion.level)
    names = figure_names(figures)
    sections = [
        verdicts_section(findings),
        thresholds_section(findings, panels, names),
        laws_section(findings, residuals, powers, names),
        table_section(findings),
        cell_section(findings, views, given),
        losses_section(views, names),
        interval_history_section(findings, known=known),
        curves_section(views),
    ]
    return sections, figures


def _of_drawings(findings: Findings) -> tuple[list[Section | None], dict[str, Draw]]:
    """The verdicts on its claims, and its drawings."""
    level = findings.spec.criterion.level
    plots = drawn(findings.spec.drawings, findings.observations, findings.run, level=level)
    figures = drawing_figures(plots)
    return [drawings_section(plots, figure_names(figures), level=level), verdicts_section(findings)], figures
