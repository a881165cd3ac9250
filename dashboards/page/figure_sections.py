"""The page's figures: width thresholds, loss against width, loss through training."""

from collections.abc import Callable, Sequence

from dashboards.page.interactive import Spec, curves_plots, losses_plots, threshold_plot
from dashboards.page.sections import Section, downloads, key, lead, more, name_html, plot_place, section
from dashboards.plots import MAX_CELLS, CellView, Panel, settings_differ
from dashboards.words import WIDTHS, Html, architecture_name, element, mark_shape, prose, star_words
from stsq_core.configs import SAMPLES, WIDTH, Size
from sweeps.findings import Findings


def thresholds_section(findings: Findings, panels: Sequence[Panel], names: Sequence[str]) -> Section | None:
    """The threshold figure with what it shows and what it must not be read as."""
    if not panels:
        return None
    level = findings.spec.criterion.level
    drawn = [
        element(
            "div",
            element("h3", panel.title),
            element("p", prose(panel.setting), class_="setting"),
            plot_place(
                threshold_plot(panel, level=level),
                f"{_capital(panel.size.threshold_words)} against {panel.against}: {panel.title}",
            ),
            element("p", *_panel_key(panel, level), class_="key"),
            class_="panel",
        )
        for panel in panels
    ]
    return section(
        "thresholds",
        f"{_capital(panels[0].size.threshold_words)}s" if panels[0].size != SAMPLES else "Samples to the target",
        element("figure", element("div", *drawn, class_="panels"), _threshold_caption(findings, panels), class_="hero"),
        _difference_note(findings),
        downloads(names, ("thresholds.png", "thresholds.pdf")),
        class_="first",
        heading=False,
    )


def losses_section(views: Sequence[CellView], names: Sequence[str]) -> Section | None:
    """Small multiples of loss against width."""
    if not views:
        return None
    dots = (
        "one seed, or the 5, 25, 75 and 95% quantiles where there are many" if any(v.quantiles for v in views) else "one seed"
    )
    keys = [
        key("dot", dots),
        key("", "median over seeds"),
        key("dashed", "target", colour="var(--target)"),
        key("band", "interval of the threshold"),
    ]
    keys += [key("dotted", "exact floor", colour="var(--ink)")] if any(view.floor for view in views) else []
    size = views[0].threshold.size
    when = "at every evaluation, against the samples drawn until then" if size == SAMPLES else "after the last step"
    return section(
        "losses",
        f"Loss against {size.quantity}",
        lead(f"Relative loss on fresh data {when}: 1 is a network that has learned nothing. Logarithmic axes."),
        element("p", *keys, class_="key"),
        *_multiples(views, losses_plots, _loss_words),
        downloads(names, ("losses.png", "losses.pdf")),
    )


def curves_section(views: Sequence[CellView]) -> Section | None:
    """Small multiples of loss against step."""
    views = [view for view in views if view.curves]
    if not views:
        return None
    ramp = element(
        "span", *(element("i", style=f"background:light-dark({shade.light}, {shade.dark})") for shade in WIDTHS), class_="ramp"
    )
    return section(
        "curves",
        "Loss through training",
        lead(
            "Relative loss of the training batch against step, the median over seeds of each"
            f" {views[0].threshold.size.noun} at its chosen learning rate."
        ),
        element(
            "p",
            element("span", *_ends_of_ramp(views[0].threshold.size, ramp)),
            key("dashed", "target", colour="var(--target)"),
            class_="key",
        ),
        *_multiples(views, curves_plots, _curve_words),
    )


def _panel_key(panel: Panel, level: float) -> list[Html]:
    """What the lines and marks of a panel are."""
    looks = {"law": "", "rival": "dashed", "floor": "dashed", "relu": "dotted"}
    colours = {"rival": "var(--muted)", "floor": "var(--ink)", "relu": "var(--muted)"}
    keys: list[Html] = []
    for series in panel.series:
        colour, mark = f"light-dark({series.shade.light}, {series.shade.dark})", f"mark {mark_shape(series.kind)[0]}"
        if not panel.names:
            keys.append(key(mark, f"{series.name}, {level:.0%} interval", colour=colour))
        if any(one.held_out for one in series.marks):
            keys.append(key(f"{mark} ring", "held out of the fits", colour=colour))
        keys += [
            key(looks[line.role], element("span", Html(line.name.html)), colour=colours.get(line.role, colour))
            for line in series.lines
        ]
    return list(dict.fromkeys(keys))


def _threshold_caption(findings: Findings, panels: Sequence[Panel]) -> Html:
    criterion = findings.spec.criterion
    axis, size = " or ".join(dict.fromkeys(panel.against for panel in panels)), panels[0].size
    named = all(regime.comparison is None or regime.comparison.is_expected for regime in findings.regimes)
    told = [
        f" Marks are the measured thresholds, bars their {criterion.level:.0%} intervals over seeds; an arrow is a threshold,"
        f" or an end of an interval, beyond the {'budget' if size == SAMPLES else f'{size.nouns} that were tried'}."
    ]
    roles = {line.role for panel in panels for series in panel.series for line in series.lines}
    if "law" in roles:
        told.append(
            f" Solid: {'the law that theory expects of the architecture' if named else 'the best law'}, fitted; shaded: its"
            " interval over seeds and cells."
        )
    if "rival" in roles:
        told.append(" Grey: the law that it expects of the other architecture, fitted to the same marks.")
    if any(mark.held_out for panel in panels for series in panel.series for mark in series.marks):
        told.append(" Hollow marks were held out of the fits.")
    if "floor" in roles:
        told.append(
            " Dashed: the width below which no net that sees `X` through its first layer can reach the target, exact."
            " Dotted: 2`Td`, where a ReLU first layer can reach zero loss."
        )
    if len(panels) > 1:
        told.append(" All panels span equal factors on both axes, so slopes compare.")
    return element(
        "figcaption",
        element("b", prose(f"{_capital(size.threshold_words)} `{size.letter}`* against `{axis}`.")),
        *map(prose, told),
    )


def _difference_note(findings: Findings) -> Html | None:
    told = settings_differ(findings.regimes)
    if not told:
        return None
    words = f" {told}. Compare how the thresholds grow, not their sizes."
    return element("p", element("b", "The architectures were measured on different settings:"), prose(words), class_="note")


def _multiples(
    views: Sequence[CellView], plot: Callable[[Sequence[CellView]], list[Spec]], words: Callable[[CellView], str]
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
                plot_place(spec, f"{architecture_name(kind)}, {view.name}"),
                class_="multiple",
            )
            for view, spec in zip(shown, plot(shown), strict=True)
        ]
        parts += [
            element("h3", element("span", architecture_name(kind), class_=kind)),
            element("div", *cards, class_="multiples"),
            more(len(of_kind) - len(cards), "cells are in the table"),
        ]
    return parts


def _loss_words(view: CellView) -> str:
    threshold = view.threshold
    if threshold.status == "found":
        return f"`{threshold.size.letter}`* = {star_words(threshold.m_star)}"
    where = "above" if threshold.status == "above_range" else "at or below"
    return f"`{threshold.size.letter}`* {where} the {threshold.size.nouns} tried"


def _curve_words(view: CellView) -> str:
    widths = [curve.width for curve in view.curves]
    letter = view.threshold.size.letter
    return f"`{letter}` = {widths[0]} to {widths[-1]}" if len(widths) > 1 else f"`{letter}` = {widths[0]}"


def _ends_of_ramp(size: Size, ramp: Html) -> tuple[str | Html, ...]:
    """What the ends of the ramp stand for."""
    return ("narrow", ramp, "wide") if size == WIDTH else (f"few {size.quantity}", ramp, "many")


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
