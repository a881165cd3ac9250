"""Verdicts on the page: the rule with its source, and a note where seeds are too few."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from dashboards.page.result_sections import verdicts_section
from dashboards.page.run_sections import provenance_section
from dashboards.paper.tables import verdicts_json
from sweeps.findings.claim_results import ClaimSetting, Verdict
from sweeps.findings.run_findings import Findings

OPEN = ClaimSetting((("task.T", 12),), 1.227, 1.161, 1.545, 3, "not enough data", "3 seeds give an interval of at most 75%")
HELD = ClaimSetting((("task.T", 16),), 1.1, 1.05, 1.2, 5, "holds")


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html)).strip()


def shown(findings: Findings, *settings: ClaimSetting) -> str:
    verdict = Verdict("near", "It is near.", "m* over 9 (our run)", "within a factor of 1.25", settings)
    section = verdicts_section(SimpleNamespace(spec=findings.spec, verdicts=(verdict,)))  # type: ignore[arg-type]
    assert section is not None
    return words(section.html)


def test_a_verdict_says_whose_value_it_is_and_why_seeds_are_too_few(findings: Findings) -> None:
    text = shown(findings, OPEN, HELD)
    assert "Rule: m* over 9 (our run), within a factor of 1.25." in text
    assert "Fewer than 3 seeds, or too few for an interval of the level, decide nothing." in text
    assert "Answer Note T = 12 1.227 1.161 to 1.545 3 not enough data 3 seeds give an interval of at most 75%" in text
    assert "Note" not in shown(findings, HELD)


def test_the_file_of_verdicts_has_the_note() -> None:
    (verdict,) = json.loads(verdicts_json([Verdict("near", "It is near.", "m*", "above 1", (OPEN, HELD))]))
    assert [setting["note"] for setting in verdict["settings"]] == [OPEN.note, ""]


@pytest.mark.parametrize("target", [0.3, 0.005])
def test_provenance_says_what_lies_outside_the_theorems(findings: Findings, target: float) -> None:
    spec = findings.spec.model_copy(update={"criterion": findings.spec.criterion.model_copy(update={"target_loss": target})})
    text = words(provenance_section(replace(findings, sweep=replace(findings.sweep, spec=spec))).html)
    line = "Theory outside the range of the theorems of arXiv:2406.06893, a relative loss below T / (100 (T - q))"
    assert (line in text) == (target == 0.3)
    assert ("Theory" in text) == (target == 0.3)
