"""The sentence on a sweep's claims, for every way in which they may come out."""

import html
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hunted_runs import Hunt
from synthetic_runs import measured, packs_of, sweep, transformers

from dashboards.boards.documents import laws_words
from dashboards.page import summary
from dashboards.page.headline import claims_headline, headline, result_words
from dashboards.page.summary import heading
from dashboards.plots.charts_of_laws import exponents_chart, residual_charts
from dashboards.plots.charts_of_thresholds import threshold_charts
from stsq_core import TrialConfig, TrialResult
from sweeps.findings.claim_results import ClaimSetting, Verdict
from sweeps.findings.run_findings import Findings, read_findings
from sweeps.store.run_directory import RunDirectory


def sentence(holding: int, failing: int, undecided: int) -> str:
    answers = ["holds"] * holding + ["does not hold"] * failing + ["not enough data"] * undecided
    verdicts = [Verdict("c", "says", "m", "at least 1", (ClaimSetting((), None, None, None, 2, one),)) for one in answers]  # type: ignore[arg-type]
    return "".join(phrase.text for phrase in claims_headline(verdicts))


@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ((1, 0, 0), "The claim holds."),
        ((0, 1, 0), "The claim does not hold."),
        ((2, 0, 0), "Of 2 claims, all hold."),
        ((0, 2, 0), "Of 2 claims, none holds."),
        ((0, 0, 2), "There is not enough data for either of the 2 claims."),
        ((0, 0, 3), "There is not enough data for any of the 3 claims."),
        ((1, 1, 0), "Of 2 claims, 1 holds and 1 does not."),
        ((1, 2, 0), "Of 3 claims, 1 holds and 2 do not."),
        ((2, 1, 0), "Of 3 claims, 2 hold and 1 does not."),
        ((1, 0, 1), "Of 2 claims, 1 holds and for 1 there is not enough data."),
        ((0, 1, 1), "Of 2 claims, 1 does not hold and for 1 there is not enough data."),
        ((0, 2, 1), "Of 3 claims, 2 do not hold and for 1 there is not enough data."),
        ((2, 2, 2), "Of 6 claims, 2 hold, 2 do not and for 2 there is not enough data."),
        ((1, 1, 1), "Of 3 claims, 1 holds, 1 does not and for 1 there is not enough data."),
    ],
)
def test_the_claims_are_counted_in_a_grammatical_sentence(counts: tuple[int, int, int], text: str) -> None:
    assert sentence(*counts) == text


def test_one_claim_without_enough_data() -> None:
    assert sentence(0, 0, 1) == "The claim has not enough data."


@pytest.mark.parametrize(
    ("lengths", "has_begun", "begins"),
    [
        ([16], True, "A transformer with fixed codes, dual query needs a width of"),
        ([16, 64], True, "From `T` = 16 to 64 a transformer with fixed codes, dual query needs"),
        ([16], False, "So far, a transformer with fixed codes, dual query needs a width of"),
    ],
)
def test_the_headline_names_what_sets_its_cells_apart_from_those_without_a_number(
    make_run: Callable[..., RunDirectory], lengths: list[int], has_begun: bool, begins: str
) -> None:
    """Of three codes one has a threshold: of the others no trial has a loss, or none has begun."""

    def outcome(config: TrialConfig) -> TrialResult | str:
        return measured(config) if config.model.positions.redraw == "never" else "out of memory"  # type: ignore[attr-defined]

    code = {"kind": "random_sign", "d_e": 8, "query": "dual"}
    codes = [code | own for own in ({"redraw": "never"}, {"redraw": "per_step"}, {"redraw": "per_sample", "query": "sum"})]
    group = {name: value for name, value in transformers([16]).items() if name != "zip"}
    sizes = {"task.T": lengths, "model.positions.d_e": {"geom": [8, 60], "num": 6}}
    trials = [group | {"grid": {"model.positions": codes, **sizes}}]
    fixed = [isinstance(outcome(pack.configs[0]), TrialResult) for pack in packs_of(sweep(trials=trials))]
    run = make_run(trials=trials, outcome=outcome, keep=lambda place: has_begun or fixed[place])
    assert "".join(phrase.text for phrase in headline(read_findings(run.path))).startswith(begins)


def head_laws(findings: Findings) -> list[str]:
    """The lines of laws in the head of the page, as text."""
    lines = re.findall(r'<p class="laws">(.*?)</p>', heading(findings), flags=re.DOTALL)
    return [html.unescape(re.sub("<[^>]*>", "", line)) for line in lines]


def test_the_head_names_the_law_of_every_family(
    make_run: Callable[..., RunDirectory], attention: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two families, of which the second misfits: wider the longer its sequences."""

    def outcome(config: TrialConfig) -> TrialResult:
        result, is_off = measured(config), config.model.positions.query == "sum"  # type: ignore[attr-defined]
        loss = (result.relative_loss or 0.0) * ((config.task.T / 16) ** 1.5 if is_off else 1.0)
        return replace(result, relative_loss=loss)

    trials = [{**attention, "grid": {"model.positions.query": ["dual", "sum"]}}]
    findings = read_findings(make_run(trials=trials, outcome=outcome).path)
    # The family of the headline comes first, then those that misfit.
    lines = head_laws(findings)
    assert [line.partition(":")[0] for line in lines] == ["Transformer query=dual", "Transformer query=sum"]
    assert ", and it misfits" in lines[1] or "but it misfits" in lines[1] or "is ruled out" in lines[1]
    monkeypatch.setattr(summary, "MAX_LAWS", 1)
    assert head_laws(findings)[1:] == ["And 1 more family, under Scaling laws."]


def test_figures_and_boards_tell_families_apart(make_run: Callable[..., RunDirectory], attention: dict[str, Any]) -> None:
    trials = [{**attention, "grid": {"model.positions.query": ["dual", "sum"]}}]
    findings = read_findings(make_run(trials=trials).path)
    assert [chart.title for chart in residual_charts(findings.regimes)] == ["Transformer query=dual", "Transformer query=sum"]
    exponents = exponents_chart(findings.comparisons)
    assert exponents is not None
    assert [word.text.partition(",")[0] for word in exponents.y.words] == ["Transformer query=dual"] * 2 + [
        "Transformer query=sum"
    ] * 2
    (chart,) = threshold_charts(findings.regimes)
    assert [line.dash for line in chart.lines if line.role == "rival"] == ["dashdot", "dotted"]
    first, second, both = laws_words(findings.regimes).splitlines()
    assert first.startswith("- Transformer query=dual: m\\* = `d + ")
    assert second.startswith("- Transformer query=sum: m\\* = `d + ")
    assert first.endswith(" cells to be compared.")
    assert both.startswith("- Transformer: The 2 families share b of m = d + b q ln T: one b is enough;")


def test_boards_keep_that_it_is_undecided(make_run: Callable[..., RunDirectory], attention: dict[str, Any]) -> None:
    two = {**attention, "zip": {"task.T": [16, 32], "model.positions.d_e": [{"geom": [8, 40], "num": 6}] * 2}}
    findings = read_findings(make_run(trials=[two]).path)
    (line,) = laws_words(findings.regimes).splitlines()
    assert ". Undecided: 2 cells are too few to tell laws apart by AICc." in line


def test_searches_in_their_first_round_are_said_to_be_open(tmp_path: Path) -> None:
    """No trial failed, and nothing lies beyond the widths: nobody knows yet."""
    hunt = Hunt(tmp_path / "run")
    packs = hunt.ask()
    hunt.end(packs[:1])
    findings = read_findings(hunt.run.path)
    num = len(findings.thresholds)
    assert {threshold.status for threshold in findings.thresholds} == {"open"}
    cells = "1 cell" if num == 1 else f"{num} cells"
    assert result_words(findings) == f"No width threshold was found so far: of {cells}, {num} not known yet."
    hunt.end(packs[1:])
    assert "No width threshold" not in result_words(read_findings(hunt.run.path))
