"""The head of the page, and the sentences made from the numbers: the headline and the state of the run."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import get_args

from dashboards.plots import (
    Letter,
    Panel,
    Series,
    cells_of,
    names_of,
    numbers_of,
    panels_of,
    place_of,
    series_of,
    traits_of,
)
from dashboards.words import (
    STATUS_WORDS,
    Html,
    axes_of,
    conclusion_html,
    element,
    estimate_words,
    family_title,
    noun_phrase,
    plain_formula,
    prose,
)
from stsq_core.configs import SAMPLES, WIDTH, Size
from sweeps.findings import Answer, Findings, Regime, Verdict
from sweeps.laws import LawComparison, ScalingLaw, spread_words
from sweeps.schema import LOSS
from sweeps.store import Status
from sweeps.thresholds import WidthThreshold

MAX_LAWS = 4
"""Laws in the head of the page."""


def heading(findings: Findings) -> Html:
    """Name, state and time; title; hypothesis; the result in one sentence; the laws behind it."""
    status, complete = status_words(findings)
    phrases = _result(findings)
    meta = [
        element("span", element("b", findings.spec.name)),
        element("span", status, class_=None if complete else "partial"),
        element("span", f"{datetime.now(UTC):%-d %B %Y, %H:%M} UTC"),
    ]
    sentence = [element("span", prose(phrase.text), class_=phrase.kind or None) for phrase in phrases]
    return element(
        "header",
        element("p", *meta, class_="meta"),
        element("h1", findings.spec.heading),
        element("p", element("span", "Hypothesis"), findings.spec.hypothesis, class_="hypothesis"),
        element("p", *sentence, class_="headline" if len(phrases) > 1 else "headline none"),
        *(_law_lines(findings) if not findings.spec.drawings else ()),
        id="heading",
    )


def result_words(findings: Findings) -> str:
    """The result of a run in a sentence or two, as text."""
    return "".join(phrase.text for phrase in _result(findings)).replace("`", "")


def _result(findings: Findings) -> tuple["Phrase", ...]:
    phrases = claims_headline(findings.verdicts) if findings.verdicts else ()
    if not phrases or not findings.spec.drawings:
        phrases = (*phrases, *([Phrase(" ")] if phrases else []), *headline(findings))
    return phrases


def footer(given: str) -> Html:
    """The source of the page, and the command that makes it again."""
    return element("p", "Made by stsq from the ledger and journals of ", element("code", given), ". Make it again: ",
                   element("code", f"stsq report {shlex.quote(given)}"), ".")  # fmt: skip


def _law_lines(findings: Findings) -> Iterator[Html]:
    """The named law of each family of cells, those of the headline and those that misfit first; of many families, a number."""
    axes, leading = axes_of(findings.thresholds), {id(series.regime) for _, series in _leading(findings.regimes)}
    named = [(regime, regime.comparison, law) for regime in findings.regimes if (law := regime.law) and regime.comparison]
    named.sort(key=lambda own: (id(own[0]) not in leading, not (own[2].test and own[2].test.misfits)))
    for regime, comparison, law in named[:MAX_LAWS]:
        yield _law_line(family_title(regime, axes), comparison, law)
    if more := len(named) - MAX_LAWS if len(named) > MAX_LAWS else 0:
        yield element("p", f"And {more} more {'family' if more == 1 else 'families'}, under Scaling laws.", class_="laws")


def _law_line(family: str, comparison: LawComparison, law: ScalingLaw) -> Html:
    name = element("span", family, class_=law.kind)
    letter = "b" if "b" in law.parameters else list(law.parameters)[-1]
    misfit = f": {law.test.words}" if law.test and law.test.misfits else ""
    why = conclusion_html(comparison, f" ({comparison.reason}){misfit}")
    numbers = prose(f" with {estimate_words(law, letter)}")
    return element("p", name, prose(f": `{law.size.letter}`* = "), Html(plain_formula(law).html), numbers, why, class_="laws")


@dataclass(frozen=True)
class Phrase:
    """A piece of a sentence, formula letters in backquotes; `kind` names the architecture whose number it is."""

    text: str
    kind: str = ""


def headline(findings: Findings) -> tuple[Phrase, ...]:
    """The result in one sentence with its numbers, or in plain words that there is none.

    Of each architecture the series of most thresholds, along the axis of its figure, from the first to the last, with what lies
    beyond the sizes tried.
    """
    if not any(threshold.status == "found" for threshold in findings.thresholds):
        return (Phrase(_no_threshold(findings)),)
    panels, clauses, num_told = panels_of(findings.regimes), [], 0
    for panel in panels:
        if names := names_of(panel.series):
            clauses.append(_across(panel, names))
            num_told += len(panel.series)
    for panel, series in _leading(findings.regimes):
        if not names_of(panel.series):
            clauses.append(_growth(panel.letter, series, findings.regimes))
            num_told += 1
    phrases = [] if findings.complete else [Phrase("So far, ")]
    for place, clause in enumerate(clauses):
        phrases += [Phrase("; "), *clause] if place else clause
    more = sum(len(panel.series) for panel in panels) - num_told
    rest = [Phrase(f" {more} more series {'is' if more == 1 else 'are'} in the figure.")] if more else []
    return (*_as_sentence(phrases), *rest)


def claims_headline(verdicts: Sequence[Verdict]) -> tuple[Phrase, ...]:
    """How many claims hold, how many do not, and for how many there is not enough data."""
    answers, total = [verdict.answer for verdict in verdicts], len(verdicts)
    if total == 1:
        answer = "has not enough data" if answers[0] == "not enough data" else answers[0]
        return (Phrase("The claim "), Phrase(answer, "transformer" if answer == "holds" else "fcn"), Phrase("."))
    held, refuted, open_ones = (answers.count(answer) for answer in get_args(Answer))
    clauses = []
    if held:
        clauses.append(Phrase("all hold" if held == total else f"{held} {'holds' if held == 1 else 'hold'}", "transformer"))
    if refuted == total:
        clauses.append(Phrase("none holds", "fcn"))
    elif refuted:
        clauses.append(Phrase(f"{refuted} {'does' if refuted == 1 else 'do'} not{'' if held else ' hold'}", "fcn"))
    if open_ones:
        clauses.append(Phrase(f"for {'all' if open_ones == total else open_ones} there is not enough data"))
    phrases = [Phrase(f"Of {total} claims, ")]
    for place, clause in enumerate(clauses):
        separator = " and " if place == len(clauses) - 1 else ", "
        phrases += [Phrase(separator), clause] if place else [clause]
    return (*phrases, Phrase("."))


def status_words(findings: Findings) -> tuple[str, bool]:
    """The progress of the sweep in words, and whether it is complete."""
    ended = len(findings.records)
    parts = [
        f"{ended:,} trials ended" if not findings.num_waiting else f"{ended:,} of {ended + findings.num_waiting:,} trials ended"
    ]
    parts += [f"{count:,} {status}" for status in ("diverged", "failed") if (count := findings.num_ended(status))]
    return ", ".join(parts), findings.complete


def summary_words(thresholds: Sequence[WidthThreshold]) -> str:
    """How many thresholds ended in which way."""
    counts = [(sum(t.status == status for t in thresholds), words) for status, words in STATUS_WORDS.items()]
    return ", ".join(f"{count} {words}" for count, words in counts if count) or "none yet"


def _leading(regimes: Sequence[Regime]) -> list[tuple[Panel, Series]]:
    """The series of each architecture in which most thresholds were found, with its panel."""
    best: dict[str, tuple[Panel, Series]] = {}
    for panel in panels_of(regimes):
        for one in panel.series:
            kind = one.regime.kind
            if kind not in best or _num_found(one) > _num_found(best[kind][1]):
                best[kind] = panel, one
    return list(best.values())


def _num_found(series: Series) -> int:
    return sum(threshold.status == "found" for threshold in series.thresholds)


def _growth(letter: Letter, series: Series, regimes: Sequence[Regime]) -> list[Phrase]:
    """From T = 16 to 128 a transformer needs 1.6 times the width (m* = 24.5 to 40.2 at q = 3, d = 4), above the widths ..."""
    regime, size = series.regime, series.regime.size
    of_kind = [one for one in series_of(regimes, letter) if one.regime.kind == regime.kind]
    place = next(i for i, one in enumerate(of_kind) if (one.regime, one.letters) == (regime, series.letters))
    settings = [trait.words[place] for trait in traits_of(of_kind) if not trait.is_letter and trait.words[place]]
    name = noun_phrase(regime.kind) + (f" with {', '.join(settings)}" if settings else "")
    at = ", ".join(f"`{regime.letter(other)}` = {value}" for other, value in series.letters.items())
    L, cells = f"`{regime.letter(letter)}`", cells_of(series, letter)
    found = [(f"{place_of(one, letter):g}", one.m_star) for one in cells if one.m_star is not None]
    judged = "" if cells[0].metric == LOSS else f", judged by the {cells[0].measure}"
    beyond = [
        f", {words} at {L} = {', '.join(f'{place_of(one, letter):g}' for one in own)}"
        for status, words in _beyond(size).items()
        if (own := [one for one in cells if one.status == status])
    ]
    if not found:
        return [Phrase(f"at {at} no {size.threshold_words} of {name} was found{''.join(beyond)}")]
    (start, low), (end, high) = found[0], found[-1]
    if len(found) == 1:
        return [
            Phrase(f"{name} needs a {size.noun} of "),
            Phrase(_short(low), regime.kind),
            Phrase(f" at {L} = {start}, {at}{''.join(beyond)}{judged}"),
        ]
    return [
        Phrase(f"from {L} = {start} to {end} {name} needs "),
        Phrase(f"{_ratio(low, high)} times the {size.quantity}", regime.kind),
        Phrase(f" (`{size.letter}`* = {_short(low)} to {_short(high)} at {at}){''.join(beyond)}{judged}"),
    ]


def _across(panel: Panel, names: Sequence[str]) -> list[Phrase]:
    """Of 5 settings of a transformer, noise = 0.5 needs the largest width ..., where no letter of the task varies."""
    size, numbers = panel.series[0].regime.size, numbers_of(names)
    cells = [one.thresholds[0] for one in panel.series]
    found = [(cell.m_star, place) for place, cell in enumerate(cells) if cell.m_star is not None]
    kinds = spread_words([*dict.fromkeys(noun_phrase(cell.kind) for cell in cells)])
    told = [
        f"; {num} {'is' if num == 1 else 'are'} {words}"
        for status, words in _beyond(size).items()
        if (num := sum(cell.status == status for cell in cells))
    ]
    if not found:
        return [Phrase(f"none of {len(cells)} settings of {kinds} has a {size.threshold_words}{''.join(told)}")]
    if numbers:
        found.sort(key=lambda own: numbers[1][own[1]])
    (low, first), (high, last) = (found[0], found[-1]) if numbers else (min(found), max(found))
    size_of = f"`{size.letter}`* = "
    start, end = (f"`{names[place]}` ({size_of}{_short(value)})" for value, place in ((low, first), (high, last)))
    if numbers:
        return [
            Phrase(f"from {start} to {end} {kinds} needs "),
            Phrase(f"{_ratio(low, high)} times the {size.quantity}", cells[0].kind),
            Phrase("".join(told)),
        ]
    return [
        Phrase(
            f"of {len(cells)} settings of {kinds}, {start} needs the least {size.quantity} and {end} the most{''.join(told)}"
        )
    ]


def _ratio(low: float, high: float) -> str:
    ratio = f"{high / low:.2g}"
    return "1.0" if ratio == "1" else ratio


def _short(value: float) -> str:
    """A threshold with one decimal; with none from a thousand on."""
    return f"{value:.1f}" if value < 1000 else f"{value:,.0f}"


def _beyond(size: Size) -> dict[str, str]:
    """The statuses without a number, in words."""
    tried = "the budget" if size == SAMPLES else f"the {size.nouns} tried"
    return {
        "above_range": f"above {tried}",
        "below_range": f"below {tried}",
        "not_reached": f"not reached at any {size.noun} tried",
        **{status: STATUS_WORDS[status] for status in ("solved", "not_solved")},
    }


def _as_sentence(phrases: Sequence[Phrase]) -> tuple[Phrase, ...]:
    """The phrases with a capital at the start and a stop at the end."""
    first, *rest = phrases
    return (Phrase(first.text[0].upper() + first.text[1:], first.kind), *rest, Phrase("."))


def _no_threshold(findings: Findings) -> str:
    records, thresholds = findings.records, findings.thresholds
    words = "width threshold" if findings.spec.criterion.size == WIDTH else "threshold"
    if not records:
        return f"No trial has ended yet, so there is no {words} to show."
    ends: tuple[Status, ...] = ("failed", "diverged")
    for status in ends:
        if findings.num_ended(status) == len(records):
            return f"No {words} was found: all {len(records):,} trials {status}."
    if all(t.status == "failed" for t in thresholds):
        return f"No {words} was found: none of {len(records):,} trials gave a loss."
    so_far = "" if findings.complete else " so far"
    return f"No {words} was found{so_far}: of {len(thresholds)} cells, {summary_words(thresholds)}."
