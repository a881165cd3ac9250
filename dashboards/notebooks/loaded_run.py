"""A run directory as tables and figures, as it stood when it was loaded: nothing here writes into it.

A table is a pandas DataFrame and a figure a plotly one, so that a notebook can use all of pandas and plotly on them.
"""

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dashboards.boards import load_extra
from dashboards.page import Spec, plotly_spec, status_words
from dashboards.paper import chosen_figure, law_rows, losses_figure, picture, threshold_figure, threshold_rows
from dashboards.plots import (
    CellView,
    Chart,
    cell_views,
    curve_charts,
    loss_charts,
    read_shown_curves,
    share_loss_axis,
    threshold_charts,
)
from dashboards.words import CARD, INK, element
from sweeps.cells import Cell, pack_of, pack_row
from sweeps.findings import Findings, read_findings
from sweeps.schema import Criterion, fields_of, free_fields
from sweeps.store import (
    MEASURED,
    LedgerRecord,
    RunDirectory,
    disk_errors,
    is_solved,
    read_curves,
    read_metrics,
    trials_of_journal,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

Row = dict[str, Any]
RENAMED = {"model.kind", "task.T", "task.q", "task.d"}
"""Fields whose column has a shorter name, as those of width, rate and seed have."""

ENDED = (*MEASURED, "device", "finished_at", "reason")
MAY_BE_MISSING = {"steps": "Int64", "M": "Int64", "solved": "boolean", "chosen": "boolean"}
SHOWN = ("architecture", "T", "q", "d", "m_star", "low", "high", "status")
TABLES = ("trials", "packs", "thresholds", "laws", "measurements")
PLOTLY = "application/vnd.plotly.v1+json"
PICTURE_PX = 770
MAX_CELLS = 24
"""Cells that the figures of cells show."""


def load(run_path: Path | str) -> "LoadedRun":
    """A run as tables and figures, as it is now: it may have ended or still be running.

    Raises:
        UserError: it is no run, its ledger or sweep cannot be read, or pandas is missing.
    """
    load_extra("pandas", extra="notebooks", what="`dashboards.load`")
    findings = read_findings(run_path)
    return LoadedRun(findings, findings.cells)


@dataclass(frozen=True, repr=False)
class LoadedRun:
    """The tables and figures of one run, each made on first use. `load` again to see newer results."""

    findings: Findings
    cells: tuple[Cell, ...]

    @cached_property
    def trials(self) -> "DataFrame":
        """A row a declared trial: its settings and its result; one without a result is waiting or training.

        `solved`: it reached the target loss. `chosen`: its learning rate is the one that counts for its width. Both are
        missing for a trial that has not ended.
        """
        import pandas as pd

        frame = _frame(trial_rows(self.findings, self.cells))
        return frame.assign(finished_at=pd.to_datetime(frame["finished_at"], utc=True))

    @cached_property
    def packs(self) -> "DataFrame":
        """A row a pack that ended, as Ray Tune keeps it in `RUN/ray`: its cells, T, q, d, widths, code, optimizer, losses."""
        of_pack: dict[str, list[LedgerRecord]] = {}
        for record in self.findings.records:
            of_pack.setdefault(record.pack_id, []).append(record)
        return _frame(
            {
                **pack_row(pack_of(one.trial_config for one in own), [(one.status, one.relative_loss) for one in own]),
                "pack": pack_id,
            }
            for pack_id, own in of_pack.items()
        )

    @cached_property
    def thresholds(self) -> "DataFrame":
        """A row a cell with a result: its width threshold with the interval and status, and the law's value."""
        rows = threshold_rows(self.findings.thresholds, self.findings.laws)
        return _frame({name: row[name] for name in ("cell_id", "label")} | row for row in rows)

    @cached_property
    def laws(self) -> "DataFrame":
        """A row a fitted number of a law, with its interval."""
        rows = law_rows(self.findings.comparisons, self.findings.thresholds)
        return _frame([{**{key: value for key, value in row.items() if key != "settings"}, **row["settings"]} for row in rows])

    @cached_property
    def measurements(self) -> "DataFrame":
        """A row a number measured while a trial trained: `trial_id, step, metric, value`, of trials in training too.

        The metric `relative_loss` is that of the training batch, the others are those of evaluations.
        """
        return _frame(measurement_rows(self.findings.run), columns=("trial_id", "step", "metric", "value"))

    def plot_thresholds(self) -> "NotebookFigure":
        """Width thresholds against T with their intervals, the laws with their bands, and the exact floor."""
        charts = threshold_charts(self.findings.regimes)
        return _grid(charts, threshold_figure, columns=2, size=(440, 400), small=False)

    def plot_losses(self) -> "NotebookFigure":
        """Loss against width, a small figure a cell: a dot a trial, the median of its seeds, the target, the interval."""
        return _small(loss_charts(self._views))

    def plot_curves(self) -> "NotebookFigure":
        """Loss through training, a small figure a cell: each width, narrow to wide, where it has several seeds their median."""
        return _small(curve_charts([view for view in self._views if view.curves]))

    def figure(
        self, name: str = "", *, width_in: float | None = None, panels: Sequence[str] = (), has_rival: bool = True
    ) -> "Figure":
        """A figure for a paper, by matplotlib: `thresholds`, `phases`, `laws`, `losses`, or a drawing of the sweep.

        Args:
            name: which figure; by default the first.
            width_in: in inches; by default that of a page of two columns.
            panels: numbers from 1, or beginnings of titles; by default all.
            has_rival: whether to draw the grey laws that theory expects of the other architecture.

        Raises:
            UserError: the run has no such figure or panel.
        """
        return chosen_figure(self.findings, name, width_in=width_in, panels=panels, has_rival=has_rival)

    def to_parquet(self, folder: Path | str) -> list[Path]:
        """Write the tables to `folder` as `trials.parquet`, `packs.parquet` and so on; their paths.

        Raises:
            UserError: the folder cannot be written.
        """
        folder = Path(folder)
        paths = [folder / f"{name}.parquet" for name in TABLES]
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for name, path in zip(TABLES, paths, strict=True):
                _of_one_type(getattr(self, name)).to_parquet(path, index=False)
        return paths

    @cached_property
    def _views(self) -> list[CellView]:
        return list(cell_views(self.findings.thresholds, read_shown_curves(self.findings)))[:MAX_CELLS]

    def __repr__(self) -> str:
        return f"<run {self.findings.spec.name} in {self.findings.run.path}: {status_words(self.findings)[0]}>"

    def _repr_html_(self) -> str:
        """A run in a notebook: its title, its progress, and its thresholds."""
        head = element("p", element("b", self.findings.spec.heading), " ", status_words(self.findings)[0])
        if self.thresholds.empty:
            return head
        return head + str(self.thresholds[list(SHOWN)].to_html(index=False, float_format="%.2f", na_rep=""))


class NotebookFigure(go.Figure):  # type: ignore[misc]  # plotly has no types
    """A plotly figure that a notebook keeps as a picture too, as matplotlib draws it, for readers that run no script.

    The picture is of the figure as it was made: what `update_layout` and the like change is in plotly's form alone.
    """

    _picture: bytes | None = None
    _ipython_display_ = None  # plotly's own shows one form alone

    def _repr_mimebundle_(self, *_: object, **__: object) -> Row:
        forms: Row = {PLOTLY: json.loads(self.to_json())}
        if self._picture is not None:
            text = base64.b64encode(self._picture).decode()
            source = f"data:image/png;base64,{text}"
            forms |= {
                "image/png": text,
                "text/html": str(element("img", src=source, alt="The figure as a picture", width=PICTURE_PX)),
            }
        return forms


def _small(charts: Sequence[Chart]) -> NotebookFigure:
    return _grid(share_loss_axis(charts) if charts else [], losses_figure, columns=4, size=(280, 230), small=True)


def _frame(rows: Any, columns: Sequence[str] | None = None) -> "DataFrame":
    """Rows as a table; columns of integers and booleans that may be missing keep their type."""
    import pandas as pd

    frame = pd.DataFrame(rows, columns=columns)
    return frame.astype({name: kind for name, kind in MAY_BE_MISSING.items() if name in frame})


def _of_one_type(frame: "DataFrame") -> "DataFrame":
    """The table with text in the columns that hold values of several types, which a file of columns has not."""
    values = {name: frame[name].dropna() for name in frame if frame[name].dtype == object}
    mixed = [name for name, own in values.items() if len(kinds := set(map(type, own))) > 1 or kinds & {tuple, list, dict}]
    return frame.assign(**{name: frame[name].map(lambda one: None if one is None else str(one)) for name in mixed})


def _grid(
    charts: Sequence[Chart], draw: Callable[..., "Figure"], *, columns: int, size: tuple[int, int], small: bool
) -> NotebookFigure:
    """Charts as one figure in rows and columns, each of a width and height in pixels; of `small` ones the outer have labels.

    `draw` makes its picture.
    """
    if not charts:
        return NotebookFigure(layout={"annotations": [{"text": "nothing to draw yet", "showarrow": False}], "height": 120})
    columns = min(columns, len(charts))
    rows = -(-len(charts) // columns)
    whole = make_subplots(rows, columns, subplot_titles=[chart.title for chart in charts], vertical_spacing=0.3 / rows)
    specs = [plotly_spec(chart, small=small) for chart in charts]
    for place, (chart, spec) in enumerate(zip(charts, specs, strict=True)):
        _place(whole, spec, place)
        if small and place + columns >= len(charts):
            whole.update_layout({_name("xaxis", place): {"title": {"text": chart.x.label.html}}})
        if small and place % columns == 0:
            whole.update_layout({_name("yaxis", place): {"title": {"text": chart.y.label.html}}})
    font = {"family": specs[0]["layout"]["font"]["family"], "color": INK.light, "size": 12}
    legend = {"orientation": "h", "yanchor": "top", "y": -0.16}
    width, height = size
    shown = {"width": width * columns, "height": height * rows + 90, "font": font, "legend": legend}
    whole.update_layout(**shown, paper_bgcolor=CARD.light, plot_bgcolor=CARD.light, margin={"l": 60, "r": 20, "t": 50, "b": 60})
    whole.update_annotations(font={"size": 13})
    shown = NotebookFigure(whole)
    shown._picture = picture(draw(charts))
    return shown


def _place(whole: go.Figure, spec: Spec, place: int) -> None:
    """Draw a figure's traces, shapes and axes at a place of the whole one."""
    x, y = _reference("x", place), _reference("y", place)
    for trace in spec["data"]:
        in_legend = spec["layout"].get("showlegend", False) and trace.get("showlegend", True)
        whole.add_trace({**trace, "xaxis": x, "yaxis": y, "showlegend": in_legend})
    for shape in spec["layout"].get("shapes", ()):
        given = {name: shape.get(name, name[0]) for name in ("xref", "yref")}
        # `y domain` of the third place is `y3 domain`
        whole.add_shape({**shape, **{name: _reference(text[0], place) + text[1:] for name, text in given.items()}})
    for axis in ("xaxis", "yaxis"):
        own = {key: value for key, value in spec["layout"].get(axis, {}).items() if key not in ("domain", "anchor")}
        whole.update_layout({_name(axis, place): own})


def _reference(letter: str, place: int) -> str:
    return letter if place == 0 else f"{letter}{place + 1}"


def _name(axis: str, place: int) -> str:
    return axis if place == 0 else f"{axis}{place + 1}"


def trial_rows(findings: Findings, cells: Sequence[Cell]) -> list[Row]:
    """A row a declared trial, in the order in which the sweep declares them."""
    ended = {record.trial_id: record for record in findings.records}
    chosen = {
        trial_id
        for threshold in findings.thresholds
        for trial_id in threshold.points.take(threshold.points.chosen).outcomes.trial_ids
    }
    journals = findings.run.curves.glob("*.jsonl")
    training = {trial_id for path in journals for trial_id in trials_of_journal(path)} - ended.keys()
    axes = _axes(cells)
    return [
        row | _end(ended.get(row["trial_id"]), row["trial_id"], chosen, training, findings.spec.criterion)
        for cell in cells
        for row in _declared(cell, axes)
    ]


def measurement_rows(run: RunDirectory) -> Iterator[tuple[str, int, str, float]]:
    """Trial, step, metric and value of every measurement."""
    for trial_id, (steps, losses) in read_curves(run).items():
        for step, loss in zip(steps.tolist(), losses.tolist(), strict=True):
            yield trial_id, step, "relative_loss", loss
    for trial_id, metrics in read_metrics(run).items():
        for name, (steps, values) in metrics.items():
            for step, value in zip(steps.tolist(), values.tolist(), strict=True):
                yield trial_id, step, name, value


def _declared(cell: Cell, axes: Sequence[str]) -> Iterator[Row]:
    config, trials = cell.trials[0], cell.trials
    fields = fields_of(config)
    shared = {
        "cell_id": cell.cell_id,
        "cell": cell.label,
        "architecture": config.model.kind,
        **{letter: getattr(config.task, letter) for letter in ("T", "q", "d")},
        **{axis: fields.get(axis) for axis in axes},
    }
    columns = (trials.trial_ids, trials.widths.tolist(), trials.rates.tolist(), trials.seeds.tolist())
    for trial_id, m, lr, seed in zip(*columns, strict=True):
        yield {"trial_id": trial_id, **shared, "m": m, "lr": lr, "seed": seed}


def _end(record: LedgerRecord | None, trial_id: str, chosen: set[str], training: set[str], criterion: Criterion) -> Row:
    """The status and result of a trial."""
    if record is None:
        status = "training" if trial_id in training else "waiting"
        return {"status": status, "solved": None, "chosen": None, **dict.fromkeys(ENDED)}
    solved = is_solved(record, criterion) or False
    result = {name: getattr(record, name) for name in ENDED}
    return {"status": record.status, "solved": solved, "chosen": trial_id in chosen, **result, **(record.metrics or {})}


def _axes(cells: Sequence[Cell]) -> tuple[str, ...]:
    """The other fields in which cells of one architecture differ."""
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for cell in cells:
        config = cell.trials[0]
        by_kind.setdefault(config.model.kind, []).append(fields_of(config))
    axes: dict[str, None] = {}
    for fields in by_kind.values():
        names = dict.fromkeys(name for own in fields for name in own if name not in RENAMED.union(free_fields()))
        axes |= {name: None for name in names if len({repr(own[name]) for own in fields if name in own}) > 1}
    return tuple(axes)
