"""Journals: the measurements of a pack while it trains, one JSON line a logged step for the whole pack.

The first line names the pack and its trials; each further line holds a step and the relative loss of each trial, and where the
trials were evaluated the values of each metric. Everything that shows curves reads journals; nothing that trains waits for a
reader.

A pack's saved state (`FileCheckpoint`) keeps the length of its journal, so that the two always agree.
"""

import json
import os
import time
from binascii import crc32
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np

from stsq_core.configs import Measurement, UserError
from stsq_core.numerics import Checkpoint
from sweeps.cells import Pack
from sweeps.store.files import disk_errors, retry_io, write_with_retries
from sweeps.store.jsonl import JsonLines, cut_torn_line, number, sealed, unsealed, warn_once
from sweeps.store.ledger import Ledger, json_number
from sweeps.store.run_directory import RunDirectory

SCHEMA = 1
STATE_SCHEMA = 1
Curve = tuple[np.ndarray, np.ndarray]
"""Steps (int, [n]) and a number at each (float, [n]; may hold nan and inf) of one trial."""

Points = list[tuple[int, float]]
Read = TypeVar("Read")


class JournalWriter:
    """Appends the measurements of one pack; called with a `Measurement`, so that it can be `train_pack`'s `report`.

    A journal that is there already is continued, without a line that a crash has torn. `check` is called before each change,
    and raises where another worker writes the journal now.
    """

    def __init__(self, path: Path, pack: Pack, *, check: Callable[[], None] = lambda: None) -> None:
        self.path = path
        self._check = check
        self._places = {trial_id: place for place, trial_id in enumerate(pack.trial_ids)}
        self._pack_id, self._trial_ids = pack.pack_id, pack.trial_ids
        self._head = _line({"schema": SCHEMA, "pack_id": pack.pack_id, "trial_ids": list(pack.trial_ids)})
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor, self._size, self._head_size = -1, 0, 0
        retry_io(path, self._begin)

    def __call__(self, measurement: Measurement) -> None:
        self.append(measurement)

    def append(self, measurement: Measurement) -> None:
        """Add one line.

        Raises:
            UserError: the disk is full, or its storage did not come back.
        """
        fields: dict[str, Any] = {
            "step": measurement.step,
            "relative_loss": [json_number(loss) for loss in measurement.relative_loss],
        }
        places = [self._places[trial_id] for trial_id in measurement.trial_ids]
        if places != list(range(len(self._places))):
            fields["trials"] = places
        if measurement.metrics:
            metrics = measurement.metrics.items()
            fields["metrics"] = {name: [json_number(value) for value in values] for name, values in metrics}
        line, start = _line(fields), self._size
        self._do(lambda: self._write(line, start))

    def size(self) -> int:
        """Bytes written so far."""
        return self._size

    def truncate(self, size: int = 0) -> None:
        """Drop what was written after `size` bytes; the line that names the pack stays."""
        self._size = max(min(size, self._size), self._head_size)
        self._do(lambda: os.ftruncate(self._descriptor, self._size))

    def sync(self) -> None:
        """Return once everything written is on disk."""
        self._do(lambda: os.fsync(self._descriptor))

    def close(self) -> None:
        """Close the file; closing twice is harmless."""
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, -1
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _begin(self) -> None:
        """Open the file and keep what can be kept; a journal of another pack, or without its first line, begins anew."""
        self.close()
        size, _ = cut_torn_line(self.path)
        self._descriptor = os.open(self.path, os.O_RDWR)
        head, end = next(journal_lines(self.path).after(0), (None, 0))
        if isinstance(head, Head) and (head.pack_id, head.trial_ids) == (self._pack_id, self._trial_ids):
            self._size, self._head_size = size, end
        else:
            os.ftruncate(self._descriptor, 0)
            self._write(self._head, 0)
            self._head_size = len(self._head)

    def _do(self, action: Callable[[], None]) -> None:
        """Do something with the file, also when its storage goes away meanwhile: a stale descriptor is of no more use."""

        self._check()

        def act() -> None:
            if self._descriptor < 0:
                self._descriptor = os.open(self.path, os.O_RDWR)
            try:
                action()
            except OSError:
                with suppress(OSError):
                    self.close()
                raise

        retry_io(self.path, act)

    def _write(self, data: bytes, start: int) -> None:
        self._size = start
        view = memoryview(data)
        while view:
            written = os.pwrite(self._descriptor, view, self._size)
            self._size += written
            view = view[written:]


def follow(path: Path, offset: int = 0) -> tuple[list[Measurement], int]:
    """The measurements written after `offset` bytes, and the offset to go on from next time.

    A journal that became shorter (its pack resumed from a checkpoint) is read from its start again: whoever follows it skips
    steps that it has seen. A missing journal, or one without a whole first line, holds nothing yet.
    """
    trial_ids = trials_of_journal(path)
    if not trial_ids:
        return [], 0
    lines, measured = journal_lines(path, trial_ids), []
    for read, end in lines.after(offset):
        offset = end
        if isinstance(read, Measurement):
            measured.append(read)
    warn_once(lines.note)
    return measured, offset


@dataclass(frozen=True)
class Head:
    """The first line of a journal."""

    pack_id: str
    trial_ids: tuple[str, ...]


def journal_lines(path: Path, trial_ids: tuple[str, ...] = ()) -> JsonLines[Head | Measurement]:
    """The checked lines of a journal of some trials; without them its head alone."""

    def check(fields: dict[str, Any], _: bool) -> Head | Measurement:
        return _head(fields) if "trial_ids" in fields else _measurement(fields, trial_ids)

    return JsonLines(path, check)


def read_curves(
    run: RunDirectory, trial_ids: Collection[str] | None = None, *, ended_in: Mapping[str, str] | None = None
) -> dict[str, Curve]:
    """The training curves (relative losses of the batch) of all trials of a run, or of some.

    A trial that stands in several journals (its pack was divided, or packed anew after a restart) is read from the journal of
    the pack in which it ended, else from the newest.

    Args:
        run: the run.
        trial_ids: the trials; None for all.
        ended_in: the pack in which each trial ended; read from the ledger where it is not given.
    """
    return {trial_id: _curve(points) for trial_id, points in _read(run, trial_ids, ended_in, _losses_in).items()}


def read_metrics(
    run: RunDirectory, trial_ids: Collection[str] | None = None, *, ended_in: Mapping[str, str] | None = None
) -> dict[str, dict[str, Curve]]:
    """The metrics of a run's evaluations by trial and name, from the journals of `read_curves`; none of trials without any."""
    read = _read(run, trial_ids, ended_in, _metrics_in)
    return {trial_id: {name: _curve(points) for name, points in named.items()} for trial_id, named in read.items() if named}


def _read(
    run: RunDirectory,
    trial_ids: Collection[str] | None,
    ended_in: Mapping[str, str] | None,
    read_journal: Callable[[Path, set[str] | None], dict[str, Read]],
) -> dict[str, Read]:
    """By trial what `read_journal` finds in its own journal."""
    if ended_in is None:
        ended_in = {values["trial_id"]: values["pack_id"] for values in Ledger(run.ledger).lines()}
    wanted = None if trial_ids is None else set(trial_ids)
    read: dict[str, Read] = {}
    if wanted is not None:
        packs: dict[str, set[str]] = {}
        for trial_id in wanted & ended_in.keys():
            packs.setdefault(ended_in[trial_id], set()).add(trial_id)
        for pack_id, own in packs.items():
            read |= read_journal(run.curves / f"{pack_id}.jsonl", own)
        wanted -= read.keys()
        if not wanted:
            return read
    for path in sorted(run.curves.glob("*.jsonl"), key=lambda journal: (journal.stat().st_mtime_ns, journal.name)):
        for trial_id, found in read_journal(path, wanted).items():
            if trial_id not in read or ended_in.get(trial_id, path.stem) == path.stem:
                read[trial_id] = found
    return read


def _losses_in(path: Path, wanted: set[str] | None) -> dict[str, Points]:
    losses: dict[str, Points] = {}
    for step, trial_id, place, measurement in _mentions(path, wanted):
        losses.setdefault(trial_id, []).append((step, measurement.relative_loss[place]))
    return losses


def _metrics_in(path: Path, wanted: set[str] | None) -> dict[str, dict[str, Points]]:
    metrics: dict[str, dict[str, Points]] = {}
    for step, trial_id, place, measurement in _mentions(path, wanted):
        own = metrics.setdefault(trial_id, {})
        for name, values in measurement.metrics.items():
            own.setdefault(name, []).append((step, values[place]))
    return metrics


def _mentions(path: Path, wanted: set[str] | None) -> Iterator[tuple[int, str, int, Measurement]]:
    """Every measurement of every wanted trial: the step, the trial and its place in the measurement."""
    if wanted is not None and wanted.isdisjoint(trials_of_journal(path)):
        return
    for measurement in follow(path)[0]:
        for place, trial_id in enumerate(measurement.trial_ids):
            if wanted is None or trial_id in wanted:
                yield measurement.step, trial_id, place, measurement


def _curve(points: Points) -> Curve:
    steps, values = zip(*points, strict=True)
    return np.array(steps), np.array(values)


def trials_of_journal(path: Path) -> tuple[str, ...]:
    """The trials that a journal's first line names; none where there is no journal, or no whole first line."""
    lines = journal_lines(path)
    try:
        head, _ = next(lines.after(0), (None, 0))
        warn_once(lines.note)
    except UserError as error:
        warn_once(str(error))
        return ()
    return head.trial_ids if isinstance(head, Head) else ()


def _head(fields: Mapping[str, Any]) -> Head:
    trial_ids, pack_id = fields["trial_ids"], fields.get("pack_id")
    if type(pack_id) is not str or type(trial_ids) is not list or any(type(one) is not str for one in trial_ids):
        raise ValueError("it names no trials")
    return Head(pack_id, tuple(trial_ids))


def _measurement(fields: Mapping[str, Any], trial_ids: tuple[str, ...]) -> Measurement:
    try:
        named = tuple(trial_ids[place] for place in fields["trials"]) if "trials" in fields else trial_ids
        losses = tuple(map(number, fields["relative_loss"]))
        metrics = {name: tuple(map(number, values)) for name, values in fields.get("metrics", {}).items()}
        step = fields["step"]
    except (TypeError, LookupError, AttributeError):
        raise ValueError("it is no measurement") from None
    if type(step) is not int or step < 0 or any(len(values) != len(named) for values in (losses, *metrics.values())):
        raise ValueError(f"it is no measurement of {len(named)} trials")
    return Measurement(step, named, losses, metrics)


def _line(fields: dict[str, Any]) -> bytes:
    return sealed(json.dumps(fields, allow_nan=False, separators=(",", ":")).encode())


class Preempted(Exception):  # noqa: N818  (it is no error)
    """The place where a pack trains is being taken away; its state is saved, and it goes on elsewhere."""


class FileCheckpoint(Checkpoint):
    """Keeps the newest state in one file, replaced as a whole at most every `every_s` seconds.

    Once `leaving()` is true the state is saved at once, and training ends with `Preempted`. A load cuts the journal back to
    its length at the save: later measurements will be reported again.
    """

    def __init__(
        self, path: Path, journal: JournalWriter, *, every_s: float = 20.0, leaving: Callable[[], bool] = lambda: False
    ) -> None:
        self.path = path
        self._journal = journal
        self._every_s = every_s
        self._leaving = leaving
        self._saved_at = time.monotonic()
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)

    def load(self) -> bytes | None:
        """The newest state whose journal is still there, else None; the journal is cut back to it."""
        state, size = retry_io(self.path, self._read)
        self._journal.truncate(size)
        return state

    def due(self) -> bool:
        """Whether `every_s` seconds have passed since the last save, or since the start, or the worker is to leave."""
        return self._leaving() or time.monotonic() - self._saved_at >= self._every_s

    def save(self, state: bytes) -> None:
        """Commit the journal, then replace the state.

        Raises:
            UserError: the disk is full, may not be written or did not come back.
            Preempted: the state is saved, and the worker is to leave.
        """
        self._journal.sync()
        head = {
            "schema": STATE_SCHEMA,
            "journal_size": self._journal.size(),
            "state_size": len(state),
            "state_crc": crc32(state),
        }
        write_with_retries(self.path, _line(head) + state)
        self._saved_at = time.monotonic()
        if self._leaving():
            raise Preempted(f"saved {self.path}")

    def discard(self) -> None:
        """Remove the saved state: its pack has ended."""
        retry_io(self.path, lambda: self.path.unlink(missing_ok=True))

    def _read(self) -> tuple[bytes | None, int]:
        """The saved state and the journal's size at that time; a file that is damaged or of another schema counts as absent."""
        try:
            state, size = read_state(self.path)
        except (FileNotFoundError, IsADirectoryError, ValueError):
            return None, 0
        return (state, size) if size <= self._journal.size() else (None, 0)


def read_state(path: Path) -> tuple[bytes, int]:
    """The state in a file, and the size of its journal when it was saved.

    Raises:
        OSError: it cannot be read.
        ValueError: it is damaged, or of another schema.
    """
    head, _, state = path.read_bytes().partition(b"\n")
    fields, _ = unsealed(head)
    size = fields.get("journal_size")
    if fields.get("schema") != STATE_SCHEMA or type(size) is not int:
        raise ValueError("it is no state of this version")
    if fields.get("state_size") != len(state) or fields.get("state_crc", crc := crc32(state)) != crc:
        raise ValueError("it is not what its checksum was made of")
    return state, size
