"""A view of Optuna studies that cannot change them, with names and attributes of its own laid over them.

Whatever shows studies reads them through a view: a search that is running sees neither a write nor a lock.
"""

import warnings
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NoReturn

from optuna import logging
from optuna.exceptions import ExperimentalWarning
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import Study, StudyDirection
from optuna.study._frozen import FrozenStudy
from optuna.trial import FrozenTrial, TrialState

from stsq_core.configs import UserError
from sweeps.search.study_storage import database_file, open_storage
from sweeps.store import RunDirectory


@dataclass(frozen=True)
class Overlay:
    """What a view shows of one study in place of, or beside, what the study holds."""

    name: str
    system_attrs: Mapping[str, Any] = field(default_factory=dict)


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


def attributes_set_by(write: Callable[[Study], None], *, metric: str) -> dict[str, Any]:
    """The system attributes that `write` leaves in a study of one metric, taken from one that is thrown away."""
    scratch = InMemoryStorage()
    with unspoken():
        study_id = scratch.create_new_study([StudyDirection.MINIMIZE], "scratch")
        study = Study("scratch", scratch)
        study.set_metric_names([metric])
        write(study)
    return scratch.get_study_system_attrs(study_id)


@contextmanager
def unspoken() -> Iterator[None]:
    """Make studies without Optuna telling of each, and use what it calls experimental."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ExperimentalWarning)
            yield
    finally:
        logging.set_verbosity(verbosity)


class StudyView(BaseStorage):
    """Another storage, read-only, with overlays by study name; both may be replaced while it is in use."""

    def __init__(self, inner: BaseStorage, overlays: Mapping[str, Overlay] = MappingProxyType({})) -> None:
        self._inner = inner
        self.overlays = overlays

    def show(self, inner: BaseStorage, overlays: Mapping[str, Overlay]) -> None:
        """Go on with another storage and other overlays."""
        self._inner, self.overlays = inner, overlays

    def get_study_id_from_name(self, study_name: str) -> int:
        for held, overlay in self.overlays.items():
            if overlay.name == study_name:
                return self._inner.get_study_id_from_name(held)
        return self._inner.get_study_id_from_name(study_name)

    def get_study_name_from_id(self, study_id: int) -> str:
        held = self._inner.get_study_name_from_id(study_id)
        return self.overlays[held].name if held in self.overlays else held

    def get_study_directions(self, study_id: int) -> list[StudyDirection]:
        return self._inner.get_study_directions(study_id)

    def get_study_user_attrs(self, study_id: int) -> dict[str, Any]:
        return self._inner.get_study_user_attrs(study_id)

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        overlay = self.overlays.get(self._inner.get_study_name_from_id(study_id))
        return self._inner.get_study_system_attrs(study_id) | dict(overlay.system_attrs if overlay else {})

    def get_all_studies(self) -> list[FrozenStudy]:
        studies = sorted(self._inner.get_all_studies(), key=lambda study: study._study_id)
        return [
            FrozenStudy(
                study_name=self.get_study_name_from_id(study._study_id),
                direction=None,
                directions=study.directions,
                user_attrs=study.user_attrs,
                system_attrs=self.get_study_system_attrs(study._study_id),
                study_id=study._study_id,
            )
            for study in studies
        ]

    def get_trial(self, trial_id: int) -> FrozenTrial:
        return self._inner.get_trial(trial_id)

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        return self._inner.get_all_trials(study_id, deepcopy=deepcopy, states=states)

    def create_new_study(self, directions: Sequence[StudyDirection], study_name: str | None = None) -> NoReturn:
        raise _refused()

    def delete_study(self, study_id: int) -> NoReturn:
        raise _refused()

    def set_study_user_attr(self, study_id: int, key: str, value: Any) -> NoReturn:
        raise _refused()

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> NoReturn:
        raise _refused()

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> NoReturn:
        raise _refused()

    def set_trial_param(self, trial_id: int, param_name: str, param_value_internal: float, distribution: object) -> NoReturn:
        raise _refused()

    def set_trial_state_values(self, trial_id: int, state: TrialState, values: Sequence[float] | None = None) -> NoReturn:
        raise _refused()

    def set_trial_intermediate_value(self, trial_id: int, step: int, intermediate_value: float) -> NoReturn:
        raise _refused()

    def set_trial_user_attr(self, trial_id: int, key: str, value: Any) -> NoReturn:
        raise _refused()

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> NoReturn:
        raise _refused()


def _refused() -> UserError:
    return UserError("these studies are shown read-only: only `stsq run` writes them")
