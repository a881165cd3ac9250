"""The queue of packs: what a strategy asks for and the ledger does not hold, packed, handed out, and recorded at its end."""

from collections import deque
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stsq_core.trial import TrialResult
from sweeps.ledger import Ledger, LedgerRecord, record_of_failure, record_of_result
from sweeps.outcomes import FAILED, Outcomes
from sweeps.packs import ANYWHERE, Pack, Room, halves, make_packs
from sweeps.strategy import Strategy
from sweeps.trials import Trials


@dataclass(frozen=True)
class Failure:
    """Why a pack gave no results. `budget` means that it was stopped, not that anything went wrong.

    `seconds` is the wall time that the pack took until then, 0 where nobody knows.
    """

    reason: str
    kind: Literal["error", "lost_worker", "out_of_memory", "budget"]
    seconds: float = 0.0


@dataclass(frozen=True)
class PackOutcome:
    """How a pack ended, as a whole: the results of all of its trials, or a failure."""

    pack: Pack
    results: tuple[TrialResult, ...] = ()
    failure: Failure | None = None
    device: str = "cpu"


class PackQueue:
    """Hands out packs and records how they end.

    Trials that the ledger holds are skipped (`held` are its records, where they are at hand); failed ones are tried again on
    request. Counts are of trials: `total` that the
    strategy has asked for, `skipped` that the ledger held, `done` that ended since (in whatever way), and of those `failed` and
    `diverged`.
    """

    def __init__(
        self,
        strategy: Strategy,
        ledger: Ledger,
        *,
        room: Room = ANYWHERE,
        slots: int = 1,
        retry_failed: bool = False,
        held: Outcomes | None = None,
    ) -> None:
        self._strategy = strategy
        self._ledger = ledger
        self._room = room
        self._slots = slots
        outcomes = Outcomes.of(ledger.read()) if held is None else held
        if retry_failed:
            outcomes = outcomes.take(outcomes.status != FAILED)
        self._held = frozenset(outcomes.trial_ids)
        self._waiting: deque[Pack] = deque()
        self._running: dict[str, Pack] = {}
        self._asked = Trials.of(())
        self.total = self.skipped = self.done = self.failed = self.diverged = 0
        strategy.tell(outcomes)
        self._refill()

    def fit(self, *, room: Room, slots: int) -> None:
        """Pack what waits anew, for workers that are known now; no pack has been handed out yet."""
        self._room, self._slots = room, slots
        self._waiting = deque(self._packed(self._asked))

    @property
    def progress(self) -> str:
        """How far the strategy is, in words; empty where the counts of trials say so."""
        return self._strategy.progress

    @property
    def waiting(self) -> tuple[Pack, ...]:
        """Packs to be handed out, the next one first."""
        return tuple(self._waiting)

    @property
    def running(self) -> tuple[Pack, ...]:
        """Packs handed out whose outcome is not recorded yet."""
        return tuple(self._running.values())

    @property
    def finished(self) -> bool:
        """Whether nothing waits, nothing runs, and the strategy will never ask again."""
        return not self._waiting and not self._running and self._strategy.finished

    def next(self) -> Pack | None:
        """The next pack to train; None while everything asked for is running, or when all is finished."""
        if not self._waiting:
            self._refill()
        if not self._waiting:
            return None
        pack = self._waiting.popleft()
        self._running[pack.pack_id] = pack
        return pack

    def record(self, outcome: PackOutcome) -> None:
        """Write down how a pack ended, and tell the strategy.

        A pack that raised an error, or did not fit into memory, comes back as two halves, so that a trial fails only by
        itself: of a pack of n trials at most 2 n - 1 packs are made. A stopped pack goes back to the front of the queue.
        Neither leaves a record.

        Raises:
            UserError: the ledger cannot be written.
        """
        pack = outcome.pack
        self._running.pop(pack.pack_id, None)
        match outcome.failure:
            case None:
                self._write(_records_of(outcome))
            case Failure(kind="budget"):
                self._waiting.appendleft(pack)
            case Failure(kind="error" | "out_of_memory") if len(pack.configs) > 1:
                self._waiting.extendleft(reversed(halves(pack)))
            case Failure(reason=reason, kind=kind, seconds=seconds):
                reason = f"out of memory: {reason}" if kind == "out_of_memory" and "out of memory" not in reason else reason
                told = {"pack_id": pack.pack_id, "device": outcome.device}
                share = seconds / len(pack.configs)
                self._write(tuple(record_of_failure(config, reason, seconds=share, **told) for config in pack.configs))

    def _write(self, records: tuple[LedgerRecord, ...]) -> None:
        self._ledger.append(records)
        self.done += len(records)
        self.failed += sum(record.status == "failed" for record in records)
        self.diverged += sum(record.status == "diverged" for record in records)
        self._strategy.tell(records)

    def _refill(self) -> None:
        """Ask until there is something to train or the strategy waits; what the ledger holds answers itself."""
        while not self._waiting and (asked := self._strategy.ask()):
            trials = self._asked = Trials.of(asked)
            self.total += len(trials)
            self.skipped += len(self._held.intersection(trials.trial_ids))
            self._waiting.extend(self._packed(trials))

    def _packed(self, asked: Trials) -> list[Pack]:
        """Packs of what is not held. A pack of which nothing is held stays as it was made in an earlier session, so that a
        state saved then is found; what is left of the others is packed anew.
        """
        packs = make_packs(asked, room=self._room, slots=self._slots)
        untouched, rest = [], []
        for pack in packs:
            is_held = np.array([trial_id in self._held for trial_id in pack.trial_ids])
            if not is_held.any():
                untouched.append(pack)
            elif not is_held.all():
                rest.append(pack.trials.take(~is_held))
        remade = make_packs(Trials.joined(rest), room=self._room, slots=self._slots)
        return sorted([*untouched, *remade], key=lambda pack: -pack.operations)


def _records_of(outcome: PackOutcome) -> tuple[LedgerRecord, ...]:
    records = tuple(record_of_result(result, pack_id=outcome.pack.pack_id, device=outcome.device) for result in outcome.results)
    if {record.trial_id for record in records} != set(outcome.pack.trial_ids):
        raise ValueError(f"pack {outcome.pack.pack_id} must end with one result for each of its trials; got {len(records)}")
    return records
