"""What decides which trials run next: the interface that a grid and a threshold search share."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

from stsq_core.trial import TrialConfig
from sweeps.ledger import LedgerRecord
from sweeps.plan import Cell
from sweeps.trials import Trials


class Strategy(ABC):
    """Asks for trials and is told how they ended.

    It asks for a trial once. Whoever runs it tells it the ledger's records at the start, so that it goes on where it was; a
    record of a trial that it never asked for is no error.
    """

    @abstractmethod
    def ask(self) -> Sequence[TrialConfig]:
        """New trials that may start now; none while it waits to be told, or when it has finished."""

    @abstractmethod
    def tell(self, records: Sequence[LedgerRecord]) -> None:
        """Take note of trials that ended, in whatever way."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether it will never ask for another trial."""


class Grid(Strategy):
    """Every trial of some cells, all at once."""

    def __init__(self, cells: Iterable[Cell]) -> None:
        self._waiting = Trials.joined([cell.trials for cell in {cell.cell_id: cell for cell in cells}.values()])

    def ask(self) -> Trials:
        trials, self._waiting = self._waiting, Trials.of(())
        return trials

    def tell(self, records: Sequence[LedgerRecord]) -> None:
        """A grid is decided beforehand."""

    @property
    def finished(self) -> bool:
        return not len(self._waiting)
