"""A run directory as tables and figures, as it stood when it was loaded: nothing here writes into it.

A table is a pandas DataFrame and a figure a plotly one, so that whatever a notebook does with those can be done with these.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from dashboards.boards import load_extra
from dashboards.notebooks.grids import Titled, grid
from dashboards.notebooks.rows import measurement_rows, trial_rows
from dashboards.page import Spec, curves_plots, losses_plots, status_words, threshold_plot
from dashboards.paper import law_rows, threshold_rows
from dashboards.plots import CellView, cell_views, read_shown_curves, threshold_panels
from dashboards.words import architecture_name, element
from sweeps.cells import Cell
from sweeps.findings import Findings, read_findings

if TYPE_CHECKING:
    from pandas import DataFrame

MAY_BE_MISSING = {"steps": "Int64", "M": "Int64", "solved": "boolean", "chosen": "boolean"}
SHOWN = ("architecture", "T", "q", "d", "m_star", "low", "high", "status")
MAX_CELLS = 24
"""Cells that the figures of cells show."""


def load(run_path: Path | str) -> "LoadedRun":
    """A run as tables and figures: one that has ended, or one that is still going on, as it stands now.

    Raises:
        UserError: it is no run, its ledger or sweep cannot be read, or pandas is missing.
    """
    load_extra("pandas", extra="notebooks", what="`dashboards.load`")
    findings = read_findings(run_path)
    return LoadedRun(findings, findings.cells)


@dataclass(frozen=True, repr=False)
class LoadedRun:
    """The tables and figures of one run; each is made when it is first asked for. `load` again to see what has come since."""

    findings: Findings
    cells: tuple[Cell, ...]

    @cached_property
    def trials(self) -> "DataFrame":
        """A row a declared trial: what it is, how it ended, or that it is waiting or training.

        `solved` says whether it reached the target loss, `chosen` whether its learning rate is the one that its width was
        judged by; both are missing for a trial that has not ended.
        """
        import pandas as pd

        frame = _frame(trial_rows(self.findings, self.cells))
        return frame.assign(finished_at=pd.to_datetime(frame["finished_at"], utc=True))

    @cached_property
    def thresholds(self) -> "DataFrame":
        """A row a cell with a result: its width threshold with the interval, how it was found, and the law's value."""
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

    def plot_thresholds(self) -> go.Figure:
        """Width thresholds against T with their intervals, the laws with their bands, and the exact floor."""
        level = self.findings.spec.criterion.level
        panels = threshold_panels(self.findings.regimes)
        return grid([Titled(panel.title, threshold_plot(panel, level=level)) for panel in panels], columns=2, size=(440, 400))

    def plot_losses(self) -> go.Figure:
        """Loss against width, a small figure a cell: a dot a trial, the median, the target, the threshold's interval."""
        return _small(self._views, losses_plots, "width m", "relative loss")

    def plot_curves(self) -> go.Figure:
        """Loss through training, a small figure a cell: the median over seeds of each width, narrow to wide."""
        views = [view for view in self._views if view.curves]
        return _small(views, curves_plots, "step", "relative loss of the batch")

    @cached_property
    def _views(self) -> list[CellView]:
        return list(cell_views(self.findings.thresholds, read_shown_curves(self.findings)))[:MAX_CELLS]

    def __repr__(self) -> str:
        return f"<run {self.findings.spec.name} in {self.findings.run.path}: {status_words(self.findings)[0]}>"

    def _repr_html_(self) -> str:
        """What a notebook shows of a run: its title, how far it is, and its thresholds."""
        head = element("p", element("b", self.findings.spec.heading), " ", status_words(self.findings)[0])
        if self.thresholds.empty:
            return head
        return head + str(self.thresholds[list(SHOWN)].to_html(index=False, float_format="%.2f", na_rep=""))


def _small(views: Sequence[CellView], draw: Callable[[Sequence[CellView]], list[Spec]], x: str, y: str) -> go.Figure:
    specs = draw(views) if views else []
    titles = [f"{architecture_name(view.kind, short=True)}, {view.name}" for view in views]
    told = [Titled(title, spec) for title, spec in zip(titles, specs, strict=True)]
    return grid(told, columns=4, size=(280, 230), x=x, y=y)


def _frame(rows: Any, columns: Sequence[str] | None = None) -> "DataFrame":
    """Rows as a table; whole numbers and truths that may be missing keep their kind."""
    import pandas as pd

    frame = pd.DataFrame(rows, columns=columns)
    return frame.astype({name: kind for name, kind in MAY_BE_MISSING.items() if name in frame})
