"""The contents of the W&B boards of a run: its findings, its place in W&B, the fields that it sweeps, its charts.

A panel can use only keys that the publisher writes: `Board.config`, `Board.summary` and `Board.row` check each.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dashboards.boards.charts import BoardChart, loss_chart, phase_chart, status_chart, threshold_chart
from dashboards.plots import cell_views, loss_charts, phase_diagrams, threshold_charts
from dashboards.publishing import NOTHING_ASKED, Asked, choose_destination, directory_id, keys
from stsq_core.configs import Size
from sweeps.cells import Cell
from sweeps.findings import Findings, read_findings
from sweeps.schema import fields_of, flattened, free_fields
from sweeps.store import open_run

SUMMARY = (keys.STATUS, keys.REASON, keys.RELATIVE_LOSS)
ROWS = (keys.STEP, keys.RELATIVE_LOSS)
LOG_FACTOR = 4.0
"""Values that span this factor are shown on a logarithmic axis."""


@dataclass(frozen=True)
class SweptField:
    """A config key in which the trials of the sweep differ; `log`: for a logarithmic axis."""

    key: str
    log: bool


@dataclass(frozen=True)
class Board:
    """The contents of the boards of one run; `entity` is empty for the account's own."""

    findings: Findings
    cells: tuple[Cell, ...]
    directory_id: str
    project: str
    entity: str

    @cached_property
    def config_keys(self) -> frozenset[str]:
        """The config keys of the sweep's trials in W&B, nested ones with dots."""
        configs = (
            keys.run_config(
                cell.trials[0], cell=cell.label, cell_id=cell.cell_id, directory_id=self.directory_id, size=self.size
            )
            for cell in self.cells
        )
        return frozenset(key for config in configs for key in flattened(config))

    def config(self, key: str) -> str:
        """A config key.

        Raises:
            ValueError: no trial of this sweep has it.
        """
        return _known(key, sorted(self.config_keys), "config")

    def summary(self, key: str) -> str:
        """A key of a run's summary.

        Raises:
            ValueError: the publisher writes no such key.
        """
        return _known(key, SUMMARY, "summary")

    def row(self, key: str) -> str:
        """A key of a run's history.

        Raises:
            ValueError: the publisher writes no such key.
        """
        searched = (
            [keys.NUM_POINTS, *(name for names in self.search_keys.values() for name in names)] if self.has_searches else []
        )
        return _known(key, (*ROWS, *searched), "history")

    @property
    def has_searches(self) -> bool:
        """Whether the thresholds of some cells are searched."""
        return bool(self.findings.sweep.searched)

    @property
    def search_keys(self) -> dict[float, tuple[str, str, str]]:
        """Of each target the history keys of a search: the threshold so far, and the ends of its interval."""
        targets = [one.target for one in self.findings.spec.criterion.each]
        return {one: keys.search_keys(self.size, target=one if len(targets) > 1 else None) for one in targets}

    @property
    def size(self) -> Size:
        """The size that the sweep's thresholds are about."""
        return self.findings.spec.criterion.size

    @cached_property
    def swept(self) -> tuple[SweptField, ...]:
        """The fields that the sweep file varies, the architecture where there are several, and m for the width; no seed."""
        axes = {axis for group in self.findings.spec.trials for axis in (*group.grid, *group.zip)} | {"model.kind"}
        own = [fields_of(cell.trials[0]) for cell in self.cells]
        names = {
            name: None
            for fields in own
            for name in fields
            if any(name == axis or name.startswith(f"{axis}.") for axis in axes) and name not in free_fields(self.size)
        }
        columns: dict[str, Sequence[Any]] = {name: [fields[name] for fields in own if name in fields] for name in names}
        columns[keys.size_key(self.size)] = [width for cell in self.cells for width in cell.widths]
        columns["optimizer.lr"] = [rate for cell in self.cells for rate in cell.rates]
        varying = {name: values for name, values in columns.items() if len({repr(value) for value in values}) > 1}
        return tuple(SweptField(self.config(name), _spans(values)) for name, values in varying.items())

    @cached_property
    def charts(self) -> dict[str, BoardChart]:
        """The charts to register with W&B by kind; those of thresholds and losses only where the sweep has any."""
        thresholds = threshold_charts(self.findings.regimes)
        phases = phase_diagrams(self.findings.regimes)
        losses = loss_charts([view for view in cell_views(self.findings.thresholds, {}) if view.dot_widths])
        made = [status_chart(with_searches=self.has_searches)]
        if losses:
            made.insert(0, loss_chart(losses))
        if phases:
            made.insert(0, phase_chart(phases))
        if thresholds:
            made.insert(0, threshold_chart(thresholds, level=self.findings.spec.criterion.level))
        for chart in made:
            for key in chart.config:
                self.config(key)
            for key in chart.summary:
                self.summary(key)
        return {chart.kind: chart for chart in made}


def read_board(run_path: Path | str, asked: Asked = NOTHING_ASKED) -> Board:
    """The boards' contents of a run, in the project and entity that are asked for; its later runs go there too.

    Raises:
        UserError: it is no run, or its ledger or sweep cannot be read.
    """
    run = open_run(run_path)
    findings = read_findings(run.path)
    place = choose_destination(asked, findings.spec.wandb, run.wandb)
    return Board(
        findings=findings,
        cells=(*findings.cells, *_cells_to_search(findings)),
        directory_id=directory_id(run.wandb),
        project=place.project,
        entity=place.entity or "",
    )


def _cells_to_search(findings: Findings) -> Iterable[Cell]:
    """The searched cells without points yet, with the ends of their range in place of the points to be trained."""
    begun = {cell.cell_id for cell in findings.cells}
    for one in findings.sweep.searched:
        if one.cell_id not in begun:
            yield Cell(one.cell_id, one.group, one.label, one.trials(((one.low, 0), (one.high, 0))))


def _known(key: str, keys: Sequence[str], kind: str) -> str:
    if key not in keys:
        raise ValueError(f"the publisher writes no {kind} key {key!r}; it writes {', '.join(keys)}")
    return key


def _spans(values: Sequence[Any]) -> bool:
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    return len(numbers) == len(values) and min(numbers) > 0 and max(numbers) / min(numbers) >= LOG_FACTOR
