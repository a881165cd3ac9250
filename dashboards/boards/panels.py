"""The panels of the W&B boards, made of a board's contents with wandb-workspaces."""

import hashlib
from collections.abc import Sequence
from typing import Any

import wandb_workspaces.reports.v2 as wr

from dashboards.boards.board import Board
from dashboards.boards.charts import Chart
from dashboards.publishing import CELL, RELATIVE_LOSS, SEED, STEP, set_id, size_key
from stsq_core.configs import SAMPLES, WIDTH, Size

MAX_RUNS = 100
"""The most runs that one line plot draws."""


def chart_panel(board: Board, kind: str, *, w: int = 24, h: int = 14) -> Any | None:
    """One of the board's own charts; None where the board has none of this kind."""
    chart = board.charts.get(kind)
    if chart is None:
        return None
    return wr.CustomChart(
        query=_query(chart),
        chart_name=f"{board.entity}/{chart.name}",
        chart_fields=chart.fields,
        chart_strings={"title": chart.title},
        layout=wr.Layout(w=w, h=h),
    )


def loss_panel(board: Board, *, w: int = 12, h: int = 8) -> Any:
    """Relative loss against width, a dot a trial."""
    return wr.ScatterPlot(
        title=f"Relative loss against {words_of(board.size)}",
        x=wr.Config(board.config(size_key(board.size))),
        y=wr.SummaryMetric(board.summary(RELATIVE_LOSS)),
        log_x=True,
        log_y=True,
        layout=wr.Layout(w=w, h=h),
    )


def words_of(size: Size) -> str:
    """What runs are told apart by: the size of thresholds, `rank r`, or the width where samples are counted."""
    own = WIDTH if size == SAMPLES else size
    return f"{own.quantity} {own.letter}"


def curve_panels(board: Board, *, w: int = 12, h: int = 8) -> list[Any]:
    """Relative loss of the batch through training: the median of each cell, of each width, and of each seed, with its range."""
    told = ((CELL, "by cell"), (size_key(board.size), f"by {words_of(board.size)}"), (SEED, "by seed"))
    return [
        wr.LinePlot(
            title=f"Relative loss through training, {words}",
            x=board.row(STEP),
            y=[board.row(RELATIVE_LOSS)],
            title_x="step",
            title_y="relative loss of the batch",
            log_y=True,
            groupby=wr.Config(board.config(key)),
            groupby_aggfunc="median",
            groupby_rangefunc="minmax",
            max_runs_to_show=MAX_RUNS,
            layout=wr.Layout(w=w, h=h),
        )
        for key, words in told
    ]


def sweep_panels(board: Board) -> list[Any]:
    """The swept fields against the loss: parallel coordinates, and W&B's importance of each field."""
    loss = wr.ParallelCoordinatesPlotColumn(
        metric=wr.SummaryMetric(board.summary(RELATIVE_LOSS)), display_name="relative loss", log=True
    )
    fields = [
        wr.ParallelCoordinatesPlotColumn(metric=wr.Config(field.key), display_name=field.key, log=field.log or None)
        for field in board.swept
    ]
    return [
        wr.ParallelCoordinatesPlot(title="Swept fields and the loss", columns=[*fields, loss], layout=wr.Layout(w=24, h=12)),
        wr.ParameterImportancePlot(with_respect_to=board.summary(RELATIVE_LOSS), layout=wr.Layout(w=24, h=8)),
    ]


def comparer_panel() -> Any:
    """Runs side by side, in what they differ."""
    return wr.RunComparer(diff_only=True, layout=wr.Layout(w=24, h=12))


def columns(board: Board) -> list[str]:
    """What the table of runs shows first: how a trial ended, its loss, its width and seed, and where it belongs."""
    summary = [f"summary:{board.summary(key)}" for key in ("status", RELATIVE_LOSS)]
    config = [accessor(field.key) for field in board.swept]
    return ["run:displayName", *summary, *config, accessor(board.config(CELL))]


def accessor(key: str) -> str:
    """A config key as W&B's tables and filters spell it: `task.T` is `config:task.value.T`."""
    first, _, rest = key.partition(".")
    return f"config:{first}.value{'.' + rest if rest else ''}"


def name_panels(panels: Sequence[Any], *, of: str) -> None:
    """Give panels ids that depend on their place alone, so that equal boards are equal documents."""
    for place, panel in enumerate(panels):
        set_id(panel, hashlib.sha256(f"{of} {place}".encode()).hexdigest()[:12])


def _query(chart: Chart) -> dict[str, Any]:
    asked: dict[str, Any] = {"id": None, "name": None}
    if chart.config:
        asked["config"] = {"keys": list(chart.config)}
    if chart.summary:
        asked["summary"] = {"keys": list(chart.summary)}
    return asked
