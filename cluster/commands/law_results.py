"""The laws of a run as the `stsq` command prints them: every law of each family of cells, the verdict, predictions."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from rich.console import Console

from cluster.run import print_line, print_table, table
from dashboards.words import (
    agreement_words,
    family_names,
    fitted_formula,
    interval_words,
    measured_words,
    place_words,
    width_words,
)
from stsq_core.configs import Stsq, UserError
from sweeps.laws import LawComparison, ScalingLaw, by_regime, compare_families
from sweeps.schema import LawSettings
from sweeps.thresholds import WidthThreshold

SHOWN_FAMILIES = 50
SHOWN_HELD_OUT = 50
SHOWN_RATIOS = 20
ALL = "`stsq show RUN --json` prints all"


def show_laws(console: Console, comparisons: Sequence[LawComparison], thresholds: Sequence[WidthThreshold]) -> None:
    """Every law of each family of cells, best first, with the verdict and held-out cells; whether families share a number.

    Of many families, held-out cells and ratios the first.
    """
    names = family_names([comparison.laws[0] for comparison in comparisons], thresholds)
    for comparison, name in islice(zip(comparisons, names, strict=True), SHOWN_FAMILIES):
        print_line(console, f"{name or comparison.kind}: {comparison.conclusion}")
        if comparison.naming:
            print_line(console, f"  {comparison.naming}")
        level = f"{comparison.laws[0].level:.0%}"
        heads = ("  law", f"numbers with {level} intervals", "AICc", "error left out", "", "test of fit")
        rows = [_row(comparison, law) for law in comparison.laws]
        print_table(console, table(heads, rows, right=("AICc", "error left out")))
        _show_held_out(console, comparison)
        for note in comparison.notes:
            print_line(console, f"  {note}")
    _more(console, len(comparisons) - SHOWN_FAMILIES, "families")
    for families in compare_families(comparisons):
        print_line(console, f"{families.kind}, {families.num_families} families: {families.conclusion}")
        for ratio in families.ratios[:SHOWN_RATIOS]:
            print_line(console, f"  {families.ratio_words(ratio)}")
        _more(console, len(families.ratios) - SHOWN_RATIOS, "ratios", indent="  ")


def _more(console: Console, num: int, what: str, *, indent: str = "") -> None:
    if num > 0:
        print_line(console, f"{indent}and {num:,} more {what}; {ALL}")


def read_task(text: str) -> Stsq:
    """The task that `T=512,q=3,d=4` names.

    Raises:
        UserError: another shape, or no such task.
    """
    fields = dict(part.strip().partition("=")[::2] for part in text.split(","))
    if set(fields) != {"T", "q", "d"} or text.count(",") != 2 or not all(value.isdecimal() for value in fields.values()):
        raise UserError(f"--at {text}: a task is T=..,q=..,d=.. with whole numbers, each once; for example T=512,q=3,d=4")
    T, q, d = (int(fields[letter]) for letter in ("T", "q", "d"))
    if not 1 <= q <= T or d < 1:
        raise UserError(f"--at {text}: a task needs 1 <= q <= T and d >= 1; got T={T}, q={q}, d={d}")
    return Stsq(T=T, q=q, d=d)


def show_predictions(
    console: Console,
    comparisons: Sequence[LawComparison],
    thresholds: Sequence[WidthThreshold],
    tasks: Sequence[Stsq],
    settings: LawSettings | None = None,
) -> None:
    """Predictions of a new cell by every law of every family of cells, best first, with intervals.

    Args:
        settings: which cells are held out of the laws.

    Raises:
        UserError: no law was fitted.
    """
    if not comparisons:
        reason = _no_law_words(thresholds, settings or LawSettings())
        raise UserError(f"no law was fitted to this run, so nothing can be predicted: {reason}")
    names = family_names([comparison.laws[0] for comparison in comparisons], thresholds)
    for task in tasks:
        for comparison, name in zip(comparisons, names, strict=True):
            print_line(console, f"{name or comparison.kind}, T={task.T} q={task.q} d={task.d}: {comparison.conclusion}")
            if comparison.named is not None:
                print_line(console, f"  Named law: {comparison.named.formula} ({comparison.reason}).")
            level, letter = f"{comparison.laws[0].level:.0%}", comparison.laws[0].size.letter
            predicted = [law.predict_cell(T=task.T, d=task.d, q=task.q) for law in comparison.laws]
            rows = [
                (f"  {law.formula}", width_words(own), place_words(comparison, law))
                for law, own in zip(comparison.laws, predicted, strict=True)
            ]
            print_table(console, table(("  law", f"{letter}* of a new cell, {level} interval", ""), rows))
            for name, only in _unmeasured(comparison, task):
                growth = f"how {letter}* grows with {name} is assumed here, not measured"
                print_line(console, f"  all cells have {name} = {only}: {growth}")


def _no_law_words(thresholds: Sequence[WidthThreshold], settings: LawSettings) -> str:
    """Why no law was fitted to a run."""
    found = [threshold for threshold in thresholds if threshold.status == "found"]
    if not found:
        return "it has no threshold that was found"
    thresholds_were = f"{len(found)} {'threshold was' if len(found) == 1 else 'thresholds were'} found"
    if all(settings.holds_out(threshold.config_sample) for threshold in found):
        return f"{thresholds_were}, and laws.held_out holds {'it' if len(found) == 1 else 'all of them'} out of the fits"
    letters = found[0].config_sample.task.letters
    T, q, d = (letters.get(letter, letter) for letter in ("T", "q", "d"))
    values = [{getattr(threshold.config_sample.task, letter) for threshold in found} for letter in ("T", "q", "d")]
    if all(len(own) == 1 for own in values):
        only = ", ".join(f"{name} = {min(own)}" for name, own in zip((T, q, d), values, strict=True))
        return f"{thresholds_were}, all at {only}; a law of growth needs cells of several {T}, {q} or {d}"
    if any(len(members) > 1 for members in by_regime(found)):
        return f"{thresholds_were}, and no law is defined at all of their {T}, {q} and {d}"
    return f"{thresholds_were}, and no two cells differ in {T}, {q} and {d} alone, as a law of growth needs them"


def _unmeasured(comparison: LawComparison, task: Stsq) -> list[tuple[str, int]]:
    """The letters in which a task differs from all cells alike, with the cells' one value."""
    cells = [threshold.config_sample.task for threshold in comparison.laws[0].fit.cells.thresholds]
    values = {letter: {getattr(cell, letter) for cell in cells} for letter in ("T", "q", "d")}
    return [(letter, min(own)) for letter, own in values.items() if len(own) == 1 and own != {getattr(task, letter)}]


def _row(comparison: LawComparison, law: ScalingLaw) -> tuple[str, ...]:
    delta = comparison.delta(law)
    return (
        f"  {law.formula}",
        ", ".join(f"{letter} = {interval_words(estimate)}" for letter, estimate in law.parameters.items()),
        "" if math.isnan(delta) else "least" if delta == 0 else f"+{delta:.1f}",
        "" if math.isnan(law.loo_error) else f"{law.loo_error:.1%}",
        place_words(comparison, law),
        "" if law.test is None else law.test.p_words,
    )


def _show_held_out(console: Console, comparison: LawComparison) -> None:
    """Held-out cells under the named law, or one that has an interval."""
    named = comparison.named
    law = named if named and named.draws else next((law for law in comparison.laws if law.draws), comparison.laws[0])
    told = tuple(threshold for threshold in comparison.held_out if threshold.is_bounded)
    for own in replace(comparison, held_out=told[:SHOWN_HELD_OUT]).predictions(law):
        error = "" if own.error is None else f", {own.error:+.1%}"
        print_line(
            console,
            f"  held out, T={own.task.T} q={own.task.q} d={own.task.d}: predicted {width_words(own.predicted)} by"
            f" {fitted_formula(law).text}, measured {measured_words(own)}{error}: {agreement_words(own)}",
        )
    _more(console, len(told) - SHOWN_HELD_OUT, "held-out cells", indent="  ")
