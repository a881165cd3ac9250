"""A criterion by another number than the loss: page, figures, tables and boards name it, and trials keep their loss."""

import csv
import html
import io
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import synthetic_runs
from rich.console import Console
from synthetic_runs import measured, transformers

import dashboards
from cluster.commands.results import show_findings
from dashboards.boards.viewers import note
from dashboards.page.result_sections import table_section
from dashboards.page.run_sections import criterion_words
from dashboards.plots.cells import cell_views
from dashboards.plots.charts_of_cells import curve_charts, loss_charts
from stsq_core import TrialConfig, TrialResult
from sweeps.findings.run_findings import Findings, read_findings
from sweeps.schema.spec import Criterion
from sweeps.store.ledger import Ledger
from sweeps.store.run_directory import RunDirectory

MEASURE = "relative loss at 2T"


def at_twice_the_length(config: TrialConfig) -> TrialResult:
    """As measured, with four times the loss at 2T."""
    result = measured(config)
    loss, name = 4 * (result.relative_loss or 0), f"T={2 * config.task.T}"
    return replace(result, metrics={"loss": loss / 4, f"loss@{name}": loss, f"loss_stderr@{name}": 0.01})


@pytest.fixture
def judged(make_run: Callable[..., RunDirectory]) -> RunDirectory:
    group = transformers([16, 32], evaluation={"T_test": [32, 64]})
    return make_run(trials=[group], outcome=at_twice_the_length, criterion={"metric": "loss@2T"})


@pytest.fixture
def own(judged: RunDirectory) -> Findings:
    return read_findings(judged.path)


def words(text: str) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL))).strip()


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, "relative loss at most 0.1 for 50% of seeds"),
        ({"metric": "loss@q=6"}, "relative loss at q = 6 at most 0.1 for 50% of seeds"),
        ({"metric": "loss@T=400", "statistic": "mean"}, "mean relative loss at T = 400 over seeds at most 0.1"),
        ({"metric": "attention_mass", "target_loss": 0.05}, "attention off the subset at most 0.05 for 50% of seeds"),
        ({"metric": "cosine_V"}, "1 - cosine of V at most 0.1 for 50% of seeds"),
    ],
)
def test_the_criterion_in_words(fields: dict[str, Any], text: str) -> None:
    assert criterion_words(Criterion.model_validate(fields)) == text


def test_the_page_names_what_is_judged(judged: RunDirectory) -> None:
    text = words(dashboards.write_report(judged.path).read_text())
    for part in (
        f"the width from which 50% of seeds have {MEASURE} at most 0.1, between",
        f"the share of seeds solved at each width; the {MEASURE} of every seed",
        f"Criterion {MEASURE} at most 0.1 for 50% of seeds Widths",
        f"Criterion {MEASURE} at most 0.1 for 50% of seeds, intervals at 90%",
        "m Relative loss at 2T Status Rate",
        "Relative loss at 2T on fresh data after the last step: 1 is a network that has learned nothing.",
        f", judged by the {MEASURE} .",
    ):
        assert part in text, part
    with (judged.path / "report/trials.csv").open() as file:
        losses = {row["trial_id"]: float(row["relative_loss"]) for row in csv.DictReader(file)}
    assert losses == {record.trial_id: record.relative_loss for record in Ledger(judged.ledger).read()}
    with (judged.path / "report/thresholds.csv").open() as file:
        assert {row["metric"] for row in csv.DictReader(file)} == {"loss@2T"}


def test_figures_show_what_is_judged_and_no_target_beside_training_losses(own: Findings) -> None:
    steps, losses = np.array([0, 100]), np.array([1.0, 0.4])
    ids = [trial_id for one in own.thresholds for trial_id in one.points.outcomes.trial_ids]
    views = cell_views(own.thresholds, dict.fromkeys(ids, (steps, losses)))
    for view, chart in zip(views, loss_charts(views), strict=True):
        assert chart.y.label.html == MEASURE
        wanted = [at_twice_the_length(one.trial_config).metrics for one in view.threshold.points.outcomes]
        assert sorted(view.dot_losses) == pytest.approx(sorted(own[f"loss@T={2 * _T(view)}"] for own in wanted))
    for chart in curve_charts(views):
        assert not [layer for layer in chart.layers if type(layer).__name__ == "Rule"]
    assert [layer for layer in loss_charts(views)[0].layers if type(layer).__name__ == "Rule"]


def _T(view: Any) -> int:
    return int(view.threshold.config_sample.task.T)


def test_the_terminal_and_the_viewer_say_what_is_judged(own: Findings) -> None:
    printed = io.StringIO()
    show_findings(Console(width=200, file=printed), own)
    assert f"A trial is solved where its {MEASURE} is at most 0.1." in printed.getvalue()
    assert f"| solved | {MEASURE} at most 0.1 in 50% of the seeds |" in note(own, own.cells[0], own.thresholds[0])


def test_a_notebook_judges_by_the_metric_and_shows_the_loss(judged: RunDirectory) -> None:
    table = dashboards.load(judged.path).trials.set_index("trial_id")
    records = Ledger(judged.ledger).read()
    between = 0
    for record in records:
        loss = (record.metrics or {})[f"loss@T={2 * record.config['task']['T']}"]
        assert table.loc[record.trial_id].solved == (loss <= 0.1)
        assert table.loc[record.trial_id].relative_loss == record.relative_loss
        between += (record.relative_loss or 0) <= 0.1 < loss
    assert between > 0


def test_the_definition_of_a_plain_criterion_is_as_it_was(findings: Findings) -> None:
    section = table_section(findings)
    assert section is not None
    assert "from which 50% of seeds reach a relative loss of 0.1, between" in words(section.html)
    assert synthetic_runs.sweep().criterion.measure == "relative loss"


def test_a_best_rate_at_the_end_of_those_tried_is_told_on_the_page_and_at_the_terminal(
    make_run: Callable[..., RunDirectory], findings: Findings
) -> None:
    """At the larger of two rates the loss is half of that at the other."""

    def outcome(config: TrialConfig) -> TrialResult:
        result = measured(config)
        return result if config.optimizer.lr == 0.02 else replace(result, relative_loss=2 * (result.relative_loss or 0))

    group = transformers([16, 32])
    group["grid"] = {**group.get("grid", {}), "optimizer.lr": [0.005, 0.02]}
    own, told = read_findings(make_run(outcome=outcome, trials=[group]).path), io.StringIO()
    section = table_section(own)
    assert section is not None
    line = "The best learning rate is the largest tried, 0.02, in 2 of 2 cells: a larger one might lower m*."
    assert line in words(section.html)
    show_findings(Console(file=told, width=150), own)
    assert told.getvalue().splitlines().count(line) == 1
    whole = table_section(findings)
    assert whole is not None
    assert "The best learning rate" not in words(whole.html)
