"""The page's section on how thresholds narrowed down while trials ended."""

import math
from dataclasses import dataclass

from dashboards.page.interactive import Spec, base_layout, log_axis, spec_of, stroke
from dashboards.page.plain_figure import PlainFigure
from dashboards.page.sections import Section, key, lead, more, name_html, plot_place, section
from dashboards.plots import MAX_CELLS, cell_names
from dashboards.words import Html, architecture_name, element, prose, series_shade, star_words, translucent
from sweeps.findings import Findings, KnownThresholds, State, interval_histories
from sweeps.thresholds import WidthThreshold

MAX_RETRACED = 2 * MAX_CELLS
MARGIN = 1.1
"""Room around what is drawn, as a factor."""

LEAST_HALF = 1.15
"""Half of the least range of widths shown, as a factor, so that a tight interval looks tight."""


@dataclass(frozen=True)
class Retraced:
    """One cell: its threshold now, its name, and the states in which it was found."""

    threshold: WidthThreshold
    name: str
    states: tuple[State, ...]

    @property
    def reach(self) -> tuple[float, float]:
        """The widths between which all intervals lie."""
        ends = [end for state in self.states for end in _interval(state.threshold)]
        return min(ends), max(ends)


def interval_history_section(findings: Findings, *, known: KnownThresholds) -> Section | None:
    """Small figures of each threshold with its interval against the number of trials that had ended; None where none moved."""
    cells = _retraced(findings, known)
    if not cells:
        return None
    level = findings.spec.criterion.level
    parts: list[Html | None] = []
    for kind in dict.fromkeys(cell.threshold.kind for cell in cells):
        of_kind = [cell for cell in cells if cell.threshold.kind == kind]
        cards = [_card(cell) for cell in of_kind[:MAX_CELLS]]
        parts += [
            element("h3", element("span", architecture_name(kind), class_=kind)),
            element("div", *cards, class_="multiples"),
            more(len(of_kind) - len(cards), "cells are not drawn"),
        ]
    return section(
        "narrowing",
        "How the thresholds narrowed down",
        lead(
            f"The threshold `{findings.spec.criterion.size.letter}`* of a cell as it was after each pack of its trials, against"
            " the number of trials that had ended by then. States in which it lay beyond the range tried are left out."
            " Logarithmic axes."
        ),
        element("p", key("", "threshold"), key("band", f"{level:.0%} interval"), class_="key"),
        *parts,
    )


def _retraced(findings: Findings, known: KnownThresholds) -> list[Retraced]:
    """The cells whose thresholds were found at least twice on the way."""
    names = dict(zip((one.cell_id for one in findings.thresholds), cell_names(findings.thresholds), strict=True))
    shown = [threshold for threshold in findings.thresholds if threshold.status == "found"][:MAX_RETRACED]
    states = interval_histories(shown, findings.records, findings.spec.criterion, known=known)
    told = [
        Retraced(threshold, names[threshold.cell_id], found)
        for threshold in shown
        if (found := tuple(state for state in states.get(threshold.cell_id, ()) if state.threshold.status == "found"))
    ]
    return [cell for cell in told if len(cell.states) > 1]


def _card(cell: Retraced) -> Html:
    now = cell.threshold
    words = f"`{now.size.letter}`* = {star_words(now.m_star)} after {now.num_trials:,} trials"
    return element(
        "div",
        element("h4", element("a", name_html(cell.name), href=f"#cell={now.cell_id}")),
        element("p", prose(words)),
        plot_place(interval_history_plot(cell), f"{architecture_name(now.kind)}, {cell.name}: {words.replace('`', '')}"),
        class_="multiple",
    )


def interval_history_plot(cell: Retraced) -> Spec:
    """One cell: the threshold as a line over its interval, against the number of trials that had ended."""
    colour = series_shade(cell.threshold.kind, 0).light
    counts = [state.num_ended for state in cell.states]
    lows, highs = zip(*(_interval(state.threshold) for state in cell.states), strict=True)
    texts = [f"{low:.1f} to {high:.1f}" for low, high in zip(lows, highs, strict=True)]
    figure = PlainFigure()
    figure.add_scatter(
        x=[*counts, *reversed(counts)], y=[*lows, *reversed(highs)], fill="toself", fillcolor=translucent(colour, 0.16),
        line={"width": 0}, mode="lines", hoverinfo="skip",
    )  # fmt: skip
    figure.add_scatter(
        x=counts, y=[state.threshold.m_star for state in cell.states], mode="lines+markers", line=stroke(colour, 2),
        marker={"size": 5, "color": colour}, name="", text=texts,
        hovertemplate=f"%{{x}} trials: {cell.threshold.size.letter}* = %{{y:.2f}}<br>interval %{{text}}",
    )  # fmt: skip
    low, high = cell.reach
    middle, half = math.sqrt(low * high), max(math.sqrt(high / low) * MARGIN, LEAST_HALF)
    reach, span = (middle / half, middle * half), (counts[0] / MARGIN, counts[-1] * MARGIN)
    figure.update_layout(
        base_layout(left=38, bottom=24),
        xaxis=log_axis(span, (counts[0], counts[-1]), ""),
        yaxis=log_axis(reach, _ticks(*reach), ""),
        showlegend=False,
    )
    return spec_of(figure)


def _interval(threshold: WidthThreshold) -> tuple[float, float]:
    """The interval, drawn to the edge of the widths tried where it goes on beyond them."""
    m_star = threshold.m_star or math.nan
    low = float(min(threshold.widths)) if threshold.low_censored else (threshold.low or m_star)
    high = float(max(threshold.widths)) if threshold.high_censored else (threshold.high or m_star)
    return low, high


def _ticks(low: float, high: float) -> tuple[float, ...]:
    """Three widths at even ratios, rounded to what the range resolves."""
    digits = max(0, 1 - math.floor(math.log10(high - low)))
    return tuple(round(width, digits) for width in (low * (high / low) ** share for share in (0.12, 0.5, 0.88)))
