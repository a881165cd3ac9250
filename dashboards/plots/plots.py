"""What the drawings of a sweep show, as values that matplotlib and plotly draw alike: panels with traces, or heat maps.

A trace is the mean over seeds with Student's interval; of losses, and of one over them, the geometric mean.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dashboards.words import DASHES, INK, LINES, MUTED, Dash, Shade, field_name, setting_words, width_shade
from stsq_core.configs import Fcn, Stsq, Transformer
from stsq_core.oracles import theory
from sweeps.findings import Observation, cells_of, selected
from sweeps.schema import Curves, Profile
from sweeps.thresholds import mean_interval

SMALL = 1e-12
MOST_HUES = 3
ROOM = 1.3
"""The least ratio of two ticks that stand side by side on a logarithmic axis."""

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
class Trace:
    """A line with its interval, or a theory's line with none."""

    name: str
    x: np.ndarray
    y: np.ndarray
    shade: Shade
    dash: Dash = "solid"
    low: np.ndarray | None = None
    high: np.ndarray | None = None
    role: Literal["data", "theory"] = "data"


@dataclass(frozen=True)
class PlotPanel:
    """One pair of axes; `marks` are vertical lines with their names."""

    title: str
    traces: tuple[Trace, ...]
    marks: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True)
class Plot:
    """A drawing: panels that share their axes' labels and scales. `points` marks each x."""

    name: str
    title: str
    x_label: str
    y_label: str
    log_x: bool
    log_y: bool
    points: bool
    panels: tuple[PlotPanel, ...]

    @property
    def x_ticks(self) -> tuple[float, ...]:
        """Where a logarithmic x axis has its ticks: at what was measured, where there is room."""
        ticks: list[float] = []
        for x in sorted({float(x) for panel in self.panels for trace in panel.traces if trace.role == "data" for x in trace.x}):
            if not ticks or x >= ticks[-1] * ROOM:
                ticks.append(x)
        return tuple(ticks)


def curves_plot(drawing: Curves, observations: Sequence[Observation], *, level: float) -> Plot:
    """Metrics against the step."""
    chosen = selected(observations, drawing)
    names = [name for name, _ in _lines(drawing.by, chosen)]
    panels = []
    for title, members in _panels(drawing.panels, chosen):
        traces: list[Trace] = []
        for name, own in _lines(drawing.by, members):
            for place, metric in enumerate(drawing.metrics):
                shade, dash = _look(names.index(name), place, metrics=len(drawing.metrics))
                label = ", ".join(filter(None, [name, _metric_words(metric) if len(drawing.metrics) > 1 else ""])) or "measured"
                if (trace := _course(own, metric, drawing, label, shade, dash, level)) is not None:
                    traces.append(trace)
        traces += [trace for which in drawing.theory for trace in _theory(which, members, inverse=drawing.inverse)]
        panels.append(PlotPanel(title, tuple(traces)))
    y_label = "1 / relative loss" if drawing.inverse else _common_label(drawing.metrics)
    return Plot(drawing.name, drawing.title, "step", y_label, False, drawing.log, False, tuple(panels))


def _common_label(metrics: Sequence[str]) -> str:
    """What the metrics of one drawing are all numbers of."""
    for begin, label in (("loss", LABELS["loss"]), ("norm_", "Frobenius norm"), ("cosine_", "cosine with the ground truth")):
        if all(metric.startswith(begin) for metric in metrics):
            return label
    return ", ".join(LABELS.get(metric, metric) for metric in metrics)


def profile_plot(drawing: Profile, observations: Sequence[Observation], *, level: float) -> Plot:
    """A final metric against a number of tokens, a subset size, the width or another field."""
    chosen = selected(observations, drawing)
    names = [name for name, _ in _lines(drawing.by, chosen)]
    panels = []
    for title, members in _panels(drawing.panels, chosen):
        traces = []
        for name, own in _lines(drawing.by, members):
            shade, dash = _look(names.index(name), 0, metrics=1)
            if points := _profile(own, drawing, level):
                x, y, low, high = (np.array(column) for column in zip(*points, strict=True))
                traces.append(Trace(name or "measured", x, y, shade, dash, low, high))
        marks: list[tuple[float, str]] = []
        if "fcn_floor" in drawing.theory and members:
            floors, marks = _floors(members)
            traces += floors
        elif drawing.against in ("T_test", "q_test") and members:
            task = members[0].config.task
            marks = [(task.T, "$T$") if drawing.against == "T_test" else (task.q, "$q$")]
        panels.append(PlotPanel(title, tuple(traces), tuple(marks)))
    against = {"T_test": "tokens in the test, $T_{test}$", "q_test": "subset size in the test, $q_{test}$", "m": "width $m$"}
    x_label = against.get(drawing.against) or _formulas(f"{field_name(drawing.against)} =").removesuffix(" =")
    name, _, at = drawing.metric.partition("@")
    y_label = LABELS.get(name, name) + (f" at {_metric_words(drawing.metric)}" if at else "")
    log_x = drawing.log and (drawing.against == "m" or drawing.against.endswith("d_e"))
    return Plot(drawing.name, drawing.title, x_label, y_label, log_x, drawing.log, True, tuple(panels))


def _formulas(words: str) -> str:
    """Letters before an equals sign as formulas."""
    return re.sub(r"\b(d_e|[Tqdm])(?= =)", lambda found: "$d_{e}$" if found[1] == "d_e" else f"${found[1]}$", words)


def _panels(field: str | None, observations: Sequence[Observation]) -> list[tuple[str, list[Observation]]]:
    if field is None:
        return [("", list(observations))]
    groups: dict[Any, list[Observation]] = {}
    for one in observations:
        groups.setdefault(one.fields.get(field), []).append(one)
    return [(_formulas(setting_words([(field, value)])), members) for value, members in sorted(groups.items(), key=_by_value)]


def _lines(fields: Sequence[str], observations: Sequence[Observation]) -> list[tuple[str, list[Observation]]]:
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
    observations: Sequence[Observation], metric: str, drawing: Curves, name: str, shade: Shade, dash: Dash, level: float
) -> Trace | None:
    """A metric through training at the steps that all seeds have."""
    courses = [one.courses[metric] for one in observations if metric in one.courses]
    if not courses:
        return None
    steps = np.array(sorted(set.intersection(*(set(steps.tolist()) for steps, _ in courses))))
    values = np.array([y[np.searchsorted(x, steps)] for x, y in courses])
    if drawing.inverse:
        values = 1 / np.maximum(values, SMALL)
    y, low, high = _means(values, geometric=drawing.log or drawing.inverse, level=level)
    return Trace(name, steps, y, shade, dash, low, high)


def _means(values: np.ndarray, *, geometric: bool, level: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mean of each column [seed, x] with the ends of its interval; of one seed alone the ends are the value."""
    told = np.log(np.maximum(values, SMALL)) if geometric else values
    if len(told) < 2:
        return values[0], values[0], values[0]
    columns = np.array([mean_interval(column.tolist(), level=level) for column in told.T]).T
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


def _theory(which: str, observations: Sequence[Observation], *, inverse: bool) -> list[Trace]:
    """The curves of theory for the cells at hand, each once."""
    traces: dict[str, Trace] = {}
    for cell in cells_of(observations):
        config = cell[0].config
        task, steps = config.task, config.training.steps
        match config.model:
            case Transformer(positions=positions) if which == "one_hot_descent" and positions.kind == "one_hot":
                exact = theory.one_hot_descent(T=task.T, q=task.q, d=task.d, lr=config.optimizer.lr, steps=steps)
                x, y = np.arange(steps + 1)[:: max(1, steps // 200)], 2 * exact * task.q / task.d
                name, y = "exact recursion for one-hot codes", y[:: max(1, steps // 200)]
            case Transformer(positions=positions) if which == "attention_reference" and positions.kind == "random_sign":
                level = theory.attention_reference(T=task.T, q=task.q, d_e=positions.d_e, query=positions.query)
                x, y = np.array([0, steps]), np.full(2, level)
                name = f"attention reference, $d_{{e}}$ = {positions.d_e}"
            case _:
                continue
        traces[name] = Trace(name, x, 1 / y if inverse else y, INK if "exact" in name else MUTED, "dotted", role="theory")
    return list(traces.values())


def _floors(observations: Sequence[Observation]) -> tuple[list[Trace], list[tuple[float, str]]]:
    """The exact floor of each task, zero from Td on, and 2Td, where a ReLU first layer can reach it."""
    traces, marks = [], []
    tasks = {
        one.config.task: one for one in observations if isinstance(one.config.model, Fcn) and type(one.config.task) is Stsq
    }
    for task in tasks:
        widths = np.arange(1, task.T * task.d + 1)
        floor = np.array([theory.fcn_floor(int(m), T=task.T, d=task.d, q=task.q) for m in widths])
        name = "exact floor" if len(tasks) == 1 else f"exact floor, $T$ = {task.T}"
        traces.append(Trace(name, widths, floor, INK, "dotted", role="theory"))
        marks += [(1.0 * task.T * task.d, "$Td$"), (2.0 * task.T * task.d, "$2Td$")]
    return traces, marks
