"""The report of a run: `report/index.html`, one file that needs no network; figures and tables for papers lie beside it."""

from pathlib import Path

from dashboards.page.contents import contents_of
from dashboards.page.html_document import Document, static_html
from dashboards.page.page_heading import footer, heading
from dashboards.page.report_files import write_figures, write_tables
from sweeps.findings import Findings, read_findings, read_progress
from sweeps.store import disk_errors, write_atomically


def write_report(run_path: Path | str, findings: Findings | None = None) -> Path:
    """Make the report of a run directory, whole or partial, and return the path of its page; `findings` where they are at hand.

    Beside `index.html` it writes `thresholds.png/.pdf/.csv/.tex/.json`, `laws.png/.pdf/.csv/.tex`, `losses.png/.pdf`,
    `trials.csv` and `sweep.yaml`; of a sweep with drawings those, each as `.png/.pdf`, `verdicts.json`, `trials.csv` and
    `sweep.yaml`.

    Raises:
        UserError: it is no run, its ledger cannot be read, or the report cannot be written.
    """
    findings = findings or read_findings(run_path)
    folder, given = findings.run.report, str(run_path)
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_tables(findings, folder)
    contents = contents_of(findings, read_progress(findings.run, findings.known), given=given, known={})
    write_figures(contents.figures, folder)
    document = Document(findings.spec.heading, heading(findings), contents.sections, footer(given))
    page = folder / "index.html"
    write_atomically(page, static_html(document).encode())
    return page
