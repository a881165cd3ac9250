"""The packs in training, read from a run directory: their claims name the workers, their journals hold the steps."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sweeps.store.journal import trials_of_journal
from sweeps.store.jsonl import unsealed
from sweeps.store.run_directory import Lock, RunDirectory

TAIL_BYTES = 1 << 16
"""The end of a journal in which its newest line is looked for."""

FRESH_S = 60.0
"""How long a pack counts as in training after its last measurement where its lock is invisible, as on another machine."""


@dataclass(frozen=True)
class TrainingPack:
    """A pack in training: who trains it, its newest step, and when it began and was last heard of (seconds since 1970)."""

    pack_id: str
    worker: str
    trial_ids: tuple[str, ...]
    step: int
    began_at: float
    last_at: float


def read_training(run: RunDirectory, *, now: float) -> tuple[TrainingPack, ...]:
    """The packs of a run that train now, the one that began first ahead; those of workers that are gone are left out."""
    return tuple(sorted(_claimed(run, now), key=lambda one: (one.began_at, one.pack_id)))


def begun_packs(run: RunDirectory) -> tuple[tuple[str, ...], ...]:
    """The trials of each pack whose state lies on disk, as its journal names them: what a killed run left half done."""
    found = (trials_of_journal(run.curves / f"{state.stem}.jsonl") for state in sorted(run.checkpoints.glob("*.state")))
    return tuple(filter(None, found))


def last_step(path: Path) -> int:
    """The newest step in a journal; 0 where there is none yet."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - TAIL_BYTES))
            lines = file.read().split(b"\n")
    except OSError:
        return 0
    for line in reversed(lines[:-1]):
        with suppress(ValueError):
            step = unsealed(line)[0].get("step", 0)
            return step if type(step) is int else 0
    return 0


def _claimed(run: RunDirectory, now: float) -> Iterator[TrainingPack]:
    for claim in run.checkpoints.glob("*.claim"):
        pack_id = claim.stem
        journal = run.curves / f"{pack_id}.jsonl"
        try:
            began_at = claim.stat().st_mtime
            last_at = journal.stat().st_mtime if journal.exists() else began_at
            worker = claim.read_text(encoding="utf-8", errors="replace").partition(",")[0].strip()
        except FileNotFoundError:  # the pack ended just now
            continue
        if Lock(claim).holder() is None and now - max(began_at, last_at) > FRESH_S:
            continue
        trial_ids = trials_of_journal(journal)
        if trial_ids:
            yield TrainingPack(pack_id, worker, trial_ids, last_step(journal), began_at, last_at)
