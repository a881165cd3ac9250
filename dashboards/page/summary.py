"""The head and the foot of the page, and the state of the run in words."""

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime

from dashboards.page.headline import leading_series, result_phrases
from dashboards.words import Html, axes_of, element, estimate_words, family_title, laws_html, plain_formula, prose
from sweeps.findings import Findings
from sweeps.laws import LawComparison, ScalingLaw

MAX_LAWS = 4
"""Laws in the head of the page."""


def heading(findings: Findings) -> Html:
    """Name, state and time; title; hypothesis; the result in one sentence; the laws behind it."""
    status, complete = status_words(findings)
    status = status if complete else f"drawn when {status.replace(' ended', ' had ended', 1)}"  # the progress may be newer
    phrases = result_phrases(findings)
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
    axes, leading = axes_of(findings.thresholds), {id(series.regime) for _, series in leading_series(findings.regimes)}
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
    why = laws_html(f" ({comparison.reason}){misfit}", law)
    numbers = prose(f" with {estimate_words(law, letter)}")
    return element("p", name, prose(f": `{law.size.letter}`* = "), Html(plain_formula(law).html), numbers, why, class_="laws")


def status_words(findings: Findings) -> tuple[str, bool]:
    """The progress of the sweep in words, and whether it is complete."""
    ended = len(findings.records)
    parts = [
        f"{ended:,} trials ended" if not findings.num_waiting else f"{ended:,} of {ended + findings.num_waiting:,} trials ended"
    ]
    parts += [f"{count:,} {status}" for status in ("diverged", "failed") if (count := findings.num_ended(status))]
    return ", ".join(parts), findings.complete
