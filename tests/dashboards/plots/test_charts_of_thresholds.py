"""Charts of thresholds: marks at the thresholds, laws with their bands, the exact lines, comparable axes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dashboards.paper.figures import threshold_figure
from dashboards.plots.chart import Chart, Line, Marks, OpenEnd
from dashboards.plots.charts_of_thresholds import history_chart, settings_differ, threshold_charts
from dashboards.words.style import decades, round_numbers
from dashboards.words.threshold_words import regime_words
from stsq_core import TrialConfig
from stsq_core.oracles import theory
from sweeps.findings.interval_history import State
from sweeps.findings.run_findings import Findings, read_findings
from sweeps.store.run_directory import RunDirectory

MakeRun = Callable[..., RunDirectory]


def line(chart: Chart, role: str) -> Line:
    return next(line for line in chart.lines if line.role == role)


def ends(chart: Chart) -> tuple[tuple[float, float], tuple[float, float]]:
    assert chart.x.ends is not None
    assert chart.y.ends is not None
    return chart.x.ends, chart.y.ends


def test_architectures_with_other_settings_get_panels_of_equal_span(findings: Findings) -> None:
    charts = threshold_charts(findings.regimes)
    assert [chart.title for chart in charts] == ["Transformer", "Fully connected net"]
    for first, second in zip(*map(ends, charts), strict=True):
        assert first[1] / first[0] == pytest.approx(second[1] / second[0])


def test_a_setting_is_told_with_its_codes_and_what_goes_beyond_the_theorem(findings: Findings) -> None:
    regime = findings.regimes[0]
    data = regime.sample.model_dump(mode="json")
    data["training"]["objective"] = "minibatch"
    for kind, (fields, printed) in {
        "gaussian": ({}, "Gaussian codes redrawn every step, dual query · minibatch"),
        "sinusoidal": ({"attend_query": True}, "sinusoidal codes fixed, dual query, attend_query=true · minibatch"),
        "learned": ({"init": "gaussian"}, "learned codes, sum query, init=gaussian · minibatch"),
    }.items():
        config = TrialConfig.model_validate(
            {**data, "model": {"kind": "transformer", "positions": {"kind": kind, "d_e": 8}, **fields}}
        )
        one = replace(regime, thresholds=(replace(regime.thresholds[0], config_sample=config),))
        assert printed in regime_words(one)


def test_a_setting_tells_what_a_step_samples(findings: Findings) -> None:
    attention, net = (regime_words(regime) for regime in findings.regimes)
    assert attention.endswith("· population objective (exact in `X` only) · Adam, 600 steps of 64 subsets")
    assert net.endswith("· minibatch objective · Adam, 2,000 steps of 128 samples")


def test_every_mark_lies_within_its_panel_and_its_interval(findings: Findings) -> None:
    for chart in threshold_charts(findings.regimes):
        x_ends, y_ends = ends(chart)
        [marks] = chart.marks
        assert marks.low is not None
        assert marks.high is not None
        for x, low, m, high in zip(marks.x, marks.low, marks.y, marks.high, strict=True):
            assert y_ends[0] < low <= m <= high < y_ends[1]
            assert x_ends[0] < x < x_ends[1]


def test_the_floor_and_the_relu_line_are_the_exact_ones(findings: Findings) -> None:
    _, chart = threshold_charts(findings.regimes)
    floor, relu = line(chart, "floor"), line(chart, "relu")
    assert list(floor.y) == [theory.fcn_width_bound(0.1, T=int(T), d=2, q=2) for T in floor.x]
    assert list(relu.y) == [4 * T for T in relu.x]


def test_a_laws_line_passes_where_the_law_says_within_its_band(findings: Findings) -> None:
    for chart, regime in zip(threshold_charts(findings.regimes), findings.regimes, strict=True):
        law = line(chart, "law")
        task = regime.sample.task
        assert regime.law is not None
        assert law.y[0] == pytest.approx(regime.law.predict(T=float(law.x[0]), d=task.d, q=task.q))
        assert law.low is not None
        assert law.high is not None
        assert np.all(np.asarray(law.low) <= np.asarray(law.y))
        assert np.all(np.asarray(law.y) <= np.asarray(law.high))


def test_a_power_laws_band_is_widest_away_from_the_cells(findings: Findings) -> None:
    law = findings.comparisons[1].law("td_power")
    assert law is not None
    band = law.band(law.tasks(T=np.array([1.5, 9.0, 60.0]), d=2.0, q=2.0))
    assert band is not None
    low, high = band
    spread = high / low
    assert spread[1] < spread[0]
    assert spread[1] < spread[2]


def test_architectures_that_share_their_settings_share_a_panel(
    make_run: MakeRun, attention: dict[str, dict[str, object]], fully_connected: dict[str, dict[str, object]]
) -> None:
    task = {"kind": "stsq", "T": 8, "q": 2, "d": 2}
    training = {"objective": "minibatch", "batch_size": 64, "steps": 100}
    both = [
        {**attention, "base": {**attention["base"], "task": task, "training": training}},
        {**fully_connected, "base": {**fully_connected["base"], "task": task, "training": training}},
    ]
    both[0]["zip"] = {"task.T": [8, 16], "model.positions.d_e": [{"geom": [4, 40], "num": 5}] * 2}  # type: ignore[assignment, dict-item]
    both[1]["zip"] = {"task.T": [8, 16], "model.width": [{"geom": [8, 64], "num": 5}] * 2}  # type: ignore[assignment, dict-item]
    findings = read_findings(make_run(trials=both).path)
    (chart,) = threshold_charts(findings.regimes)
    assert chart.title == "Transformer and fully connected net"
    assert settings_differ(findings.regimes) == ""


def test_settings_of_one_cell_each_stand_side_by_side_with_no_law(
    make_run: MakeRun, fully_connected: dict[str, object]
) -> None:
    activations = ["gelu", "relu", "tanh"]
    settings = {
        **fully_connected,
        "zip": {"model.activation": activations, "model.width": [{"geom": [8, 64], "num": 5}] * len(activations)},
    }
    regimes = read_findings(make_run(trials=[settings]).path).regimes
    assert [regime.comparison for regime in regimes] == [None] * len(activations)
    (chart,) = threshold_charts(regimes)
    assert [word.text for word in chart.x.words] == [f"activation = {name}" for name in activations]
    assert chart.x.ticks is not None
    assert [layer.x for layer in chart.layers if isinstance(layer, OpenEnd)] == list(chart.x.ticks)
    assert not chart.lines


def test_a_sweep_over_d_is_drawn_against_d(make_run: MakeRun, fully_connected: dict[str, object]) -> None:
    over_d = {
        **fully_connected,
        "zip": {"task.d": [1, 2, 4], "model.width": [{"geom": [2 * d, 16 * d], "num": 6} for d in (1, 2, 4)]},
    }
    (chart,) = threshold_charts(read_findings(make_run(trials=[over_d]).path).regimes)
    assert chart.x.label.text == "d"
    assert chart.marks[0].x == [1, 2, 4]


@given(st.floats(1e-6, 1e6), st.floats(1.3, 1e6))
def test_round_numbers_are_few_and_within(low: float, factor: float) -> None:
    ticks = round_numbers(low, low * factor)
    assert len(ticks) <= 9
    assert all(low <= tick <= low * factor for tick in ticks)
    assert ticks == tuple(sorted(ticks))


def test_decades_are_thinned() -> None:
    assert decades(0.05, 20) == (0.1, 1.0, 10.0)
    assert _evenly(decades(1e-12, 1))


def _evenly(values: Sequence[float]) -> bool:
    steps = np.diff([math.log10(value) for value in values])
    return len(values) <= 5 and bool(np.allclose(steps, steps[0]))


def test_many_families_are_small_multiples_with_a_look_a_name(
    make_run: MakeRun, attention: dict[str, Any], fully_connected: dict[str, Any]
) -> None:
    """Codes, redraws and optimizers crossed with d, eight settings at each d, and nets with both optimizers."""
    optimizers = {"optimizer.kind": ["adam", "gd"]}
    codes = {"model.positions.kind": ["random_sign", "gaussian"], "model.positions.redraw": ["per_step", "never"]}
    trials = [
        {**attention, "grid": {**codes, **optimizers, "task.d": [4, 2]}, "seeds": 1},
        {**fully_connected, "grid": optimizers, "seeds": 1},
    ]
    charts = threshold_charts(read_findings(make_run(trials=trials).path).regimes)
    assert [chart.title for chart in charts] == [
        *(f"Transformer, d = {d}, {optimizer}" for d in (2, 4) for optimizer in ("Adam", "gradient descent")),
        "Fully connected net",
    ]
    *of_codes, nets = charts
    for chart in of_codes:
        assert chart.is_small
        assert {marks.name.text for marks in chart.marks} == {
            f"{kind}, {redraw} codes" for kind in ("random signs", "Gaussian codes") for redraw in ("stochastic", "fixed")
        }
        assert (chart.x, chart.y) == (of_codes[0].x, of_codes[0].y)
        assert {line.role for line in chart.lines} == {"law"}
        assert len({marks.x[0] for marks in chart.marks}) == 4, "side by side"
    assert {marks.name.text for marks in nets.marks} == {"Adam", "gradient descent"}
    looks = {marks.name.text: (marks.shade, marks.shape) for chart in charts for marks in chart.marks}
    assert len(set(looks.values())) == len(looks) == 6
    assert all((marks.shade, marks.shape) == looks[marks.name.text] for chart in charts for marks in chart.marks)
    drawn = threshold_figure(charts)
    assert next(axes.get_title(loc="left") for axes in drawn.axes if axes.get_visible()) == "Transformer, $d$ = 2, Adam"
    assert {text.get_text() for text in drawn.legends[0].get_texts()} >= set(looks)


def test_cells_along_two_letters_have_a_chart_for_each(make_run: MakeRun, fully_connected: dict[str, Any]) -> None:
    """A row over T at d = 2 and a row over d at T = 8, with one cell in common."""
    star = [(4, 2), (8, 2), (12, 2), (8, 3), (8, 4)]
    zipped = {
        "task.T": [T for T, _ in star],
        "task.d": [d for _, d in star],
        "model.width": [{"geom": [T * d // 2, 2 * T * d], "num": 6} for T, d in star],
    }
    charts = threshold_charts(read_findings(make_run(trials=[{**fully_connected, "zip": zipped}]).path).regimes)
    assert [(chart.x.label.text, list(chart.marks[0].x)) for chart in charts] == [("T", [4, 8, 12]), ("d", [2, 3, 4])]
    along_T, along_d = charts
    assert (along_T.note.split(" · ")[0], along_d.note.split(" · ")[0]) == ("`q` = 2, `d` = 2", "`q` = 2, `T` = 8")


@pytest.mark.parametrize(
    ("with_interval", "bands", "bars"),
    [("0001", [], [[4]]), ("0011", [[3, 4]], []), ("1101", [[1, 2]], [[4]]), ("0000", [], []), ("1111", [[1, 2, 3, 4]], [])],
)
def test_a_history_has_a_band_over_the_states_with_an_interval_alone(
    findings: Findings, with_interval: str, bands: list[list[int]], bars: list[list[int]]
) -> None:
    found = next(one for one in findings.thresholds if one.status == "found" and one.low is not None)
    bare = replace(found, low=None, high=None, low_censored=False, high_censored=False)
    states = [State(place, found if one == "1" else bare) for place, one in enumerate(with_interval, start=1)]
    chart = history_chart("T = 16", states)
    assert [list(one.x) for one in chart.lines if one.low is not None] == bands
    assert [list(one.x) for one in chart.layers if isinstance(one, Marks) and one.low is not None] == bars
    (marks,) = [one for one in chart.layers if isinstance(one, Marks) and one.dash]
    assert [text == "no interval" for text in marks.texts] == [one == "0" for one in with_interval]
