"""Where Optuna studies are kept: a journal file in the run directory, a database, or a proxy to one; and copies for viewers.

Only the driver of a run writes to its studies. They are a view of the ledger: what a kill tore is mended or made again from it.
Viewers get studies in memory: copies of those of a run's searches, or one for each cell made from the ledger. A viewer that
writes reaches neither the run nor a search that is running, and nothing is decided from these studies.
"""

import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import quote

import optuna
from optuna.distributions import IntDistribution
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import BaseStorage, GrpcStorageProxy, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState, create_trial

from stsq_core.configs import UserError
from sweeps.cells import Cell
from sweeps.sampler import WIDTH
from sweeps.schema import PASSWORD_IN, without_password
from sweeps.store import Damage, LedgerRecord, RunDirectory, cut_torn_line, disk_errors, moved_away
from sweeps.thresholds import WidthThreshold

GRPC = "grpc://"
LOCK_PATIENCE_S = 1.0
"""A lock of Optuna's journal is held for milliseconds; one that stays was left by a process that was killed."""

CREATE_TRIES = 5
"""Two drivers that make the tables of a new database at once: one of them finds them there and looks again."""

BROKEN = (ValueError, TypeError, AttributeError, LookupError, AssertionError)
"""What Optuna raises for a journal with a damaged line."""

CELL_ID = "cell_id"
"""The attribute of a study that names its cell."""


def open_storage(url: str | None, journal: Path) -> BaseStorage:
    """The storage at a URL, or the journal file where there is none.

    Raises:
        UserError: it cannot be opened.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with storage_errors(url or str(journal)):
        if url is None:
            return _open_journal(journal)
        if url.startswith(GRPC):
            return _open_proxy(url)
        return _open_database(_with_password(url))


def _password() -> str | None:
    """The password of storages that the environment holds.

    Raises:
        UserError: the file of the password cannot be read.
    """
    if (path := os.environ.get(f"{PASSWORD_IN}_FILE")) and PASSWORD_IN not in os.environ:
        try:
            return Path(path).read_text(encoding="utf-8").rstrip("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise UserError(f"{PASSWORD_IN}_FILE={path}: the file of the storage's password cannot be read: {error}") from None
    return os.environ.get(PASSWORD_IN)


def _with_password(url: str) -> str:
    """The URL with the password of its user, where it has a user and the environment a password."""
    scheme, _, rest = url.partition("://")
    user, at, place = rest.partition("@")
    if not at or "/" in user or (password := _password()) is None:
        return url
    return f"{scheme}://{user}:{quote(password, safe='')}@{place}"


def database_file(url: str) -> Path | None:
    """The file of a database that is one file; None for a server, and for a database in memory."""
    scheme, _, place = url.partition(":///")
    path = place.partition("?")[0]
    return Path(path) if scheme.partition("+")[0] == "sqlite" and path not in ("", ":memory:") else None


@contextmanager
def storage_errors(place: str) -> Iterator[None]:
    """Turn a storage that cannot be used into a `UserError` that names it and what to do."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if not (isinstance(error, StorageInternalError | OSError | ImportError) or _is_of_a_client(error)):
            raise
        line = without_password((str(error).strip().splitlines() or [type(error).__name__])[0])
        raise UserError(
            f"the Optuna storage {place!r} cannot be used ({type(error).__name__}: {line}): every result is in the ledger; "
            "give another search.storage, or none to keep the studies in the run directory, and run again"
        ) from error


def _is_of_a_client(error: Exception) -> bool:
    """Whether an error comes from a database's or gRPC's client, which are only there where they are used."""
    return type(error).__module__.partition(".")[0] in ("sqlalchemy", "grpc", "sqlite3", "psycopg2", "pymysql")


def _open_database(url: str) -> BaseStorage:
    options = {"connect_args": {"timeout": 60}} if url.startswith("sqlite") else {}
    for left in reversed(range(CREATE_TRIES)):
        try:
            return RDBStorage(url, engine_kwargs=options)
        except Exception as error:
            if not left or not (isinstance(error, StorageInternalError) or _is_of_a_client(error)):
                raise
            time.sleep(0.3)
    raise AssertionError("unreachable")


def _open_proxy(url: str) -> BaseStorage:
    host, _, port = url.removeprefix(GRPC).rstrip("/").partition(":")
    if not host or not port.isdigit():
        raise UserError(f"a gRPC storage is grpc://HOST:PORT; got {url!r}: name the host and port of the proxy's server")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)  # the user has asked for it by name
        proxy = GrpcStorageProxy(host=host, port=int(port))
    proxy.wait_server_ready(timeout=30)
    return proxy


def _open_journal(path: Path) -> BaseStorage:
    """The studies of a journal file, mended: a torn last line is cut, a lock left behind removed, a broken file set aside."""
    with disk_errors(path):
        _remove_stale_lock(path.with_name(path.name + ".lock"))
        if path.exists():
            cut_torn_line(path)
        try:
            return JournalStorage(JournalFileBackend(str(path)))
        except BROKEN:
            path.replace(path.with_name(path.name + ".broken"))
            return JournalStorage(JournalFileBackend(str(path)))


def _remove_stale_lock(lock: Path) -> None:
    deadline = time.monotonic() + LOCK_PATIENCE_S
    while lock.is_symlink() and time.monotonic() < deadline:
        time.sleep(0.02)
    lock.unlink(missing_ok=True)


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
    try:
        return JournalStorage(JournalFileBackend(str(run.studies)))
    except (*BROKEN, OSError) as error:
        raise UserError(
            f"the studies in {run.studies} are damaged ({type(error).__name__}): the next `stsq run` makes them from the ledger"
        ) from None


def study_damage(run: RunDirectory) -> Iterator[Damage]:
    """Damage of the files by which a run keeps its searches; what is lost is made again from the ledger."""
    if run.identity.exists() and run.kept_owner() is None:
        what = f"{run.identity} is damaged: studies in the run directory are made anew from the ledger"
        yield Damage(what, moved_away(run.identity, run.studies) if run.studies.exists() else None)
    if run.studies.is_dir():
        yield Damage(f"{run.studies} is a directory in a file's place: it is moved away", moved_away(run.studies))
    try:
        open_studies(run)
    except UserError as error:
        yield Damage(str(error), moved_away(run.studies))


def copied_studies(storage: BaseStorage, names: Mapping[str, str], *, only: Sequence[str] | None = None) -> InMemoryStorage:
    """All studies of a storage, or `only` these, in order, some of them by other names; a name that is taken stands before the
    old one.
    """
    copies = InMemoryStorage()
    taken: set[str] = set()
    with quiet_optuna():
        for name in optuna.get_all_study_names(storage) if only is None else only:
            shown = names.get(name, name)
            shown = f"{shown} ({name})" if shown in taken else shown
            taken.add(shown)
            optuna.copy_study(from_study_name=name, from_storage=storage, to_storage=copies, to_study_name=shown)
    return copies


def studies_in(storage: BaseStorage) -> list[optuna.Study]:
    """All studies of a storage, in its order."""
    return [optuna.load_study(study_name=name, storage=storage) for name in optuna.get_all_study_names(storage)]


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
