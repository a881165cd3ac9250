"""The words of the W&B boards, in Markdown: thresholds and laws as a table and sentences, failures, the claims' verdicts."""

from collections.abc import Iterable, Sequence

from dashboards.paper import failures_table
from dashboards.plots import cell_names
from dashboards.words import architecture_name, estimate_words, fitted_formula, interval_text
from sweeps.findings import Findings, Regime
from sweeps.thresholds import WidthThreshold

MAX_ROWS = 60


def thresholds_table(thresholds: Sequence[WidthThreshold]) -> str:
    """A row a cell: the threshold with its interval, and how it ended."""
    rows = [
        (
            architecture_name(one.kind),
            name,
            _threshold(one),
            interval_text(one),
            str(one.num_seeds),
            one.status.replace("_", " "),
        )
        for one, name in zip(thresholds[:MAX_ROWS], cell_names(thresholds)[:MAX_ROWS], strict=True)
    ]
    level = f"{thresholds[0].level:.0%} interval" if thresholds else "interval"
    text = table(("architecture", "cell", "m*", level, "seeds", "status"), rows)
    left = len(thresholds) - len(rows)
    return text + (f"\n\n{left} more cells are in the run's own tables." if left else "")


def laws_words(regimes: Iterable[Regime]) -> str:
    """A line a law: the formula with its numbers, their intervals, and what bears on it."""
    lines = []
    for regime in regimes:
        if regime.law is not None:
            numbers = "; ".join(estimate_words(regime.law, name) for name in regime.law.parameters)
            note = f" ({escaped(regime.law.note)})" if regime.law.note else ""
            lines.append(f"- {architecture_name(regime.kind)}: m\\* = `{fitted_formula(regime.law).text}`, {numbers}{note}")
    return "\n".join(lines) or "No law: too few thresholds were found."


def verdicts_words(findings: Findings) -> str:
    """A line a claim: whether it holds."""
    return "\n".join(f"- **{verdict.answer}**: {escaped(verdict.says)}" for verdict in findings.verdicts)


def failures_words(findings: Findings) -> str:
    """The trials that gave no loss, by cell, way and reason."""
    rows = [
        (row["cell"], row["status"], str(row["num_trials"]), row["reason"], row["widths"])
        for row in failures_table(findings.records)[:MAX_ROWS]
    ]
    if not rows:
        return "Every trial that ended gave a loss."
    return table(("cell", "how", "trials", "reason", "widths"), rows)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; what would break a cell is spelled out."""
    lines = [" | ".join(heads), " | ".join("---" for _ in heads), *(" | ".join(escaped(cell) for cell in row) for row in rows)]
    return "\n".join(f"| {line} |" for line in lines)


def escaped(text: str) -> str:
    """Text on one line with what Markdown or HTML would take for its own spelled out."""
    return "".join(f"\\{letter}" if letter in "\\|`*_[]<>#" else letter for letter in " ".join(text.split()))


def _threshold(threshold: WidthThreshold) -> str:
    match threshold.status:
        case "found":
            return f"{threshold.m_star:.2f}"
        case "above_range":
            return f"above {max(threshold.widths)}"
        case "below_range":
            return f"at most {min(threshold.widths)}"
        case _:
            return "none"
