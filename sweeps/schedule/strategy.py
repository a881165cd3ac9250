"""What decides which trials run next: the interface that a grid and a threshold search share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

from stsq_core.configs import TrialConfig
from sweeps.cells import Cell, Trials
from sweeps.schedule.time_left import Outlook
from sweeps.store import LedgerRecord, Outcomes


class Strategy(ABC):
    """Asks for trials and takes the records of those that ended.

    It asks for a trial once. At the start it is given the ledger's records, so that it goes on where it was; a record of a
    trial that it never asked for is no error.
    """

    @abstractmethod
    def ask(self) -> Sequence[TrialConfig]:
        """New trials that may start now; none while it waits for records, or when it has finished."""

    @abstractmethod
    def tell(self, records: Sequence[LedgerRecord]) -> None:
        """Take the records of trials that ended, in whatever way."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether it will never ask for another trial."""

    @property
    def progress(self) -> str:
        """Its progress in a few words, where the numbers of trials and of searches do not show it."""
        return ""

    @property
    def outlook(self) -> Outlook:
        """How far its searches are, and what they are expected to ask for beyond what they have asked."""
        return Outlook()

    def close(self) -> None:  # noqa: B027  (most have nothing to release)
        """Release what it holds: it will not be asked again in this session."""


class Grid(Strategy):
    """Every trial of some cells, and `more`, all at once."""

    def __init__(self, cells: Iterable[Cell], *, more: Trials | None = None) -> None:
        self._waiting = Trials.joined([cell.trials for cell in {cell.cell_id: cell for cell in cells}.values()])
        if more is not None:
            self._waiting = Trials.joined([self._waiting, more])

    def ask(self) -> Trials:
        trials, self._waiting = self._waiting, Trials.of(())
        return trials

    def tell(self, records: Sequence[LedgerRecord]) -> None:
        """A grid is decided beforehand."""

    @property
    def finished(self) -> bool:
        return not len(self._waiting)


class Together(Strategy):
    """Several strategies side by side: what they ask for is trained together."""

    def __init__(self, strategies: Iterable[Strategy]) -> None:
        self._strategies = tuple(strategies)

    def ask(self) -> Trials:
        return Trials.joined([Trials.of(strategy.ask()) for strategy in self._strategies])

    def tell(self, records: Sequence[LedgerRecord]) -> None:
        for strategy in self._strategies:
            strategy.tell(records)

    @property
    def finished(self) -> bool:
        return all(strategy.finished for strategy in self._strategies)

    @property
    def progress(self) -> str:
        return ", ".join(filter(None, (strategy.progress for strategy in self._strategies)))

    @property
    def outlook(self) -> Outlook:
        return sum((strategy.outlook for strategy in self._strategies), Outlook())

    def close(self) -> None:
        for strategy in self._strategies:
            strategy.close()


class Sequel(Strategy):
    """A strategy, and another that is made once all that the first asked for has ended."""

    def __init__(self, first: Strategy, then: Callable[[], Strategy]) -> None:
        self._first = first
        self._then = then
        self._second: Strategy | None = None
        self._asked: set[str] = set()
        self._ended: set[str] = set()

    def ask(self) -> Trials:
        asked = Trials.of(self._first.ask())
        self._asked.update(asked.trial_ids)
        if len(asked) or not self._first.finished or not self._asked <= self._ended:
            return asked
        if self._second is None:
            self._second = self._then()
        return Trials.of(self._second.ask())

    def tell(self, records: Sequence[LedgerRecord]) -> None:
        self._ended.update(Outcomes.of(records).trial_ids)
        (self._second or self._first).tell(records)

    @property
    def finished(self) -> bool:
        return self._second is not None and self._second.finished

    @property
    def progress(self) -> str:
        return (self._second or self._first).progress

    @property
    def outlook(self) -> Outlook:
        return self._first.outlook

    def close(self) -> None:
        for strategy in filter(None, (self._first, self._second)):
            strategy.close()
