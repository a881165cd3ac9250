"""The W&B report of a run: what was asked, thresholds with both laws, then every cell, the swept fields, and what failed."""

import hashlib
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import wandb_workspaces.reports.v2 as wr
from wandb_workspaces import expr

from dashboards.boards.board import Board
from dashboards.boards.panels import (
    chart_panel,
    columns,
    comparer_panel,
    curve_panels,
    loss_panel,
    name_panels,
    sweep_panels,
)
from dashboards.boards.words import failures_words, laws_words, thresholds_table, verdicts_words
from dashboards.publishing import CELL_ID, RUN_DIRECTORY, set_id

MAX_CELLS = 12
"""Cells with panels of their own."""

MAX_TITLE = 128
"""The most letters that W&B takes for a title."""


def make_report(board: Board) -> Any:
    """The report; each grid of panels shows the runs of this run directory only, a cell's those of the cell."""
    findings = board.findings
    return wr.Report(
        project=board.project,
        entity=board.entity,
        title=findings.spec.heading[:MAX_TITLE],
        description=f"stsq {findings.spec.name}: {len(findings.records):,} of {findings.num_declared:,} trials",
        blocks=list(_blocks(board)),
        width="fluid",
    )


def _blocks(board: Board) -> Iterator[Any]:
    findings = board.findings
    yield wr.P(f"Hypothesis: {findings.spec.hypothesis}")
    if findings.verdicts:
        yield wr.H2("What was claimed")
        yield wr.MarkdownBlock(verdicts_words(findings))
    if findings.thresholds:
        yield wr.H2("Width thresholds")
        yield _grid(board, "thresholds", [chart_panel(board, "thresholds", h=16)])
        yield wr.MarkdownBlock(laws_words(findings.regimes))
        yield wr.MarkdownBlock(thresholds_table(findings.thresholds))
    yield wr.H2("Loss against width by cell")
    yield _grid(board, "losses", [chart_panel(board, "loss-against-width", h=20) or loss_panel(board)])
    yield from _cells(board)
    yield wr.H2("Swept fields")
    yield _grid(board, "swept", sweep_panels(board))
    yield wr.H2("How trials ended")
    yield _grid(board, "statuses", [chart_panel(board, "statuses"), comparer_panel()], hide=False)
    yield wr.MarkdownBlock(failures_words(findings))
    yield wr.P("Made from the ledger of the run. Make it again, with what has come since:")
    yield wr.CodeBlock(code=f"stsq wandb setup {shlex.quote(str(findings.run.path.name))}", language=None)


def _cells(board: Board) -> Iterator[Any]:
    for cell in board.cells[:MAX_CELLS]:
        yield wr.H3(cell.label)
        filters = [expr.Config(board.config(CELL_ID)) == cell.cell_id]
        yield _grid(board, cell.cell_id, [loss_panel(board), *curve_panels(board)[1:]], filters=filters)
    if len(board.cells) > MAX_CELLS:
        yield wr.P(f"{len(board.cells) - MAX_CELLS} more cells are in the workspace.")


def _grid(board: Board, name: str, panels: list[Any | None], *, filters: Sequence[Any] = (), hide: bool = True) -> Any:
    shown = [panel for panel in panels if panel is not None]
    name_panels(shown, of=name)
    runset = wr.Runset(
        name="Runs of this sweep",
        filters=expr.And(expr.Config(board.config(RUN_DIRECTORY)) == board.directory_id, *filters),
        pinned_columns=columns(board),
    )
    set_id(runset, hashlib.sha256(f"runs {name}".encode()).hexdigest()[:12])
    return wr.PanelGrid(runsets=[runset], panels=shown, hide_run_sets=hide)
