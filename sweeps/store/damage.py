"""What is damaged in a run directory, and how it is made right from what is left.

A run mends what it rests on before it trains (`mend_for_run`); `stsq check` looks at everything.
"""

import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stsq_core.configs import UserError
from sweeps.store.files import disk_errors
from sweeps.store.journal import journal_lines, read_state, trials_of_journal
from sweeps.store.jsonl import JsonLines, aside, cut_torn_line, free_name, set_aside
from sweeps.store.ledger import Ledger
from sweeps.store.rounds import round_lines
from sweeps.store.run_directory import RunDirectory
from sweeps.store.sessions import session_lines
from sweeps.store.weights import DAMAGED_ARRAYS, read_weights


@dataclass(frozen=True)
class Damage:
    """One thing that is wrong in a run directory; `mend` makes it right, and is None where only its user can."""

    what: str
    mend: Callable[[], None] | None = None


def mend_for_run(run: RunDirectory) -> tuple[str, ...]:
    """Make right what a run rests on: ledger, sessions, states. Returns what was wrong, in words; under the run's lock.

    Raises:
        UserError: the disk is full or may not be written.
    """
    for folder in (run.path, run.checkpoints, run.weights):
        for unfinished in folder.glob(".*.new"):  # a killed process was writing it
            unfinished.unlink(missing_ok=True)
    found = [*ledger_damage(run), *session_damage(run), *round_damage(run), *state_damage(run), *_directories(run)]
    for damage in found:
        if damage.mend is not None:
            damage.mend()
    return tuple(damage.what for damage in found)


def examine(run: RunDirectory) -> Iterator[Damage]:
    """Everything that is wrong with the files of a run that the sweeps' room writes."""
    try:
        run.read_sweep()
    except UserError as error:
        yield Damage(str(error))
    yield from ledger_damage(run)
    yield from session_damage(run)
    yield from round_damage(run)
    yield from state_damage(run)
    yield from _directories(run)
    for journal in sorted(path for path in run.curves.glob("*.jsonl") if path.is_file()):
        yield from _journal_damage(run, journal)
    for weights in sorted(run.weights.glob("*.npz")):
        yield from _weights_damage(run, weights)


def ledger_damage(run: RunDirectory) -> Iterator[Damage]:
    """Damaged lines of the ledger."""
    return damaged_lines(
        Ledger(run.ledger).checked_lines(), f"`stsq run {shlex.quote(str(run.path))}` trains their trials again"
    )


def session_damage(run: RunDirectory) -> Iterator[Damage]:
    """Damaged lines of the sessions."""
    return damaged_lines(session_lines(run), "a session, or its end, is not known")


def round_damage(run: RunDirectory) -> Iterator[Damage]:
    """Damaged lines of the rounds of searches."""
    return damaged_lines(round_lines(run.rounds), "how far a search was is shown less exactly")


def state_damage(run: RunDirectory) -> Iterator[Damage]:
    """Saved states that are damaged: their packs train from the start."""
    for path in sorted(path for path in run.checkpoints.glob("*.state") if path.is_file()):
        try:
            read_state(path)
        except ValueError as error:
            yield Damage(f"{path} is damaged and left out ({error}): its pack trains from the start", moved_away(path))


def damaged_lines(lines: JsonLines[Any], loss: str, mend: Callable[[], None] | None = None) -> Iterator[Damage]:
    """The damaged lines of a file, if there are any, with what their loss means; to `mend` it, they are set aside."""
    try:
        lines.scan()
    except UserError as error:
        yield Damage(f"{error}; it is set aside: {loss}", moved_away(lines.path) if lines.path.is_dir() else None)
        return
    if lines.bad:
        yield Damage(f"{lines.note}; kept in {aside(lines.path).name}: {loss}", mend or (lambda: set_aside(lines)))
    if lines.torn:
        yield Damage(f"{lines.path}: the last line was torn by a crash and is left out", lambda: _cut(lines.path))


def _journal_damage(run: RunDirectory, path: Path) -> Iterator[Damage]:
    state = run.checkpoints / f"{path.stem}.state"
    if (run.checkpoints / f"{path.stem}.claim").exists():  # being written now
        return
    trial_ids = trials_of_journal(path)
    if not trial_ids:
        yield Damage(f"{path} does not say whose measurements it holds: its curves are lost", moved_away(path, state))
        return
    lines, lost = journal_lines(path, trial_ids), "these measurements are lost"
    for damage in damaged_lines(lines, lost):
        # a state is of its journal's length: without it the pack trains from the start, and writes the journal anew
        yield Damage(damage.what, moved_away(path, state) if state.exists() else damage.mend)


def _weights_damage(run: RunDirectory, path: Path) -> Iterator[Damage]:
    try:
        read_weights(path)
    except DAMAGED_ARRAYS as error:
        again = f"`stsq trial {shlex.quote(str(run.path))} {path.stem} --keep-weights` makes them again"
        yield Damage(f"{path} is damaged ({type(error).__name__}): {again}", moved_away(path))


def _directories(run: RunDirectory) -> Iterator[Damage]:
    """Directories where workers keep files."""
    for path in sorted((*run.checkpoints.glob("*"), *run.curves.glob("*"))):
        if path.is_dir() and path.suffix != ".rejected":
            yield Damage(f"{path} is a directory in a file's place: it is moved away", moved_away(path))


def moved_away(*paths: Path) -> Callable[[], None]:
    """A function that moves files to where nothing looks for them."""

    def move() -> None:
        for path in paths:
            with disk_errors(path):
                if path.exists():
                    path.replace(free_name(path))

    return move


def _cut(path: Path) -> None:
    with disk_errors(path):
        cut_torn_line(path)
