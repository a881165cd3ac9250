"""The head of the page: the sweep, its hypothesis, and what came of it in a sentence; and the line at its foot."""

import shlex
from datetime import UTC, datetime

from dashboards.page.story import claims_headline, headline, laws_behind, status_words
from dashboards.words import Html, architecture_name, element, estimate_words, plain_formula, prose
from sweeps.findings import Findings
from sweeps.laws import ScalingLaw


def heading(findings: Findings) -> Html:
    """Name, state and time; title; hypothesis; the result in one sentence; the laws behind it."""
    told, complete = status_words(findings)
    phrases = claims_headline(findings.verdicts) if findings.verdicts else headline(findings)
    meta = [
        element("span", element("b", findings.spec.name)),
        element("span", told, class_=None if complete else "partial"),
        element("span", f"{datetime.now(UTC):%-d %B %Y, %H:%M} UTC"),
    ]
    sentence = [element("span", prose(phrase.text), class_=phrase.kind or None) for phrase in phrases]
    return element(
        "header",
        element("p", *meta, class_="meta"),
        element("h1", findings.spec.heading),
        element("p", element("span", "Hypothesis"), findings.spec.hypothesis, class_="hypothesis"),
        element("p", *sentence, class_="headline" if len(phrases) > 1 else "headline none"),
        *(_law_line(law) for law in laws_behind(findings) if not findings.spec.drawings),
        id="heading",
    )


def footer(given: str) -> Html:
    """From what the page was made, and how to make it again."""
    return element("p", "Made by stsq from the ledger and journals of ", element("code", given), ". Make it again: ",
                   element("code", f"stsq report {shlex.quote(given)}"), ".")  # fmt: skip


def _law_line(law: ScalingLaw) -> Html:
    name = element("span", architecture_name(law.kind), class_=law.kind)
    letter = list(law.parameters)[-1]
    told = prose(f" with {estimate_words(law, letter)}")
    return element("p", name, prose(f": `{law.size.letter}`* = "), Html(plain_formula(law).html), told, class_="laws")
