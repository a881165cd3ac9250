"""Where Optuna studies are kept: a journal file in the run directory, a database, or a proxy to one.

Only the driver of a run writes there. The studies are a view of the ledger: what a kill tore is mended or made again from it.
"""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import optuna
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.storages import BaseStorage, GrpcStorageProxy, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend

from stsq_core.configs import UserError
from sweeps.store import cut_torn_line, disk_errors

GRPC = "grpc://"
LOCK_PATIENCE_S = 1.0
"""A lock of Optuna's journal is held for milliseconds; one that stays was left by a process that was killed."""

CREATE_TRIES = 5
"""Two drivers that make the tables of a new database at once: one of them finds them there and looks again."""


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
        return _open_database(url)


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
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
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
        except (ValueError, KeyError, AssertionError):
            path.replace(path.with_name(path.name + ".broken"))
            return JournalStorage(JournalFileBackend(str(path)))


def _remove_stale_lock(lock: Path) -> None:
    deadline = time.monotonic() + LOCK_PATIENCE_S
    while lock.is_symlink() and time.monotonic() < deadline:
        time.sleep(0.02)
    lock.unlink(missing_ok=True)
