"""Where studies are kept: journals that a kill tore, databases that several drivers share, and storages that cannot be used."""

import json
import socket
import threading

import optuna
import pytest
from optuna.storages import run_grpc_proxy_server

from stsq_core import UserError
from sweeps.cells import load_sweep
from sweeps.cells.loading import CATALOG
from sweeps.search.study_storage import open_storage


def printed(study, num):
    for number in range(num):
        trial = study.ask()
        trial.suggest_int("m", 4, 256, log=True)
        trial.set_user_attr("seed", number)
        study.tell(trial, 0.5)


def study_of(path, name="one"):
    return optuna.create_study(storage=open_storage(None, path), study_name=name, load_if_exists=True)


@pytest.mark.parametrize("torn", ['{"op_code": 6, "worker_id": "x', '{"op_code": 6}\n{"op_', "\0\0\0"])
def test_a_torn_last_line_is_cut_and_the_journal_goes_on(tmp_path, torn):
    path = tmp_path / "study.journal"
    printed(study_of(path), 3)
    whole = path.read_bytes()
    last = torn.rpartition("\n")[2]
    path.write_bytes(whole + last.encode())
    study = study_of(path)
    assert len(study.trials) == 3
    printed(study, 2)
    assert len(study_of(path).trials) == 5
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_a_lock_that_a_killed_process_left_does_not_hold_up_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr("sweeps.search.study_storage.LOCK_PATIENCE_S", 0.1)
    path = tmp_path / "study.journal"
    printed(study_of(path), 1)
    (tmp_path / "study.journal.lock").symlink_to(path)
    printed(study_of(path), 1)
    assert len(study_of(path).trials) == 2


def test_a_journal_that_cannot_be_read_is_set_aside(tmp_path):
    path = tmp_path / "study.journal"
    path.write_text('not a journal\n{"op_code": 1}\n')
    assert study_of(path).trials == []
    assert (tmp_path / "study.journal.broken").read_text().startswith("not a journal")


def test_two_drivers_open_one_new_database_at_once(tmp_path):
    url = f"sqlite:///{tmp_path / 'studies.db'}"
    failed = []

    def drive(name):
        try:
            study = optuna.create_study(storage=open_storage(url, tmp_path), study_name=name)
            printed(study, 4)
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=drive, args=(f"sweep-{number}",)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert [len(optuna.load_study(study_name=f"sweep-{n}", storage=url).trials) for n in range(2)] == [4, 4]


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("grpc://nowhere", "a gRPC storage is grpc://HOST:PORT; got 'grpc://nowhere'"),
        ("sqlite:////no/such/folder/x.db", "the Optuna storage 'sqlite:////no/such/folder/x.db' cannot be used"),
        ("mysterious://x", "the Optuna storage 'mysterious://x' cannot be used"),
    ],
)
def test_a_storage_that_cannot_be_used_is_refused_in_words(tmp_path, url, words, monkeypatch):
    monkeypatch.setattr("sweeps.search.study_storage.time.sleep", lambda seconds: None)  # it is tried again at once
    with pytest.raises(UserError) as refused:
        open_storage(url, tmp_path / "study.journal")
    assert words in str(refused.value)


@pytest.mark.slow
def test_a_proxy_serves_a_search(tmp_path, hunt, simulated):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    storage = open_storage(None, tmp_path / "served.journal")
    where = {"host": "localhost", "port": port}
    threading.Thread(target=run_grpc_proxy_server, args=(storage,), kwargs=where, daemon=True).start()
    one = hunt(f"search.storage=grpc://localhost:{port}", "search.cap=8")
    assert one.go(simulated).finished
    assert not one.run.studies.exists()
    (study,) = one.studies()
    assert len(study.trials) == 8


@pytest.mark.slow
def test_two_sweeps_on_one_storage_have_two_studies(tmp_path, hunt, simulated):
    """Scenario 23: two sweeps on one storage: two studies."""
    url = f"search.storage=sqlite:///{tmp_path / 'studies.db'}"
    for name in ("one", "two"):
        assert hunt(url, "search.cap=8", f"name={name}", name=name).go(simulated).finished
    names = optuna.get_all_study_names(url.removeprefix("search.storage="))
    assert len(names) == 2
    assert {name.split("-")[0] for name in names} == {"one", "two"}


def test_a_study_of_another_run_directory_is_refused(tmp_path, hunt, simulated):
    url = f"search.storage=sqlite:///{tmp_path / 'studies.db'}"
    hunt(url, "search.cap=8").go(simulated)
    with pytest.raises(UserError, match="of another run directory: give this sweep another name"):
        hunt(url, "search.cap=8", name="elsewhere").go(simulated)


URL = "postgresql+psycopg2://lab:s3cret/@x@host:5432/studies"


def test_a_password_comes_from_the_environment_or_a_file_and_goes_to_the_database_alone(monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr("sweeps.search.study_storage.RDBStorage", lambda url, **_: opened.append(url))
    bare = "postgresql://lab@host:5432/studies"
    open_storage(bare, tmp_path)
    monkeypatch.setenv("STSQ_STORAGE_PASSWORD_FILE", str(tmp_path / "password"))
    with pytest.raises(UserError, match="the file of the storage's password cannot be read"):
        open_storage(bare, tmp_path)
    (tmp_path / "password").write_text("p@ss/w\n")
    open_storage(bare, tmp_path)
    monkeypatch.setenv("STSQ_STORAGE_PASSWORD", "other")
    open_storage(bare, tmp_path)
    open_storage(f"sqlite:///{tmp_path}/a@b.db", tmp_path)
    assert opened == [
        bare,
        *(bare.replace("lab", f"lab:{own}") for own in ("p%40ss%2Fw", "other")),
        f"sqlite:///{tmp_path}/a@b.db",
    ]


def test_an_error_of_the_database_does_not_tell_the_password(monkeypatch, tmp_path):
    def refuse(url, **_):
        raise OSError(f"cannot reach {url}")

    monkeypatch.setattr("sweeps.search.study_storage.RDBStorage", refuse)
    monkeypatch.setenv("STSQ_STORAGE_PASSWORD", "s3cret/")
    with pytest.raises(UserError) as refused:
        open_storage("mysql://lab@host/studies", tmp_path)
    assert "s3cret" not in str(refused.value)
    assert "mysql://lab@host/studies" in str(refused.value)


@pytest.mark.parametrize("in_file", [True, False], ids=["file", "setting"])
def test_a_password_in_a_url_is_refused_and_not_told(tmp_path, in_file):
    sweep = tmp_path / "sweep.yaml"
    text = (CATALOG / "quickstart.yaml").read_text()
    sweep.write_text(f"{text}\nsearch: {{storage: '{URL}'}}\n" if in_file else text)
    with pytest.raises(UserError, match=r"set STSQ_STORAGE_PASSWORD .* and give 'postgresql\+psycopg2://lab@host") as refused:
        load_sweep(sweep, [] if in_file else [f"search.storage={URL}"])
    assert "s3cret" not in str(refused.value)
