"""The ledger: one JSON line for each trial that ended, append-only, the only source of truth after training.

A line is whole or absent: records are written at once and forced to disk, and a line torn by a crash is dropped when the
ledger is next opened for writing. A line that is damaged is left out, and its trial is trained again. A trial that ended more
than once (a failed one tried again) counts as its newest line says.
"""

import json
import math
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import orjson

from stsq_core.configs import NUMERICS, TrialConfig, TrialFamily, TrialResult, UserError, plugins_of, shown
from stsq_core.plugins import loaded_plugins
from sweeps.store.files import retry_io, write_atomically
from sweeps.store.jsonl import Addition, JsonLines, number, sealed

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

_HINTS = get_type_hints(LedgerRecord)
_MISSING = object()
_STATUSES = get_args(Status)

ROUNDING = 1e-3
"""A loss is a mean of squares or what replaces it: further below zero than rounding, a number was changed."""


def _types_of(kind: Any) -> frozenset[type]:
    """The types that JSON has for a field's values."""
    if get_origin(kind) is Literal:
        return frozenset({str})
    parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    plain: dict[object, set[type]] = {int: {int}, float: {float, int}, str: {str}, NoneType: {NoneType}}
    return frozenset(one for part in parts for one in plain.get(part, {dict}))


_TYPES = tuple((name, _types_of(_HINTS[name])) for name in _DEFAULTS)

_OF_THE_TRIAL = ("schema", "trial_id", "config", "numerics", "plugins")
COLUMNS: Mapping[str, object] = {name: kind for name, kind in _HINTS.items() if name not in _OF_THE_TRIAL}
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
    with a line when an addition has to wait for the file's storage, `on_line` with the fields of every line that is read, and
    `guard` before anything is added: it raises where another process has taken over.
    """

    def __init__(
        self,
        path: Path,
        *,
        notify: Callable[[str], None] | None = None,
        on_line: Callable[[Mapping[str, Any]], None] | None = None,
        guard: Callable[[], None] = lambda: None,
    ) -> None:
        self.path = path
        self.notes: list[str] = []
        self._notify = notify
        self._on_line = on_line
        self._guard = guard
        self._configs = _Configs()
        self._kinds: set[tuple[Any, ...]] = set()

    def read(self, *, all_plugins: bool = False) -> tuple[LedgerRecord, ...]:
        """The newest record of each trial, results before failures, in the order in which trials first ended; none where there
        is no file yet.

        Records of another `NUMERICS` are left out, and those of a version of a plugin that is not loaded unless `all_plugins`
        are asked for: under these versions their trials are other trials.

        Raises:
            UserError: the file cannot be read, or holds another schema.
        """
        records: dict[str, LedgerRecord] = {}
        for values in self.lines(all_plugins=all_plugins):
            held = records.get(values["trial_id"])
            if held is None or held.status == "failed" or values["status"] != "failed":
                records[values["trial_id"]] = _record(values)
        return tuple(records.values())

    def follow(self, offset: int = 0) -> tuple[list[LedgerRecord], int]:
        """The records in the whole lines after `offset` bytes, in order, and the offset to go on from next time.

        A ledger that became shorter (lines that did not all fit on the disk were taken back) is read from its start again.

        Raises:
            UserError: as `read`.
        """
        lines = self.checked_lines()
        records = []
        for values, end in lines.after(offset if self.path.exists() else 0):
            offset = end
            if values["numerics"] == NUMERICS and not _foreign(values):
                records.append(_record(values))
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
        lines = self.checked_lines()
        for values in lines:
            if self._on_line is not None:
                self._on_line(values)
            if values["numerics"] != NUMERICS:
                num_others += 1
            elif not all_plugins and (foreign := _foreign(values)):
                num_foreign.update(foreign)
            else:
                yield values
        if lines.torn:
            self.notes.append(f"{self.path.name}: the last line was torn by a crash and is ignored")
        if lines.bad:
            self.notes.append(f"{lines.note}; `stsq run {shlex.quote(str(self.path.parent))}` trains anew what is lost")
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
        text = _text_of(records)
        if text:
            addition = Addition(self.path, text)

            def add() -> None:
                self._guard()
                addition()

            retry_io(self.path, add, notify=self._notify)
            if addition.cut:
                self.notes.append(f"{self.path.name}: the last line was torn by a crash and is dropped")

    def checked_lines(self) -> JsonLines[dict[str, Any]]:
        """The fields of all whole lines, of other versions too, and what is wrong with the others.

        Raises:
            UserError: as `read`.
        """
        return JsonLines(self.path, self._checked)

    def _checked(self, values: dict[str, Any], is_sealed: bool) -> dict[str, Any]:
        """The fields of a line; those of one without a checksum are checked as far as they follow from each other."""
        for name in OPTIONAL:
            values.setdefault(name, None)
        try:
            kinds = values["schema"], values["status"], *map(type, _fields_of(values))
            is_new = kinds not in self._kinds
        except (KeyError, TypeError):  # a field is missing, or one cannot be hashed
            is_new = True
        if is_new:  # most lines are of few kinds
            _check_types(values)
            self._kinds.add(kinds)
        if values["plugins"] is not None and not all(type(digest) is str for digest in values["plugins"].values()):
            raise ValueError(f"plugins is {shown(values['plugins'])}")
        if values["metrics"] is not None:
            values["metrics"] = {name: number(value) for name, value in values["metrics"].items()}
        if not is_sealed:
            self._check_values(values)
        return values

    def _check_values(self, values: Mapping[str, Any]) -> None:
        if values["status"] == "finished" and not (
            values["relative_loss"] > -ROUNDING and (values["relative_loss_stderr"] or 0) >= 0
        ):
            raise ValueError(f"relative_loss is {values['relative_loss']} +- {values['relative_loss_stderr']}")
        if values["steps"] < 0 or values["seconds"] < 0:
            raise ValueError(f"steps is {values['steps']} and seconds {values['seconds']}")
        datetime.fromisoformat(values["finished_at"])
        if values["numerics"] == NUMERICS and not _foreign(values):
            self._configs.check(values["config"], values["trial_id"])


def _check_types(values: Mapping[str, Any]) -> None:
    schema = values.get("schema")
    if schema != SCHEMA and type(schema) is int:
        raise UserError(f"this ledger line has schema {schema!r}; this version reads {SCHEMA}: use the version that wrote it")
    for name, types in _TYPES:
        if type(values.get(name, _MISSING)) not in types:
            what = f"is {shown(values[name])}" if name in values else "is missing"
            raise ValueError(f"{name} {what}")
    status, loss = values["status"], values["relative_loss"]
    if status not in _STATUSES:
        raise ValueError(f"status is {shown(status)}")
    if (status == "finished") != (loss is not None):
        raise ValueError(f"{status} with relative_loss {loss}")


class _Configs:
    """Checks that configs are those of their trial ids; of configs that differ in rate and seed one is read."""

    def __init__(self) -> None:
        self._families: dict[bytes, tuple[TrialFamily, int]] = {}

    def check(self, config: dict[str, Any], trial_id: str) -> None:
        """Raises ValueError where a config is none, or another trial's."""
        optimizer, seed = config.get("optimizer"), config.get("seed")
        lr = optimizer.get("lr") if isinstance(optimizer, dict) else None
        if not isinstance(optimizer, dict) or type(lr) not in (int, float) or type(seed) is not int or seed < 0:
            raise ValueError(f"config has lr {shown(lr)} and seed {shown(seed)}")
        key = orjson.dumps({**config, "optimizer": {**optimizer, "lr": 0}, "seed": 0})
        if key not in self._families:
            try:
                sample = TrialConfig.model_validate(config)
            except (TypeError, AttributeError, LookupError, ArithmeticError, UserError) as error:
                raise ValueError(f"config: {error}") from None
            self._families[key] = TrialFamily(sample), sample.width
        family, width = self._families[key]
        if family.ids([width], [number(lr)], [seed]) != [trial_id]:
            raise ValueError(f"its config is not that of trial {shown(trial_id)}")


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
    write_atomically(path, _text_of(records))


def _text_of(records: Iterable[LedgerRecord]) -> bytes:
    return b"".join(sealed(record.as_json().encode()) for record in records)


def _weight(record: LedgerRecord) -> tuple[bool, str]:
    return record.status != "failed", record.finished_at


_READ = (*_REQUIRED, *OPTIONAL)
_fields_of = itemgetter(*_READ)


def _record(values: Mapping[str, Any]) -> LedgerRecord:
    return LedgerRecord(**{name: values[name] for name in _READ})


def _foreign(values: Mapping[str, Any]) -> list[str]:
    """The plugins of a line that are not loaded, or in another version."""
    if not (plugins := values.get("plugins")):
        return []
    digests = {plugin.digest for plugin in loaded_plugins()}
    return [name for name, digest in plugins.items() if digest not in digests]
