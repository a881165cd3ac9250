"""The W&B workspace of a run: thresholds, loss against width, curves, swept fields, how trials ended."""

import hashlib
from typing import Any

import wandb_workspaces.reports.v2 as wr
import wandb_workspaces.workspaces as ws
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
from dashboards.boards.words import laws_words, thresholds_table
from dashboards.publishing import RUN_DIRECTORY, STEP, set_workspace_name


def make_workspace(board: Board) -> Any:
    """The workspace; it shows the runs of this run directory and no others of the project."""
    workspace = ws.Workspace(
        entity=board.entity,
        project=board.project,
        name=f"stsq {board.findings.spec.name}",
        sections=[section for section in _sections(board) if section.panels],
        settings=ws.WorkspaceSettings(x_axis=board.row(STEP), max_runs=100, smoothing_type="none", group_by_prefix="first"),
        runset_settings=ws.RunsetSettings(
            filters=expr.And(expr.Config(board.config(RUN_DIRECTORY)) == board.directory_id),
            order=[ws.Ordering(ws.Metric("CreatedTimestamp"), ascending=False)],
            pinned_columns=columns(board),
        ),
    )
    # the name is that of the run directory: saved again, the workspace replaces itself
    set_workspace_name(workspace, f"nw-{_digest(f'workspace {board.directory_id}')}-v")
    return workspace


def _sections(board: Board) -> list[Any]:
    findings = board.findings
    told = wr.MarkdownPanel(markdown=f"{thresholds_table(findings.thresholds)}\n\n{laws_words(findings.regimes)}")
    named = (
        ("Width thresholds", [chart_panel(board, "thresholds"), told if findings.thresholds else None], 2, 1),
        ("Loss against width", [chart_panel(board, "loss-against-width"), loss_panel(board)], 2, 1),
        ("Through training", curve_panels(board), 3, 1),
        ("Swept fields", sweep_panels(board), 2, 1),
        ("How trials ended", [chart_panel(board, "statuses"), comparer_panel()], 2, 1),
    )
    return [_section(name, [panel for panel in panels if panel is not None], *grid) for name, panels, *grid in named]


def _section(name: str, panels: list[Any], num_columns: int, num_rows: int) -> Any:
    name_panels(panels, of=name)
    layout = ws.SectionLayoutSettings(columns=num_columns, rows=num_rows)
    return ws.Section(name=name, panels=panels, is_open=True, layout_settings=layout)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:11]
