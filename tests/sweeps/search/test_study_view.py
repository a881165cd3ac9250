"""Views of studies: what they show, and that nothing can be written through them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import InMemoryStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import StudyDirection
from optuna.trial import TrialState, create_trial

from stsq_core import TrialConfig, UserError
from sweeps import Cell, cell_of, describe
from sweeps.cells.trials import Trials
from sweeps.schema.spec import Criterion
from sweeps.search.ledger_studies import studies_of
from sweeps.search.study_view import Overlay, StudyView, attributes_set_by, open_studies
from sweeps.store.ledger import LedgerRecord, record_of_failure
from sweeps.store.run_directory import RunDirectory
from sweeps.thresholds.thresholds import width_thresholds

MakeTrial = Callable[..., TrialConfig]


@pytest.fixture
def inner() -> InMemoryStorage:
    storage = InMemoryStorage()
    study = optuna.create_study(storage=storage, study_name="held", direction="minimize")
    study.set_user_attr("cell_id", "0123")
    study.enqueue_trial({"m": 8})
    study.ask().suggest_int("m", 4, 32)
    return storage


def held(storage: InMemoryStorage) -> object:
    """Everything that a storage holds."""
    studies = [(study.study_name, study.user_attrs, study.system_attrs) for study in storage.get_all_studies()]
    return studies, storage.get_all_trials(0)


def test_a_study_goes_by_the_name_and_the_attributes_laid_over_it(inner: InMemoryStorage) -> None:
    view = StudyView(inner, {"held": Overlay("shown", {"note": "words"})})
    (study,) = view.get_all_studies()
    assert (study.study_name, study.system_attrs["note"]) == ("shown", "words")
    assert view.get_study_id_from_name("shown") == view.get_study_id_from_name("held") == study._study_id
    loaded = optuna.load_study(study_name="shown", storage=view)
    assert [trial.params for trial in loaded.trials] == [{"m": 8}]
    assert loaded.user_attrs == {"cell_id": "0123"}
    assert inner.get_study_name_from_id(study._study_id) == "held"
    assert "note" not in inner.get_study_system_attrs(study._study_id)


def test_a_view_goes_on_with_another_storage(inner: InMemoryStorage) -> None:
    view = StudyView(InMemoryStorage())
    assert view.get_all_studies() == []
    view.show(inner, {})
    assert [study.study_name for study in view.get_all_studies()] == ["held"]


@pytest.mark.parametrize(
    "write",
    [
        lambda view: view.create_new_study([StudyDirection.MINIMIZE], "new"),
        lambda view: view.delete_study(0),
        lambda view: view.set_study_user_attr(0, "a", 1),
        lambda view: view.set_study_system_attr(0, "a", 1),
        lambda view: view.create_new_trial(0),
        lambda view: view.set_trial_param(0, "m", 4, None),
        lambda view: view.set_trial_state_values(0, TrialState.COMPLETE, [0.1]),
        lambda view: view.set_trial_intermediate_value(0, 1, 0.1),
        lambda view: view.set_trial_user_attr(0, "a", 1),
        lambda view: view.set_trial_system_attr(0, "a", 1),
    ],
)
def test_every_write_is_refused(inner: InMemoryStorage, write: Callable[[Any], None]) -> None:
    before = held(inner)
    with pytest.raises(UserError, match="read-only"):
        write(StudyView(inner))
    assert held(inner) == before


def test_a_run_that_has_searched_nothing_has_no_studies_and_gets_no_file(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    assert open_studies(run) is None
    assert list(tmp_path.iterdir()) == []


def test_the_studies_of_a_search_are_read_from_its_journal_as_they_grow(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    study = optuna.create_study(storage=JournalStorage(JournalFileBackend(str(run.studies))), study_name="cell")
    storage = open_studies(run)
    assert storage is not None
    view = StudyView(storage)
    assert view.get_all_trials(0) == []
    study.add_trial(create_trial(value=0.5, params={}, distributions={}))
    assert [trial.value for trial in view.get_all_trials(0)] == [0.5]


def test_attributes_are_taken_from_a_study_that_is_thrown_away() -> None:
    told = attributes_set_by(lambda study: study._storage.set_study_system_attr(study._study_id, "a", 1), metric="loss")
    assert told["a"] == 1
    assert ["loss"] in told.values()


def test_the_studies_of_a_ledger_have_a_trial_a_point(transformer: MakeTrial, record: Callable[..., LedgerRecord]) -> None:
    configs = [transformer(d_e=d_e, seed=seed, lr=lr) for d_e in (4, 8) for seed in (0, 1) for lr in (0.1, 0.3)]
    records = [record(config) for config in configs[:-1]]
    records.append(record_of_failure(configs[-1], "lost worker", pack_id="p", device="cpu"))
    other = transformer(T=20)
    cells = [Cell(cell_of(c), "g", describe(c), Trials.of([c])) for c in (other, configs[0])]
    storage = studies_of(cells, width_thresholds(records, Criterion()))
    empty, study = storage.get_all_studies()
    assert (empty.study_name, storage.get_all_trials(empty._study_id)) == (cells[0].cell_id, [])
    trials = storage.get_all_trials(study._study_id)
    chosen = {trial.user_attrs["lr"] for trial in trials}
    assert len(chosen) == 1
    assert sorted((trial.params["m"], trial.user_attrs["seed"]) for trial in trials) == [
        (config.width, config.seed) for config in configs if config.optimizer.lr in chosen
    ]
    by_id = {record.trial_id: record for record in records}
    for trial in trials:
        record = by_id[trial.user_attrs["trial_id"]]
        assert trial.user_attrs["status"] == record.status
        assert trial.state == (TrialState.FAIL if record.relative_loss is None else TrialState.COMPLETE)
        assert trial.value == record.relative_loss
