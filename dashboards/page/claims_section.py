"""The page's sections on what a sweep claims: its drawings, and the verdict on each claim with its numbers."""

from collections.abc import Sequence

import numpy as np

from dashboards.page.plot_interactive import heat_spec, html_label, panel_spec
from dashboards.page.sections import Section, downloads, lead, more, plot_place, section, tag
from dashboards.plots import HeatPlot, Plot
from dashboards.words import Html, element, number_words, prose, setting_interval, setting_words, table
from sweeps.findings import Findings, Verdict

MAX_SETTINGS = 60
CLASSES = {"holds": "found", "does not hold": "failed", "not enough data": "above_range"}


def verdicts_section(findings: Findings) -> Section | None:
    """Every claim with its rule, its answer, and its numbers setting by setting."""
    if not findings.verdicts:
        return None
    level = findings.spec.criterion.level
    return section(
        "claims",
        "What was claimed, and what came of it",
        lead(
            "Each claim and its rule stand in the sweep file. A number is a mean over seeds, of ratios the geometric"
            f" one, with its {level:.0%} interval. A claim holds where the whole interval keeps the rule, and does not where"
            " none of it does."
        ),
        *(_claim(verdict) for verdict in findings.verdicts),
        class_="first",
    )


def drawings_section(plots: Sequence[Plot | HeatPlot], names: Sequence[str], *, level: float) -> Section | None:
    """The drawings, one below the other."""
    if not plots:
        return None
    return section(
        "drawings",
        "Figures",
        lead(f"Lines are means over seeds, shaded or barred their {level:.0%} intervals; dotted lines are theory."),
        *(_drawing(plot, names) for plot in plots),
    )


def _claim(verdict: Verdict) -> Html:
    shown = verdict.settings[:MAX_SETTINGS]
    rows = [
        {
            "setting": setting_words(setting.fields) or "all trials",
            "value": number_words(setting.value),
            "interval": setting_interval(setting),
            "seeds": setting.num_seeds,
            "answer": tag(CLASSES[setting.answer], setting.answer),
        }
        for setting in shown
    ]
    columns = {"setting": "Setting", "value": "#Value", "interval": "#Interval", "seeds": "#Seeds", "answer": "Answer"}
    several = len(verdict.settings) > 1
    held = f" It holds in {verdict.num_holding} of {len(verdict.settings)} settings." if several else None
    return element(
        "div",
        element("h3", tag(CLASSES[verdict.answer], verdict.answer), " ", verdict.says, id=f"claim-{verdict.name}"),
        element("p", element("b", "Rule: "), prose(f"{verdict.quantity}, {verdict.rule}."), held),
        table(columns, rows) if rows else None,
        more(len(verdict.settings) - len(shown), "settings are in verdicts.json"),
        class_="claim",
    )


def _drawing(plot: Plot | HeatPlot, names: Sequence[str]) -> Html:
    head = element("h3", plot.title)
    files = downloads(names, (f"{plot.name}.png", f"{plot.name}.pdf"))
    if isinstance(plot, HeatPlot):
        cards = []
        for row in plot.rows:
            limit = max(float(np.abs(heat.matrix).max()) for heat in row) or 1.0
            cards += [
                element(
                    "div",
                    element("h4", Html(html_label(heat.title))),
                    plot_place(heat_spec(heat, limit), heat.title),
                    class_="multiple",
                )
                for heat in row
            ]
        return element("figure", head, element("div", *cards, class_="multiples heat"), files)
    panels = [
        element(
            "div",
            element("h4", panel.title) if panel.title else None,
            plot_place(panel_spec(plot, panel), f"{plot.title}: {plot.y_label} against {plot.x_label} {panel.title}"),
            class_="panel drawn",
        )
        for panel in plot.panels
    ]
    return element("figure", head, element("div", *panels, class_="panels"), files)
