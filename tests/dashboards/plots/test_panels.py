"""Panels hold what figures show: marks at the thresholds, laws with their bands, the exact lines, comparable axes."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from dashboards.plots.panels import Line, Panel, settings_differ, threshold_panels
from dashboards.words.threshold_words import regime_words
from dashboards.words.ticks import decades, round_numbers
from stsq_core import TrialConfig
from stsq_core.oracles import theory
from sweeps.findings.run_findings import Findings, read_findings
from sweeps.store.run_directory import RunDirectory

MakeRun = Callable[..., RunDirectory]


def line(panel: Panel, role: str) -> Line:
    return next(line for series in panel.series for line in series.lines if line.role == role)


def test_architectures_with_other_settings_get_panels_of_equal_span(findings: Findings) -> None:
    panels = threshold_panels(findings.regimes)
    assert [panel.title for panel in panels] == ["Transformer", "Fully connected net"]
    for ends in ("x_range", "y_range"):
        first, second = (getattr(panel, ends) for panel in panels)
        assert first[1] / first[0] == pytest.approx(second[1] / second[0])


def test_a_setting_is_told_with_its_codes_and_what_goes_beyond_the_theorem(findings: Findings) -> None:
    regime = findings.regimes[0]
    data = regime.sample.model_dump(mode="json")
    data["training"]["objective"] = "minibatch"
    for kind, (fields, told) in {
        "gaussian": ({}, "Gaussian codes redrawn every step, dual query · minibatch"),
        "sinusoidal": ({"attend_query": True}, "sinusoidal codes fixed, dual query, attend_query=true · minibatch"),
        "learned": ({"init": "gaussian"}, "learned codes, sum query, init=gaussian · minibatch"),
    }.items():
        config = TrialConfig.model_validate(
            {**data, "model": {"kind": "transformer", "positions": {"kind": kind, "d_e": 8}, **fields}}
        )
        one = replace(regime, thresholds=(replace(regime.thresholds[0], config_sample=config),))
        assert told in regime_words(one)


def test_every_mark_lies_within_its_panel_and_its_interval(findings: Findings) -> None:
    for panel in threshold_panels(findings.regimes):
        for mark in (mark for series in panel.series for mark in series.marks):
            assert mark.m is not None
            assert panel.y_range[0] < mark.low <= mark.m <= mark.high < panel.y_range[1]
            assert panel.x_range[0] < mark.x < panel.x_range[1]


def test_the_floor_and_the_relu_line_are_the_exact_ones(findings: Findings) -> None:
    _, panel = threshold_panels(findings.regimes)
    floor, relu = line(panel, "floor"), line(panel, "relu")
    assert floor.y.tolist() == [theory.fcn_width_bound(0.1, T=int(T), d=2, q=2) for T in floor.x]
    assert relu.y.tolist() == [4 * T for T in relu.x]


def test_a_laws_line_passes_where_the_law_says_within_its_band(findings: Findings) -> None:
    for panel, regime in zip(threshold_panels(findings.regimes), findings.regimes, strict=True):
        law = line(panel, "law")
        task = regime.sample.task
        assert regime.law is not None
        assert law.y[0] == pytest.approx(regime.law.predict(T=float(law.x[0]), d=task.d, q=task.q))
        assert law.low is not None
        assert law.high is not None
        assert np.all(law.low <= law.y)
        assert np.all(law.y <= law.high)


def test_a_power_laws_band_is_widest_away_from_the_cells(findings: Findings) -> None:
    law = findings.laws[1]
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
    (panel,) = threshold_panels(findings.regimes)
    assert panel.title == "Transformer and fully connected net"
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
    (panel,) = threshold_panels(regimes)
    assert panel.names == panel.x_words == tuple(f"activation = {name}" for name in activations)
    assert [mark.x for series in panel.series for mark in series.marks] == list(panel.x_ticks)
    assert not any(series.lines for series in panel.series)


def test_a_sweep_over_d_is_drawn_against_d(make_run: MakeRun, fully_connected: dict[str, object]) -> None:
    over_d = {
        **fully_connected,
        "zip": {"task.d": [1, 2, 4], "model.width": [{"geom": [2 * d, 16 * d], "num": 6} for d in (1, 2, 4)]},
    }
    (panel,) = threshold_panels(read_findings(make_run(trials=[over_d]).path).regimes)
    assert panel.axis == "d"
    assert [mark.x for mark in panel.series[0].marks] == [1, 2, 4]


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
