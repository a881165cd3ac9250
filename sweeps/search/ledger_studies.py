"""The results of a sweep as Optuna studies in memory, for viewers of studies: one a cell, whatever declared its trials.

A trial is a point: the width m and one seed, with the relative loss at the learning rate that its width was judged by. A point
without a number failed, and its attributes say how. This is a projection for looking at: nothing is decided from it.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from optuna.distributions import IntDistribution
from optuna.storages import InMemoryStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from sweeps.cells import Cell
from sweeps.search.study_view import unspoken
from sweeps.store import LedgerRecord
from sweeps.thresholds import WidthThreshold

WIDTH = "m"
CELL_ID = "cell_id"
"""The attribute of a study that names its cell."""


def studies_of(cells: Sequence[Cell], thresholds: Iterable[WidthThreshold]) -> InMemoryStorage:
    """A study of every declared cell, named by its `cell_id`; cells that have no result yet have no trial.

    A cell keeps its number while results come in, so that a viewer may go on looking at it.
    """
    measured = {threshold.cell_id: threshold for threshold in thresholds}
    storage = InMemoryStorage()
    for cell in cells:
        with unspoken():
            study_id = storage.create_new_study([StudyDirection.MINIMIZE], cell.cell_id)
        storage.set_study_user_attr(study_id, CELL_ID, cell.cell_id)
        if cell.cell_id in measured:
            for trial in _trials(measured[cell.cell_id]):
                storage.create_new_trial(study_id, template_trial=trial)
    return storage


def _trials(threshold: WidthThreshold) -> Iterator[FrozenTrial]:
    """The points of a cell in the order in which they ended."""
    chosen = threshold.points.take(threshold.points.chosen)
    widths = IntDistribution(min(threshold.widths), max(threshold.widths), log=True)
    for record in sorted(chosen.outcomes, key=lambda record: record.finished_at):
        yield _trial(record, widths)


def _trial(record: LedgerRecord, widths: IntDistribution) -> FrozenTrial:
    config = record.trial_config
    ended = datetime.fromisoformat(record.finished_at).astimezone().replace(tzinfo=None)  # Optuna's times are local
    told = {
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
        user_attrs={name: value for name, value in told.items() if value is not None},
    )
    trial.datetime_start, trial.datetime_complete = ended - timedelta(seconds=record.seconds), ended
    return trial
