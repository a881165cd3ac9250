"""The queue of packs: what a strategy asks for and the ledger does not hold, packed, handed out, and recorded at its end."""

import heapq
from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

import numpy as np

from stsq_core.configs import TrialResult
from sweeps.cells import ANYWHERE, Pack, Room, Trials, cut, halves, make_packs, pack_of
from sweeps.schedule.strategy import Strategy
from sweeps.schedule.time_left import Outlook
from sweeps.store import DIVERGED, FAILED, Ledger, LedgerRecord, Outcomes, record_of_failure, record_of_result


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
    request. Counts are of trials: `total` that the strategy has asked for, `skipped` that the ledger held and of those
    `failed_before` and `diverged_before`, `done` that ended since (in whatever way), and of those `failed` and `diverged`.
    `num_before` are the trials of the sweep that ended in former sessions, also those that the strategy, a search, does not ask
    for again; by default those that it asks for.

    `begun` are the trials of packs whose state lies on disk: they are handed out first and undivided, since a state belongs to
    one pack.
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
        num_before: int | None = None,
        begun: Iterable[tuple[str, ...]] = (),
    ) -> None:
        self._strategy = strategy
        self._ledger = ledger
        self._room = room
        self._slots = slots
        outcomes = Outcomes.of(ledger.read()) if held is None else held
        if retry_failed:
            outcomes = outcomes.take(outcomes.status != FAILED)
        self._held = frozenset(outcomes.trial_ids)
        self._begun, self._num_before = tuple(begun), num_before
        self._with_state: set[str] = set()
        self._waiting: deque[Pack] = deque()
        self._running: dict[str, Pack] = {}
        self._asked = Trials.of(())
        self.total = self.skipped = self.done = self.failed = self.diverged = 0
        self.failed_before, self.diverged_before = (int((outcomes.status == one).sum()) for one in (FAILED, DIVERGED))
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
    def outlook(self) -> Outlook:
        """How far the searches are, and what they are expected to ask for beyond the packs of this queue."""
        return self._strategy.outlook

    @property
    def waiting(self) -> tuple[Pack, ...]:
        """Packs to be handed out, the next one first."""
        return tuple(self._waiting)

    @property
    def num_waiting(self) -> int:
        """How many packs are to be handed out."""
        return len(self._waiting)

    @property
    def num_ended(self) -> int:
        """Trials of the sweep that have ended, in former sessions too."""
        return self.done + (self.skipped if self._num_before is None else self._num_before)

    @property
    def num_open(self) -> int:
        """Trials of the packs that wait or run."""
        return sum(len(pack.trials) for pack in (*tuple(self._waiting), *self.running))

    @property
    def num_known(self) -> int:
        """Trials that have ended, run or wait: all but those that searches will ask for later."""
        return self.num_ended + self.num_open

    @property
    def waiting_last(self) -> Pack:
        """The pack that would be handed out last: the shortest of those that nobody has begun."""
        return self._waiting[-1]

    @property
    def waiting_operations(self) -> float:
        """Multiply-adds that the packs to be handed out take."""
        return sum(pack.operations for pack in tuple(self._waiting))  # another thread may ask while packs are handed out

    @property
    def running(self) -> tuple[Pack, ...]:
        """Packs handed out whose outcome is not recorded yet."""
        return tuple(self._running.values())

    @property
    def finished(self) -> bool:
        """Whether nothing waits, nothing runs, and the strategy will never ask again."""
        return not self._waiting and not self._running and self._strategy.finished

    @property
    def ready(self) -> bool:
        """Whether a pack waits; the strategy is asked where none does."""
        if not self._waiting:
            self._refill()
        return bool(self._waiting)

    def next(self, room: Room | None = None, *, cheapest: bool = False, rather_not: Collection[str] = ()) -> Pack | None:
        """The next pack to train; None while everything asked for is running, or when all is finished.

        Args:
            room: what the worker that asks has. A pack that is too large for it is cut: the worker is given a part, and the
                rest waits for whoever asks next. Without it packs stay as they were made.
            cheapest: take from the end of the queue, where the shortest packs are.
            rather_not: ids of packs that are handed out only where no other waits.
        """
        if not self.ready:
            return None
        order = range(len(self._waiting))[:: -1 if cheapest else 1]
        place = next((place for place in order if self._waiting[place].pack_id not in rather_not), order[0])
        pack = self._waiting[place]
        del self._waiting[place]
        if room is not None:
            pack = self._cut_to(pack, room, cheapest=cheapest)
        self._running[pack.pack_id] = pack
        return pack

    def give_back(self, pack: Pack) -> None:
        """Put a pack that was handed out back to the front, as it is, for another worker to go on with; leaves no record."""
        self._running.pop(pack.pack_id, None)
        self._with_state.add(pack.pack_id)
        self._waiting.appendleft(pack)

    def spread(self, slots: int) -> None:
        """Halve the longest waiting packs until there is one for every slot that is free: workers have come since."""
        self._slots = max(self._slots, slots)
        fresh = [pack for pack in self._waiting if pack.pack_id not in self._with_state]
        missing = slots - len(self._running) - len(self._waiting)
        if missing <= 0 or not fresh:
            return
        longest = [(-pack.operations, place, pack) for place, pack in enumerate(fresh)]
        heapq.heapify(longest)
        places = count(len(fresh))
        whole = []
        while missing > 0 and longest:
            _, place, pack = heapq.heappop(longest)
            parts = halves(pack)
            if not parts:
                whole.append((-pack.operations, place, pack))
                continue
            for half in parts:
                heapq.heappush(longest, (-half.operations, next(places), half))
            missing -= 1
        begun = [pack for pack in self._waiting if pack.pack_id in self._with_state]
        divided = sorted([*whole, *longest], key=lambda one: one[:2])
        self._waiting = deque([*begun, *(pack for _, _, pack in divided)])

    def record(self, outcome: PackOutcome) -> None:
        """Record how a pack ended in the ledger and in the strategy.

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
                self.give_back(pack)
            case Failure(kind="error" | "out_of_memory") if len(pack.configs) > 1:
                self._waiting.extendleft(reversed(halves(pack)))
            case Failure(reason=reason, kind=kind, seconds=seconds):
                reason = f"out of memory: {reason}" if kind == "out_of_memory" and "out of memory" not in reason else reason
                where: Any = {"pack_id": pack.pack_id, "device": outcome.device, "seconds": seconds / len(pack.configs)}
                self._write(tuple(record_of_failure(config, reason, **where) for config in pack.configs))

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
        begun, asked = self._begun_of(asked)
        packs = make_packs(asked, room=self._room, slots=self._slots)
        untouched, rest = [], []
        for pack in packs:
            is_held = np.array([trial_id in self._held for trial_id in pack.trial_ids])
            if not is_held.any():
                untouched.append(pack)
            elif not is_held.all():
                rest.append(pack.trials.take(~is_held))
        remade = make_packs(Trials.joined(rest), room=self._room, slots=self._slots)
        return [*begun, *_each_loop_first(sorted([*untouched, *remade], key=lambda pack: -pack.operations))]

    def _begun_of(self, asked: Trials) -> tuple[list[Pack], Trials]:
        """The packs whose state is on disk, where all of their trials are asked for and none is held, and the other trials."""
        if not self._begun:
            return [], asked
        place_of = {trial_id: place for place, trial_id in enumerate(asked.trial_ids) if trial_id not in self._held}
        packs, waits = [], np.ones(len(asked), dtype=bool)
        for trial_ids in self._begun:
            places = [place_of.pop(trial_id, -1) for trial_id in trial_ids]
            if places and min(places) >= 0:
                pack = pack_of(asked.take(np.array(places)))
                self._with_state.add(pack.pack_id)
                packs.append(pack)
                waits[places] = False
        return packs, asked.take(waits)

    def _cut_to(self, pack: Pack, room: Room, *, cheapest: bool) -> Pack:
        """The part of a pack that a worker has room for; a pack with a state stays whole unless it does not fit at all."""
        size, begun = room.pack_size(pack.trials[0]), pack.pack_id in self._with_state
        if len(pack.trials) <= size or (begun and room.fits(pack)):
            return pack
        part, rest = cut(pack, size)
        (self._waiting.append if cheapest else self._waiting.appendleft)(rest)
        return part


def _each_loop_first(packs: Sequence[Pack]) -> list[Pack]:
    """The packs with the first of each kind of training loop in front: on a machine that is new to them, workers compile
    different loops at the same time, rather than wait for each other at one after another.
    """
    firsts: dict[tuple[str, str], Pack] = {}
    for pack in packs:
        sample = pack.trials[0]
        firsts.setdefault((sample.model.kind, sample.training.objective), pack)
    in_front = {id(pack) for pack in firsts.values()}
    return [*firsts.values(), *(pack for pack in packs if id(pack) not in in_front)]


def _records_of(outcome: PackOutcome) -> tuple[LedgerRecord, ...]:
    records = tuple(record_of_result(result, pack_id=outcome.pack.pack_id, device=outcome.device) for result in outcome.results)
    if {record.trial_id for record in records} != set(outcome.pack.trial_ids):
        raise ValueError(f"pack {outcome.pack.pack_id} must end with one result for each of its trials; got {len(records)}")
    return records
