"""What the progress of a run is computed from: its results, and the rounds that its searches asked for and wait for."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from sweeps.cells import Cell, ExpandedSweep, SearchedCell, Trials
from sweeps.laws import decisions_of, outlook_of, unfinished_cells
from sweeps.schedule import Outlook
from sweeps.schema import SweepSpec
from sweeps.store import Outcomes, Round, cells_with_points
from sweeps.thresholds import CellPoints, SearchPlan, WidthThreshold, open_target, outcomes_by_cell, plan_of


@dataclass(frozen=True)
class ProgressBasis:
    """The data that progress is computed from: all cells (searched ones with the points that they asked for), the outcomes of
    their trials, the searches that go on and what they are expected to ask for; `notes` says what the ledger had to leave out,
    and what it lacks. Trials that ended since `session_began_at` tell how much of the workers' time is training.
    """

    cells: Sequence[Cell]
    records: Outcomes
    searching: frozenset[str] = frozenset()
    outlook: Outlook = field(default_factory=Outlook)
    notes: tuple[str, ...] = ()
    session_began_at: float | None = None


def basis_of(
    sweep: ExpandedSweep,
    records: Outcomes,
    thresholds: Sequence[WidthThreshold],
    rounds: Mapping[str, Round],
    notes: Sequence[str] = (),
) -> ProgressBasis:
    """The basis of a run's progress, from its results and the rounds that its searches wait for."""
    cells = {cell.cell_id: cell for cell in cells_with_points(sweep, records)}
    if not sweep.searched:
        return ProgressBasis(tuple(cells.values()), records, notes=tuple(notes))
    spec, held = sweep.spec, frozenset(records.trial_ids)
    in_flight: dict[str, int] = {}
    for cell in sweep.searched:  # in the order of the sweep, begun or not
        begun = cells.pop(cell.cell_id, None)
        parts = [begun.trials] if begun else []
        if (own := rounds.get(cell.cell_id)) is not None and own.points:
            asked = cell.trials(own.points)
            if waits := [place for place, trial_id in enumerate(asked.trial_ids) if trial_id not in held]:
                in_flight[cell.cell_id] = math.ceil(len(waits) / len(cell.rates))
                parts.append(asked.take(np.array(waits)))
        trials = Trials.joined(parts) if parts else Trials([cell.family], *[np.zeros(0, dtype=np.int64)] * 4)
        cells[cell.cell_id] = Cell(cell.cell_id, cell.group, cell.label, trials)
    decisions = decisions_of(spec, sweep.searched, thresholds)
    families = [one.cell_ids for one in decisions] or [(cell.cell_id,) for cell in sweep.searched]
    open_cells = {*unfinished_cells(spec, sweep.searched, thresholds), *in_flight}
    searching = frozenset(cell_id for family in families if open_cells.intersection(family) for cell_id in family)
    outlook = outlook_of(
        _plans(spec, sweep.searched, records, thresholds),
        decisions,
        unfinished=searching,
        in_flight=in_flight,
        more={cell_id: rounds[cell_id].more for cell_id in in_flight},
    )
    words = (*notes, *(decision.words for decision in decisions))
    return ProgressBasis(tuple(cells.values()), records, searching, outlook, words)


def planned_trials(sweep: ExpandedSweep) -> int:
    """How many trials a sweep declares and its searches are expected to ask for, before any has ended."""
    basis = basis_of(sweep, Outcomes.of((), sweep.spec.criterion.size), (), {})
    return sum(len(cell.trials) for cell in basis.cells) + sum(one.num_trials for one in basis.outlook.ahead)


def _plans(
    spec: SweepSpec, searched: Sequence[SearchedCell], records: Outcomes, thresholds: Sequence[WidthThreshold]
) -> list[SearchPlan]:
    """The plan of each search, by the states that its thresholds have."""
    own = outcomes_by_cell(searched, records.judged_by(spec.criterion.metric))
    states = {(one.cell_id, one.target_loss): one.search for one in thresholds if one.search is not None}
    plans = []
    for cell in searched:
        points = CellPoints.of(cell, own.get(cell.cell_id, records[:0]))
        known = [(one, state) for one in spec.criterion.each if (state := states.get((cell.cell_id, one.target))) is not None]
        is_open = [pair for pair in known if not pair[1].finished]
        target, state = (is_open or known[-1:] or [open_target(points, spec.criterion, spec.search)])[0]
        plans.append(plan_of(points, spec, target, state))
    return plans
