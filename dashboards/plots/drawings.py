"""The custom figures that a sweep file declares: curves and profiles as charts, arrays as heat maps.

A line is the mean over seeds with Student's interval; of losses, and of one over them, the geometric mean.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

import numpy as np

from dashboards.plots.chart import Axis, Chart, Layer, Line, Marks, Rule
from dashboards.words import DASHES, INK, LINES, MUTED, Dash, Formula, Shade, field_name, setting_words, width_shade
from stsq_core.configs import Fcn, Stsq, Transformer, UserError
from stsq_core.oracles import theory
from sweeps.findings import Observation, cells_of, differing, selected
from sweeps.schema import Curves, Drawing, Matrices, Profile
from sweeps.store import RunDirectory, load_weights
from sweeps.thresholds import mean_interval

SMALL = 1e-12
MOST_HUES = 3
ROOM = 1.3
"""The least ratio of neighbouring ticks on a logarithmic axis."""

LABELS = {
    "loss": "relative loss",
    "attention_mass": "attention on the selected tokens",
    "cosine_W": "cosine of $W$",
    "cosine_V": "cosine of $V$",
    "norm_W_XX": "$W$, tokens by tokens",
    "norm_W_XE": "$W$, tokens by codes",
    "norm_W_EX": "$W$, codes by tokens",
    "norm_W_EE": "$W$, codes by codes",
    "norm_V_X": "$V$, tokens",
    "norm_V_E": "$V$, codes",
}


@dataclass(frozen=True)
class ChartFigure:
    """A custom figure of charts that share their axes."""

    name: str
    title: str
    charts: tuple[Chart, ...]


@dataclass(frozen=True)
class Heat:
    """One matrix; `edges` are the rows and columns at which blocks begin."""

    title: str
    matrix: np.ndarray
    edges_x: tuple[int, ...] = ()
    edges_y: tuple[int, ...] = ()


@dataclass(frozen=True)
class HeatFigure:
    """A custom figure of heat maps: rows whose colours share a scale."""

    name: str
    title: str
    rows: tuple[tuple[Heat, ...], ...]


CustomFigure = ChartFigure | HeatFigure


def custom_figures(
    drawings: Sequence[Drawing], observations: Sequence[Observation], run: RunDirectory, *, level: float
) -> list[CustomFigure]:
    """The figures that a sweep file declares, without those for which there is nothing to show yet."""
    figures: list[CustomFigure] = []
    for drawing in drawings:
        match drawing:
            case Curves():
                figure: CustomFigure | None = curves_figure(drawing, observations, level=level)
            case Profile():
                figure = profile_figure(drawing, observations, level=level)
            case Matrices():
                figure = heat_figure(drawing, observations, run)
            case _:
                assert_never(drawing)
        if isinstance(figure, HeatFigure) or (figure is not None and any(chart.layers for chart in figure.charts)):
            figures.append(figure)
    return figures


def curves_figure(drawing: Curves, observations: Sequence[Observation], *, level: float) -> ChartFigure:
    """Metrics against the step."""
    chosen = selected(observations, drawing)
    names = [name for name, _ in _groups(drawing.by, chosen)]
    y_label = "1 / relative loss" if drawing.inverse else _common_label(drawing.metrics)
    charts = []
    for title, members in _charts(drawing.panels, chosen):
        layers: list[Layer] = []
        for name, own in _groups(drawing.by, members):
            for place, metric in enumerate(drawing.metrics):
                look = _look(names.index(name), place, metrics=len(drawing.metrics))
                label = ", ".join(filter(None, [name, _metric_words(metric) if len(drawing.metrics) > 1 else ""])) or "measured"
                if (line := _course(own, metric, drawing, label, look, level)) is not None:
                    layers.append(line)
        layers += [line for which in drawing.theory for line in _theory(which, members, inverse=drawing.inverse)]
        x, y = Axis(Formula.of("step"), log=False), Axis(Formula.of(y_label), log=drawing.log)
        charts.append(Chart(title, x, y, tuple(layers)))
    return ChartFigure(drawing.name, drawing.title, _share_axes(charts))


def _common_label(metrics: Sequence[str]) -> str:
    """What the metrics of one drawing are all numbers of."""
    for begin, label in (("loss", LABELS["loss"]), ("norm_", "Frobenius norm"), ("cosine_", "cosine with the ground truth")):
        if all(metric.startswith(begin) for metric in metrics):
            return label
    return ", ".join(LABELS.get(metric, metric) for metric in metrics)


def profile_figure(drawing: Profile, observations: Sequence[Observation], *, level: float) -> ChartFigure:
    """A final metric against a number of tokens, a subset size, the width or another field."""
    chosen = selected(observations, drawing)
    names = [name for name, _ in _groups(drawing.by, chosen)]
    against = {"T_test": "tokens in the test, $T_{test}$", "q_test": "subset size in the test, $q_{test}$", "m": "width $m$"}
    x_label = against.get(drawing.against) or _formulas(f"{field_name(drawing.against)} =").removesuffix(" =")
    metric, _, at = drawing.metric.partition("@")
    y_label = LABELS.get(metric, metric) + (f" at {_metric_words(drawing.metric)}" if at else "")
    log_x = drawing.log and (drawing.against == "m" or drawing.against.endswith("d_e"))
    charts = []
    for title, members in _charts(drawing.panels, chosen):
        layers: list[Layer] = []
        for name, own in _groups(drawing.by, members):
            shade, dash = _look(names.index(name), 0, metrics=1)
            if points := _profile(own, drawing, level):
                x, y, low, high = (np.array(column) for column in zip(*points, strict=True))
                label = Formula.of(name or "measured")
                hover = f"{label.html}<br>{{x}}: {{y:.4g}}"
                layers.append(Marks(x, y, shade, size=6, name=label, low=low, high=high, dash=dash, width=2, hover=hover))
        if "fcn_floor" in drawing.theory and members:
            layers += _floors(members)
        elif drawing.against in ("T_test", "q_test") and members:
            task = members[0].config.task
            trained, letter = (task.T, "$T$") if drawing.against == "T_test" else (task.q, "$q$")
            layers.append(_named_rule(trained, letter))
        x_axis, y_axis = Axis(Formula.of(x_label), log=log_x), Axis(Formula.of(y_label), log=drawing.log)
        charts.append(Chart(title, x_axis, y_axis, tuple(layers)))
    return ChartFigure(drawing.name, drawing.title, _share_axes(charts))


def heat_figure(drawing: Matrices, observations: Sequence[Observation], run: RunDirectory) -> HeatFigure | None:
    """Arrays at initialisation and after training; None where none were kept."""
    chosen = selected(observations, drawing)
    names = differing(chosen)
    rows: list[tuple[Heat, ...]] = []
    for cell in cells_of(chosen):
        one = cell[0]
        try:
            after = load_weights(run.path, one.config.trial_id)
        except UserError:
            continue
        from stsq_core.training import initial_weights

        before = initial_weights(one.config)
        words = setting_words((name, one.fields.get(name)) for name in names)
        for name in drawing.arrays:
            if name not in after:
                continue
            edges_y, edges_x = one.config.model.block_edges(one.config.task, name)
            label = f"${name}$" if len(name) == 1 else name
            titles = [f"{label} {when}{f', {words}' if words else ''}" for when in ("at initialisation", "after training")]
            rows.append(
                tuple(
                    Heat(title, arrays[name], edges_x=edges_x, edges_y=edges_y)
                    for title, arrays in zip(titles, (before, after), strict=True)
                )
            )
    return HeatFigure(drawing.name, drawing.title, tuple(rows)) if rows else None


def _share_axes(charts: Sequence[Chart]) -> tuple[Chart, ...]:
    """The charts with one range of y, and ticks at the measured x of all of them where the axis is logarithmic."""
    drawn = [layer for chart in charts for layer in chart.layers if isinstance(layer, Line | Marks)]
    columns = [np.asarray(column) for layer in drawn for column in (layer.y, layer.low, layer.high) if column is not None]
    values = np.concatenate([*columns, np.empty(0)])
    is_log = bool(charts) and charts[0].y.log
    values = values[np.isfinite(values) & ((values > 0) | (not is_log))]
    ends = None
    if len(values):
        low, high = np.log10([values.min(), values.max()]) if is_log else (values.min(), values.max())
        margin = 0.05 * (high - low) or 0.5
        low, high = float(low - margin), float(high + margin)
        ends = (10**low, 10**high) if is_log else (low, high)
    ticks: list[float] = []
    for x in sorted({float(x) for layer in drawn if isinstance(layer, Marks) for x in layer.x}):
        if not ticks or x >= ticks[-1] * ROOM:
            ticks.append(x)
    return tuple(
        replace(chart, x=replace(chart.x, ticks=tuple(ticks) if chart.x.log else None), y=replace(chart.y, ends=ends))
        for chart in charts
    )


def _formulas(words: str) -> str:
    """Letters before an equals sign as formulas."""
    return re.sub(r"\b(d_e|[Tqdm])(?= =)", lambda found: "$d_{e}$" if found[1] == "d_e" else f"${found[1]}$", words)


def _charts(field: str | None, observations: Sequence[Observation]) -> list[tuple[str, list[Observation]]]:
    if field is None:
        return [("", list(observations))]
    groups: dict[Any, list[Observation]] = {}
    for one in observations:
        groups.setdefault(one.fields.get(field), []).append(one)
    return [(_formulas(setting_words([(field, value)])), members) for value, members in sorted(groups.items(), key=_by_value)]


def _groups(fields: Sequence[str], observations: Sequence[Observation]) -> list[tuple[str, list[Observation]]]:
    groups: dict[tuple[Any, ...], list[Observation]] = {}
    for one in observations:
        groups.setdefault(tuple(one.fields.get(field) for field in fields), []).append(one)
    return [
        (_formulas(setting_words((f, v) for f, v in zip(fields, values, strict=True) if v is not None)), members)
        for values, members in sorted(groups.items(), key=_by_value)
    ]


def _by_value(item: tuple[Any, Any]) -> tuple[Any, ...]:
    values = item[0] if isinstance(item[0], tuple) else (item[0],)
    return tuple((isinstance(value, str), value if isinstance(value, int | float) else 0, str(value)) for value in values)


def _look(line: int, metric: int, *, metrics: int) -> tuple[Shade, Dash]:
    """One metric gives each line a hue; several take the hues, or the ramp when they are many, and lines differ by dashes."""
    if metrics == 1:
        return LINES[line % len(LINES)], DASHES[line // len(LINES) % len(DASHES)]
    return LINES[metric] if metrics <= MOST_HUES else width_shade(metric, metrics), DASHES[line % len(DASHES)]


def _metric_words(metric: str) -> str:
    name, _, at = metric.partition("@")
    if not at:
        return LABELS.get(name, name) if name != "loss" else "in distribution"
    letter, _, value = at.partition("=")
    return f"${letter}_{{test}}$ = {value}"


def _course(
    observations: Sequence[Observation], metric: str, drawing: Curves, name: str, look: tuple[Shade, Dash], level: float
) -> Line | None:
    """A metric through training at the steps that all seeds have."""
    courses = [one.courses[metric] for one in observations if metric in one.courses]
    if not courses:
        return None
    steps = np.array(sorted(set.intersection(*(set(steps.tolist()) for steps, _ in courses))))
    values = np.array([y[np.searchsorted(x, steps)] for x, y in courses])
    if drawing.inverse:
        values = 1 / np.maximum(values, SMALL)
    y, low, high = _means(values, geometric=drawing.log or drawing.inverse, level=level)
    label = Formula.of(name)
    return Line(steps, y, *look, 2, label, low, high, hover=f"{label.html}<br>{{x}}: {{y:.4g}}")


def _means(values: np.ndarray, *, geometric: bool, level: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean of each column [seed, x] with the ends of its interval; of one seed alone the ends are the value."""
    averaged = np.log(np.maximum(values, SMALL)) if geometric else values
    if len(values) < 2:
        return values[0], values[0], values[0]
    columns = np.array([mean_interval(column.tolist(), level=level) for column in averaged.T]).T
    y, low, high = np.exp(columns) if geometric else columns
    return y, low, high


def _profile(observations: Sequence[Observation], drawing: Profile, level: float) -> list[tuple[float, float, float, float]]:
    groups: dict[float, list[float]] = {}
    for one in observations:
        for x, value in _points(one, drawing):
            groups.setdefault(x, []).append(value)
    points = []
    for x in sorted(groups):
        y, low, high = _means(np.array(groups[x])[:, None], geometric=drawing.log, level=level)
        points.append((x, float(y[0]), float(low[0]), float(high[0])))
    return points


def _points(one: Observation, drawing: Profile) -> list[tuple[float, float]]:
    if drawing.against not in ("T_test", "q_test"):
        x = one.fields.get(drawing.against)
        return [(float(x), one.metrics[drawing.metric])] if x is not None and drawing.metric in one.metrics else []
    letter = drawing.against[0]
    own = one.config.task.T if letter == "T" else one.config.task.q
    points = [(float(own), one.metrics[drawing.metric])] if drawing.metric in one.metrics else []
    begin = f"{drawing.metric}@{letter}="
    return points + [(float(k.removeprefix(begin)), v) for k, v in one.metrics.items() if k.startswith(begin)]


def _theory(which: str, observations: Sequence[Observation], *, inverse: bool) -> list[Line]:
    """The curves of theory for the cells at hand, each once."""
    lines: dict[str, Line] = {}
    for cell in cells_of(observations):
        config = cell[0].config
        task, steps = config.task, config.training.steps
        match config.model:
            case Transformer(positions=positions) if which == "one_hot_descent" and positions.kind == "one_hot":
                exact = theory.one_hot_descent(T=task.T, q=task.q, d=task.d, lr=config.optimizer.lr, steps=steps)
                x, y = np.arange(steps + 1)[:: max(1, steps // 200)], 2 * exact * task.q / task.d
                name, y, shade = "exact recursion for one-hot codes", y[:: max(1, steps // 200)], INK
            case Transformer(positions=positions) if which == "attention_reference" and positions.kind == "random_sign":
                level = theory.attention_reference(T=task.T, q=task.q, d_e=positions.d_e, query=positions.query)
                x, y = np.array([0, steps]), np.full(2, level)
                name, shade = f"attention reference, $d_{{e}}$ = {positions.d_e}", MUTED
            case _:
                continue
        lines[name] = _theory_line(name, x, 1 / y if inverse else y, shade)
    return list(lines.values())


def _floors(observations: Sequence[Observation]) -> list[Layer]:
    """The exact floor of each task, zero from Td on, and 2Td, where a ReLU first layer can reach it."""
    layers: list[Layer] = []
    tasks = {
        one.config.task: one for one in observations if isinstance(one.config.model, Fcn) and type(one.config.task) is Stsq
    }
    for task in tasks:
        widths = np.arange(1, task.T * task.d + 1)
        floor = np.array([theory.fcn_floor(int(m), T=task.T, d=task.d, q=task.q) for m in widths])
        layers.append(_theory_line("exact floor" if len(tasks) == 1 else f"exact floor, $T$ = {task.T}", widths, floor, INK))
        layers += [_named_rule(1.0 * task.T * task.d, "$Td$"), _named_rule(2.0 * task.T * task.d, "$2Td$")]
    return layers


def _theory_line(name: str, x: np.ndarray, y: np.ndarray, shade: Shade) -> Line:
    label = Formula.of(name)
    return Line(x, y, shade, "dotted", 1.6, label, hover=f"{label.html}<br>{{x}}: {{y:.4g}}", role="theory")


def _named_rule(x: float, name: str) -> Rule:
    return Rule("x", x, MUTED, "dotted", 1.1, Formula.of(name))
