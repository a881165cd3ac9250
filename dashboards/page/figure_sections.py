"""The page's figures: thresholds, losses, curves, thresholds through the run, and the custom figures of a sweep file."""

from collections.abc import Callable, Sequence
from typing import assert_never

import numpy as np

from dashboards.page.interactive import heat_spec, plotly_spec
from dashboards.page.sections import (
    PageSection,
    downloads,
    figure_element,
    lead_paragraph,
    legend_entry,
    name_html,
    page_section,
    rest_note,
)
from dashboards.plots import (
    MAX_CELLS,
    CellView,
    Chart,
    ChartFigure,
    CustomFigure,
    HeatFigure,
    Line,
    Marks,
    cell_names,
    curve_charts,
    curve_words,
    history_chart,
    loss_charts,
    median_words,
    settings_differ,
    share_loss_axis,
    tile_opacity,
)
from dashboards.words import (
    INK,
    STATUS_WORDS,
    WIDTHS,
    Formula,
    Html,
    architecture_name,
    element,
    prose,
    star_words,
    translucent,
)
from stsq_core.configs import SAMPLES, WIDTH
from sweeps.findings import Findings, KnownThresholds, interval_histories
from sweeps.schema import LOSS

MAX_RETRACED = 2 * MAX_CELLS
"""Cells whose intervals through training are computed."""


def thresholds_section(findings: Findings, charts: Sequence[Chart], names: Sequence[str]) -> PageSection | None:
    """The threshold figure with its caption, and a note where architectures were measured on different settings."""
    if not charts:
        return None
    against = ["setting" if chart.x.words else chart.x.label.text for chart in charts]
    size = findings.spec.criterion.size
    name = f"{size.threshold_words[0].upper()}{size.threshold_words[1:]}"
    figures = [
        figure_element(plotly_spec(chart, small=chart.is_small), f"{name} against {one}: {chart.title}")
        for chart, one in zip(charts, against, strict=True)
    ]
    drawn = _small_panels(charts, figures) if charts[0].is_small else [_large_panels(charts, figures)]
    caption = element(
        "figcaption",
        element("b", prose(f"{name} `{size.letter}`* against `{' or '.join(dict.fromkeys(against))}`.")),
        *map(prose, _caption(findings, charts)),
    )
    return page_section(
        "thresholds",
        f"{name}s" if size != SAMPLES else "Samples to the target",
        element("figure", *drawn, caption, class_="hero"),
        _difference_note(findings),
        downloads(names, ("thresholds.pdf", "thresholds.svg")),
        class_="first",
        heading=bool(findings.verdicts),  # without claims it is what the page begins with, and its caption names it
    )


def _large_panels(charts: Sequence[Chart], figures: Sequence[Sequence[Html]]) -> Html:
    """Charts side by side, each with its setting and its legend."""
    panels = [
        element(
            "div",
            element("h3", chart.title),
            element("p", prose(chart.note), class_="setting"),
            figure,
            element("p", *_chart_key(chart), class_="key"),
            class_="panel",
        )
        for chart, figure in zip(charts, figures, strict=True)
    ]
    return element("div", *panels, class_="panels")


def _small_panels(charts: Sequence[Chart], figures: Sequence[Sequence[Html]]) -> list[Html]:
    """The charts of each architecture below their legend."""
    parts = []
    for name in dict.fromkeys(chart.title.partition(", ")[0] for chart in charts):
        own = [(chart, figure) for chart, figure in zip(charts, figures, strict=True) if chart.title.partition(", ")[0] == name]
        keys = dict.fromkeys(key for chart, _ in own for key in _chart_key(chart))
        cards = [
            element("div", element("h4", name_html(chart.title.partition(", ")[2])), figure, class_="multiple")
            for chart, figure in own
        ]
        parts += [element("h3", name), element("p", *keys, class_="key"), element("div", *cards, class_="multiples joint")]
    return parts


def phases_section(charts: Sequence[Chart], names: Sequence[str]) -> PageSection | None:
    """The phase diagram: the fraction of seeds solved over the size and the letter of the task that varies."""
    if not charts:
        return None
    searched = any(line.role == "theory" for chart in charts for line in chart.lines)
    depths = [
        element("i", style=f"background:light-dark({translucent(INK.light, part)}, {translucent(INK.dark, part)})")
        for part in map(tile_opacity, (0.0, 0.25, 0.5, 0.75, 1.0))
    ]
    contours = " Lines: widths at which 1 and 9 in 10 seeds are solved, by the posterior of each search." if searched else ""
    drawn = [
        element(
            "div",
            element("h3", chart.title),
            figure_element(plotly_spec(chart), f"Fraction of seeds solved: {chart.title}"),
            element("p", *_chart_key(chart), class_="key"),
            class_="panel",
        )
        for chart in charts
    ]
    return page_section(
        "phases",
        "Phase diagram",
        lead_paragraph(
            "The fraction of trials that reach the target, a tile for each cell and stretch of sizes: pale where none is"
            f" solved, deep where all are, empty where none was tried.{contours}"
        ),
        element("p", element("span", "no seed solved", element("span", *depths, class_="ramp"), "all solved"), class_="key"),
        element("figure", element("div", *drawn, class_="panels")),
        downloads(names, ("phases.pdf", "phases.svg")),
    )


def losses_section(views: Sequence[CellView], names: Sequence[str]) -> PageSection | None:
    """Small multiples of loss against width."""
    if not views:
        return None
    dots = (
        "one seed, or the 5, 25, 75 and 95% quantiles where there are many" if any(v.quantiles for v in views) else "one seed"
    )
    keys = [
        legend_entry("dot", dots),
        legend_entry("", median_words((num for view in views for num in view.median_seeds), views[0].threshold.size.noun)),
        legend_entry("dashed", "target", colour="var(--target)"),
        legend_entry("band", "interval of the threshold"),
    ]
    keys += [legend_entry("dotted", "exact floor", colour="var(--ink)")] if any(view.floor for view in views) else []
    size = views[0].threshold.size
    when = "at every evaluation, against the samples drawn until then" if size == SAMPLES else "after the last step"
    metric, measure = views[0].threshold.metric, views[0].threshold.measure
    nothing = ": 1 is a network that has learned nothing" if metric.startswith(LOSS) else ""
    return page_section(
        "losses",
        f"Loss against {size.quantity}",
        lead_paragraph(f"{measure[0].upper()}{measure[1:]} on fresh data {when}{nothing}. Logarithmic axes."),
        element("p", *keys, class_="key"),
        *_multiples(views, loss_charts, _loss_words),
        downloads(names, ("losses.pdf", "losses.svg")),
    )


def curves_section(views: Sequence[CellView]) -> PageSection | None:
    """Small multiples of loss against step."""
    views = [view for view in views if view.curves]
    if not views:
        return None
    ramp = element(
        "span", *(element("i", style=f"background:light-dark({shade.light}, {shade.dark})") for shade in WIDTHS), class_="ramp"
    )
    size = views[0].threshold.size
    shown = curve_words([curve for view in views for curve in view.curves], size.noun)
    chosen = ", at the chosen learning rate" if any(len(view.threshold.points.rates) > 1 for view in views) else ""
    ends = ("narrow", ramp, "wide") if size == WIDTH else (f"few {size.quantity}", ramp, "many")
    return page_section(
        "curves",
        "Loss through training",
        lead_paragraph(f"Relative loss of the training batch against step, {shown}{chosen}."),
        element(
            "p",
            element("span", *ends),
            *([] if views[0].target_of_batch is None else [legend_entry("dashed", "target", colour="var(--target)")]),
            class_="key",
        ),
        *_multiples(views, curve_charts, _curve_words),
    )


def interval_history_section(findings: Findings, *, known: KnownThresholds) -> PageSection | None:
    """Small figures of each threshold with its interval against the number of trials that had ended; None where none moved."""
    names = dict(zip((one.key for one in findings.thresholds), cell_names(findings.thresholds), strict=True))
    shown = [threshold for threshold in findings.thresholds if threshold.status == "found"][:MAX_RETRACED]
    histories = interval_histories(shown, findings.records, findings.spec.criterion, known=known)
    cards: dict[str, list[Html]] = {}
    for now in shown:
        states = [state for state in histories.get(now.key, ()) if state.threshold.status == "found"]
        if len(states) > 1:
            name, words = names[now.key], f"{now.size.letter}* = {star_words(now.m_star)} after {now.num_trials:,} trials"
            place = figure_element(
                plotly_spec(history_chart(name, states), small=True), f"{architecture_name(now.kind)}, {name}: {words}"
            )
            link = element("a", name_html(name), href=f"#cell={now.key}")
            note = element("p", prose(f"`{now.size.letter}`{words.removeprefix(now.size.letter)}"))
            cards.setdefault(now.kind, []).append(element("div", element("h4", link), note, place, class_="multiple"))
    if not cards:
        return None
    parts: list[Html | None] = []
    for kind, of_kind in cards.items():
        parts += [
            element("h3", element("span", architecture_name(kind), class_=kind)),
            element("div", *of_kind[:MAX_CELLS], class_="multiples"),
            rest_note(len(of_kind) - MAX_CELLS, "cells are not drawn"),
        ]
    return page_section(
        "narrowing",
        "Thresholds through the run",
        lead_paragraph(
            f"The threshold `{findings.spec.criterion.size.letter}`* of a cell after each pack of its trials, against the"
            " number of trials that had ended. Early states may have no interval; a bar is that of a state between such states."
            " States with the threshold beyond the range tried are left out. Logarithmic axes."
        ),
        element(
            "p",
            legend_entry("", "threshold"),
            legend_entry("band", f"{findings.spec.criterion.level:.0%} interval"),
            class_="key",
        ),
        *parts,
    )


def custom_figures_section(figures: Sequence[CustomFigure], names: Sequence[str], *, level: float) -> PageSection | None:
    """The figures that the sweep file declares, one below the other."""
    if not figures:
        return None
    return page_section(
        "drawings",
        "Figures",
        lead_paragraph(
            f"Lines are means over the seeds of a setting; bands and bars are {level:.0%} intervals; dotted lines are theory."
        ),
        *(_custom_figure(figure, names) for figure in figures),
    )


def _chart_key(chart: Chart) -> list[Html]:
    """The named lines and marks of a chart."""
    keys: list[Html] = []
    named: list[Marks | Line] = [*chart.marks, *chart.lines]
    for layer in named:
        if not layer.name.html:
            continue
        dashes = {"solid": "", "dashed": "dashed", "dashdot": "dashed", "dotted": "dotted"}
        look = dashes[layer.dash] if isinstance(layer, Line) else f"mark {layer.shape}{' ring' if layer.hollow else ''}"
        colour = f"light-dark({layer.shade.light}, {layer.shade.dark})"
        keys.append(legend_entry(look, element("span", Html(layer.name.html)), colour=colour))
    return list(dict.fromkeys(keys))


def _caption(findings: Findings, charts: Sequence[Chart]) -> list[str]:
    criterion = findings.spec.criterion
    tried = "budget" if criterion.size == SAMPLES else f"{criterion.size.nouns} tried"
    sentences = [
        f" Marks are the measured thresholds, bars their {criterion.level:.0%} intervals {_source_of_intervals(findings)};"
        f" arrows mark thresholds, or ends of intervals, beyond the {tried}."
    ]
    roles = {line.role for chart in charts for line in chart.lines}
    if "law" in roles:
        is_shaded = any(line.role == "law" and line.low is not None for chart in charts for line in chart.lines)
        interval = "; shaded: its interval over seeds and cells" if is_shaded else ""
        sentences.append(f" Solid: the named law of each family of cells, fitted{interval}.")
    if "rival" in roles:
        sentences.append(" Grey: the law that theory expects of the other architecture, fitted to the same marks.")
    if any(marks.hollow for chart in charts for marks in chart.marks):
        sentences.append(" Hollow marks were held out of the fits.")
    if "floor" in roles:
        sentences.append(
            " Dashed: the width below which no net that sees `X` through its first layer can reach the target, exact."
            " Dotted: 2`Td`, where a ReLU first layer can reach zero loss."
        )
    if charts[0].is_small:
        sentences.append(" The panels of an architecture share their axes; marks at one place stand side by side.")
    elif len({chart.x.label for chart in charts}) == 1 < len(charts):
        sentences.append(" All panels span equal factors on both axes, so slopes compare.")
    return sentences


def _source_of_intervals(findings: Findings) -> str:
    """What the intervals rest on: in a grid the seeds, in a search the points that it tried."""
    searched = [threshold.search is not None for threshold in findings.thresholds]
    if not any(searched):
        return "over seeds"
    posterior = "from a posterior over the points of each search"
    return posterior if all(searched) else f"over seeds, or {posterior}"


def _custom_figure(figure: CustomFigure, names: Sequence[str]) -> Html:
    head = element("h3", figure.title)
    files = downloads(names, (f"{figure.name}.pdf", f"{figure.name}.svg"))
    match figure:
        case HeatFigure():
            cards = []
            for row in figure.rows:
                limit = max(float(np.abs(heat.matrix).max()) for heat in row) or 1.0
                for heat in row:
                    title = element("h4", Html(Formula.of(heat.title).html))
                    cards.append(element("div", title, figure_element(heat_spec(heat, limit), heat.title), class_="multiple"))
            return element("figure", head, element("div", *cards, class_="multiples heat"), files)
        case ChartFigure():
            panels = []
            for chart in figure.charts:
                above = element("h4", Html(Formula.of(chart.title).html)) if chart.title else None
                words = f"{figure.title}: {chart.y.label.text} against {chart.x.label.text} {chart.title.replace('$', '')}"
                panels.append(
                    element("div", above, figure_element(plotly_spec(chart, legend="below"), words), class_="panel drawn")
                )
            return element("figure", head, element("div", *panels, class_="panels"), files)
        case _:
            assert_never(figure)


def _difference_note(findings: Findings) -> Html | None:
    differences = settings_differ(findings.regimes)
    if not differences:
        return None
    words = f" {differences}. Compare how the thresholds grow, not their sizes."
    return element("p", element("b", "The architectures were measured on different settings:"), prose(words), class_="note")


def _multiples(
    views: Sequence[CellView], draw: Callable[[Sequence[CellView]], list[Chart]], words: Callable[[CellView], str]
) -> list[Html | None]:
    """Small figures in a grid, a grid an architecture; the figures of a grid share their loss axis."""
    parts: list[Html | None] = []
    for kind in dict.fromkeys(view.kind for view in views):
        of_kind = [view for view in views if view.kind == kind]
        shown = of_kind[:MAX_CELLS]
        cards = [
            element(
                "div",
                element("h4", name_html(view.name)),
                element("p", prose(words(view))),
                figure_element(plotly_spec(chart, small=True), f"{architecture_name(kind)}, {view.name}"),
                class_="multiple",
            )
            for view, chart in zip(shown, share_loss_axis(draw(shown)), strict=True)
        ]
        parts += [
            element("h3", element("span", architecture_name(kind), class_=kind)),
            element("div", *cards, class_="multiples"),
            rest_note(len(of_kind) - len(cards), "cells are in the table"),
        ]
    return parts


def _loss_words(view: CellView) -> str:
    threshold = view.threshold
    if threshold.status == "found":
        return f"`{threshold.size.letter}`* = {star_words(threshold.m_star)}"
    if not threshold.is_bounded:
        return "the target is not reached" if threshold.status in ("not_reached", "failed") else STATUS_WORDS[threshold.status]
    where = "above" if threshold.status == "above_range" else "at or below"
    return f"`{threshold.size.letter}`* {where} the {threshold.size.nouns} tried"


def _curve_words(view: CellView) -> str:
    widths = [curve.width for curve in view.curves]
    letter = view.threshold.size.letter
    return f"`{letter}` = {widths[0]} to {widths[-1]}" if len(widths) > 1 else f"`{letter}` = {widths[0]}"
