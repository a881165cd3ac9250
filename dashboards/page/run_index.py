"""The page that lists the runs of a folder."""

from collections.abc import Sequence
from pathlib import Path

from dashboards.page.html_document import Document
from dashboards.page.run_summary import RunSummary
from dashboards.page.sections import page_section, status_tag
from dashboards.words import Html, element, table

STATES = {"running": "found", "complete": "found", "not running": "above_range", "unreadable": "failed"}
"""Each state of a run, with the class of its label."""


def index_of(folder: str, runs: Sequence[RunSummary], *, pages: Sequence[str]) -> Document:
    """The list of the runs below a folder; `pages` are the addresses of their own."""
    rows = [
        {
            "run": element("a", run.name(Path(folder)), href=page),
            "sweep": run.sweep,
            "state": status_tag(STATES[run.state], run.state),
            "bar": _bar(run),
            "progress": run.progress,
            "headline": run.headline,
        }
        for run, page in zip(runs, pages, strict=True)
    ]
    columns = {"run": "Run", "sweep": "Sweep", "state": "State", "bar": "Trials", "progress": "#Ended", "headline": "Result"}
    counts = [(sum(run.state == state for run in runs), state) for state in STATES]
    meta = [
        element("span", element("b", f"{len(runs)} run{'' if len(runs) == 1 else 's'}")),
        *(element("span", f"{count} {state}") for count, state in counts if count),
    ]
    title = f"Runs in {folder}"
    head = element("header", element("p", *meta, class_="meta"), element("h1", title), id="heading")
    section = page_section("runs", "Runs", table(columns, rows, class_="runs"), class_="first", heading=False)
    foot = element("p", "Made by stsq: ", element("code", f"stsq open page {folder}"), ".")
    return Document(title, head, (section,), foot)


def _bar(run: RunSummary) -> Html | None:
    if not run.num_trials:
        return None
    ended = element("i", style=f"width:{100 * run.num_ended / run.num_trials:.2f}%")
    return element("div", ended, class_="bar", role="img", aria_label=run.progress)
