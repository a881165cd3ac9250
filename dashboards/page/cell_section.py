"""The page's section on single cells: picture, numbers, trials, and the command that trains each trial again."""

import shlex
from collections.abc import Sequence

import numpy as np

from dashboards.page.interactive import plotly_strips
from dashboards.page.sections import (
    PageSection,
    figure_element,
    lead_paragraph,
    legend_entry,
    name_html,
    page_section,
    rest_note,
    status_tag,
)
from dashboards.plots import MAX_CELLS, MAX_SEED_LINES, CellView, cell_names, cell_strips, median_words
from dashboards.words import (
    Html,
    architecture_name,
    element,
    interval_text,
    prose,
    star_words,
    table,
    whole_letter,
    without_places,
)
from stsq_core.configs import SAMPLES, WIDTH
from sweeps.findings import Findings
from sweeps.schema import LOSS
from sweeps.thresholds import Point, Points, WidthThreshold

MAX_TRIALS_LISTED = 60


def cell_section(findings: Findings, views: Sequence[CellView], given: str) -> PageSection | None:
    """A panel for each cell, of which the page's script shows the chosen one; without a script all are shown."""
    if not findings.thresholds:
        return None
    shown = findings.thresholds[:MAX_CELLS]
    names = dict(zip((one.key for one in findings.thresholds), cell_names(findings.thresholds), strict=True))
    by_cell = {view.threshold.key: view for view in views}
    run, noun = shlex.quote(given), findings.spec.criterion.size.noun
    chosen = f" Only trials with the learning rate chosen for each {noun}." if findings.sweep.several_rates else ""
    return page_section(
        "cell",
        "One cell in detail",
        lead_paragraph(
            f"From top to bottom: the distribution of the threshold's replicates; the share of seeds solved at each {noun}; the"
            f" {findings.spec.criterion.measure} of every seed.{chosen}"
            " Hover over a mark to see its trial."
        ),
        _chooser(shown, names),
        *(_panel(one, names[one.key], by_cell.get(one.key), run) for one in shown),
        rest_note(len(findings.thresholds) - len(shown), "cells are in trials.csv"),
    )


def _chooser(thresholds: Sequence[WidthThreshold], names: dict[str, str]) -> Html:
    groups = [
        element(
            "optgroup",
            *(element("option", names[one.key], value=one.key) for one in thresholds if one.kind == kind),
            label=architecture_name(kind),
        )
        for kind in dict.fromkeys(one.kind for one in thresholds)
    ]
    return element(
        "div",
        element("label", "Cell", for_="cell-choice"),
        element("select", *groups, id="cell-choice"),
        element("button", "Previous", type="button", id="cell-previous"),
        element("button", "Next", type="button", id="cell-next"),
        class_="chooser needs-script",
    )


def _panel(threshold: WidthThreshold, name: str, view: CellView | None, run: str) -> Html:
    kind = architecture_name(threshold.kind)
    title = element("h3", element("span", kind, class_=threshold.kind), ", ", name_html(name))
    if view is None:
        picture: object = element("p", "No trial of this cell gave a number.", class_="note")
    else:
        words = f"{kind}, {name}: {threshold.measure}, share of seeds solved and threshold against {threshold.size.quantity}"
        picture = [
            element("p", *cell_keys(view), class_="key"),
            *figure_element(plotly_strips(cell_strips(view)), words),
            _saving(threshold, name),
        ]
    return element(
        "article",
        title,
        element("div", element("div", picture), _facts(threshold, run), class_="closely"),
        _trials(threshold, name, run),
        id=f"cell-{threshold.key}",
        class_="cell-panel",
        data_cell=threshold.key,
    )


def cell_keys(view: CellView) -> list[Html]:
    """The legend of a cell's picture."""
    few = not view.quantiles and view.threshold.num_seeds <= MAX_SEED_LINES
    keys = [
        legend_entry("dot", "one seed" if few else "5, 25, 75 and 95% of seeds" if view.quantiles else "one seed at one width")
    ]
    keys += [
        legend_entry("", median_words(view.median_seeds, view.threshold.size.noun)),
        legend_entry("dashed", "target", colour="var(--target)"),
        legend_entry("band", "interval"),
    ]
    return keys + ([legend_entry("dotted", "exact floor", colour="var(--ink)")] if view.floor else [])


def _saving(threshold: WidthThreshold, name: str) -> Html:
    """The button that saves the table below as CSV."""
    stem = f"{threshold.kind} {name}".replace(" = ", "").replace(", ", "-").replace(" ", "-")
    return element(
        "p", element("button", "Save the trials as CSV", type="button", data_save=stem), class_="saving needs-script"
    )


def _facts(threshold: WidthThreshold, run: str) -> Html:
    status = threshold.status.replace("_", " ")
    ended = [f"{threshold.num_trials:,} trials, {threshold.num_seeds:,} seeds"]
    ended += [f"{count:,} {way}" for way in ("diverged", "failed") if (count := getattr(threshold, f"num_{way}"))]
    size = threshold.size
    whole = "`M`" if size == WIDTH else whole_letter(size).capitalize()
    m_star = (
        [(f"`{size.letter}`*", element("b", star_words(threshold.m_star))), (whole, threshold.M)]
        if threshold.m_star is not None
        else []
    )
    pairs: list[tuple[str, object]] = [
        ("Threshold", status_tag(threshold.status, status)),
        *m_star,
        (f"{threshold.level:.0%} interval", interval_text(threshold)),
        ("Criterion", _criterion(threshold)),
        _range(threshold),
        ("Ended", ", ".join(ended)),
        ("Cell", element("code", threshold.cell_id)),
        ("Setting", threshold.label),
        *([("Note", without_places(threshold.note))] if threshold.note else []),
        ("Command", element("code", f"stsq show {run}")),
    ]
    return element("dl", *(part for name, value in pairs for part in (element("dt", prose(name)), element("dd", value))))


def _criterion(threshold: WidthThreshold) -> str:
    share, target = f"{threshold.success_rate:.0%} of seeds", f"{threshold.target_loss:g}"
    if threshold.metric == LOSS:
        return f"{share} at a loss of {target} or less"
    return f"{threshold.measure} at most {target} for {share}"


def _loss_text(point: Point) -> str:
    """The loss with its standard error, where it has one."""
    if point.relative_loss is None:
        return ""
    error = point.relative_loss_stderr
    return f"{point.relative_loss:.4g}" + ("" if error is None else f" ± {error:.1g}")


def _range(threshold: WidthThreshold) -> tuple[str, str]:
    """The sizes tried, or the budget of samples."""
    if threshold.size == SAMPLES:
        return "Budget", f"{max(threshold.widths):,} samples"
    sizes = f"{len(threshold.widths)}: {min(threshold.widths):g} to {max(threshold.widths):g}"
    return threshold.size.nouns.capitalize(), sizes


def _trials(threshold: WidthThreshold, name: str, run: str) -> Html:
    points = threshold.points
    chosen = points.take(points.chosen) if points.chosen.any() else points
    shown = chosen if len(chosen) <= MAX_TRIALS_LISTED else _one_a_width(chosen)
    rows = [
        {
            "m": point.width,
            "seed": point.seed,
            "lr": f"{point.lr:g}",
            "loss": _loss_text(point),
            "status": point.status,
            "again": element("code", f"stsq trial {run} {point.trial_id}"),
        }
        for point in shown
    ]
    columns = {
        "m": f"#`{threshold.size.letter}`",
        "loss": f"#{threshold.measure[0].upper()}{threshold.measure[1:]}",
        "status": "Status",
        "lr": "#Rate",
        "seed": "#Seed",
        "again": "Command",
    }
    note = (
        f"{len(chosen)} trials"
        if len(shown) == len(chosen)
        else f"{len(chosen):,} trials, one of each {threshold.size.noun} shown"
    )
    summary = element(
        "summary", "Trials behind this threshold, with the command that trains each again ", element("small", note)
    )
    return element("details", summary, table(columns, rows), id=f"trials-{threshold.key}")


def _one_a_width(points: Points) -> Points:
    """The last point of each width."""
    ends = np.flatnonzero(np.append(np.diff(points.widths) != 0, True))
    return points.take(ends[:MAX_TRIALS_LISTED])
