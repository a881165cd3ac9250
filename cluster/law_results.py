"""The laws of a run as the `stsq` command prints them: all laws of each family of cells, the verdict, what was predicted."""

import math
from collections.abc import Sequence

from rich.console import Console

from cluster.terminal import say, say_table, table
from dashboards.columns import family_names
from dashboards.law_words import agreement_words, fitted_formula, interval_words, measured_words, standing_words, width_words
from sweeps.law_comparison import LawComparison
from sweeps.laws import ScalingLaw
from sweeps.thresholds import WidthThreshold


def show_laws(console: Console, comparisons: Sequence[LawComparison], thresholds: Sequence[WidthThreshold]) -> None:
    """Every law of every family of cells, best first, with the verdict, and the held-out cells beside their predictions."""
    names = family_names([comparison.laws[0] for comparison in comparisons], thresholds)
    for comparison, name in zip(comparisons, names, strict=True):
        say(console, f"{name or comparison.kind}: {comparison.verdict}")
        level = f"{comparison.laws[0].level:.0%}"
        heads = ("  law", f"numbers with {level} intervals", "AICc", "error left out", "")
        rows = [_row(comparison, law) for law in comparison.laws]
        say_table(console, table(heads, rows, right=("AICc", "error left out")))
        _show_held_out(console, comparison)
        notes = dict.fromkeys(note for law in comparison.laws for note in law.note.split("; ") if note)
        for note in notes:
            say(console, f"  {note}")


def _row(comparison: LawComparison, law: ScalingLaw) -> tuple[str, ...]:
    delta = comparison.delta(law)
    return (
        f"  {law.formula}",
        ", ".join(f"{letter} = {interval_words(estimate)}" for letter, estimate in law.parameters.items()),
        "" if math.isnan(delta) else "least" if delta == 0 else f"+{delta:.1f}",
        "" if math.isnan(law.loo_error) else f"{law.loo_error:.1%}",
        standing_words(comparison, law),
    )


def _show_held_out(console: Console, comparison: LawComparison) -> None:
    """Held-out cells under the best law, or under the one of least error where cells are too few to compare."""
    law = comparison.best or comparison.expected or comparison.laws[0]
    for own in comparison.predictions(law):
        error = "" if own.error is None else f", {own.error:+.1%}"
        say(
            console,
            f"  held out, T={own.task.T} q={own.task.q} d={own.task.d}: predicted {width_words(own.predicted)} by"
            f" {fitted_formula(law).text}, measured {measured_words(own)}{error}: {agreement_words(own)}",
        )
