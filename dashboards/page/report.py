"""The report of a run: `report/index.html`, one file that needs no network; figures and tables for papers lie beside it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from dashboards.page.cell_section import cell_section
from dashboards.page.figure_sections import (
    curves_section,
    custom_figures_section,
    interval_history_section,
    losses_section,
    phases_section,
    thresholds_section,
)
from dashboards.page.html_document import Document, static_html
from dashboards.page.laws_section import laws_section
from dashboards.page.result_sections import table_section, verdicts_section
from dashboards.page.run_sections import failures_section, progress_section, provenance_section, rerun_section
from dashboards.page.sections import PageSection
from dashboards.page.summary import footer, heading
from dashboards.paper import (
    custom_figure,
    laws_csv,
    laws_figure,
    laws_latex,
    losses_figure,
    phase_figure,
    save_figure,
    threshold_figure,
    thresholds_csv,
    thresholds_json,
    thresholds_latex,
    trials_csv,
    verdicts_json,
)
from dashboards.plots import (
    cell_views,
    custom_figures,
    exponents_chart,
    loss_charts,
    phase_diagrams,
    read_shown_curves,
    residual_charts,
    threshold_charts,
)
from dashboards.words import shown_path, without_places
from sweeps.findings import Findings, KnownThresholds, Progress, read_findings, read_progress
from sweeps.store import disk_errors, write_atomically

ENDINGS = ("png", "pdf", "svg")
INSIDE = ("pdf", "svg")
"""What the page holds of a figure; a PNG is made by its button."""

Draw = Callable[[], Figure]


def write_report(run_path: Path | str, findings: Findings | None = None) -> Path:
    """Make the report of a run directory, whole or partial, and return the path of its page; `findings` where they are at hand.

    `index.html` holds all files that it offers and no path of this machine, so that it can be sent alone. Beside it lie
    `thresholds`, `phases`, `laws` and `losses`, each as `.png/.pdf/.svg`, `thresholds.csv/.tex/.json`, `laws.csv/.tex`,
    `trials.csv` and `sweep.yaml`; of a sweep with drawings those, each as `.png/.pdf/.svg`, `verdicts.json`, `trials.csv` and
    `sweep.yaml`.

    Raises:
        UserError: it is no run, its ledger cannot be read, or the report cannot be written.
    """
    findings = findings or read_findings(run_path)
    folder, given = findings.run.report, shown_path(run_path)
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    names = write_tables(findings, folder)
    contents = contents_of(findings, read_progress(findings.run, findings.progress_basis), given=given, known={})
    write_figures(contents.figures, folder)
    document = Document(findings.spec.heading, heading(findings), contents.sections, footer(given))
    page = folder / "index.html"
    text = static_html(document, _files(folder, names, contents.figures))
    write_atomically(page, text.encode(errors="surrogateescape"))  # a path may hold any bytes
    return page


def _files(folder: Path, tables: Sequence[str], figures: Iterable[str]) -> dict[str, bytes]:
    """The files of a report that its page holds."""
    drawn = (f"{name}.{ending}" for name in figures for ending in INSIDE)
    return {name: (folder / name).read_bytes() for name in (*tables, *drawn) if (folder / name).is_file()}


@dataclass(frozen=True)
class Contents:
    """The sections of a page, and what draws the figures that they offer for download."""

    sections: tuple[PageSection, ...]
    figures: dict[str, Draw]

    def with_section(self, fresh: PageSection) -> "Contents":
        """The same page with another form of one of its sections."""
        return replace(self, sections=tuple(fresh if one.name == fresh.name else one for one in self.sections))


def contents_of(findings: Findings, progress: Progress, *, given: str, known: KnownThresholds) -> Contents:
    """The page of a run as `given` names it; `known` are thresholds of earlier states that were computed before."""
    shown, figures = _of_custom_figures(findings) if findings.spec.drawings else _of_thresholds(findings, given, known)
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


def _of_thresholds(findings: Findings, given: str, known: KnownThresholds) -> tuple[list[PageSection | None], dict[str, Draw]]:
    """Thresholds, the losses behind them and the tables: the page of a sweep without custom figures."""
    charts = threshold_charts(findings.regimes)
    phases = phase_diagrams(findings.regimes)
    views = cell_views(findings.thresholds, read_shown_curves(findings))
    residuals, exponents = residual_charts(findings.regimes), exponents_chart(findings.comparisons)
    figures: dict[str, Draw] = {}
    if charts:
        figures["thresholds"] = partial(threshold_figure, charts)
    if residuals:
        figures["laws"] = partial(laws_figure, residuals, exponents)
    if phases:
        figures["phases"] = partial(phase_figure, phases)
    if views:
        figures["losses"] = partial(losses_figure, loss_charts(views))
    names = figure_names(figures)
    sections = [
        verdicts_section(findings),
        thresholds_section(findings, charts, names),
        phases_section(phases, names),
        laws_section(findings, residuals, exponents, names),
        table_section(findings),
        cell_section(findings, views, given),
        losses_section(views, names),
        interval_history_section(findings, known=known),
        curves_section(views),
    ]
    return sections, figures


def _of_custom_figures(findings: Findings) -> tuple[list[PageSection | None], dict[str, Draw]]:
    """The verdicts on the claims of a sweep, and the figures that its file declares."""
    level = findings.spec.criterion.level
    customs = custom_figures(findings.spec.drawings, findings.observations, findings.run, level=level)
    figures: dict[str, Draw] = {custom.name: partial(custom_figure, custom) for custom in customs}
    return [custom_figures_section(customs, figure_names(figures), level=level), verdicts_section(findings)], figures


def write_tables(findings: Findings, folder: Path) -> list[str]:
    """Write the tables of a run and its sweep file, without paths of this machine, and give their names."""
    tables = {"trials.csv": trials_csv(findings.records), "sweep.yaml": findings.spec.as_yaml()}
    if findings.spec.drawings:
        tables["verdicts.json"] = verdicts_json(findings.verdicts)
    else:
        tables["thresholds.csv"] = thresholds_csv(findings.thresholds, findings.laws)
        tables["thresholds.tex"] = thresholds_latex(findings.thresholds, findings.comparisons)
        tables["thresholds.json"] = thresholds_json(findings.thresholds, findings.comparisons, findings.decisions)
        tables["laws.csv"] = laws_csv(findings.comparisons, findings.thresholds)
        tables["laws.tex"] = laws_latex(findings.comparisons, findings.thresholds)
    for name, text in tables.items():
        write_atomically(folder / name, without_places(text).encode(errors="surrogateescape"))
    return list(tables)


def figure_names(figures: dict[str, Draw]) -> list[str]:
    """The names of the files that `write_figures` writes."""
    return [f"{name}.{ending}" for name in figures for ending in ENDINGS]


def write_figures(figures: dict[str, Draw], folder: Path) -> None:
    """Draw the figures; one of an earlier report for which there is nothing to draw any more is removed."""
    with disk_errors(folder):
        for name, draw in figures.items():
            save_figure(draw(), folder, name)
        for name in {"thresholds", "phases", "laws", "losses"} - figures.keys():
            for ending in ENDINGS:
                (folder / f"{name}.{ending}").unlink(missing_ok=True)
