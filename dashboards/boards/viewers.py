"""Viewers of other projects on a run, on this machine: optuna-dashboard on its studies, W&B's terminal viewer on its files.

A run that searches shows the studies of its searches as they grow, with a note and figures for each, read-only; any other run
shows a study a cell, made from its ledger. `wandb leet` shows the offline files with no account and no server.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import plotly.graph_objects as go

from dashboards.boards.extras import load_extra
from dashboards.page import plotly_spec
from dashboards.plots import (
    CellView,
    Chart,
    cell_views,
    curve_charts,
    loss_charts,
    read_shown_curves,
    threshold_charts,
)
from dashboards.words import STATUS_WORDS, interval_text, whole_letter
from stsq_core.configs import UserError
from sweeps.cells import Cell
from sweeps.findings import Findings, read_findings
from sweeps.search import copied_studies, open_studies, quiet_optuna, studies_in, studies_of
from sweeps.store import RunDirectory, open_run
from sweeps.thresholds import WidthThreshold, width_thresholds

LOOPBACK = "127.0.0.1"
REFRESH_S = 5.0
OWN_NAMES = (LOOPBACK, "localhost")
SAFE = ("GET", "HEAD")

Start = Callable[[Sequence[str], Mapping[str, str]], int]
Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def open_optuna(run_path: Path | str, *, port: int = 0, say: Callable[[str], None]) -> None:
    """Serve optuna-dashboard for a run until Ctrl-C or SIGTERM; `say` gets the address.

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
        self._wsgi = dashboard.wsgi
        self._seen: object = None
        self._is_elsewhere = False
        self.refresh()
        self._server = _listen(port, guarded(lambda environ, start: self._app(environ, start)))
        self._stopped = threading.Event()

    @property
    def url(self) -> str:
        """Where the server listens."""
        return f"http://{LOOPBACK}:{self._server.server_address[1]}"

    def refresh(self) -> None:
        """Show the run again if it has changed since the last look; studies in a storage elsewhere change unseen."""
        if self._seen != (stamp := _stamp(self._run)) or self._is_elsewhere:
            self._app: Wsgi = self._wsgi(self._studies())
            self._seen = stamp

    def wait(self) -> None:
        """Refresh until the board is stopped."""
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

    def _studies(self) -> Any:
        """Copies of the run's studies, named by the labels of their cells, with notes and figures."""
        findings = read_findings(self._run.path)
        cells = findings.cells
        thresholds = findings.thresholds or width_thresholds(findings.records, findings.spec.criterion)
        self._is_elsewhere = findings.spec.search.storage is not None
        storage = open_studies(self._run, findings.spec.search.storage) or studies_of(cells, thresholds)
        held = studies_in(storage)
        named = study_cells([(study.study_name, study.user_attrs) for study in held], [cell.cell_id for cell in cells])
        labels = {cell.cell_id: cell.label for cell in cells}
        shown = {name: labels[cell_id] for name, cell_id in named.items()}
        copies = copied_studies(storage, shown, only=[study.study_name for study in held])  # a search may add one meanwhile
        pairs = zip(held, studies_in(copies), strict=True)
        annotate(findings, thresholds, [(named[own.study_name], copy) for own, copy in pairs if own.study_name in named])
        return copies


def study_cells(studies: Iterable[tuple[str, Mapping[str, Any]]], cell_ids: Iterable[str]) -> dict[str, str]:
    """The `cell_id` by study name, of studies whose name or attributes name a cell; others are shown as they are."""
    known = tuple(cell_ids)
    found = {}
    for name, attributes in studies:
        texts = {name, *(value for value in attributes.values() if isinstance(value, str))}
        if named := [cell_id for cell_id in known if any(cell_id in text for text in texts)]:
            found[name] = named[0]
    return found


def guarded(app: Wsgi) -> Wsgi:
    """An application that takes reading requests only, and only under this machine's names.

    So a page elsewhere whose host name was pointed at this machine (DNS rebinding) is refused.
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
    """A value that changes with new results, a new study or another form of the sweep."""
    return tuple(path.stat().st_size if path.exists() else 0 for path in (run.ledger, run.studies, run.spec))


def annotate(findings: Findings, thresholds: Iterable[WidthThreshold], studies: Iterable[tuple[str, Any]]) -> None:
    """Write note and figures of its cell into each study; `studies` come with the cell_id of their cell."""
    from optuna_dashboard import save_note, save_plotly_graph_object  # comes with an extra

    measured = {threshold.cell_id: threshold for threshold in reversed(tuple(thresholds))}  # of several targets the first
    views = {view.threshold.cell_id: view for view in cell_views(tuple(measured.values()), read_shown_curves(findings))}
    words = findings.spec.criterion.size.threshold_words.capitalize()
    charts = threshold_charts(findings.regimes)
    overview = {f"thresholds-{place}": _titled(chart, f"{words}: {chart.title}") for place, chart in enumerate(charts)}
    by_id = {cell.cell_id: cell for cell in findings.cells}
    with quiet_optuna():
        for cell_id, study in studies:
            study.set_metric_names([findings.spec.criterion.measure])
            save_note(study, note(findings, by_id[cell_id], measured.get(cell_id)))
            for name, figure in (_figures(views.get(cell_id)) | overview).items():
                save_plotly_graph_object(study, figure, graph_object_id=name)


def note(findings: Findings, cell: Cell, threshold: WidthThreshold | None) -> str:
    """The note on a cell, in Markdown."""
    criterion = findings.spec.criterion
    widths, share = cell.widths, f"{criterion.success_rate:.0%} of the seeds"
    rows = [
        ("sweep", f"{findings.spec.heading} ({findings.run.path.name})"),
        ("hypothesis", findings.spec.hypothesis),
        ("solved", f"{criterion.measure} at most {criterion.target_words} in {share}"),
        (f"{criterion.size.nouns} declared", f"{widths[0]} to {widths[-1]}" if len(widths) > 1 else str(widths[0])),
        *_measured(threshold),
    ]
    table = "\n".join(f"| {name} | {_cell(text)} |" for name, text in rows)
    return (
        f"## {_cell(cell.label)}\n\n| | |\n|---|---|\n{table}\n\nCell `{cell.cell_id}`. This view changes nothing in the run.\n"
    )


def _measured(threshold: WidthThreshold | None) -> list[tuple[str, str]]:
    if threshold is None:
        return [("threshold", "nothing measured yet")]
    words = {
        "found": f"{threshold.size.letter}\\* = {threshold.m_star:.2f}, so {whole_letter(threshold.size)} = {threshold.M}"
        if threshold.m_star is not None
        else "",
        "above_range": f"above {max(threshold.widths)}, the largest tried",
        "below_range": f"at or below {min(threshold.widths)}, the least tried",
    }.get(threshold.status, STATUS_WORDS[threshold.status])
    return [
        (threshold.size.threshold_words, words),
        (f"{threshold.level:.0%} interval", interval_text(threshold)),
        ("seeds", str(threshold.num_seeds)),
        ("trials", f"{threshold.num_trials}, of which {threshold.num_diverged} diverged and {threshold.num_failed} failed"),
        *([("remark", threshold.note)] if threshold.note else []),
    ]


def _cell(text: str) -> str:
    """Text in a Markdown table: on one line, with the letters escaped that would end the cell, start code or make a link."""
    return "".join(f"\\{letter}" if letter in "|`[]<>" else letter for letter in " ".join(text.split()))


def _figures(view: CellView | None) -> dict[str, go.Figure]:
    if view is None:
        return {}
    size, [losses] = view.threshold.size, loss_charts([view])
    figures = {"loss-against-width": _titled(losses, f"Loss against {size.quantity}")}
    if view.curves:
        [curves] = curve_charts([view])
        figures["loss-through-training"] = _titled(curves, f"Loss through training of each {size.noun}")
    return figures


def _titled(chart: Chart, title: str) -> go.Figure:
    """A chart with the title that the page shows outside of the figure."""
    figure = go.Figure(plotly_spec(chart))
    figure.update_layout(title=title, margin={"l": 64, "b": 52, "t": 48})
    return figure


def leet_command(run_path: Path | str) -> tuple[str, ...]:
    """The command that shows a run's offline files.

    Raises:
        UserError: it is no run, or it has no W&B file.
    """
    run = open_run(run_path)
    if not any(run.wandb.glob("*run-*/*.wandb")):
        raise UserError(
            f"{str(run.wandb)!r} holds no W&B file: nothing was published from {str(run.path)!r} yet, or W&B was disabled;"
            " run the sweep again with --wandb offline, which trains no trial again and writes the files"
        )
    return (sys.executable, "-P", "-m", "wandb", "leet", str(run.wandb))  # imports nothing from where the user stands


def open_leet(run_path: Path | str, *, start: Start | None = None) -> int:
    """Show a run's offline files in this terminal until the viewer is left; returns its exit code.

    Raises:
        UserError: as `leet_command`, or standard output is no terminal, which the viewer needs.
    """
    command = leet_command(run_path)
    if start is None and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UserError(f"`wandb leet` draws in a terminal and this is none: open one and run {' '.join(command[3:])!r} there")
    # the viewer reads files, so it sends nothing to a server
    return (start or _run)(command, {**os.environ, "WANDB_ERROR_REPORTING": "false"})


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    return subprocess.run(command, env=environment, check=False).returncode
