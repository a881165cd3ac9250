"""How many trials ended, as columns: the records of a ledger in a form in which a million of them fit and count quickly."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from stsq_core.configs import NUMERICS, WIDTH, Size, plugins_of
from sweeps.cells import Trials
from sweeps.schema import LOSS, Criterion, judged_number
from sweeps.store.ledger import COLUMNS, SCHEMA, LedgerRecord, Status

FINISHED, DIVERGED, FAILED = range(3)
STATUSES: tuple[Status, ...] = ("finished", "diverged", "failed")

_NAMES = tuple(COLUMNS)
_WORDS = (Status, str, str | None)
_values_of = itemgetter(*_NAMES)
_NUMBERS: Mapping[object, type[np.generic]] = {float: np.float64, float | None: np.float64, int: np.int64}
"""The kinds of column that are arrays of numbers, None as nan; all others hold objects."""

BATCH = 65_536

LEAST_LOSS = 1e-12
"""Relative losses below this are rounding; taken literally, a loss of zero would draw every line to the width before it."""


class Outcomes(Sequence[LedgerRecord]):
    """Ended trials, each once; a record is made when it is asked for.

    Each of `COLUMNS` is an array [trial] under its name: `status` holds places in `STATUSES`, losses are nan where there are
    none, and what the ledger holds as words or mappings are objects.
    """

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> np.ndarray: ...

    def __init__(self, trials: Trials, columns: Mapping[str, np.ndarray]) -> None:
        self.trials = trials
        self._columns = columns
        vars(self).update(columns)

    @classmethod
    def of(cls, records: Iterable[LedgerRecord], size: Size = WIDTH) -> "Outcomes":
        """The columns of any records, the newest of each trial, in families of a size; outcomes are handed back as they are."""
        if isinstance(records, Outcomes):
            return records
        newest = {record.trial_id: record for record in records}
        rows = Rows()
        for record in newest.values():
            rows.add(vars(record))
        return rows.outcomes(Trials.of((record.trial_config for record in newest.values()), size))

    @classmethod
    def joined(cls, parts: Sequence["Outcomes"]) -> "Outcomes":
        """Outcomes of different trials, one after another; at least one part."""
        columns = {name: np.concatenate([part._columns[name] for part in parts]) for name in parts[0]._columns}
        return cls(Trials.joined([part.trials for part in parts]), columns)

    def take(self, places: np.ndarray) -> "Outcomes":
        """Some of the outcomes: places, or a mask."""
        return Outcomes(self.trials.take(places), {name: column[places] for name, column in self._columns.items()})

    @cached_property
    def trial_ids(self) -> tuple[str, ...]:
        return self.trials.trial_ids

    def judged_by(self, metric: str) -> "Outcomes":
        """With the number that a criterion judges by in place of the relative loss; again, the same.

        A finished trial without it counts as failed: it says nothing.
        """
        if metric == LOSS:
            return self
        lengths = [family.sample.task.T for family in self.trials.families]
        given = zip(self.metrics.tolist(), self.trials.family.tolist(), strict=True)
        pairs = [judged_number(metric, metrics, lengths[family]) for metrics, family in given]
        judged = np.array(pairs, dtype=np.float64).reshape(-1, 2)
        finished = self.status == FINISHED
        lacks = finished & np.isnan(judged[:, 0])
        judged[~finished] = np.nan
        reasons = self.reason.copy()
        reasons[lacks] = f"its evaluation gave no {metric}"
        return Outcomes(
            self.trials,
            {
                **self._columns,
                "relative_loss": judged[:, 0],
                "relative_loss_stderr": judged[:, 1],
                "status": np.where(lacks, FAILED, self.status).astype(np.int8),
                "reason": reasons,
            },
        )

    def num_ended(self, status: Status) -> int:
        """How many ended in one way."""
        return int(np.count_nonzero(self.status == STATUSES.index(status)))

    def __len__(self) -> int:
        return len(self.trials)

    @overload
    def __getitem__(self, place: int) -> LedgerRecord: ...
    @overload
    def __getitem__(self, place: slice) -> "Outcomes": ...
    def __getitem__(self, place: int | slice) -> "LedgerRecord | Outcomes":
        if isinstance(place, slice):
            return self.take(np.arange(len(self))[place])
        plain: dict[str, Any] = {}
        for name, column in self._columns.items():
            value = column[place]
            plain[name] = value.item() if isinstance(value, np.generic) else value
        plain |= {name: none_of_nan(plain[name]) for name, kind in COLUMNS.items() if kind == float | None}
        config = self.trials[place]
        plain["status"] = STATUSES[plain["status"]]
        return LedgerRecord(
            schema=SCHEMA,
            trial_id=self.trial_ids[place],
            config=config.model_dump(mode="json"),
            numerics=NUMERICS,
            plugins=plugins_of(config) or None,
            **plain,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(self.trial_ids)


class Rows:
    """Collects the lines of a ledger as columns."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in _NAMES}
        self._fresh: list[tuple[Any, ...]] = []
        self._words: dict[str, str] = {}
        self._num = 0

    def __len__(self) -> int:
        return self._num

    def add(self, values: Mapping[str, Any]) -> None:
        """Take the columns of one record."""
        self._fresh.append(_values_of(values))
        self._num += 1
        if len(self._fresh) == BATCH:
            self._settle()

    def _settle(self) -> None:
        """Turn rows into columns; words that come again are kept once."""
        for name, values in zip(_NAMES, zip(*self._fresh, strict=True), strict=False):
            share = self._words.setdefault
            self._columns[name] += map(share, values, values) if COLUMNS[name] in _WORDS else values
        self._fresh.clear()

    def outcomes(self, trials: Trials, places: Sequence[int] | None = None) -> Outcomes:
        """The rows, or those at some places, as the outcomes of these trials."""
        self._settle()
        columns = {}
        for name, kind in COLUMNS.items():
            column = self._columns[name] if places is None else [self._columns[name][place] for place in places]
            if kind == Status:
                codes = {status: place for place, status in enumerate(STATUSES)}
                columns[name] = np.array([codes[status] for status in column], dtype=np.int8)
            elif dtype := _NUMBERS.get(kind):
                columns[name] = np.array(column, dtype=dtype)
            else:
                # NumPy would make a table of a column of sequences; the None at its end keeps it one of objects.
                columns[name] = np.array([*column, None], dtype=object)[:-1]
        return Outcomes(trials, columns)


def judged_loss(record: LedgerRecord, metric: str) -> float | None:
    """The number by which one trial is judged; None where it has none."""
    if metric == LOSS or record.status != "finished":
        return record.relative_loss
    return none_of_nan(judged_number(metric, record.metrics, record.config["task"]["T"])[0])


def is_solved(record: LedgerRecord, criterion: Criterion) -> bool | None:
    """Whether a trial reached the target; None where it says nothing."""
    loss = judged_loss(record, criterion.metric)
    if loss is None:
        return False if record.status == "diverged" else None
    return loss <= criterion.target


def none_of_nan(value: float) -> float | None:
    """A number, or None where a column has none."""
    return None if value != value else value
