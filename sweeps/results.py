"""The results of a run: the ledger's records of the trials that its sweep declares now.

A ledger keeps every result it ever held, also of trials that a later form of the sweep no longer declares. Thresholds, laws,
figures and exit codes rest on the declared ones alone; the others are counted and told.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stsq_core.trial import TrialConfig
from sweeps.collector import no_collection
from sweeps.ledger import Ledger
from sweeps.outcomes import Outcomes, Rows
from sweeps.plan import Cell, expand
from sweeps.run_directory import RunDirectory
from sweeps.spec import SweepSpec
from sweeps.trials import Trials, cell_of


@dataclass(frozen=True)
class Results:
    """Records of declared trials. `declared` names all trials that the sweep declares, ended or not.

    `ledger_notes` says what the ledger had to leave out when it was read, `num_others` counts the records of other trials;
    those of `others` holds one a cell at least.
    """

    records: Outcomes
    declared: frozenset[str]
    num_others: int
    ledger_notes: tuple[str, ...] = ()
    foreign_cells: frozenset[str] = frozenset()

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of the records, in words."""
        return (*self.ledger_notes, *filter(None, [self.note_on_others]))

    @property
    def note_on_others(self) -> str:
        """How many records are left out because the sweep does not declare their trials; nothing where there are none."""
        if not self.num_others:
            return ""
        one = self.num_others == 1
        trials, are = ("trial", "is") if one else ("trials", "are")
        return f"{self.num_others} {trials} in the ledger that this sweep does not declare {are} kept there and left out here"


def read_results(run: RunDirectory, spec: SweepSpec | None = None, cells: Sequence[Cell] | None = None) -> Results:
    """The results of a run, of its own sweep file unless that is given; `cells` are the sweep's, where they are at hand.

    Raises:
        UserError: the ledger or the sweep cannot be read.
    """
    if cells is None:
        cells = expand(run.read_spec() if spec is None else spec)
    ledger = Ledger(run.ledger)
    with no_collection():  # a million rows that stay
        results = _collected(ledger.lines(), cells)
    return replace(results, ledger_notes=tuple(ledger.notes))


def _collected(lines: Iterable[Mapping[str, Any]], cells: Sequence[Cell]) -> Results:
    """The newest line of each declared trial, in the order in which trials first ended."""
    declared = Trials.joined([cell.trials for cell in cells])
    places = {trial_id: place for place, trial_id in enumerate(declared.trial_ids)}
    rows, row_of = Rows(), dict[int, int]()
    others: set[str] = set()
    samples: dict[str, Mapping[str, Any]] = {}
    for values in lines:
        place = places.get(values["trial_id"])
        if place is not None:
            row_of[place] = len(rows)
            rows.add(values)
        elif values["trial_id"] not in others:
            others.add(values["trial_id"])
            samples.setdefault(_family_of(values["config"]), values["config"])
    taken = declared.take(np.fromiter(row_of, dtype=np.int64, count=len(row_of)))
    known = {cell.cell_id for cell in cells}
    named = (cell_of(TrialConfig.model_validate(dict(config))) for config in samples.values())
    return Results(
        rows.outcomes(taken, list(row_of.values())),
        frozenset(places),
        len(others),
        foreign_cells=frozenset(named) - known,
    )


def _family_of(config: Mapping[str, Any]) -> str:
    """Equal for ledger configs that differ in width, seed and rate only."""
    model, optimizer = dict(config["model"]), dict(config["optimizer"])
    model.pop("width", None)
    optimizer.pop("lr", None)
    if "positions" in model and model["positions"].get("kind") != "one_hot":
        model["positions"] = {**model["positions"], "d_e": 0}
    return json.dumps({**config, "model": model, "optimizer": optimizer, "seed": 0}, sort_keys=True)
