"""The cells of which claims about thresholds speak: which a claim selects and compares, and what tells them apart.

A cell is known here before it has a threshold, so that a plan can say what a claim will compare.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple, TypeVar

from stsq_core.configs import Size, TrialConfig
from sweeps.cells import ExpandedSweep
from sweeps.findings.claim_results import is_within, leaf
from sweeps.findings.observations import matches
from sweeps.laws import spread_words
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

MAX_NAMED = 3
"""Fields that a sentence names; of more it names their branches."""


def planned_pairs(sweep: ExpandedSweep) -> Iterator[tuple[ThresholdRatio, list[Fields]]]:
    """Each claim about a ratio of thresholds with what sets apart each pair of cells that it will compare."""
    for claim in sweep.spec.claims:
        if isinstance(claim, ThresholdRatio):
            yield claim, [where for where, _, _ in ratio_pairs(claim, _planned_cells(sweep, claim))]


def unpaired_words(sweep: ExpandedSweep, claim: ThresholdRatio) -> str:
    """Why a claim will compare no pair of cells of its sweep; nothing where it compares one.

    The two cells of its values that differ in the fewest fields show what keeps them apart: mostly a default that follows the
    field compared.
    """
    cells = _planned_cells(sweep, claim)
    of, over = _sides(claim, cells)
    for value, own in ((claim.of, of), (claim.over, over)):
        if not own:
            return f"none that it selects has {claim.by} = {value}"
    fewest: tuple[str, ...] = ()
    for one, two in product(of, over):
        unlike = _unlike(one, two, (claim.by, *claim.ignoring))
        if not unlike:
            return ""
        fewest = unlike if not fewest or len(unlike) < len(fewest) else fewest
    values = [value if isinstance(value, str) else f"{leaf(claim.by)} = {value}" for value in (claim.over, claim.of)]
    names, branches = [*fewest], [*dict.fromkeys(name.partition(".")[0] for name in fewest)]
    words, it = spread_words(names), "it" if len(names) == 1 else "them"
    if len(names) > MAX_NAMED:
        words, it = f"{len(names)} fields of {spread_words(branches)}", "it" if len(branches) == 1 else "them"
    return f"those with {values[0]} and those with {values[1]} also differ in {words}; name {it} under `ignoring`"


def _planned_cells(sweep: ExpandedSweep, claim: ThresholdRatio) -> list[PlannedCell]:
    """The cells that a claim selects, of those that its sweep declares."""
    criterion, targets = sweep.spec.criterion, sweep.spec.criterion.targets
    samples = [*(cell.sample for cell in sweep.cells), *(cell.family.sample for cell in sweep.searched)]
    cells = (PlannedCell(sample, criterion.size, target, len(targets)) for sample in samples for target in targets)
    return [cell for cell in cells if is_selected(cell, claim)]


def ratio_pairs(claim: ThresholdRatio, cells: Sequence[Cell]) -> list[tuple[Fields, Cell, Cell]]:
    """The pairs of cells with equal tasks and models but for what the claim compares and ignores.

    The first of each is of the value above the line; before them stand the fields that set the pair apart from the others.
    """
    pairs = [(one, two) for one, two in product(*_sides(claim, cells)) if not _unlike(one, two, (claim.by, *claim.ignoring))]
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


def _sides(claim: ThresholdRatio, cells: Sequence[Cell]) -> tuple[list[Cell], list[Cell]]:
    """The cells of the value above the line, and of that below."""
    having = [cell for cell in cells if claim.by in claimed_fields(cell)]
    of, over = ([cell for cell in having if claimed_fields(cell)[claim.by] == value] for value in (claim.of, claim.over))
    return of, over


def _unlike(one: ClaimedCell, two: ClaimedCell, ignoring: Sequence[str]) -> tuple[str, ...]:
    """The fields of target, task, model and kind of optimizer in which two cells differ, but for sizes and those `ignoring`."""
    first, second = claimed_fields(one), claimed_fields(two)
    if first == second:
        return ()
    sizes = {name for cell in (one, two) for name in cell.size.fields(cell.config_sample)}
    return tuple(
        name
        for name in dict.fromkeys([*first, *second])
        if name.startswith(("task.", "model.", "optimizer.kind", TARGET))
        and (name in first, first.get(name)) != (name in second, second.get(name))
        and name not in sizes
        and not is_within(name, ignoring)
    )
