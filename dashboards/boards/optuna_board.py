"""optuna-dashboard on the studies of a run, with notes and figures filled in: on this machine only, and read-only.

A run that searches shows the studies of its searches as they grow; any other run shows a study a cell, made from its ledger.
"""

import signal
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from dashboards.boards.extras import load_extra
from stsq_core.configs import UserError
from sweeps.findings import read_findings
from sweeps.search import Overlay, StudyView, open_studies, studies_of
from sweeps.store import RunDirectory, open_run
from sweeps.thresholds import width_thresholds

LOOPBACK = "127.0.0.1"
REFRESH_S = 5.0
OWN_NAMES = (LOOPBACK, "localhost")
SAFE = ("GET", "HEAD")

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def open_optuna(run_path: Path | str, *, port: int = 0, say: Callable[[str], None]) -> None:
    """Serve optuna-dashboard for a run until Ctrl-C or SIGTERM; `say` is told the address.

    Raises:
        UserError: it is no run, optuna-dashboard is missing, or the port is taken.
    """
    with OptunaBoard(run_path, port=port) as board:
        for number in (signal.SIGINT, signal.SIGTERM):  # named, because a shell's background job starts with Ctrl-C ignored
            signal.signal(number, lambda *_: board.stop())
        say(f"optuna-dashboard of {run_path}: {board.url} (read-only; Ctrl-C ends it)")
        board.wait()
        say("ended")


class OptunaBoard:
    """A server that shows the studies of one run while it is entered."""

    def __init__(self, run_path: Path | str, *, port: int = 0) -> None:
        self._run = open_run(run_path)
        dashboard = load_extra("optuna_dashboard", extra="boards", what="`stsq open optuna`")
        self._seen: object = None
        self._view = StudyView(*self._look())
        self._server = _listen(port, guarded(dashboard.wsgi(self._view)))
        self._stopped = threading.Event()

    @property
    def url(self) -> str:
        """Where the server listens."""
        return f"http://{LOOPBACK}:{self._server.server_address[1]}"

    def refresh(self) -> None:
        """Show what the run has got since the last look."""
        if self._seen != _stamp(self._run):
            self._view.show(*self._look())

    def wait(self) -> None:
        """Keep what is shown up to date until the board is stopped."""
        took = 0.0
        while not self._stopped.wait(max(REFRESH_S, 4 * took)):  # at most a fifth of the time, the rest is the training's
            began = time.monotonic()
            self.refresh()
            took = time.monotonic() - began

    def stop(self) -> None:
        """End `wait`."""
        self._stopped.set()

    def __enter__(self) -> "OptunaBoard":
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._server.shutdown()
        self._server.server_close()

    def _look(self) -> tuple[Any, Mapping[str, Overlay]]:
        """The storage to show, and what is laid over its studies."""
        from dashboards.boards.study_notes import overlays_of

        self._seen = _stamp(self._run)
        findings = read_findings(self._run.path)
        cells = findings.cells
        thresholds = findings.thresholds or width_thresholds(findings.records, findings.spec.criterion)
        storage = open_studies(self._run, findings.spec.search.storage) or studies_of(cells, thresholds)
        studies = study_cells(
            [(study.study_name, study.user_attrs) for study in storage.get_all_studies()], [cell.cell_id for cell in cells]
        )
        return storage, overlays_of(findings, cells, thresholds, studies)


def study_cells(studies: Iterable[tuple[str, Mapping[str, Any]]], cell_ids: Iterable[str]) -> dict[str, str]:
    """The `cell_id` by study name, of studies whose name or attributes name a cell; others are shown as they are."""
    known = tuple(cell_ids)
    found = {}
    for name, attributes in studies:
        told = {name, *(value for value in attributes.values() if isinstance(value, str))}
        if of_study := [cell_id for cell_id in known if any(cell_id in words for words in told)]:
            found[name] = of_study[0]
    return found


def guarded(app: Wsgi) -> Wsgi:
    """An application that takes reading requests only, and only under this machine's own names.

    The names keep out a page elsewhere whose host name was pointed at this machine.
    """

    def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        host = environ.get("HTTP_HOST", "").rpartition(":")[0] or environ.get("HTTP_HOST", "")
        if host not in OWN_NAMES:
            return _refuse(start, "403 Forbidden", f"ask for {LOOPBACK} or localhost")
        if environ["REQUEST_METHOD"] not in SAFE:
            return _refuse(start, "405 Method Not Allowed", "this view is read-only")
        return app(environ, start)

    return answer


def _refuse(start: Callable[..., Any], status: str, reason: str) -> Iterable[bytes]:
    start(status, [("Content-Type", "application/json"), ("Allow", ", ".join(SAFE))])
    return [f'{{"reason": "{reason}"}}'.encode()]


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
        pass


def _listen(port: int, app: Wsgi) -> WSGIServer:
    try:
        return make_server(LOOPBACK, port, app, server_class=_Server, handler_class=_Quiet)
    except OSError as error:
        raise UserError(f"cannot listen on port {port} of {LOOPBACK}: {error.strerror}; give another --port, or 0") from None


def _stamp(run: RunDirectory) -> object:
    """Changes when the run has got new results, a new study or another form of its sweep."""
    return tuple(path.stat().st_size if path.exists() else 0 for path in (run.ledger, run.studies, run.spec))
