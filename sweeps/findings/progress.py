"""How far a run is and how long it will take, by cell and by worker: plain functions of what its directory holds.

Time is estimated from operations (multiply-adds), because a step of a wide trial costs more than one of a narrow trial: the
rate of one worker is what finished trials took, and what waits is dealt to the workers in the order in which packs are handed
out, so that a cell's time left is when the last of its packs would end.
"""

import heapq
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from stsq_core.configs import TrialConfig
from sweeps.cells import Cell, Trials, make_packs, pack_of, trial_operations
from sweeps.laws import decisions_of, unfinished_cells
from sweeps.store import (
    DIVERGED,
    FAILED,
    FINISHED,
    Lock,
    Outcomes,
    RunDirectory,
    TrainingPack,
    cells_with_points,
    read_results,
    read_sessions,
    read_training,
)
from sweeps.thresholds import thresholds_of


@dataclass(frozen=True)
class CellProgress:
    """How many trials of a cell ended in which way, train now and wait. `seconds_left` is None where it cannot be
    estimated.

    Of a searched cell the trials are those of its points so far; `searching` while it may ask for more.
    """

    cell_id: str
    label: str
    config_sample: TrialConfig
    num_trials: int
    num_finished: int
    num_diverged: int
    num_failed: int
    num_training: int
    seconds_left: float | None
    searching: bool = False

    @property
    def complete(self) -> bool:
        """Whether nothing is left to train."""
        return self.num_ended == self.num_trials and not self.searching

    @property
    def kind(self) -> str:
        """The architecture: `transformer` or `fcn`."""
        return self.config_sample.model.kind

    @property
    def num_ended(self) -> int:
        """Trials that ended in whatever way."""
        return self.num_finished + self.num_diverged + self.num_failed

    @property
    def num_waiting(self) -> int:
        """Trials that nobody trains yet."""
        return self.num_trials - self.num_ended - self.num_training


@dataclass(frozen=True)
class WorkerProgress:
    """What one worker trains: `step` of `num_steps` of a pack of `num_trials`, last heard of `quiet_s` seconds ago.

    Of new points of a search nothing but the step is known before they end: no cells, and `num_steps` is None.
    """

    worker: str
    pack_id: str
    cell_ids: tuple[str, ...]
    num_trials: int
    step: int
    num_steps: int | None
    quiet_s: float
    seconds_left: float | None


@dataclass(frozen=True)
class Progress:
    """A run's state. `holder` names the process that runs it, None where nobody does; `seconds_left` is None where it
    cannot be estimated. Of `num_searches` searched cells `num_searching` may ask for more points. `notes` says what the ledger
    had to leave out, what it lacks, and which law leads where laws decide.
    """

    cells: tuple[CellProgress, ...]
    workers: tuple[WorkerProgress, ...]
    holder: str | None
    seconds_left: float | None
    num_searches: int = 0
    num_searching: int = 0
    notes: tuple[str, ...] = ()

    @property
    def num_trials(self) -> int:
        """Trials that the sweep declares, and of searches those that have ended."""
        return sum(cell.num_trials for cell in self.cells)

    @property
    def num_ended(self) -> int:
        """Those of the trials that ended."""
        return sum(cell.num_ended for cell in self.cells)

    @property
    def complete(self) -> bool:
        """Whether nothing is left to train."""
        return self.num_ended == self.num_trials and not self.num_searching


@dataclass(frozen=True)
class ProgressBasis:
    """The data that progress is computed from: cells (searched ones with their points), the outcomes of their trials, and by
    searched cell whether its search has finished; `notes` says what the ledger had to leave out, and what it lacks.
    """

    cells: Sequence[Cell]
    records: Outcomes
    searches: Mapping[str, bool] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def read_basis(run: RunDirectory) -> ProgressBasis:
    """The data that a run's progress is computed from.

    Raises:
        UserError: the ledger or the sweep cannot be read.
    """
    sweep = run.read_sweep()
    results = read_results(run, sweep)
    searches, notes = dict[str, bool](), results.ledger_notes
    if results.searched:
        found = thresholds_of(sweep.spec, results)
        unfinished = unfinished_cells(sweep.spec, results.searched, found)
        searches = {cell.cell_id: cell.cell_id not in unfinished for cell in results.searched}
        notes = (*notes, *(one.words for one in decisions_of(sweep.spec, results.searched, found)))
    return ProgressBasis(cells_with_points(sweep, results.records), results.records, searches, notes)


def read_progress(run: RunDirectory, basis: ProgressBasis | None = None) -> Progress:
    """The progress of a run.

    Raises:
        UserError: the ledger or the sweep cannot be read.
    """
    basis = read_basis(run) if basis is None else basis
    now, sessions = time.time(), read_sessions(run)
    is_open = bool(sessions) and sessions[-1].ended_at is None
    holder = Lock(run.lock).holder() if is_open else None
    return progress_of(basis, read_training(run, now=now), holder=holder, now=now)


def progress_of(basis: ProgressBasis, training: Sequence[TrainingPack], *, holder: str | None, now: float) -> Progress:
    """The progress of a sweep.

    Args:
        basis: its cells, the outcomes of their trials, and how far its searches are.
        training: the packs in training; trials that ended, or that no cell declares, do not count as in training.
        holder: who runs the sweep, in words.
        now: seconds since 1970.
    """
    cells, searches = basis.cells, basis.searches
    declared = _Declared.of(cells)
    records = basis.records.take(np.array([i in declared.place_of for i in basis.records.trial_ids], dtype=bool))
    ended = declared.places(records.trial_ids)
    waits = np.ones(len(declared.trials), dtype=bool)
    waits[ended] = False
    packs = _packs_in_training(declared, waits, training)
    for pack in packs:
        waits[pack.places] = False
    rate = _rate(records, packs) if holder and packs else None
    handed_out = make_packs(declared.trials.take(waits), slots=max(1, len(packs))) if rate else ()
    ends = _ends(packs, [(declared.places(pack.trial_ids), pack.operations) for pack in handed_out], rate) if rate else []
    lefts = np.zeros(len(cells))
    for places, end in ends:
        np.maximum.at(lefts, declared.cell[places], end)
    finished, diverged, failed = (declared.count(ended[records.status == code]) for code in (FINISHED, DIVERGED, FAILED))
    training_now = declared.count(*(pack.places for pack in packs))
    cells_progress = [
        CellProgress(
            cell_id=cell.cell_id,
            label=cell.label,
            config_sample=cell.trials[0],
            num_trials=len(cell.trials),
            num_finished=int(finished[place]),
            num_diverged=int(diverged[place]),
            num_failed=int(failed[place]),
            num_training=int(training_now[place]),
            searching=not searches.get(cell.cell_id, True),
            seconds_left=_known(
                float(lefts[place]), rate, len(cell.trials) > finished[place] + diverged[place] + failed[place]
            ),
        )
        for place, cell in enumerate(cells)
    ]
    workers = [_worker(pack, declared, cells, rate, now) for pack in packs]
    num_searching = sum(not finished for finished in searches.values())
    if num_searching:
        at_work = {worker.pack_id for worker in workers}
        workers += [_worker_of_points(one, now) for one in training if one.pack_id not in at_work]
    left = _known(float(lefts.max(initial=0.0)), rate, len(records) < len(declared.trials))
    return Progress(
        tuple(cells_progress),
        tuple(workers),
        holder,
        None if num_searching else left,
        len(searches),
        num_searching,
        basis.notes,
    )


@dataclass(frozen=True)
class _Declared:
    """All trials of a sweep, with the cell of each."""

    trials: Trials
    cell: np.ndarray
    num_cells: int
    place_of: Mapping[str, int]

    @classmethod
    def of(cls, cells: Sequence[Cell]) -> "_Declared":
        trials = Trials.joined([cell.trials for cell in cells])
        cell = np.repeat(np.arange(len(cells)), [len(cell.trials) for cell in cells])
        return cls(trials, cell, len(cells), {trial_id: place for place, trial_id in enumerate(trials.trial_ids)})

    def places(self, trial_ids: Iterable[str]) -> np.ndarray:
        """The places of those of the trials that are declared."""
        return np.array([self.place_of[trial_id] for trial_id in trial_ids if trial_id in self.place_of], dtype=np.int64)

    def count(self, *places: np.ndarray) -> np.ndarray:
        """How many of these trials each cell has."""
        whole = np.concatenate([np.zeros(0, dtype=np.int64), *places])
        return np.bincount(self.cell[whole], minlength=self.num_cells)


@dataclass(frozen=True)
class _PackInTraining:
    training: TrainingPack
    places: np.ndarray
    operations: float
    num_steps: int

    @property
    def share(self) -> float:
        """The part of its steps that is done."""
        return min(1.0, self.training.step / max(1, self.num_steps))


def _packs_in_training(declared: _Declared, waits: np.ndarray, training: Iterable[TrainingPack]) -> list[_PackInTraining]:
    packs = []
    for one in training:
        places = declared.places(one.trial_ids)
        places = places[waits[places]]
        if len(places):
            pack = pack_of(declared.trials.take(places))
            packs.append(_PackInTraining(one, places, pack.operations, pack.num_steps))
    return packs


def _rate(records: Outcomes, packs: Sequence[_PackInTraining]) -> float | None:
    """Operations per second of one worker: of the trials that finished, and of the packs in training where none has."""
    done = records.take(records.status == FINISHED)
    seconds = float(done.seconds.sum())
    if seconds > 0:
        return trial_operations(done.trials) / seconds
    operations = sum(pack.operations * pack.share for pack in packs)
    seconds = sum(pack.training.last_at - pack.training.began_at for pack in packs if pack.training.step)
    return operations / seconds if operations and seconds > 0 else None


def _ends(
    packs: Sequence[_PackInTraining], waiting: Sequence[tuple[np.ndarray, float]], rate: float
) -> list[tuple[np.ndarray, float]]:
    """In how many seconds each pack would end, were each handed to the worker that is free first."""
    ends = [(pack.places, pack.operations * (1 - pack.share) / rate) for pack in packs]
    free = [end for _, end in ends]
    heapq.heapify(free)
    for places, operations in waiting:
        end = free[0] + operations / rate
        heapq.heapreplace(free, end)
        ends.append((places, end))
    return ends


def _worker(
    pack: _PackInTraining, declared: _Declared, cells: Sequence[Cell], rate: float | None, now: float
) -> WorkerProgress:
    own = np.unique(declared.cell[pack.places]).tolist()
    return WorkerProgress(
        worker=pack.training.worker,
        pack_id=pack.training.pack_id,
        cell_ids=tuple(cells[place].cell_id for place in own),
        num_trials=len(pack.places),
        step=pack.training.step,
        num_steps=pack.num_steps,
        quiet_s=max(0.0, now - max(pack.training.last_at, pack.training.began_at)),
        seconds_left=pack.operations * (1 - pack.share) / rate if rate else None,
    )


def _worker_of_points(training: TrainingPack, now: float) -> WorkerProgress:
    """A worker that trains new points of searches."""
    quiet_s = max(0.0, now - max(training.last_at, training.began_at))
    return WorkerProgress(training.worker, training.pack_id, (), len(training.trial_ids), training.step, None, quiet_s, None)


def _known(seconds: float, rate: float | None, anything_left: object) -> float | None:
    """Seconds left; None where there is something left and no rate to estimate by."""
    return None if anything_left and rate is None else seconds
