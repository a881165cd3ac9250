"""The head of the page, and the sentences made from the numbers: the headline and the state of the run."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import get_args

from dashboards.words import (
    STATUS_WORDS,
    Html,
    architecture_name,
    axes_of,
    conclusion_html,
    element,
    estimate_words,
    family_title,
    plain_formula,
    prose,
)
from stsq_core.configs import WIDTH
from sweeps.findings import Answer, Findings, Regime, Verdict
from sweeps.laws import LawComparison, ScalingLaw
from sweeps.schema import LOSS
from sweeps.store import Status
from sweeps.thresholds import WidthThreshold

MAX_LAWS = 4
"""Laws in the head of the page."""


def heading(findings: Findings) -> Html:
    """Name, state and time; title; hypothesis; the result in one sentence; the laws behind it."""
    status, complete = status_words(findings)
    phrases = claims_headline(findings.verdicts) if findings.verdicts else headline(findings)
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


def footer(given: str) -> Html:
    """The source of the page, and the command that makes it again."""
    return element("p", "Made by stsq from the ledger and journals of ", element("code", given), ". Make it again: ",
                   element("code", f"stsq report {shlex.quote(given)}"), ".")  # fmt: skip


def _law_lines(findings: Findings) -> Iterator[Html]:
    """The named law of each family of cells, those of the headline and those that misfit first; of many families, a number."""
    axes, leading = axes_of(findings.thresholds), {id(regime) for regime in _leading(findings.regimes)}
    named = [(regime, regime.comparison, law) for regime in findings.regimes if (law := regime.law) and regime.comparison]
    named.sort(key=lambda own: (id(own[0]) not in leading, not (own[2].test and own[2].test.misfits)))
    for regime, comparison, law in named[:MAX_LAWS]:
        yield _law_line(family_title(regime, axes), comparison, law)
    if more := len(named) - MAX_LAWS if len(named) > MAX_LAWS else 0:
        yield element("p", f"And {more} more {'family' if more == 1 else 'families'}, under Scaling laws.", class_="laws")


def _law_line(family: str, comparison: LawComparison, law: ScalingLaw) -> Html:
    name = element("span", family, class_=law.kind)
    letter = list(law.parameters)[-1]
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
    """The result in one sentence with its numbers, or in plain words that there is none."""
    clauses = [clause for regime in _leading(findings.regimes) if (clause := _growth(regime))]
    if not clauses:
        return (Phrase(_no_threshold(findings)),)
    opening = "" if findings.complete else "So far, "
    phrases = [Phrase(opening)] if opening else []
    for place, clause in enumerate(clauses):
        phrases += [Phrase("; "), *clause] if place else clause
    return _as_sentence(phrases)


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
    if findings.num_searching:
        parts.append(f"{findings.num_searched - findings.num_searching} of {findings.num_searched} searches done")
    return ", ".join(parts), findings.complete


def summary_words(thresholds: Sequence[WidthThreshold]) -> str:
    """How many thresholds ended in which way."""
    counts = [(sum(t.status == status for t in thresholds), words) for status, words in STATUS_WORDS.items()]
    return ", ".join(f"{count} {words}" for count, words in counts if count) or "none yet"


def _leading(regimes: Sequence[Regime]) -> list[Regime]:
    """The regime of each architecture in which most thresholds were found."""
    best: dict[str, Regime] = {}
    for regime in regimes:
        if regime.kind not in best or len(_found(regime)) > len(_found(best[regime.kind])):
            best[regime.kind] = regime
    return list(best.values())


def _found(regime: Regime) -> list[WidthThreshold]:
    """Found thresholds of the task letters (q, d) that most cells share, by T."""
    found = [threshold for threshold in regime.thresholds if threshold.status == "found"]
    tasks = [(t.config_sample.task.q, t.config_sample.task.d) for t in found]
    common = max(tasks, key=tasks.count, default=None)
    members = [t for t, task in zip(found, tasks, strict=True) if task == common]
    return sorted(members, key=lambda threshold: threshold.config_sample.task.T)


def _growth(regime: Regime) -> list[Phrase]:
    """8 times the tokens take 1.6 times the width of a transformer (m* = 24.5 at T = 16, 40.2 at T = 128)."""
    found = _found(regime)
    if not found:
        return []
    first, last = found[0], found[-1]
    start, end = first.config_sample.task.T, last.config_sample.task.T
    architecture = architecture_name(regime.kind)
    name, size, T = f"a {architecture[0].lower()}{architecture[1:]}", regime.size, regime.letter("T")
    judged = "" if first.metric == LOSS else f", judged by the {first.measure}"
    if start == end or first.m_star is None or last.m_star is None:
        return [
            Phrase(f"{name} needs a {size.noun} of "),
            Phrase(f"{first.m_star:.1f}", regime.kind),
            Phrase(f" at `{T}` = {start}{judged}"),
        ]
    return [
        Phrase(f"{end / start:.3g} times the tokens take "),
        Phrase(f"{last.m_star / first.m_star:.2g} times the {size.quantity}", regime.kind),
        Phrase(
            f" of {name} (`{size.letter}`* = {first.m_star:.1f} at `{T}` = {start}, {last.m_star:.1f} at `{T}` = {end}){judged}"
        ),
    ]


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
