"""What a reader sees first of every catalogue sweep: the axes of its figure, and its headline, as text."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from synthetic_runs import catalogue_run

from dashboards.page.cell_section import cell_keys
from dashboards.page.figure_sections import curves_section, losses_section
from dashboards.page.headline import headline, result_words
from dashboards.page.summary import heading
from dashboards.plots.cells import CellView, cell_names, cell_views
from dashboards.plots.chart import Chart, Marks, OpenEnd
from dashboards.plots.charts_of_cells import loss_charts
from dashboards.plots.charts_of_thresholds import threshold_charts
from dashboards.plots.series import LETTERS, MAX_SERIES
from stsq_core.configs import SAMPLES
from sweeps.cells.loading import catalog_names, load_sweep
from sweeps.findings.progress import read_progress
from sweeps.findings.run_findings import Findings, read_findings
from sweeps.schema import ThresholdRatio

NUMBERS = r"\(`\w`\* = [\d,.]+ to [\d,.]+ at"
HEADLINES = {
    "width_vs_T": rf"from `T` = 4 to 24 a transformer with objective = minibatch needs .* times the width {NUMBERS} `q` = 2,"
    r" `d` = 2\); from `T` = 4 to 24 a fully connected net .* 1 more series is in the figure\.$",
    "width_vs_q": rf"from `q` = 1 to 6 a transformer .* {NUMBERS} `T` = 12, `d` = 2\); from `q` = 1 to 6 a fully connected net"
    r" needs 0\.\d+ times the width",
    "width_vs_d": rf"from `d` = 1 to 12 a transformer .* {NUMBERS} `T` = 12, `q` = 2\); from `d` = 1 to 4 a fully",
    "width_to_generalise": r"from `T` = 16 to 128 a transformer with .* codes needs .*, judged by the relative loss at 2T",
    "attention_kinds": r"Of 7 settings of attention, `[\w = ]+` \(`m`\* = [\d.]+\) needs the least width and .* the most",
    "moments": r"From `order = 1` \(`H`\* = [\d.]+\) to `order = 3` \(`H`\* = [\d.]+\) attention needs [\d.]+ times the heads",
    "simple_qstr_samples": rf"From `N` = 6 to 24 a feed-forward net needs [\d.]+ times the samples {NUMBERS} `q` = 1, `d` = 10",
}
"""Of some sweeps, a pattern of the headline; letters of tasks from other papers are those of the papers."""

WITHIN = r"[\d.]+ to [\d.]+ times the width of {} in {} settings(?: \(90% intervals within [\d.]+ to [\d.]+\))?"
RATIOS = {
    "width_vs_code": f"random signs, fixed codes need {WITHIN.format('stochastic codes', 6)}; for random signs, codes redrawn"
    f" for every sample need {WITHIN.format('stochastic codes', 6)}. Of 5 claims, ",
    "width_vs_optimizer": f"a fully connected net, gradient descent needs {WITHIN.format('Adam', 5)};"
    f" for a transformer, gradient descent needs {WITHIN.format('Adam', 7)}. Of 5 claims, ",
    "atlas": f"a transformer, gradient descent needs {WITHIN.format('Adam', 50)}; for a fully connected net,",
    "attention_width_vs_T": "stochastic codes and T = 6, 8, 12, 16 and 24, scores = linear needs"
    f" {WITHIN.format('scores = softmax', 5)}. Of 4 claims, ",
    "variance_width": f"T = 12, 16 and 24, a fully connected net needs {WITHIN.format('attention', 6)}. Of 3 claims, ",
    "width_to_generalise": f"T = 32, fixed codes need {WITHIN.format('stochastic codes', 3)}; for q = 2, fixed codes need",
}
"""Of sweeps that claim a ratio between two settings, what the result begins with."""


def drawn_cells(chart: Chart) -> int:
    """The thresholds that a chart shows, by number or as an arrow."""
    marks = sum(len(layer.x) for layer in chart.layers if isinstance(layer, Marks))
    return marks + sum(layer.is_threshold for layer in chart.layers if isinstance(layer, OpenEnd))


LARGE = {"atlas", "boolean_samples"}
"""Sweeps whose results take more than a second to read."""


def marked(name: str) -> Any:
    return pytest.param(name, marks=[pytest.mark.slow] if name in LARGE else [])


@pytest.fixture(scope="module", params=map(marked, catalog_names()))
def findings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """A run of each catalogue sweep."""
    return read_findings(catalogue_run(tmp_path_factory.mktemp("run") / request.param, load_sweep(request.param)).path)


def test_the_axes_and_the_headline_follow_what_varies_within_families(findings: Findings) -> None:
    charts = threshold_charts(findings.regimes)
    check_axes(findings, charts)
    check_headline(findings, charts, pattern=HEADLINES.get(findings.spec.name, ""))


def test_the_result_begins_with_the_ratios_that_are_claimed(findings: Findings) -> None:
    words, name = result_words(findings), findings.spec.name
    if name == "stream_width":
        assert re.match(f"So far, gradient descent needs {WITHIN.format('Adam', 3)}. Of 5 claims, ", words)
    elif name in RATIOS:
        assert re.match(f"So far, for {RATIOS[name]}", words)
    else:
        assert not any(isinstance(claim, ThresholdRatio) for claim in findings.spec.claims)
        assert re.search(r"times the \w+ of ", words) is None


def check_axes(findings: Findings, charts: Sequence[Chart]) -> None:
    """A letter that varies within families and else a number; a category only where no number varies."""
    varying = {
        regime.letter(letter)
        for regime in findings.regimes
        for letter in LETTERS
        if len({getattr(config.task, letter) for config in regime.samples}) > 1
    }
    assert bool(charts) is any(threshold.is_bounded for threshold in findings.thresholds)
    for chart in charts:
        if varying:
            assert chart.x.label.text in varying
            assert not chart.x.words
        assert len([marks for marks in chart.marks if marks.name.text and not marks.hollow]) <= MAX_SERIES
        fields = {word.text.partition(" = ")[0] for word in chart.x.words}
        values = [word.text.rpartition(" = ")[2] for word in chart.x.words]
        assert len(fields) != 1 or not all(re.fullmatch(r"\d+(\.\d+)?", value) for value in values)
    if varying and any(regime.law for regime in findings.regimes):
        assert all(line.role for chart in charts for line in chart.lines)
        assert any(line.role == "law" for chart in charts for line in chart.lines)
    assert sum(map(drawn_cells, charts)) >= sum(threshold.is_bounded for threshold in findings.thresholds)


def check_headline(findings: Findings, charts: Sequence[Chart], *, pattern: str) -> None:
    """The same axis from its first place to its last, with the letters that stay the same."""
    text = "".join(phrase.text for phrase in headline(findings))
    whole = re.sub("<[^>]*>", "", heading(findings))
    assert not findings.verdicts or re.search(r"Of \d+ claims, |of the \d+ claims|The claim ", whole)
    assert re.search(r"\ba [aeiou](?!ne-)", text) is None
    assert text.endswith(".")
    if findings.spec.drawings:
        return
    assert re.sub("[`*]", "", text.split(";")[0]) in whole.replace("*", "")
    for letter, start, stop in re.findall(r"[Ff]rom `(\w)` = (\d+) to (\d+)", text):
        places = [x for chart in charts if chart.x.label.text == letter for marks in chart.marks for x in marks.x]
        assert all(any(abs(x / float(end) - 1) < 0.1 for x in places) for end in (start, stop))
        assert int(start) < int(stop)
    for clause in re.findall(r"\(`\w`\* = [^()]* at [^()]*\)", text):
        assert len(re.findall(r"`\w` = ", clause)) == 2, "the two letters that stay the same are named"
    assert re.search(pattern, text)


def test_what_is_censored_is_named(tmp_path: Path) -> None:
    spec = load_sweep("quickstart", ["transformer:search.high=30"])
    text = "".join(phrase.text for phrase in headline(read_findings(catalogue_run(tmp_path / "cut", spec).path)))
    assert re.search(
        r"from `T` = 16 to 32 a transformer [^;]*\), (above the|not reached at any) widths? tried at `T` = 64, 128; from", text
    ), text


def test_a_median_over_seeds_is_said_of_widths_with_several_seeds_alone(findings: Findings) -> None:
    views = cell_views(findings.thresholds, {record.trial_id: (np.arange(1, 4), np.ones(3)) for record in findings.records})
    losses, curves = losses_section(views, []), curves_section(views)
    seeds = [count for view in views for count in seeds_of_lines(view)]
    noun = findings.spec.criterion.size.noun
    words = {
        frozenset({True}): ("median over seeds", f"the median over seeds of each {noun}"),
        frozenset({False}): (f"one seed at each {noun}", f"one seed of each {noun}"),
        frozenset({True, False}): (
            f"median over seeds, or the only seed of a {noun}",
            f"the median over seeds of each {noun} (where it has several)",
        ),
    }
    if losses is not None:
        said = words[frozenset(count > 1 for count in seeds)]
        assert f"</i>{said[0]}</span>" in losses.html
        chosen = ", at the chosen learning rate" if findings.sweep.several_rates else ""
        assert curves is None or f"against step, {said[1]}{chosen}." in curves.html
    for view in views:
        said = words[frozenset(count > 1 for count in seeds_of_lines(view))]
        assert f"</i>{said[0]}</span>" in "".join(cell_keys(view))
        [line] = [line for line in loss_charts([view])[0].lines if line.role != "floor"]
        assert line.hover.endswith(f", {said[0]}")


def seeds_of_lines(view: CellView) -> list[int]:
    """The seeds behind each place of a cell's line through losses: those of a width, or, where samples are counted, all."""
    chosen = view.threshold.points.take(view.threshold.points.chosen)
    if view.threshold.size == SAMPLES:
        return [len(chosen)]
    return [int((chosen.widths == width).sum()) for width in set(view.median_widths)]


def test_a_search_says_that_its_widths_have_one_seed_each(tmp_path: Path) -> None:
    findings = read_findings(catalogue_run(tmp_path / "searched", load_sweep("quickstart")).path)
    section = losses_section(cell_views(findings.thresholds, {}), [])
    assert section is not None
    assert "one seed at each width" in section.html
    assert "median" not in section.html


def test_the_cells_of_searches_of_which_some_have_begun_are_named_by_what_varies(tmp_path: Path) -> None:
    run = catalogue_run(tmp_path / "begun", load_sweep("quickstart"))
    lines = run.ledger.read_text("utf-8").splitlines(keepends=True)
    run.ledger.write_text("".join(line for line in lines if '"kind": "fcn"' in line or '"kind":"fcn"' in line), "utf-8")
    cells = read_progress(run).cells
    assert {cell.kind for cell in cells if cell.num_ended} == {"fcn"}
    assert cell_names(cells) == tuple(f"T = {T}" for T in (16, 32, 64, 128, 4, 8, 12, 16))
