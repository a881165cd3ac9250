"""Studies for viewers: what they hold, and that writing to them changes nothing in a run."""

import ast
import re
from collections.abc import Callable
from pathlib import Path

import optuna
import pytest
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState, create_trial

import sweeps.search
from stsq_core import TrialConfig
from sweeps import Cell, cell_of, describe
from sweeps.cells.trials import Trials
from sweeps.schema.spec import Criterion
from sweeps.search.study_storage import copied_studies, open_studies, studies_of
from sweeps.store.ledger import LedgerRecord, record_of_failure
from sweeps.store.run_directory import RunDirectory
from sweeps.thresholds.thresholds import width_thresholds

MakeTrial = Callable[..., TrialConfig]


def held(storage: BaseStorage) -> object:
    """Everything that a storage holds."""
    studies = [(study.study_name, study.user_attrs, study.system_attrs) for study in storage.get_all_studies()]
    return studies, storage.get_all_trials(0)


@pytest.fixture
def searched() -> InMemoryStorage:
    storage = InMemoryStorage()
    study = optuna.create_study(storage=storage, study_name="held", direction="minimize")
    study.set_user_attr("cell_id", "0123")
    study.enqueue_trial({"m": 8})
    study.ask().suggest_int("m", 4, 32)
    return storage


def test_a_copy_goes_by_another_name_and_holds_the_same_trials(searched: InMemoryStorage) -> None:
    copy = optuna.load_study(study_name="shown", storage=copied_studies(searched, {"held": "shown"}))
    assert copy.user_attrs == {"cell_id": "0123"}
    (trial,) = copy.trials
    assert (trial.params, trial.state) == ({"m": 8}, TrialState.RUNNING)


def test_what_is_written_to_a_copy_does_not_reach_the_searches(searched: InMemoryStorage) -> None:
    before = held(searched)
    copy = optuna.load_study(study_name="held", storage=copied_studies(searched, {}))
    copy.set_user_attr("note", "words")
    copy.tell(0, 0.5)
    copy.ask()
    assert held(searched) == before


def test_copies_keep_their_order_and_two_of_one_name_differ() -> None:
    storage = InMemoryStorage()
    for name in ("b", "a", "c"):
        optuna.create_study(storage=storage, study_name=name)
    copies = copied_studies(storage, {"b": "cell", "c": "cell"})
    assert optuna.get_all_study_names(copies) == ["cell", "a", "cell (c)"]
    assert optuna.get_all_study_names(copied_studies(storage, {}, only=["b", "c"])) == ["b", "c"]


def test_a_run_that_has_searched_nothing_has_no_studies_and_gets_no_file(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    assert open_studies(run) is None
    assert list(tmp_path.iterdir()) == []


def test_the_studies_of_a_search_are_read_from_its_journal_as_they_grow(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    study = optuna.create_study(storage=JournalStorage(JournalFileBackend(str(run.studies))), study_name="cell")
    storage = open_studies(run)
    assert storage is not None
    assert copied_studies(storage, {}).get_all_trials(0) == []
    study.add_trial(create_trial(value=0.5, params={}, distributions={}))
    assert [trial.value for trial in copied_studies(storage, {}).get_all_trials(0)] == [0.5]


def test_no_private_name_of_optuna_is_used() -> None:
    """A private name may go with any release of Optuna, and no type checker would notice."""
    tree = [node for file in Path(sweeps.search.__file__).parent.glob("*.py") for node in ast.walk(ast.parse(file.read_text()))]
    imported = [f"{node.module}.{name.name}" for node in tree if isinstance(node, ast.ImportFrom) for name in node.names]
    assert [name for name in imported if name.startswith("optuna") and "._" in name] == []
    reached = [ast.unparse(node) for node in tree if isinstance(node, ast.Attribute) and node.attr.startswith("_")]
    assert [name for name in reached if not re.match(r"self\.|.*\.__\w+__$", name)] == []


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
