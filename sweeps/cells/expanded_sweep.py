"""A sweep with its cells: expanded once, then handed on."""

from dataclasses import dataclass
from functools import cached_property

from sweeps.cells.cell import Cell
from sweeps.cells.expansion import declared_cells
from sweeps.cells.searched import SearchedCell, searched_cells_of
from sweeps.schema import SweepSpec


@dataclass(frozen=True)
class ExpandedSweep:
    """A sweep, its `cells` with the trials that it declares, and its `searched` cells, whose trials a search chooses."""

    spec: SweepSpec
    cells: tuple[Cell, ...]
    searched: tuple[SearchedCell, ...]

    @classmethod
    def of(cls, sweep: "SweepSpec | ExpandedSweep") -> "ExpandedSweep":
        """Expand a sweep; an expanded one is handed back as it is.

        Raises:
            PlacedError: a combination of values that is no valid trial, too many of them, or a cell that is declared twice.
        """
        if isinstance(sweep, ExpandedSweep):
            return sweep
        cells = declared_cells(sweep)
        return cls(sweep, cells, searched_cells_of(sweep, cells))

    @cached_property
    def labels(self) -> dict[str, str]:
        """The label of each cell by its id."""
        return {cell.cell_id: cell.label for cell in self.cells} | {cell.cell_id: cell.label for cell in self.searched}


def expand(sweep: SweepSpec | ExpandedSweep) -> tuple[Cell, ...]:
    """The cells of a sweep in the order they are declared, each trial once.

    Raises:
        PlacedError: as `ExpandedSweep.of`.
    """
    return ExpandedSweep.of(sweep).cells


def searched_cells(sweep: SweepSpec | ExpandedSweep) -> tuple[SearchedCell, ...]:
    """The searched cells of a sweep in the order they are declared.

    Raises:
        PlacedError: as `ExpandedSweep.of`.
    """
    return ExpandedSweep.of(sweep).searched
