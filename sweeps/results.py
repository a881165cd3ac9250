"""The results of a run: the ledger's records of the trials that its sweep declares now.

A ledger keeps every result it ever held, also of trials that a later form of the sweep no longer declares. Thresholds, laws,
figures and exit codes rest on the declared ones alone; the others are counted and told.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sweeps.expansion import cell_of
from sweeps.ledger import Ledger, LedgerRecord
from sweeps.plan import Cell, expand
from sweeps.run_directory import RunDirectory
from sweeps.spec import SweepSpec


@dataclass(frozen=True)
class Results:
    """Records of declared trials. `declared` names all trials that the sweep declares, ended or not.

    `ledger_notes` says what the ledger had to leave out when it was read, `num_others` counts the records of other trials.
    """

    records: tuple[LedgerRecord, ...]
    declared: frozenset[str]
    num_others: int
    ledger_notes: tuple[str, ...] = ()

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


def read_results(run: RunDirectory, spec: SweepSpec | None = None) -> Results:
    """The results of a run, of its own sweep file unless that is given.

    Raises:
        UserError: the ledger or the sweep cannot be read.
    """
    cells = expand(run.read_spec() if spec is None else spec)
    ledger = Ledger(run.ledger)
    records = ledger.read()
    return results_of(records, cells, ledger_notes=tuple(ledger.notes))


def results_of(records: Sequence[LedgerRecord], cells: Iterable[Cell], *, ledger_notes: tuple[str, ...] = ()) -> Results:
    """The results among a ledger's records that belong to the trials of these cells."""
    declared = frozenset(config.trial_id for cell in cells for config in cell.configs)
    own = tuple(record for record in records if record.trial_id in declared)
    return Results(own, declared, len(records) - len(own), ledger_notes)


def foreign_cells(records: Iterable[LedgerRecord], cells: Sequence[Cell]) -> frozenset[str]:
    """The cells that records belong to and that are not among these."""
    declared = {config.trial_id for cell in cells for config in cell.configs}
    names = {cell_of(record.trial_config) for record in records if record.trial_id not in declared}
    return frozenset(names - {cell.cell_id for cell in cells})
