"""Custom figures: lines with their means and intervals, theory beside them, looks that hold across panels, and the files."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dashboards.page.interactive import heat_spec, plotly_spec
from dashboards.paper.figures import custom_figure, save_figure
from dashboards.plots.chart import Chart, Line, Marks, Rule
from dashboards.plots.drawings import ChartFigure, Heat, HeatFigure, curves_figure, profile_figure
from dashboards.words.law_words import Formula
from dashboards.words.settings import setting_words
from stsq_core import TrialConfig
from stsq_core.oracles import theory
from sweeps.findings.observations import Observation
from sweeps.schema.drawings import Curves, Profile

STEPS = np.arange(0, 101, 10)


def trial(d_e: int = 16, seed: int = 0, redraw: str = "per_step", **changes: Any) -> TrialConfig:
    data: dict[str, Any] = {
        "task": {"T": 20, "q": 2, "d": 3},
        "model": {"kind": "transformer", "positions": {"kind": "random_sign", "d_e": d_e, "redraw": redraw}},
        "optimizer": {"kind": "gd", "lr": 1.0},
        "training": {"objective": "population", "steps": 100},
        "seed": seed,
    }
    return TrialConfig.model_validate(data | changes)


def drawn(chart: Chart) -> list[Line | Marks]:
    """The lines and marks of a chart."""
    return [layer for layer in chart.layers if isinstance(layer, Line | Marks)]


def rules(chart: Chart) -> list[tuple[float, str]]:
    """Where a chart has vertical lines, and their names."""
    return [(layer.at, layer.name.tex) for layer in chart.layers if isinstance(layer, Rule)]


def observed() -> Iterator[Observation]:
    for d_e in (16, 64):
        for redraw in ("per_step", "never"):
            for seed in range(4):
                scale = (1 + seed / 10) * (2 if redraw == "never" else 1) * 16 / d_e
                losses = scale / (1 + STEPS)
                metrics = {"loss": losses[-1], "loss@T=40": 2 * losses[-1], "loss@q=4": 3 * losses[-1]}
                courses = {"loss": (STEPS, losses), "loss@T=40": (STEPS, 2 * losses)}
                yield Observation(trial(d_e, seed, redraw), metrics, courses)


def test_a_line_is_the_geometric_mean_of_its_seeds() -> None:
    drawing = Curves(
        name="a", title="A", metrics=("loss",), log=True, panels="model.positions.d_e", by=("model.positions.redraw",)
    )
    plot = curves_figure(drawing, list(observed()), level=0.9)
    assert [chart.title for chart in plot.charts] == ["$d_{e}$ = 16", "$d_{e}$ = 64"]
    fixed, stochastic = drawn(plot.charts[0])
    assert (fixed.name.text, stochastic.name.text) == ("fixed codes", "stochastic codes")
    mean = math.prod(1 + seed / 10 for seed in range(4)) ** 0.25
    assert stochastic.y == pytest.approx(mean / (1 + STEPS))
    assert fixed.low is not None
    assert fixed.high is not None
    low, y, high = (np.asarray(column) for column in (fixed.low, fixed.y, fixed.high))
    assert np.all((low < y) & (y < high))
    assert y**2 == pytest.approx(low * high)
    assert drawn(plot.charts[1])[0].shade == fixed.shade != stochastic.shade


def test_several_metrics_take_hues_and_lines_take_dashes() -> None:
    drawing = Curves(
        name="a", title="A", metrics=("loss", "loss@T=40"), by=("model.positions.redraw",), where={"model.positions.d_e": 16}
    )
    (chart,) = curves_figure(drawing, list(observed()), level=0.9).charts
    looks = {layer.name.tex: (layer.shade, layer.dash) for layer in drawn(chart)}
    assert list(looks) == [
        "fixed codes, in distribution",
        "fixed codes, $T_{test}$ = 40",
        "stochastic codes, in distribution",
        "stochastic codes, $T_{test}$ = 40",
    ]
    assert len(set(looks.values())) == 4


def test_a_profile_runs_over_what_was_evaluated() -> None:
    drawing = Profile(name="a", title="A", against="T_test", by=("model.positions.redraw",), panels="model.positions.d_e")
    plot = profile_figure(drawing, list(observed()), level=0.9)
    assert list(drawn(plot.charts[0])[0].x) == [20.0, 40.0]
    assert rules(plot.charts[0]) == [(20, "$T$")]
    widths = profile_figure(
        Profile(name="a", title="A", against="m", by=("model.positions.redraw",)), list(observed()), level=0.9
    )
    assert list(drawn(widths.charts[0])[0].x) == [19.0, 67.0]


def test_theory_stands_beside_what_was_measured() -> None:
    one_hot = {"kind": "transformer", "positions": {"kind": "one_hot"}}
    observations = [
        Observation(trial(seed=seed, model=one_hot), {"loss": 0.5}, {"loss": (STEPS, 1 / (1 + STEPS))}) for seed in (0, 1)
    ]
    drawing = Curves(name="a", title="A", metrics=("loss",), inverse=True, theory=("one_hot_descent",))
    (chart,) = curves_figure(drawing, observations, level=0.9).charts
    measured, exact = chart.lines
    assert (measured.role, exact.role) == ("data", "theory")
    assert measured.y == pytest.approx(1 + STEPS)
    relative = 2 * theory.one_hot_descent(T=20, q=2, d=3, lr=1.0, steps=100) * 2 / 3
    assert exact.y[-1] == pytest.approx(1 / relative[100])
    net = {"kind": "fcn", "width": 7}
    nets = [Observation(trial(seed=seed, model=net, training={"steps": 100}), {"loss": 0.9}, {}) for seed in (0, 1)]
    floor = profile_figure(Profile(name="a", title="A", against="m", theory=("fcn_floor",)), nets, level=0.9).charts[0]
    assert drawn(floor)[-1].y[6] == theory.fcn_floor(7, T=20, d=3, q=2)
    assert rules(floor) == [(60.0, "$Td$"), (120.0, "$2Td$")]


def plots() -> list[ChartFigure]:
    by_redraw = {"by": ("model.positions.redraw",), "panels": "model.positions.d_e"}
    curves = Curves(name="a", title="A", metrics=("loss",), log=True, **by_redraw)
    profile = Profile(name="b", title="B", against="q_test", by=("model.positions.d_e",))
    observations = list(observed())
    return [curves_figure(curves, observations, level=0.9), profile_figure(profile, observations, level=0.9)]


@pytest.mark.slow
@pytest.mark.parametrize("plot", plots(), ids=["curves", "profile"])
def test_a_plot_is_drawn_on_paper_and_for_the_page(plot: ChartFigure, tmp_path: Path) -> None:
    png, pdf, svg = save_figure(custom_figure(plot), tmp_path, plot.name)
    assert png.read_bytes().startswith(b"\x89PNG")
    assert pdf.read_bytes().startswith(b"%PDF")
    again = save_figure(custom_figure(plot), tmp_path, "again")
    assert [path.read_bytes() for path in again] == [png.read_bytes(), pdf.read_bytes(), svg.read_bytes()]
    for chart in plot.charts:
        spec = json.loads(json.dumps(plotly_spec(chart, legend="below"), allow_nan=False))
        names = [trace["name"] for trace in spec["data"] if trace.get("showlegend", True)]
        assert names == [layer.name.html for layer in drawn(chart)]


def test_heat_maps_share_the_colours_of_their_row(tmp_path: Path) -> None:
    rows = (tuple(Heat(f"$W$ {when}", np.full((6, 6), size), (2,), (2,)) for when, size in (("before", 0.1), ("after", -2.0))),)
    figure = custom_figure(HeatFigure("matrices", "W", rows))
    assert {image.norm.vmax for axes in figure.axes[:2] for image in axes.images} == {2.0}
    assert save_figure(figure, tmp_path, "matrices")[0].is_file()
    assert heat_spec(rows[0][1], 2.0)["data"][0]["zmin"] == -2.0


def test_settings_are_told_in_the_papers_words() -> None:
    assert setting_words([("model.positions.d_e", 48), ("model.positions.redraw", "never")]) == "d_e = 48, fixed codes"
    assert setting_words([("model.positions.kind", "one_hot"), ("model.positions.redraw", "never")]) == "one-hot codes"
    assert Formula.of("$T_{test}$ = 40").html == "<i>T</i><sub>test</sub> = 40"
