"""Ended trials as claims and drawings see them: fields by dotted names, final metrics, and metrics through training."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from stsq_core.configs import TrialConfig
from sweeps.schema import Selection, flattened
from sweeps.store import Ledger, LedgerRecord, RunDirectory, read_metrics

Course = tuple[np.ndarray, np.ndarray]
"""Steps and values of one metric of one trial."""


@dataclass(frozen=True)
class Observation:
    """One trial that finished or diverged.

    `metrics` holds the final metrics by name, `loss` among them; none where it diverged.
    """

    config: TrialConfig
    metrics: Mapping[str, float]
    courses: Mapping[str, Course]

    @cached_property
    def fields(self) -> dict[str, Any]:
        """Dotted fields with their values, and the width `m`; without the seed."""
        fields = flattened(self.config.model_dump()) | {"m": self.config.width}
        return {name: value for name, value in fields.items() if name != "seed"}

    @cached_property
    def cell(self) -> tuple[tuple[str, Any], ...]:
        """Equal for trials that differ in the seed only."""
        return tuple(sorted(self.fields.items()))


def read_observations(run: RunDirectory, declared: Iterable[str]) -> tuple[Observation, ...]:
    """The ended trials of a run that its sweep declares, in the order in which they ended: a diverged one is there without a
    number, so that no claim rests on the survivors alone; a failed one says nothing and is left out.

    Raises:
        UserError: the ledger cannot be read.
    """
    wanted = frozenset(declared)
    records = [record for record in Ledger(run.ledger).read() if record.trial_id in wanted and record.status != "failed"]
    courses = read_metrics(run, [record.trial_id for record in records])
    return tuple(
        Observation(
            record.trial_config,
            _final(record),
            courses.get(record.trial_id, {}),
        )
        for record in records
    )


def _final(record: LedgerRecord) -> dict[str, float]:
    if record.relative_loss is None or record.relative_loss_stderr is None:
        return {}
    return {"loss": record.relative_loss, "loss_stderr": record.relative_loss_stderr, **(record.metrics or {})}


def selected(observations: Iterable[Observation], selection: Selection) -> list[Observation]:
    """The observations that a selection is about."""
    return [one for one in observations if all(matches(one.fields.get(k), v) for k, v in selection.where.items())]


def cells_of(observations: Iterable[Observation]) -> list[list[Observation]]:
    """The observations of each cell, in the order of appearance."""
    cells: dict[object, list[Observation]] = {}
    for one in observations:
        cells.setdefault(one.cell, []).append(one)
    return list(cells.values())


def differing(observations: Sequence[Observation]) -> tuple[str, ...]:
    """The fields that all have and in which some differ, but for how they are measured; the width by its own field alone."""
    values: dict[str, list[Any]] = {}
    for one in observations:
        for name, value in one.fields.items():
            if name != "m" and not name.startswith("evaluation."):
                values.setdefault(name, []).append(value)
    everywhere = {name: seen for name, seen in values.items() if len(seen) == len(observations)}
    return tuple(name for name, seen in everywhere.items() if len(set(seen)) > 1)


def matches(value: object, wanted: object) -> bool:
    """Whether a field has the wanted value, or one of several."""
    return value in wanted if isinstance(wanted, list | tuple) else value == wanted
