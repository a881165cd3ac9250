"""Optuna studies in memory, for viewers: copies of those of a run's searches, or one for each cell made from the ledger.

A viewer that writes reaches neither the run nor a search that is running. Nothing is decided from these studies.
"""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

import optuna
from optuna.distributions import IntDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState, create_trial

from stsq_core.configs import UserError
from sweeps.cells import Cell
from sweeps.search.sampler import WIDTH
from sweeps.search.study_storage import database_file, open_storage
from sweeps.store import LedgerRecord, RunDirectory
from sweeps.thresholds import WidthThreshold

CELL_ID = "cell_id"
"""The attribute of a study that names its cell."""


def open_studies(run: RunDirectory, url: str | None = None) -> BaseStorage | None:
    """The storage that the searches of a run keep their studies in; None where the run has searched nothing.

    Args:
        run: the run directory.
        url: the storage that its sweep names, if it names one.

    Raises:
        UserError: that storage cannot be used, or is the file of a database that does not exist: to look makes none.
    """
    if url is not None:
        if (file := database_file(url)) is not None and not file.is_file():
            raise UserError(f"the Optuna storage {url!r} of {run.path} does not exist: run the sweep again to make it")
        return open_storage(url, run.studies)
    if not run.studies.is_file():
        return None  # asked first, because Optuna's backend makes the file that it does not find
    return JournalStorage(JournalFileBackend(str(run.studies)))


def copied_studies(storage: BaseStorage, names: Mapping[str, str]) -> InMemoryStorage:
    """All studies of a storage, in its order, some of them by other names; a name that is taken stands before the old one."""
    copies = InMemoryStorage()
    taken: set[str] = set()
    with quiet_optuna():
        for name in optuna.get_all_study_names(storage):
            shown = names.get(name, name)
            shown = f"{shown} ({name})" if shown in taken else shown
            taken.add(shown)
            optuna.copy_study(from_study_name=name, from_storage=storage, to_storage=copies, to_study_name=shown)
    return copies


def studies_of(cells: Sequence[Cell], thresholds: Iterable[WidthThreshold]) -> InMemoryStorage:
    """A study of every declared cell, named by its `cell_id`; cells that have no result yet have no trial.

    A trial is the width m and one seed, with the relative loss at the learning rate that its width was judged by; one without
    a number failed, and its attributes say how. A cell keeps its number while results come in, so that a viewer may go on
    looking at it.
    """
    measured = {threshold.cell_id: threshold for threshold in thresholds}
    storage = InMemoryStorage()
    for cell in cells:
        with quiet_optuna():
            study = optuna.create_study(storage=storage, study_name=cell.cell_id, direction="minimize")
        study.set_user_attr(CELL_ID, cell.cell_id)
        if cell.cell_id in measured:
            study.add_trials(_trials(measured[cell.cell_id]))
    return storage


def _trials(threshold: WidthThreshold) -> Iterator[FrozenTrial]:
    """The trials that a cell is judged by, in the order in which they ended."""
    chosen = threshold.points.take(threshold.points.chosen)
    widths = IntDistribution(min(threshold.widths), max(threshold.widths), log=True)
    for record in sorted(chosen.outcomes, key=lambda record: record.finished_at):
        yield _trial(record, widths)


def _trial(record: LedgerRecord, widths: IntDistribution) -> FrozenTrial:
    config = record.trial_config
    ended = datetime.fromisoformat(record.finished_at).astimezone().replace(tzinfo=None)  # Optuna's times are local
    attributes = {
        "seed": config.seed,
        "lr": config.optimizer.lr,
        "trial_id": record.trial_id,
        "status": record.status,
        "relative_loss_stderr": record.relative_loss_stderr,
        "reason": record.reason,
    }
    trial = create_trial(
        state=TrialState.FAIL if record.relative_loss is None else TrialState.COMPLETE,
        value=record.relative_loss,
        params={WIDTH: config.width},
        distributions={WIDTH: widths},
        user_attrs={name: value for name, value in attributes.items() if value is not None},
    )
    trial.datetime_start, trial.datetime_complete = ended - timedelta(seconds=record.seconds), ended
    return trial


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Make studies without a log line for each, and without warnings on what Optuna calls experimental."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(verbosity)
