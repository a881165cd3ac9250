"""Verdicts on the page: the rule with its source, and a note where seeds are too few."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from synthetic_runs import transformers

from dashboards.page.cell_section import cell_section
from dashboards.page.figure_sections import curves_section, thresholds_section
from dashboards.page.result_sections import _definition, table_section, verdicts_section
from dashboards.page.run_sections import provenance_section
from dashboards.paper.tables import verdicts_json
from dashboards.plots.cells import cell_views
from dashboards.plots.charts_of_thresholds import threshold_charts
from sweeps.findings.claim_results import ClaimSetting, Verdict
from sweeps.findings.run_findings import Findings, read_findings
from sweeps.store.run_directory import RunDirectory

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
    assert "Seeds Note T = 12 not enough data 1.227 1.161 to 1.545 3 3 seeds give an interval of at most 75%" in text
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


@pytest.mark.parametrize("rates", [[0.03], [0.01, 0.03]])
def test_a_choice_of_rates_is_told_where_there_are_several(make_run: Callable[..., RunDirectory], rates: list[float]) -> None:
    group = transformers([16])
    findings = read_findings(make_run(trials=[group | {"grid": {"optimizer.lr": rates}}]).path)
    views = cell_views(findings.thresholds, {record.trial_id: (np.arange(1, 4), np.ones(3)) for record in findings.records})
    sections = table_section(findings), cell_section(findings, views, "runs/a"), curves_section(views)
    told = ["learning rate chosen for each width" in words(section.html) for section in sections[:2] if section]
    assert told == [len(rates) > 1] * 2
    assert sections[2] is not None
    assert ("at the chosen learning rate" in sections[2].html) == (len(rates) > 1)
    rule = "`n`* is the median over seeds of the samples drawn until an evaluation first found the relative loss at 0.1 or less"
    of_samples = findings.spec.criterion.model_copy(update={"of": "samples", "target_loss": 0.1})
    chosen = ", with the learning rate of the least median" if len(rates) > 1 else ""
    assert _definition(of_samples, several_rates=len(rates) > 1) == f"{rule}{chosen}."


def figure(findings: Findings, *, verdicts: tuple[Verdict, ...] = (), searched: Sequence[bool]) -> str:
    """The section of the threshold figure, of cells of which some are `searched`."""
    cells = [SimpleNamespace(search=object() if one else None) for one in searched]
    given = SimpleNamespace(spec=findings.spec, verdicts=verdicts, regimes=findings.regimes, thresholds=cells)
    section = thresholds_section(given, threshold_charts(findings.regimes), [])  # type: ignore[arg-type]
    assert section is not None
    return section.html


def test_the_threshold_figure_has_its_heading_below_claims(findings: Findings) -> None:
    verdict = Verdict("near", "It is near.", "m*", "above 1", (HELD,))
    assert "<h2>Width thresholds</h2>" in figure(findings, verdicts=(verdict,), searched=[True])
    assert "<h2>" not in figure(findings, searched=[True])


@pytest.mark.parametrize(
    ("searched", "source"),
    [
        ([False, False], "over seeds"),
        ([True, True], "from a posterior over the points of each search"),
        ([True, False], "over seeds, or from a posterior over the points of each search"),
    ],
)
def test_the_threshold_figure_says_what_its_intervals_rest_on(findings: Findings, searched: list[bool], source: str) -> None:
    text = words(figure(findings, searched=searched))
    assert f"Marks are the measured thresholds, bars their 90% intervals {source}; arrows mark thresholds" in text
