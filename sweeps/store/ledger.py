"""The ledger: one JSON line for each trial that ended, append-only, the only source of truth after training.

A line is whole or absent: records are written at once and forced to disk, and a line torn by a crash is dropped when the
ledger is next opened for writing. A trial that ended more than once (a failed one tried again) counts as its newest line
says.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_type_hints

from stsq_core.configs import NUMERICS, TrialConfig, TrialResult, UserError, plugins_of
from stsq_core.plugins import loaded_plugins
from sweeps.store.files import retry_io, write_atomically
from sweeps.store.jsonl import cut_torn_line, lines_after, parsed, read_lines, write_from

SCHEMA = 1
Status = Literal["finished", "diverged", "failed"]


@dataclass(frozen=True)
class LedgerRecord:
    """How one trial ended.

    `relative_loss` and its standard error are None unless the trial finished; `reason` says why one failed. `metrics` are
    those of its last evaluation, None where it asked for no more than the relative loss, and `plugins` those whose kinds the
    trial is of, name to digest: a line holds either if any. `config` is nested as in a sweep file with every default written
    out. `seconds` is the trial's share of its pack's wall time, `device` what it ran on.
    """

    schema: int
    trial_id: str
    config: Mapping[str, Any]
    status: Status
    relative_loss: float | None
    relative_loss_stderr: float | None
    steps: int
    seconds: float
    reason: str | None
    device: str
    pack_id: str
    finished_at: str
    numerics: int
    metrics: Mapping[str, float] | None = None
    plugins: Mapping[str, str] | None = None

    @cached_property
    def trial_config(self) -> TrialConfig:
        """The config, checked; made on first use, because most readers of a long ledger need few of them."""
        return TrialConfig.model_validate(dict(self.config))

    def as_json(self) -> str:
        """The record as one line without its end; optional fields stand in it only where they hold something."""
        line = {name: getattr(self, name) for name in _REQUIRED}
        line |= {name: _as_json(value) for name in OPTIONAL if (value := getattr(self, name)) not in (None, {})}
        return json.dumps(line, allow_nan=False, separators=(",", ":"))


_DEFAULTS = {field.name: field.default for field in fields(LedgerRecord)}
_REQUIRED = tuple(name for name, default in _DEFAULTS.items() if default is MISSING)
OPTIONAL = tuple(name for name, default in _DEFAULTS.items() if default is not MISSING)

_OF_THE_TRIAL = ("schema", "trial_id", "config", "numerics", "plugins")
COLUMNS: Mapping[str, object] = {name: kind for name, kind in get_type_hints(LedgerRecord).items() if name not in _OF_THE_TRIAL}
"""The fields of a record that do not follow from its trial, each with its type: the one list from which all readers derive."""

MEASURED = tuple(name for name, kind in COLUMNS.items() if kind in (int, float, int | None, float | None))
"""The numbers among them, as tables show them."""


def _as_json(value: object) -> object:
    """A value as JSON holds it, numbers that are not finite as words."""
    if isinstance(value, Mapping):
        return {name: _as_json(inner) for name, inner in value.items()}
    return json_number(value) if isinstance(value, float) else value


def json_number(value: float) -> float | str:
    """A number as JSON holds it: what is not finite as a word, which `float` reads."""
    return value if math.isfinite(value) else str(float(value))


def record_of_result(result: TrialResult, *, pack_id: str, device: str) -> LedgerRecord:
    """The ledger's record of a trial that ended by itself."""
    measured = {field.name: getattr(result, field.name) for field in fields(result) if field.name in COLUMNS}
    measured["metrics"] = dict(result.metrics) or None
    return _new_record(result.config, measured | {"reason": None, "pack_id": pack_id, "device": device})


def record_of_failure(config: TrialConfig, reason: str, *, pack_id: str, device: str, seconds: float = 0.0) -> LedgerRecord:
    """The ledger's record of a trial that gave no result."""
    nothing = {"status": "failed", "relative_loss": None, "relative_loss_stderr": None, "steps": 0, "seconds": seconds}
    return _new_record(config, nothing | {"reason": reason, "pack_id": pack_id, "device": device})


def _new_record(config: TrialConfig, ended: Mapping[str, Any]) -> LedgerRecord:
    return LedgerRecord(
        schema=SCHEMA,
        trial_id=config.trial_id,
        config=config.model_dump(mode="json"),
        finished_at=datetime.now(UTC).isoformat(timespec="seconds"),
        numerics=NUMERICS,
        plugins=plugins_of(config) or None,
        **ended,
    )


class Ledger:
    """The ledger file of a run. `notes` says in words what the last reading or writing had to leave out; `notify` is called
    with a line when an addition has to wait for the file's storage.
    """

    def __init__(self, path: Path, *, notify: Callable[[str], None] | None = None) -> None:
        self.path = path
        self.notes: list[str] = []
        self._notify = notify

    def read(self, *, all_plugins: bool = False) -> tuple[LedgerRecord, ...]:
        """The newest record of each trial, in the order in which trials first ended; none where there is no file yet.

        Records of another `NUMERICS` are left out, and those of a version of a plugin that is not loaded unless `all_plugins`
        are asked for: under these versions their trials are other trials.

        Raises:
            UserError: a line that is no ledger line (only the last may be torn), or another schema.
        """
        records: dict[str, LedgerRecord] = {}
        for values in self.lines(all_plugins=all_plugins):
            records[values["trial_id"]] = _record(values)
        return tuple(records.values())

    def follow(self, offset: int = 0) -> tuple[list[LedgerRecord], int]:
        """The records in the whole lines after `offset` bytes, in order, and the offset to go on from next time.

        A ledger that became shorter (lines that did not all fit on the disk were taken back) is read from its start again.

        Raises:
            UserError: as `read`.
        """
        records: list[LedgerRecord] = []
        offset = offset if self.path.exists() else 0
        try:
            for line, end in lines_after(self.path, offset):
                values = _checked(line, f"{self.path}, byte {end - len(line)}")
                if values is not None and values["numerics"] == NUMERICS and not _foreign(values):
                    records.append(_record(values))
                offset = end
        except OSError as error:
            raise _unreadable(self.path, error) from None
        return records, offset

    def trial_ids(self) -> frozenset[str]:
        """The trials that it holds.

        Raises:
            UserError: as `read`.
        """
        return frozenset(values["trial_id"] for values in self.lines())

    def lines(self, *, all_plugins: bool = False) -> Iterator[dict[str, Any]]:
        """The fields of every line that `read` takes, `config` as JSON has it: `read` for ledgers of a million lines.

        Raises:
            UserError: as `read`.
        """
        self.notes = []
        num_others = 0
        num_foreign: Counter[str] = Counter()
        for values in self._lines():
            if values["numerics"] != NUMERICS:
                num_others += 1
            elif not all_plugins and (foreign := _foreign(values)):
                num_foreign.update(foreign)
            else:
                yield values
        if num_others:
            self.notes.append(f"{self.path.name}: {num_others} lines of another version of the arithmetic are ignored")
        for name, num in num_foreign.items():
            self.notes.append(
                f"{self.path.name}: {num} lines of another version of the plugin {name} are ignored: "
                "an edited plugin gives other numbers, so that their trials are to be trained again"
            )

    def append(self, records: Iterable[LedgerRecord]) -> None:
        """Add records, all or none, and return once they are on disk.

        Raises:
            UserError: the disk is full, may not be written or did not come back.
        """
        text = "".join(record.as_json() + "\n" for record in records)
        if text:
            whole, was_torn = retry_io(self.path, lambda: cut_torn_line(self.path), notify=self._notify)
            if was_torn:
                self.notes.append(f"{self.path.name}: the last line was torn by a crash and is dropped")
            retry_io(self.path, lambda: write_from(self.path, text.encode(), whole), notify=self._notify)

    def _lines(self) -> Iterator[dict[str, Any]]:
        torn = f"{self.path.name}: the last line was torn by a crash and is ignored"
        try:
            for number, line in enumerate(read_lines(self.path, on_torn=lambda: self.notes.append(torn)), start=1):
                values = _checked(line, f"{self.path}:{number}")
                if values is not None:
                    yield values
        except OSError as error:
            raise _unreadable(self.path, error) from None


def merge(paths: Iterable[Path], out: Path) -> int:
    """Write the records of several ledgers into a new one and return how many it holds.

    Where ledgers disagree about a trial, one that ended as a result counts before one that failed, and then the newer before
    the older.

    Raises:
        UserError: a ledger that is missing or cannot be read, or an `out` that exists already.
    """
    if out.exists():
        raise UserError(f"the ledger {str(out)!r} exists already: give a path that does not")
    paths = list(paths)
    if missing := next((path for path in paths if not path.is_file()), None):
        raise UserError(f"there is no ledger {str(missing)!r}: give the ledger.jsonl of a run")
    best = newest_records(paths)
    write_ledger(out, best)
    return len(best)


def newest_records(paths: Iterable[Path]) -> tuple[LedgerRecord, ...]:
    """The one record of each trial of several ledgers that counts (see `merge`), in the order in which trials are first met.

    Raises:
        UserError: a ledger that cannot be read.
    """
    best: dict[str, LedgerRecord] = {}
    for path in paths:
        for record in Ledger(path).read(all_plugins=True):
            best[record.trial_id] = max(best.get(record.trial_id, record), record, key=_weight)
    return tuple(best.values())


def write_ledger(path: Path, records: Iterable[LedgerRecord]) -> None:
    """Replace a ledger as a whole.

    Raises:
        UserError: the disk is full or may not be written.
    """
    write_atomically(path, "".join(record.as_json() + "\n" for record in records).encode())


def _weight(record: LedgerRecord) -> tuple[bool, str]:
    return record.status != "failed", record.finished_at


_READ = (*_REQUIRED, *OPTIONAL)
_NAMED = frozenset(_REQUIRED)


def _record(values: Mapping[str, Any]) -> LedgerRecord:
    return LedgerRecord(**{name: values[name] for name in _READ})


def _foreign(values: Mapping[str, Any]) -> list[str]:
    """The plugins of a line that are not loaded, or in another version."""
    if not (plugins := values.get("plugins")):
        return []
    digests = {plugin.digest for plugin in loaded_plugins()}
    return [name for name, digest in plugins.items() if digest not in digests]


def _checked(line: bytes, place: str) -> dict[str, Any] | None:
    """The fields of a whole line, None for an empty one; `place` names the line in an error."""
    values = parsed(line)
    if values is None:
        if line.strip():
            raise UserError(f"{place}: this is not a ledger line: {line[:60]!r}; remove the line")
        return None
    schema = values.get("schema")
    if schema != SCHEMA:
        raise UserError(
            f"{place}: this ledger line has schema {schema!r}; this version reads {SCHEMA}: use the version that wrote it"
        )
    if not values.keys() >= _NAMED:
        first = next(name for name in _REQUIRED if name not in values)
        raise UserError(f"{place}: this ledger line has no field {first!r}; remove the line")
    for name in OPTIONAL:
        values.setdefault(name, None)
    if values["metrics"] is not None:
        values["metrics"] = {name: float(value) for name, value in values["metrics"].items()}
    return values


def _unreadable(path: Path, error: OSError) -> UserError:
    return UserError(f"the ledger {str(path)!r} cannot be read: {error.strerror}")
