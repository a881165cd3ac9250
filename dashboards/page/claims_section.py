"""The page's section of claims: the verdict on each, with its rule and its numbers."""

from dashboards.page.sections import Section, lead, more, section, tag
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
