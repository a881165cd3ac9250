"""What optuna-dashboard shows of a study beside Optuna's own numbers: a note on its cell, and the figures of the cell."""

from collections.abc import Iterable, Mapping
from typing import Any

import plotly.graph_objects as go
from optuna_dashboard import save_note, save_plotly_graph_object

from dashboards.page import curves_plots, losses_plots, threshold_plot
from dashboards.plots import CellView, cell_views, read_shown_curves, threshold_panels
from dashboards.words import interval_text, whole_letter
from sweeps.cells import Cell
from sweeps.findings import Findings
from sweeps.search import Overlay, attributes_set_by
from sweeps.thresholds import WidthThreshold


def overlays_of(
    findings: Findings, cells: Iterable[Cell], thresholds: Iterable[WidthThreshold], studies: Mapping[str, str]
) -> dict[str, Overlay]:
    """What is laid over each study of a run, by the study's name.

    Args:
        findings: the run's.
        cells: the cells that the sweep declares.
        thresholds: what was measured of them so far.
        studies: the `cell_id` by the name of its study.
    """
    measured = {threshold.cell_id: threshold for threshold in thresholds}
    views = {view.threshold.cell_id: view for view in cell_views(tuple(measured.values()), read_shown_curves(findings))}
    overview = _overview(findings)
    by_id = {cell.cell_id: cell for cell in cells}
    return {
        name: Overlay(
            by_id[cell_id].label,
            _attributes(note(findings, by_id[cell_id], measured.get(cell_id)), _figures(views.get(cell_id)) | overview),
        )
        for name, cell_id in studies.items()
    }


def note(findings: Findings, cell: Cell, threshold: WidthThreshold | None) -> str:
    """The note on a cell, in Markdown."""
    criterion = findings.spec.criterion
    widths, share = cell.widths, f"{criterion.success_rate:.0%} of the seeds"
    rows = [
        ("sweep", f"{findings.spec.heading} ({findings.run.path.name})"),
        ("hypothesis", findings.spec.hypothesis),
        ("solved", f"relative loss at most {criterion.target_loss:g} in {share}"),
        (f"{criterion.size.nouns} declared", f"{widths[0]} to {widths[-1]}" if len(widths) > 1 else str(widths[0])),
        *_measured(threshold),
    ]
    table = "\n".join(f"| {name} | {_cell(text)} |" for name, text in rows)
    return (
        f"## {_cell(cell.label)}\n\n| | |\n|---|---|\n{table}\n\nCell `{cell.cell_id}`. This view changes nothing in the run.\n"
    )


def _measured(threshold: WidthThreshold | None) -> list[tuple[str, str]]:
    if threshold is None:
        return [("threshold", "nothing measured yet")]
    told = {
        "found": f"{threshold.size.letter}\\* = {threshold.m_star:.2f}, so {whole_letter(threshold.size)} = {threshold.M}"
        if threshold.m_star is not None
        else "",
        "above_range": f"above {max(threshold.widths)}, the largest tried",
        "below_range": f"at or below {min(threshold.widths)}, the least tried",
        "failed": "not found",
    }[threshold.status]
    return [
        (threshold.size.threshold_words, told),
        (f"{threshold.level:.0%} interval", interval_text(threshold)),
        ("seeds", str(threshold.num_seeds)),
        ("trials", f"{threshold.num_trials}, of which {threshold.num_diverged} diverged and {threshold.num_failed} failed"),
        *([("remark", threshold.note)] if threshold.note else []),
    ]


def _cell(text: str) -> str:
    """Text in a Markdown table: on one line, with what would end the cell, start code or make a link spelled out."""
    return "".join(f"\\{letter}" if letter in "|`[]<>" else letter for letter in " ".join(text.split()))


def _overview(findings: Findings) -> dict[str, go.Figure]:
    level = findings.spec.criterion.level
    panels = threshold_panels(findings.regimes)
    return {
        f"thresholds-{place}": _titled(
            threshold_plot(panel, level=level), f"{panel.size.threshold_words.capitalize()}: {panel.title}"
        )
        for place, panel in enumerate(panels)
    }


def _figures(view: CellView | None) -> dict[str, go.Figure]:
    if view is None:
        return {}
    size = view.threshold.size
    (losses,) = losses_plots([view])
    figures = {
        "loss-against-width": _titled(
            losses, f"Loss against {size.quantity}", x=f"{size.quantity} {size.letter}", y="relative loss"
        )
    }
    if view.curves:
        (curves,) = curves_plots([view])
        figures["loss-through-training"] = _titled(
            curves, f"Loss through training, median of each {size.noun}", x="step", y="relative loss of the batch"
        )
    return figures


def _titled(spec: dict[str, Any], title: str, **axes: str) -> go.Figure:
    """A figure of the page with its title and labels, which there stand around it."""
    figure = go.Figure(spec)
    figure.update_layout(title=title, margin={"l": 64, "b": 52, "t": 48})
    for axis, label in axes.items():
        figure.update_layout({f"{axis}axis": {"title": {"text": label}}})
    return figure


def _attributes(text: str, figures: Mapping[str, go.Figure]) -> dict[str, Any]:
    def write(study: Any) -> None:
        save_note(study, text)
        for name, figure in figures.items():
            save_plotly_graph_object(study, figure, graph_object_id=name)

    return attributes_set_by(write, metric="relative loss")
