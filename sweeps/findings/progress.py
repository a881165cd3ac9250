"""How far a run is and how long it will take, by cell and by worker: plain functions of what its directory holds.

Time is estimated from operations: the rate of one worker is what finished trials took, and what waits is dealt to the workers
in the order in which packs are handed out (module `sweeps.schedule.time_left`, which the progress line uses too), so that a
cell's time left is when the last of its packs would end.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np

from stsq_core.configs import TrialConfig
from sweeps.cells import Cell, Trials, make_packs, pack_of, trial_operations
from sweeps.findings.progress_basis import ProgressBasis, basis_of
from sweeps.schedule import Load, Outlook, WorkerPace, ends_of
from sweeps.store import (
    DIVERGED,
    FAILED,
    FINISHED,
    Lock,
    Outcomes,
    Round,
    RunDirectory,
    TrainingPack,
    read_results,
    read_rounds,
    read_sessions,
    read_training,
)
from sweeps.thresholds import thresholds_of


@dataclass(frozen=True)
class CellProgress:
    """How many trials of a cell ended in which way, train now and wait. `seconds_left` is None where it cannot be
    estimated.

    Of a searched cell the trials are those of the points that it asked for so far and, `searching`, of those that it is
    expected to ask for.
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
    """What one worker trains: `step` of `num_steps` of a pack of `num_trials`, last heard of `quiet_s` seconds ago."""

    worker: str
    pack_id: str
    cell_ids: tuple[str, ...]
    num_trials: int
    step: int
    num_steps: int
    quiet_s: float
    seconds_left: float | None


@dataclass(frozen=True)
class Progress:
    """A run's state. `holder` names the process that runs it, None where nobody does; `seconds_left` is None where it
    cannot be estimated. `outlook` says how many searches go on. `notes` says what the ledger had to leave out, what it lacks,
    and which law leads where laws decide.
    """

    cells: tuple[CellProgress, ...]
    workers: tuple[WorkerProgress, ...]
    holder: str | None
    seconds_left: float | None
    outlook: Outlook = field(default_factory=Outlook)
    notes: tuple[str, ...] = ()

    @property
    def num_trials(self) -> int:
        """Trials that the sweep declares, and of searches those that it asked for or is expected to ask for."""
        return sum(cell.num_trials for cell in self.cells)

    @property
    def num_ended(self) -> int:
        """Those of the trials that ended."""
        return sum(cell.num_ended for cell in self.cells)

    @property
    def complete(self) -> bool:
        """Whether nothing is left to train."""
        return self.num_ended == self.num_trials and not self.outlook.num_searching


ProgressSource = Callable[[Mapping[str, Round]], ProgressBasis]
"""What the progress of a run is computed from, given the rounds that its searches wait for."""


def read_progress(run: RunDirectory, source: ProgressSource | None = None) -> Progress:
    """The progress of a run.

    Args:
        run: its directory.
        source: what it is computed from, by default the ledger as it is now; an older one counts trials that have ended since
            as waiting.

    Raises:
        UserError: the ledger or the sweep cannot be read.
    """
    now, sessions = time.time(), read_sessions(run)
    open_session = sessions[-1] if sessions and sessions[-1].ended_at is None else None
    holder = Lock(run.lock).holder() if open_session else None
    # where nobody runs the sweep, a search is what its points say: the next session asks for what is left of a round
    rounds = read_rounds(run.rounds) if holder else {}
    found = (source or progress_source(run))(rounds)
    began_at = open_session.started_at if open_session else None
    return progress_of(replace(found, session_began_at=began_at), read_training(run, now=now), holder=holder, now=now)


def progress_source(run: RunDirectory) -> ProgressSource:
    """The source of a run's progress as its ledger is now."""
    sweep = run.read_sweep()
    results = read_results(run, sweep)
    thresholds = thresholds_of(sweep.spec, results) if results.searched else ()
    return lambda rounds: basis_of(sweep, results.records, thresholds, rounds, results.ledger_notes)


def progress_of(basis: ProgressBasis, training: Sequence[TrainingPack], *, holder: str | None, now: float) -> Progress:
    """The progress of a sweep.

    Args:
        basis: its cells, the outcomes of their trials, and how far its searches are.
        training: the packs in training; trials that ended, or that no cell declares, do not count as in training.
        holder: who runs the sweep, in words.
        now: seconds since 1970.
    """
    cells = basis.cells
    declared = _Declared.of(cells)
    records = basis.records.take(np.array([i in declared.place_of for i in basis.records.trial_ids], dtype=bool))
    ended = declared.places(records.trial_ids)
    waits = np.ones(len(declared.trials), dtype=bool)
    waits[ended] = False
    packs = _packs_in_training(declared, waits, training)
    for pack in packs:
        waits[pack.places] = False
    finished, diverged, failed = (declared.count(ended[records.status == code]) for code in (FINISHED, DIVERGED, FAILED))
    training_now = declared.count(*(pack.places for pack in packs))
    more: dict[str, int] = {}
    for one in basis.outlook.ahead:
        more |= one.trials_by_cell
    pace = _pace(basis, records, packs, now) if holder else None
    lefts = _seconds_left(basis, declared, waits, packs, pace) if pace else [None] * len(cells)
    cells_progress = [
        CellProgress(
            cell_id=cell.cell_id,
            label=cell.label,
            config_sample=cell.sample,
            num_trials=len(cell.trials) + more.get(cell.cell_id, 0),
            num_finished=int(finished[place]),
            num_diverged=int(diverged[place]),
            num_failed=int(failed[place]),
            num_training=int(training_now[place]),
            searching=cell.cell_id in basis.searching,
            seconds_left=lefts[place],
        )
        for place, cell in enumerate(cells)
    ]
    cells_progress = [cell if not cell.complete else replace(cell, seconds_left=0.0) for cell in cells_progress]
    known = [cell.seconds_left for cell in cells_progress if cell.seconds_left is not None]
    return Progress(
        tuple(cells_progress),
        tuple(_worker(pack, declared, cells, pace, now) for pack in packs),
        holder,
        max(known, default=0.0) if len(known) == len(cells_progress) else None,
        basis.outlook,
        basis.notes,
    )


def _seconds_left(
    basis: ProgressBasis, declared: "_Declared", waits: np.ndarray, packs: Sequence["_PackInTraining"], pace: WorkerPace
) -> list[float | None]:
    """The time left of each cell."""
    handed_out = make_packs(declared.trials.take(waits), slots=max(1, len(packs)))
    places = [*(pack.places for pack in packs), *(declared.places(pack.trial_ids) for pack in handed_out)]
    operations = [*(pack.operations * (1 - pack.share) for pack in packs), *(pack.operations for pack in handed_out)]
    ids = np.array([cell.cell_id for cell in basis.cells])
    loads = [
        Load(ids[np.unique(declared.cell[own])].tolist() if basis.outlook.ahead else (), one)
        for own, one in zip(places, operations, strict=True)
    ]
    ends = ends_of(loads[: len(packs)], loads[len(packs) :], basis.outlook.ahead, num_workers=len(packs))
    lefts = np.zeros(len(basis.cells))
    for own, end in zip(places, ends.packs, strict=True):
        np.maximum.at(lefts, declared.cell[own], end)
    return [pace.seconds(max(left, ends.cells.get(one, 0.0))) for one, left in zip(ids.tolist(), lefts.tolist(), strict=True)]


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


def _pace(basis: ProgressBasis, records: Outcomes, packs: Sequence[_PackInTraining], now: float) -> WorkerPace | None:
    """The pace of the trials that finished, in this session where any has; of the packs in training where none has at all."""
    finished = records.take(records.status == FINISHED)
    recent = finished[:0]
    if basis.session_began_at is not None:
        began = datetime.fromtimestamp(basis.session_began_at, UTC).isoformat(timespec="seconds")
        recent = finished.take(np.array([text >= began for text in finished.finished_at.tolist()], dtype=bool))
    done = recent if len(recent) else finished
    if (seconds := float(done.seconds.sum())) > 0:
        rate, begun = trial_operations(done.trials) / seconds, [pack.training.began_at for pack in packs]
        if not len(recent):
            return WorkerPace(rate)
        took: dict[tuple[str, str], float] = {}
        for pack_id, at, own in zip(recent.pack_id.tolist(), recent.finished_at.tolist(), recent.seconds.tolist(), strict=True):
            took[pack_id, at] = took.get((pack_id, at), 0.0) + own
        # the ledger has whole seconds, of which half a second more is the best guess
        begun += [datetime.fromisoformat(at).timestamp() + 0.5 - own for (_, at), own in took.items()]
        trained_s = seconds + sum(max(0.0, now - pack.training.began_at) for pack in packs)
        return WorkerPace.of(rate, trained_s=trained_s, span_s=now - min(begun), num_workers=max(1, len(packs)))
    operations = sum(pack.operations * pack.share for pack in packs)
    seconds = sum(pack.training.last_at - pack.training.began_at for pack in packs if pack.training.step)
    return WorkerPace(operations / seconds) if operations and seconds > 0 else None


def _worker(
    pack: _PackInTraining, declared: _Declared, cells: Sequence[Cell], pace: WorkerPace | None, now: float
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
        seconds_left=pack.operations * (1 - pack.share) / pace.operations_per_s if pace else None,
    )
