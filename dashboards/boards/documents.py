"""The W&B workspace and report of a run, made of a board's contents with wandb-workspaces.

The workspace shows thresholds, loss against width, curves, swept fields and how trials ended. The report also has the claims,
panels of each cell, and the failures.
"""

import hashlib
import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws
from wandb_workspaces import expr

from dashboards.boards.board import Board
from dashboards.boards.charts import BoardChart
from dashboards.paper import failures_table
from dashboards.plots import cell_names
from dashboards.publishing import keys, set_id, set_workspace_name
from dashboards.words import (
    architecture_name,
    axes_of,
    estimate_words,
    family_title,
    fit_words,
    fitted_formula,
    interval_text,
    size_words,
)
from stsq_core.configs import SAMPLES, WIDTH
from sweeps.findings import Findings, Regime
from sweeps.laws import compare_families
from sweeps.thresholds import WidthThreshold

MAX_RUNS = 100
"""Upper limit on the runs of a line plot or a workspace."""

MAX_CELLS = 12
"""Upper limit on the cells with panels in the report."""

MAX_ROWS = 60
"""Upper limit on the rows of a table in Markdown."""

MAX_TITLE = 128
"""Upper limit of W&B on the letters of a title."""


def make_workspace(board: Board) -> Any:
    """The workspace; it shows the runs of this run directory and no others of the project."""
    workspace = ws.Workspace(
        entity=board.entity,
        project=board.project,
        name=f"stsq {board.findings.spec.name}",
        sections=list(_sections(board)),
        settings=ws.WorkspaceSettings(
            x_axis=board.row(keys.STEP), max_runs=MAX_RUNS, smoothing_type="none", group_by_prefix="first"
        ),
        runset_settings=ws.RunsetSettings(
            filters=expr.And(expr.Config(board.config(keys.RUN_DIRECTORY)) == board.directory_id),
            order=[ws.Ordering(ws.Metric("CreatedTimestamp"), ascending=False)],
            pinned_columns=_columns(board),
        ),
    )
    # the name is that of the run directory: saved again, the workspace replaces itself
    set_workspace_name(workspace, f"nw-{_digest(f'workspace {board.directory_id}')[:11]}-v")
    return workspace


def _sections(board: Board) -> Iterator[Any]:
    findings, charts = board.findings, board.charts
    words = wr.MarkdownPanel(markdown=f"{thresholds_table(findings.thresholds)}\n\n{laws_words(findings.regimes)}")
    named = (
        ("Width thresholds", [chart_panel(board, charts.get("thresholds")), words if findings.thresholds else None], 2, 1),
        ("Searches", search_panels(board, w=24), 1, 1),
        ("Phase diagram", [chart_panel(board, charts.get("phase-diagram"))], 1, 1),
        ("Loss against width", [chart_panel(board, charts.get("loss-against-width")), loss_panel(board)], 2, 1),
        ("Through training", curve_panels(board), 3, 1),
        ("Swept fields", sweep_panels(board), 2, 1),
        ("How trials ended", [chart_panel(board, charts.get("statuses")), comparer_panel()], 2, 1),
    )
    for name, panels, num_columns, num_rows in named:
        if shown := _with_ids(panels, of=name):
            layout = ws.SectionLayoutSettings(columns=num_columns, rows=num_rows)
            yield ws.Section(name=name, panels=shown, is_open=True, layout_settings=layout)


def make_report(board: Board) -> Any:
    """The report; each grid of panels shows the runs of this run directory only, a cell's those of the cell."""
    findings = board.findings
    return wr.Report(
        project=board.project,
        entity=board.entity,
        title=findings.spec.heading[:MAX_TITLE],
        description=f"stsq {findings.spec.name}: {len(findings.records):,} of {len(findings.declared):,} trials",
        blocks=list(_blocks(board)),
        width="fluid",
    )


def _blocks(board: Board) -> Iterator[Any]:
    findings, charts = board.findings, board.charts
    yield wr.P(f"Hypothesis: {findings.spec.hypothesis}")
    if findings.verdicts:
        yield wr.H2("What was claimed")
        yield wr.MarkdownBlock(verdicts_words(findings))
    if findings.thresholds:
        yield wr.H2("Width thresholds")
        yield _grid(board, "thresholds", [chart_panel(board, charts.get("thresholds"), h=16)])
        yield wr.MarkdownBlock(laws_words(findings.regimes))
        yield wr.MarkdownBlock(thresholds_table(findings.thresholds))
    if "phase-diagram" in charts:
        yield wr.H2("Phase diagram")
        yield _grid(board, "phases", [chart_panel(board, charts["phase-diagram"], h=16)])
    yield wr.H2("Loss against width by cell")
    yield _grid(board, "losses", [chart_panel(board, charts.get("loss-against-width"), h=20) or loss_panel(board)])
    yield from _cells(board)
    yield wr.H2("Swept fields")
    yield _grid(board, "swept", sweep_panels(board))
    yield wr.H2("How trials ended")
    yield _grid(board, "statuses", [chart_panel(board, charts.get("statuses")), comparer_panel()], hide=False)
    yield wr.MarkdownBlock(failures_words(findings))
    yield wr.P("Made from the ledger of the run. Make it again, with what has come since:")
    yield wr.CodeBlock(code=f"stsq wandb setup {shlex.quote(str(findings.run.path.name))}", language=None)


def _cells(board: Board) -> Iterator[Any]:
    searched = {cell.cell_id for cell in board.findings.sweep.searched}
    for cell in board.cells[:MAX_CELLS]:
        yield wr.H3(cell.label)
        searches = search_panels(board) if cell.cell_id in searched else []
        filters = [expr.Config(board.config(keys.CELL_ID)) == cell.cell_id]
        yield _grid(board, cell.cell_id, [*searches, loss_panel(board), *curve_panels(board)[1:]], filters=filters)
    if len(board.cells) > MAX_CELLS:
        yield wr.P(f"{len(board.cells) - MAX_CELLS} more cells are in the workspace.")


def _grid(board: Board, name: str, panels: list[Any | None], *, filters: Sequence[Any] = (), hide: bool = True) -> Any:
    runset = wr.Runset(
        name="Runs of this sweep",
        filters=expr.And(expr.Config(board.config(keys.RUN_DIRECTORY)) == board.directory_id, *filters),
        pinned_columns=_columns(board),
    )
    set_id(runset, _digest(f"runs {name}"))
    return wr.PanelGrid(runsets=[runset], panels=_with_ids(panels, of=name), hide_run_sets=hide)


def chart_panel(board: Board, chart: BoardChart | None, *, w: int = 24, h: int = 14) -> Any | None:
    """A panel of one of the board's charts, if the board has it."""
    if chart is None:
        return None
    query: dict[str, Any] = {"id": None, "name": None}
    query |= {name: {"keys": list(asked)} for name, asked in (("config", chart.config), ("summary", chart.summary)) if asked}
    return wr.CustomChart(
        query=query,
        chart_name=f"{board.entity}/{chart.name}",
        chart_fields=chart.fields,
        chart_strings={"title": chart.title},
        layout=wr.Layout(w=w, h=h),
    )


def loss_panel(board: Board, *, w: int = 12, h: int = 8) -> Any:
    """Relative loss against width, a dot a trial."""
    return wr.ScatterPlot(
        title=f"Relative loss against {_size_words(board)}",
        x=wr.Config(board.config(keys.size_key(board.size))),
        y=wr.SummaryMetric(board.summary(keys.RELATIVE_LOSS)),
        log_x=True,
        log_y=True,
        layout=wr.Layout(w=w, h=h),
    )


def _size_words(board: Board) -> str:
    """The size that runs differ in: that of the thresholds, `rank r`, or the width where samples are counted."""
    size = WIDTH if board.size == SAMPLES else board.size
    return f"{size.quantity} {size.letter}"


def curve_panels(board: Board, *, w: int = 12, h: int = 8) -> list[Any]:
    """Relative loss of the batch through training: the median of each cell, of each width, and of each seed, with its range."""
    groups = ((keys.CELL, "by cell"), (keys.size_key(board.size), f"by {_size_words(board)}"), (keys.SEED, "by seed"))
    return [
        wr.LinePlot(
            title=f"Relative loss through training, {words}",
            x=board.row(keys.STEP),
            y=[board.row(keys.RELATIVE_LOSS)],
            title_x="step",
            title_y="relative loss of the batch",
            log_y=True,
            groupby=wr.Config(board.config(key)),
            groupby_aggfunc="median",
            groupby_rangefunc="minmax",
            max_runs_to_show=MAX_RUNS,
            layout=wr.Layout(w=w, h=h),
        )
        for key, words in groups
    ]


def search_panels(board: Board, *, w: int = 12, h: int = 8) -> list[Any]:
    """How the interval of each searched threshold narrows with the points of its search, a panel a target; none without any."""
    if not board.has_searches:
        return []
    letter, level = board.size.letter, board.findings.spec.criterion.level
    several = len(board.search_keys) > 1
    return [
        wr.LinePlot(
            title=f"Threshold {letter}* and its {level:.0%} interval so far" + (f", target loss {target:g}" if several else ""),
            x=board.row(keys.NUM_POINTS),
            y=[board.row(name) for name in names],
            title_x="points of the search",
            title_y=f"{board.size.quantity} {letter}",
            log_y=True,
            groupby=wr.Config(board.config(keys.CELL)),
            max_runs_to_show=MAX_RUNS,
            layout=wr.Layout(w=w, h=h),
        )
        for target, names in board.search_keys.items()
    ]


def sweep_panels(board: Board) -> list[Any]:
    """The swept fields against the loss: parallel coordinates, and W&B's importance of each field."""
    loss = wr.ParallelCoordinatesPlotColumn(
        metric=wr.SummaryMetric(board.summary(keys.RELATIVE_LOSS)), display_name="relative loss", log=True
    )
    fields = [
        wr.ParallelCoordinatesPlotColumn(metric=wr.Config(field.key), display_name=field.key, log=field.log or None)
        for field in board.swept
    ]
    return [
        wr.ParallelCoordinatesPlot(title="Swept fields and the loss", columns=[*fields, loss], layout=wr.Layout(w=24, h=12)),
        wr.ParameterImportancePlot(with_respect_to=board.summary(keys.RELATIVE_LOSS), layout=wr.Layout(w=24, h=8)),
    ]


def comparer_panel() -> Any:
    """Runs side by side, in what they differ."""
    return wr.RunComparer(diff_only=True, layout=wr.Layout(w=24, h=12))


def _columns(board: Board) -> list[str]:
    """The first columns of the table of runs: how a trial ended, its loss, the swept fields, and its cell."""
    summary = [f"summary:{board.summary(key)}" for key in (keys.STATUS, keys.RELATIVE_LOSS)]
    # W&B's tables spell the config key `task.T` as `config:task.value.T`
    config = [key.partition(".") for key in (*(field.key for field in board.swept), board.config(keys.CELL))]
    return ["run:displayName", *summary, *(f"config:{name}.value{dot}{rest}" for name, dot, rest in config)]


def _with_ids(panels: Iterable[Any | None], *, of: str) -> list[Any]:
    """The panels that there are, with ids that depend on their place alone: equal boards are equal documents."""
    shown = [panel for panel in panels if panel is not None]
    for place, panel in enumerate(shown):
        set_id(panel, _digest(f"{of} {place}"))
    return shown


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def thresholds_table(thresholds: Sequence[WidthThreshold]) -> str:
    """A row a cell in Markdown: the threshold with its interval and status."""
    rows = [
        (
            architecture_name(one.kind),
            name,
            _threshold(one),
            interval_text(one),
            str(one.num_seeds),
            one.status.replace("_", " "),
        )
        for one, name in zip(thresholds[:MAX_ROWS], cell_names(thresholds)[:MAX_ROWS], strict=True)
    ]
    level = f"{thresholds[0].level:.0%} interval" if thresholds else "interval"
    letter = thresholds[0].size.letter if thresholds else "m"
    text = table(("architecture", "cell", f"{letter}*", level, "seeds", "status"), rows)
    left = len(thresholds) - len(rows)
    return text + (f"\n\n{left} more cells are in the run's own tables." if left else "")


def laws_words(regimes: Sequence[Regime]) -> str:
    """A line a family of cells: the named law with its numbers, their intervals, what bears on it, and the conclusion."""
    axes = axes_of(threshold for regime in regimes for threshold in regime.thresholds)
    compared = [(regime, regime.comparison) for regime in regimes if regime.comparison is not None]
    lines = []
    for regime, comparison in compared:
        words, law = escaped(comparison.conclusion), regime.law
        if law is not None:
            numbers = "; ".join(estimate_words(law, name) for name in law.parameters)
            said = escaped("; ".join(filter(None, [comparison.reason, law.note])))
            formula = f"{law.size.letter}\\* = `{fitted_formula(law).text}`"
            words = f"{formula}, {numbers}; test of fit: {fit_words(law)} ({said}). {words}"
        lines.append(f"- {escaped(family_title(regime, axes))}: {words}")
    families = compare_families(comparison for _, comparison in compared)
    lines += [f"- {architecture_name(own.kind)}: {escaped(own.conclusion)}" for own in families]
    return "\n".join(lines) or "No law: too few thresholds were found."


def verdicts_words(findings: Findings) -> str:
    """A line a claim: whether it holds."""
    return "\n".join(f"- **{verdict.answer}**: {escaped(verdict.says)}" for verdict in findings.verdicts)


def failures_words(findings: Findings) -> str:
    """The trials that gave no loss, by cell, way and reason."""
    rows = [
        (row["cell"], row["status"], str(row["num_trials"]), row["reason"], row["widths"])
        for row in failures_table(findings.records)[:MAX_ROWS]
    ]
    if not rows:
        return "Every trial that ended gave a loss."
    return table(("cell", "how", "trials", "reason", "widths"), rows)


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; what would break a cell is spelled out."""
    lines = [" | ".join(heads), " | ".join("---" for _ in heads), *(" | ".join(escaped(cell) for cell in row) for row in rows)]
    return "\n".join(f"| {line} |" for line in lines)


def escaped(text: str) -> str:
    """Text on one line with what Markdown or HTML would take for its own spelled out."""
    return "".join(f"\\{letter}" if letter in "\\|`*_[]<>#" else letter for letter in " ".join(text.split()))


def _threshold(threshold: WidthThreshold) -> str:
    match threshold.status:
        case "found":
            return f"{threshold.m_star:.2f}"
        case "above_range":
            return f"above {max(threshold.widths)}"
        case "below_range":
            return f"at most {min(threshold.widths)}"
        case _:
            return size_words(threshold)
