"""Laws that decide where to look: who leads, by how much, what was asked and why it ended, on the page and as JSON."""

import json
import re
from types import SimpleNamespace

import numpy as np
import pytest

from dashboards.page.laws_section import laws_section
from dashboards.paper.tables import thresholds_json
from sweeps.findings.run_findings import Findings
from sweeps.laws.decision import Decision
from sweeps.laws.formulas import ATTENTION, EXCESS_Q_POWER, Tasks
from sweeps.laws.rivals import Candidates
from sweeps.schema.search_spec import DecideSettings


@pytest.fixture
def decision() -> Decision:
    """Six cells of `m = d + b q ln T`, of which four were asked."""
    T, q = np.array([8.0, 16, 32, 64, 128, 256]), np.ones(6)
    sd = np.array([0.01, np.inf, 0.01, 0.01, np.inf, 0.01])
    num = np.array([16, 0, 8, 24, 0, 16])
    known = Candidates(Tasks(T, q, 4 * q, 0.1), np.log(4 + 2.4 * np.log(T)), np.zeros(6, dtype=int), sd, num / 8)
    return Decision(DecideSettings(points=200), (ATTENTION, EXCESS_Q_POWER), known, num, num < 96, 8, "transformer")


def test_the_page_says_which_law_leads_and_where_was_asked(findings: Findings, decision: Decision) -> None:
    shown = SimpleNamespace(regimes=(), decisions=(decision,), comparisons=(), spec=findings.spec)
    section = laws_section(shown, (), None, ())  # type: ignore[arg-type]
    assert section is not None
    text = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", section.html))
    assert re.search(r"transformer: m = d \+ b q ln T leads \d+ to 1 against m = d \+ c q T . ; 64 of at most", text), text
    assert "64 of at most 200 points in 4 of 6 cells; decided at 20 to 1" in text
    assert "Points: 24 at T=64 q=1 d=4, 16 at T=8 q=1 d=4" in text
    assert laws_section(SimpleNamespace(regimes=(), decisions=()), (), None, ()) is None  # type: ignore[arg-type]


def test_the_json_holds_probabilities_odds_and_points(decision: Decision) -> None:
    (row,) = json.loads(thresholds_json((), (), (decision,)))["decisions"]
    assert (row["leader"], row["ended"], row["num_points"], row["max_points"]) == ("attention", "decided", 64, 200)
    assert sum(row["probabilities"].values()) == pytest.approx(1)
    assert row["odds"] == pytest.approx(row["probabilities"]["attention"] / row["probabilities"]["excess_q_power"])
    assert row["points"]["T=64 q=1 d=4"] == 24
