"""The cells of which claims about thresholds speak: which a claim selects and compares, and what tells them apart.

A cell is known here before it has a threshold, so that a plan can say what a claim will compare.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from stsq_core.configs import Size, TrialConfig
from sweeps.cells import ExpandedSweep
from sweeps.findings.claim_results import is_within
from sweeps.findings.observations import matches
from sweeps.schema import TARGET, Selection, ThresholdRatio, fields_of
from sweeps.thresholds import WidthThreshold

Fields = tuple[tuple[str, Any], ...]


class PlannedCell(NamedTuple):
    """What claims know of a cell that may have no trial yet, as its threshold would tell it."""

    config_sample: TrialConfig
    size: Size
    target_loss: float
    num_targets: int


ClaimedCell = WidthThreshold | PlannedCell
Cell = TypeVar("Cell", bound=ClaimedCell)


def planned_pairs(sweep: ExpandedSweep) -> Iterator[tuple[ThresholdRatio, list[Fields]]]:
    """Each claim about a ratio of thresholds with what sets apart each pair of cells that it will compare."""
    criterion, targets = sweep.spec.criterion, sweep.spec.criterion.targets
    samples = [*(cell.sample for cell in sweep.cells), *(cell.family.sample for cell in sweep.searched)]
    cells = [PlannedCell(sample, criterion.size, target, len(targets)) for sample in samples for target in targets]
    for claim in sweep.spec.claims:
        if isinstance(claim, ThresholdRatio):
            yield claim, [where for where, _, _ in ratio_pairs(claim, [cell for cell in cells if is_selected(cell, claim)])]


def ratio_pairs(claim: ThresholdRatio, cells: Sequence[Cell]) -> list[tuple[Fields, Cell, Cell]]:
    """The pairs of cells with equal tasks and models but for what the claim compares and ignores.

    The first of each is of the value above the line; before them stand the fields that set the pair apart from the others.
    """
    having = [cell for cell in cells if claim.by in claimed_fields(cell)]
    of, over = ([cell for cell in having if claimed_fields(cell)[claim.by] == value] for value in (claim.of, claim.over))
    pairs = [(one, two) for one in of for two in over if _are_alike(one, two, (claim.by, *claim.ignoring))]
    told = distinguishing([one for one, _ in pairs]), differing_fields([two for _, two in pairs])
    named = [first + tuple(item for item in second if item not in first) for first, second in zip(*told, strict=True)]
    shared = set.intersection(*map(set, named)) if len(named) > 1 else set()
    return [
        (tuple(item for item in fields if item not in shared), one, two)
        for fields, (one, two) in zip(named, pairs, strict=True)
    ]


def is_selected(cell: ClaimedCell, selection: Selection) -> bool:
    """Whether a claim's `where` takes a cell."""
    fields = claimed_fields(cell)
    return all(name in fields and matches(fields[name], wanted) for name, wanted in selection.where.items())


def claimed_fields(cell: ClaimedCell) -> Mapping[str, Any]:
    """The fields by which claims know a cell: those of its trials, and its target."""
    return {**fields_of(cell.config_sample), TARGET: cell.target_loss}


def distinguishing(cells: Sequence[ClaimedCell]) -> list[Fields]:
    """T, q and d of each cell, and what else tells them apart."""
    return [letters_of(cell) + own for cell, own in zip(cells, differing_fields(cells), strict=True)]


def differing_fields(cells: Sequence[ClaimedCell]) -> list[Fields]:
    """The fields of task, model and optimizer by which cells differ, T, q and d aside."""
    fields = [claimed_fields(cell) for cell in cells]
    sizes = {name for cell in cells for name in cell.size.fields(cell.config_sample)}
    names = {name for own in fields for name in own if name.startswith(("task.", "model.", "optimizer.kind"))}
    names -= sizes | {"task.T", "task.q", "task.d"}
    varying = sorted(name for name in names if len({repr(own.get(name)) for own in fields}) > 1)
    return [tuple((name, own[name]) for name in varying if name in own) for own in fields]


def letters_of(cell: ClaimedCell) -> Fields:
    """T, q and d, and of several targets the target."""
    task = cell.config_sample.task
    target = ((TARGET, cell.target_loss),) if cell.num_targets > 1 else ()
    return (*((f"task.{letter}", getattr(task, letter)) for letter in ("T", "q", "d")), *target)


def _are_alike(one: ClaimedCell, two: ClaimedCell, ignoring: Sequence[str]) -> bool:
    """Whether two cells have one target, task, model and kind of optimizer, but for sizes and the fields in `ignoring`."""
    sizes = {name for cell in (one, two) for name in cell.size.fields(cell.config_sample)}
    first, second = (
        {
            name: value
            for name, value in claimed_fields(cell).items()
            if name.startswith(("task.", "model.", "optimizer.kind", TARGET))
            and name not in sizes
            and not is_within(name, ignoring)
        }
        for cell in (one, two)
    )
    return first == second
