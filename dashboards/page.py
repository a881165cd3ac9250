"""The page of a sweep: `report/index.html`, one file that needs no network; figures and tables for papers lie beside it."""

import shlex
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from string import Template

from dashboards.cells import CellView, cell_views
from dashboards.claims_section import drawings_section, verdicts_section
from dashboards.drawn import drawn
from dashboards.figure_sections import curves_section, losses_section, thresholds_section
from dashboards.figures import losses_figure, save_figure, threshold_figure
from dashboards.findings import Findings, read_findings
from dashboards.interactive import plotly_script
from dashboards.law_figures import laws_figure
from dashboards.law_panels import exponents, residual_panels
from dashboards.law_tables import laws_csv, laws_latex
from dashboards.law_words import estimate_words, plain_formula
from dashboards.laws_section import laws_section
from dashboards.markup import Html, element, joined, json_script, prose
from dashboards.panels import Panel, threshold_panels
from dashboards.plot_figures import heat_figure, plot_figure
from dashboards.plots import Plot
from dashboards.record_sections import failures_section, provenance_section, rerun_section
from dashboards.section import Section
from dashboards.story import claims_headline, headline, laws_behind, status_words
from dashboards.style import NAMES, theme_pairs
from dashboards.table_section import table_section
from dashboards.tables import thresholds_csv, thresholds_json, thresholds_latex, trials_csv, verdicts_json
from sweeps.files import disk_errors, write_atomically
from sweeps.laws import ScalingLaw


def write_report(run_path: Path | str, findings: Findings | None = None) -> Path:
    """Make the report of a run directory, whole or partial, and return the path of its page; `findings` where they are at hand.

    Beside `index.html` it writes `thresholds.png/.pdf/.csv/.tex/.json`, `laws.png/.pdf/.csv/.tex`, `losses.png/.pdf` and
    `trials.csv`; of a sweep with drawings those, each as `.png/.pdf`, `verdicts.json` and `trials.csv`.

    Raises:
        UserError: it is no run, its ledger cannot be read, or the report cannot be written.
    """
    findings = findings or read_findings(run_path)
    folder = findings.run.report
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    page = folder / "index.html"
    sections = _sections_of_drawings if findings.spec.drawings else _sections_of_thresholds
    write_atomically(page, _page(findings, sections(findings, folder), given=str(run_path)).encode())
    return page


def _sections_of_thresholds(findings: Findings, folder: Path) -> list[Section | None]:
    """Width thresholds, the losses behind them and the tables: what a sweep without drawings of its own is shown by."""
    panels = threshold_panels(findings.regimes)
    views = cell_views(findings.thresholds, findings.curves())
    names = [*_write_tables(findings, folder), *_write_figures(findings, panels, views, folder)]
    return [
        verdicts_section(findings),
        thresholds_section(findings, panels, names),
        laws_section(findings, residual_panels(findings.regimes), exponents(findings.comparisons), names),
        table_section(findings),
        losses_section(views, names),
        curves_section(views),
    ]


def _sections_of_drawings(findings: Findings, folder: Path) -> list[Section | None]:
    """The verdicts on its claims, and its drawings."""
    level = findings.spec.criterion.level
    plots = drawn(findings.spec.drawings, findings.observations, findings.run, level=level)
    files = {"trials.csv": trials_csv(findings.records), "verdicts.json": verdicts_json(findings.verdicts)}
    for name, text in files.items():
        write_atomically(folder / name, text.encode())
    names = []
    with disk_errors(folder):
        for plot in plots:
            figure = plot_figure(plot) if isinstance(plot, Plot) else heat_figure(plot)
            names += [path.name for path in save_figure(figure, folder, plot.name)]
    return [drawings_section(plots, names, level=level), verdicts_section(findings)]


def _write_tables(findings: Findings, folder: Path) -> list[str]:
    tables = {
        "thresholds.csv": thresholds_csv(findings.thresholds, findings.laws),
        "thresholds.tex": thresholds_latex(findings.thresholds, findings.comparisons),
        "thresholds.json": thresholds_json(findings.thresholds, findings.comparisons),
        "laws.csv": laws_csv(findings.comparisons, findings.thresholds),
        "laws.tex": laws_latex(findings.comparisons, findings.thresholds),
        "trials.csv": trials_csv(findings.records),
    }
    for name, text in tables.items():
        write_atomically(folder / name, text.encode())
    return list(tables)


def _write_figures(findings: Findings, panels: tuple[Panel, ...], views: tuple[CellView, ...], folder: Path) -> list[str]:
    """Draw the figures there is something to draw for; one left from an earlier report that no longer holds is removed."""
    residuals, powers = residual_panels(findings.regimes), exponents(findings.comparisons)
    figures = {
        "thresholds": threshold_figure(panels, level=findings.spec.criterion.level) if panels else None,
        "laws": laws_figure(residuals, powers) if residuals else None,
        "losses": losses_figure(views) if views else None,
    }
    names: list[str] = []
    with disk_errors(folder):
        for name, figure in figures.items():
            if figure is None:
                for ending in ("png", "pdf"):
                    (folder / f"{name}.{ending}").unlink(missing_ok=True)
            else:
                names += [path.name for path in save_figure(figure, folder, name)]
    return names


def _page(findings: Findings, sections: list[Section | None], *, given: str) -> str:
    shown = [
        *sections,
        failures_section(findings, given),
        rerun_section(findings, given),
        provenance_section(findings),
    ]
    present = [section for section in shown if section is not None]
    assets = resources.files("dashboards") / "assets"
    return Template((assets / "page.html").read_text("utf-8")).substitute(
        title=element("title", findings.spec.heading),
        css=(assets / "page.css").read_text("utf-8"),
        header=_header(findings),
        contents=joined(*(element("li", element("a", section.title, href=f"#{section.name}")) for section in present)),
        sections=joined(*(section.html for section in present)),
        footer=_footer(given),
        theme=json_script(theme_pairs(), id="theme"),
        plotly=plotly_script(),
        script=(assets / "page.js").read_text("utf-8"),
    )


def _header(findings: Findings) -> Html:
    told, complete = status_words(findings)
    phrases = claims_headline(findings.verdicts) if findings.verdicts else headline(findings)
    meta = [
        element("span", element("b", findings.spec.name)),
        element("span", told, class_=None if complete else "partial"),
        element("span", f"{datetime.now(UTC):%-d %B %Y, %H:%M} UTC"),
    ]
    sentence = [element("span", prose(phrase.text), class_=phrase.kind or None) for phrase in phrases]
    return element(
        "header",
        element("p", *meta, class_="meta"),
        element("h1", findings.spec.heading),
        element("p", element("span", "Hypothesis"), findings.spec.hypothesis, class_="hypothesis"),
        element("p", *sentence, class_="headline" if len(phrases) > 1 else "headline none"),
        *(_law_line(law) for law in laws_behind(findings) if not findings.spec.drawings),
    )


def _law_line(law: ScalingLaw) -> Html:
    name = element("span", NAMES.get(law.kind, law.kind), class_=law.kind)
    letter = list(law.parameters)[-1]
    told = prose(f" with {estimate_words(law, letter)}")
    return element("p", name, prose(": `m`* = "), Html(plain_formula(law).html), told, class_="laws")


def _footer(given: str) -> Html:
    return element("p", "Made by stsq from the ledger and journals of ", element("code", given), ". Make it again: ",
                   element("code", f"stsq report {shlex.quote(given)}"), ".")  # fmt: skip
