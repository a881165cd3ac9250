"""The page that compares runs side by side: thresholds in one figure and one table, and differences of the sweeps."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dashboards.page.headline import summary_words
from dashboards.page.html_document import Document
from dashboards.page.interactive import plotly_spec
from dashboards.page.run_sections import total_bar
from dashboards.page.sections import (
    MAX_ROWS,
    PageSection,
    figure_element,
    lead_paragraph,
    page_section,
    rest_note,
    status_tag,
)
from dashboards.plots import cell_names, comparison_chart, run_shade
from dashboards.words import Html, architecture_name, element, interval_text, left_words, ratio_words, table
from sweeps.findings import Findings, Progress, threshold_ratio
from sweeps.schema import flattened
from sweeps.thresholds import WidthThreshold

MAX_FIELDS = 60
SAME_TRIALS = "the same trials"
SESSION = {"Code": "git_revision", "Machine": "cpu", "Versions": "versions"}


@dataclass(frozen=True)
class Compared:
    """One run of a comparison; `given` is its path as the user wrote it."""

    given: str
    findings: Findings
    progress: Progress


def comparison_of(runs: Sequence[Compared], *, pages: Sequence[str]) -> Document:
    """The comparison of runs; `pages` are the addresses of their own pages."""
    names = [run.given for run in runs]
    sections = [_runs_section(runs, pages), _figure_section(runs), _cells_section(runs), _settings_section(runs)]
    legend = [element("span", _swatch(place), element("code", name)) for place, name in enumerate(names)]
    head = element(
        "header",
        element("p", element("span", element("b", f"{len(runs)} runs")), class_="meta"),
        element("h1", "Side by side"),
        element("p", *legend, class_="key"),
        id="heading",
    )
    foot = element("p", "Made by stsq: ", element("code", f"stsq open page {' '.join(names)}"), ".")
    title = f"{len(runs)} runs side by side"
    return Document(title, head, tuple(one for one in sections if one is not None), foot)


def _runs_section(runs: Sequence[Compared], pages: Sequence[str]) -> PageSection:
    rows = [
        {
            "run": element("a", _swatch(place), run.given, href=page),
            "sweep": run.findings.spec.name,
            "bar": total_bar(run.progress),
            "ended": f"{run.progress.num_ended:,} / {run.progress.num_trials:,}",
            "left": "done" if run.progress.complete else left_words(run.progress.seconds_left),
            "found": summary_words(run.findings.thresholds),
        }
        for place, (run, page) in enumerate(zip(runs, pages, strict=True))
    ]
    columns = {
        "run": "Run", "sweep": "Sweep", "bar": "Trials", "ended": "#Ended", "left": "#Time left", "found": "Thresholds",
    }  # fmt: skip
    return page_section("runs", "Runs", table(columns, rows, class_="progress"), class_="first")


def _figure_section(runs: Sequence[Compared]) -> PageSection | None:
    kinds = dict.fromkeys(one.kind for run in runs for one in run.findings.thresholds)
    panels = []
    for kind in kinds:
        of_runs = [(run.given, [one for one in run.findings.thresholds if one.kind == kind]) for run in runs]
        if (chart := comparison_chart(kind, of_runs)) is not None:
            place = figure_element(plotly_spec(chart), f"{chart.title}: thresholds of all runs")
            panels.append(element("div", element("h3", chart.title), place, class_="panel"))
    if not panels:
        return None
    level = runs[0].findings.spec.criterion.level
    key = element("p", *(element("span", _swatch(place), run.given) for place, run in enumerate(runs)), class_="key")
    caption = (
        f"Bars are {level:.0%} intervals. Hollow marks lie beyond the widths tried. Marks of the same cell are shifted apart."
    )
    return page_section(
        "thresholds",
        "Thresholds",
        element("figure", key, element("div", *panels, class_="panels"), element("figcaption", caption), class_="hero"),
    )


def _cells_section(runs: Sequence[Compared]) -> PageSection | None:
    """A row a cell, a column a run; cells are the same where nothing but widths, seeds and rates differs."""
    cells = matched_cells([run.findings.thresholds for run in runs])
    if not cells:
        return None
    samples = [next(one for one in own if one is not None) for own in cells.values()]
    rows = [
        {
            "kind": element("span", architecture_name(sample.kind), class_=sample.kind),
            "cell": name,
            **{str(place): _threshold(one) for place, one in enumerate(own)},
            "ratio": _ratio(own),
            "apart": _apart(own),
        }
        for own, sample, name in zip(cells.values(), samples, cell_names(samples), strict=True)
    ]
    columns = {"kind": "Architecture", "cell": "Cell"}
    columns |= {str(place): f"#{_plain(run.given)}" for place, run in enumerate(runs)}
    columns |= {"ratio": "#Last / first", "apart": "Intervals"}
    return page_section(
        "cells",
        "Cell by cell",
        lead_paragraph(
            f"`{samples[0].size.letter}`* with its interval. Cells are the same where the runs differ in nothing but"
            f" {samples[0].size.nouns}, seeds and learning rates. Intervals of ratios are those of independent trials: too wide"
            " where the runs share some, and left out of the same trials."
        ),
        table(columns, rows[:MAX_ROWS]),
        rest_note(len(rows) - MAX_ROWS, "cells"),
    )


def matched_cells(runs: Sequence[Sequence[WidthThreshold]]) -> dict[str, list[WidthThreshold | None]]:
    """The thresholds of each cell in every run, None where a run has none; cells differ in more than sizes, seeds and rates."""
    cells: dict[str, list[WidthThreshold | None]] = {}
    for place, thresholds in enumerate(runs):
        for threshold in thresholds:
            cells.setdefault(threshold.key, [None] * len(runs))[place] = threshold
    return cells


def _settings_section(runs: Sequence[Compared]) -> PageSection | None:
    """The settings in which the sweep files differ, and the code, machine and versions of the runs."""
    specs = [flattened(run.findings.spec.model_dump(mode="json")) for run in runs]
    names = [
        name for name in dict.fromkeys(name for spec in specs for name in spec) if len({repr(s.get(name)) for s in specs}) > 1
    ]
    rows = [{"field": element("code", name), **{str(i): _value(s.get(name)) for i, s in enumerate(specs)}} for name in names]
    made_with = [(name, [_session(run, field) for run in runs]) for name, field in SESSION.items()]
    rows = rows[:MAX_FIELDS] + [
        {"field": name, **{str(i): v for i, v in enumerate(values)}} for name, values in made_with if len(set(values)) > 1
    ]
    if not rows:
        return None
    columns = {"field": "Field"} | {str(place): _plain(run.given) for place, run in enumerate(runs)}
    return page_section("settings", "Differences", table(columns, rows), rest_note(len(names) - MAX_FIELDS, "fields differ"))


def _threshold(threshold: WidthThreshold | None) -> object:
    if threshold is None:
        return "not in this run"
    if threshold.m_star is None:
        return status_tag(threshold.status, threshold.status.replace("_", " "))
    return [element("b", f"{threshold.m_star:.2f}"), " ", element("small", interval_text(threshold))]


def run_ratio(first: WidthThreshold, last: WidthThreshold) -> tuple[str, bool]:
    """The ratio of a cell's thresholds in two runs, with the trials that both have, and whether its interval lies beside 1.

    Of the very same trials there is no interval, as nothing of the ratio is chance.
    """
    value, low, high = threshold_ratio(last, first)
    one, two = (set(own.points.outcomes.trial_ids) for own in (first, last))
    if one == two:
        return ", ".join(filter(None, (ratio_words(value, math.nan, math.nan), SAME_TRIALS))), False
    shared = f"{len(one & two):,} of {len(one | two):,} trials shared" if one & two else ""
    return ", ".join(filter(None, (ratio_words(value, low, high), shared))), low > 1 or high < 1


def _ratio(own: Sequence[WidthThreshold | None]) -> str:
    first, last = own[0], own[-1]
    return "" if first is None or last is None else run_ratio(first, last)[0]


def _apart(own: Sequence[WidthThreshold | None]) -> str:
    """Whether the intervals of all runs overlap; empty where one of them has none."""
    ends = [(one.low, one.high) for one in own if one is not None]
    if len({frozenset(one.points.outcomes.trial_ids) for one in own if one is not None}) == 1 < len(ends):
        return SAME_TRIALS
    if len(ends) < len(own) or any(low is None or high is None for low, high in ends):
        return ""
    lows, highs = zip(*ends, strict=True)
    return "overlap" if max(lows) <= min(highs) else "apart"


def _session(run: Compared, name: str) -> str:
    value = getattr(run.findings.sessions[-1], name) if run.findings.sessions else ""
    return ", ".join(f"{name} {version}" for name, version in value.items()) if isinstance(value, dict) else str(value or "")


def _value(value: object) -> str:
    text = "" if value is None else str(value)
    return text if len(text) <= 200 else f"{text[:199]}\N{HORIZONTAL ELLIPSIS}"


def _plain(text: str) -> str:
    """A path as a heading, in which backquotes would mark formulas."""
    return text.replace("`", "'")


def _swatch(place: int) -> Html:
    shade = run_shade(place)
    return element("i", class_="swatch", style=f"background:light-dark({shade.light}, {shade.dark})")
