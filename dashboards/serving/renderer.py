"""Draws the pages of runs into a folder, the shelf, again whenever a run has changed, until its standard input ends.

`python -m dashboards.serving.renderer FOLDER RUN [RUN ...]`, or a folder of runs for a run, started by `server`. It runs at
low priority and takes about `SHARE` of one core's time at most, so that a sweep on the same cores hardly notices.
"""

import contextlib
import hashlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from dashboards.page import (
    Compared,
    Contents,
    Document,
    RunSummary,
    comparison_of,
    contents_of,
    footer,
    heading,
    index_of,
    live_html,
    page_section,
    progress_section,
    summary_of,
    write_figures,
    write_tables,
)
from dashboards.words import Html, element, ended_words, left_words
from stsq_core.configs import UserError
from sweeps.findings import Findings, KnownThresholds, Progress, ProgressSource, progress_source, read_findings, read_progress
from sweeps.store import RunDirectory, holds_runs, runs_in, write_atomically

SHARE = 0.2
"""Upper limit on the share of one core's time: for the whole page as results come in, and apart from it for the progress."""

LEAST_PAUSE_S = 1.0
NICENESS = 10


def render(folder: Path, runs: Sequence[str], *, wait: Callable[[float], bool]) -> None:
    """Draw the pages until `wait(seconds)` is true.

    The page of one run lies in `folder`; of several runs the comparison does, and their pages in `folder/runs/1` and so on.
    """
    if len(runs) == 1:
        views = [RunView(runs[0], View(folder, root=""))]
    else:
        views = [RunView(run, View(folder / "runs" / str(place), root="../../")) for place, run in enumerate(runs, start=1)]
    comparison = ComparisonView(views, View(folder, root="")) if len(runs) > 1 else None
    draw_after = 0.0
    while True:
        began = time.process_time()
        drawn = [view.refresh(draw=time.monotonic() >= draw_after) for view in views]
        if comparison is not None and any(drawn):
            comparison.draw()
        for view, again in zip(views, drawn, strict=True):
            if again:
                view.draw_figures()
        rest = (time.process_time() - began) * (1 - SHARE) / SHARE
        if any(drawn):
            draw_after = time.monotonic() + rest
        if wait(LEAST_PAUSE_S if any(drawn) else max(LEAST_PAUSE_S, rest)):
            return


def render_index(shelf: Path, folder: str, *, wait: Callable[[float], bool]) -> None:
    """Draw the list of a folder's runs until `wait(seconds)` is true, and the page of each run that a reader has asked for."""
    index, read_after = IndexView(folder, shelf), 0.0
    while True:
        began = time.process_time()
        index.draw_wanted()
        is_reading = time.monotonic() >= read_after and index.read_one()
        if not is_reading:
            read_after = time.monotonic() + (time.process_time() - began) * (1 - SHARE) / SHARE
        if wait(0.0 if is_reading else LEAST_PAUSE_S):
            return


def main(arguments: Sequence[str]) -> None:
    """Render until the process that started this one closes its end of the pipe, or ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both; the server ends this process in order
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    over = threading.Event()

    def wait_for_end_of_input() -> None:
        sys.stdin.read()
        over.set()

    threading.Thread(target=wait_for_end_of_input, daemon=True).start()
    shelf, runs = Path(arguments[0]), arguments[1:]
    if len(runs) == 1 and holds_runs(runs[0]):
        render_index(shelf, runs[0], wait=over.wait)
    else:
        render(shelf, runs, wait=over.wait)


class View:
    """One page of the shelf, with its parts, its state and the files to download; `root` is the path from it to the scripts.

    A file is replaced whole. The parts are written before the state, which names them by their content, and the state before
    the page: a reader that has a page finds its state, and one that has a state finds its parts, or newer ones.
    """

    def __init__(self, folder: Path, *, root: str) -> None:
        self.folder = folder
        self._root = root
        self._hashes: dict[str, str] = {}
        (folder / "parts").mkdir(parents=True, exist_ok=True)

    def put(self, document: Document, *, words: str, running: bool) -> None:
        """Show a document, its state in words and whether the run is running; only parts that changed are written."""
        parts = document.parts
        hashes = {name: hashlib.sha256(html.encode()).hexdigest()[:16] for name, html in parts.items()}
        for name, html in parts.items():
            if self._hashes.get(name) != hashes[name]:
                write_atomically(self.folder / "parts" / f"{name}.html", html.encode())
        state = {"parts": list(hashes.items()), "pulse": words, "running": running, "drawn_at": time.time()}
        write_atomically(self.folder / "state.json", json.dumps(state).encode())
        if hashes != self._hashes:
            write_atomically(self.folder / "index.html", live_html(document, hashes, root=self._root).encode())
        self._hashes = hashes


class RunView:
    """One run as it was last read, and its page: only what has changed is drawn again."""

    def __init__(self, given: str, view: View) -> None:
        self.given = given
        self._run = RunDirectory(Path(given))
        self._view = view
        self._known: KnownThresholds = {}
        self._findings: Findings | None = None
        self._contents: Contents | None = None
        self._progress: Progress | None = None
        self._source: ProgressSource | None = None
        self._drawn: object = None
        self._results: object = None
        self._last_activity: object = None

    def refresh(self, *, draw: bool = True) -> bool:
        """Read the run and show what has changed; true if new results were drawn.

        Without `draw` only the progress is updated, from the ledger as it is now, and the rest of the page waits.
        """
        results, activity = _stamp([self._run.spec, self._run.ledger]), _activity(self._run)
        is_new = results != self._drawn and (draw or self._drawn is None)
        if not is_new and (results, activity) == (self._results, self._last_activity):
            return False
        if results != self._results:
            self._source = None
        is_drawn = is_new
        try:
            self._look(is_new)
        except UserError as error:
            self._view.put(_unreadable(self.given, str(error)), words=f"{self.given} cannot be read", running=False)
            is_drawn = False
        self._results, self._last_activity = results, activity
        self._drawn = results if is_new else self._drawn
        return is_drawn

    def draw_figures(self) -> None:
        """Draw the figures for papers; last, because they take long and the page does not need them."""
        if self._contents is not None:
            write_figures(self._contents.figures, self._view.folder)

    @property
    def compared(self) -> Compared | None:
        """The run for a comparison; None before it could be read."""
        if self._findings is None or self._progress is None:
            return None
        return Compared(self.given, self._findings, self._progress)

    def _look(self, is_new: bool) -> None:
        if is_new or self._findings is None:
            self._findings = read_findings(self._run.path)
            self._source = self._findings.progress_basis
        findings = self._findings
        self._source = self._source or progress_source(self._run)
        self._progress = read_progress(self._run, self._source)
        if is_new or self._contents is None:
            write_tables(findings, self._view.folder)
            self._contents = contents_of(findings, self._progress, given=self.given, known=self._known)
        else:
            self._contents = self._contents.with_section(progress_section(self._progress, thresholds=findings.thresholds))
        document = Document(findings.spec.heading, heading(findings), self._contents.sections, footer(self.given))
        words, running = headline(self._progress)
        self._view.put(document, words=words, running=running)


class ComparisonView:
    """The page that compares several runs."""

    def __init__(self, runs: Sequence[RunView], view: View) -> None:
        self._runs = runs
        self._view = view

    def draw(self) -> None:
        """Draw it from the last reading of the runs."""
        readable = [
            (f"runs/{place}/", one) for place, run in enumerate(self._runs, start=1) if (one := run.compared) is not None
        ]
        unreadable = [run.given for run in self._runs if run.compared is None]
        compared = [one for _, one in readable]
        document = comparison_of(compared, pages=[page for page, _ in readable])
        words = f"{len(compared)} runs compared" + (f"; {', '.join(unreadable)} cannot be read" if unreadable else "")
        self._view.put(document, words=words, running=any(one.progress.holder for one in compared))


class IndexView:
    """The page that lists the runs of a folder, whose own pages lie in `runs/1` and so on.

    A page is drawn once the server has made the file `wanted` beside it, because somebody asked for it.
    """

    def __init__(self, folder: str, shelf: Path) -> None:
        self._folder = folder
        self._shelf = shelf
        self._view = View(shelf, root="")
        self._places: dict[Path, int] = {}
        self._told: dict[Path, tuple[object, RunSummary]] = {}
        self._pages: dict[Path, RunView] = {}

    def read_one(self) -> bool:
        """Read a run that is new or has changed, and show it in the list; false where there is none."""
        with contextlib.suppress(UserError):  # the folder was removed or is away: what is known of it stays
            runs = {run.path: run for run in runs_in(self._folder)}
            is_shorter = bool(self._told.keys() - runs.keys())
            self._told = {path: told for path, told in self._told.items() if path in runs}
            for path, run in runs.items():
                stamp = _stamp([run.spec, run.ledger]), _activity(run)
                if path not in self._told or self._told[path][0] != stamp:
                    self._places.setdefault(path, len(self._places) + 1)
                    self._place(path).mkdir(parents=True, exist_ok=True)
                    self._told[path] = stamp, summary_of(run)
                    self._put()
                    return True
            if is_shorter:
                self._put()
        return False

    def draw_wanted(self) -> None:
        """Draw the pages that readers have asked for, where something has changed."""
        for path in self._told:
            if path not in self._pages and (self._place(path) / "wanted").exists():
                self._pages[path] = RunView(str(path), View(self._place(path), root="../../"))
            if (page := self._pages.get(path)) is not None and page.refresh():
                page.draw_figures()

    def _place(self, path: Path) -> Path:
        return self._shelf / "runs" / str(self._places[path])

    def _put(self) -> None:
        told = [summary for _, (_, summary) in sorted(self._told.items())]
        document = index_of(self._folder, told, pages=[f"runs/{self._places[Path(one.path)]}/" for one in told])
        running = sum(one.state == "running" for one in told)
        self._view.put(document, words=f"{running} of {len(told)} runs are running", running=running > 0)


def headline(progress: Progress) -> tuple[str, bool]:
    """How far a run is, in a few words, and whether it is running."""
    if progress.complete:
        return f"All {progress.num_trials:,} trials have ended", False
    left = left_words(progress.seconds_left)
    words = f"{ended_words(progress)} trials" + (f", {left} left" if left else "")
    return (words, True) if progress.holder else (f"{words}; not running now", False)


def _stamp(paths: Iterable[Path]) -> object:
    """A value that changes when one of the files does."""
    stamps = []
    for path in paths:
        with contextlib.suppress(OSError):
            found = path.stat()
            stamps.append((path.name, found.st_size, found.st_mtime_ns))
    return tuple(stamps)


def _activity(run: RunDirectory) -> object:
    """A value that changes while packs train, and when a session begins or ends."""
    journals = run.curves.glob("*.jsonl") if run.curves.is_dir() else ()
    return _stamp([run.sessions, run.lock, *sorted(journals)])


def _unreadable(given: str, reason: str) -> Document:
    note = page_section("unreadable", "This run cannot be read", element("p", reason, class_="note"))
    return Document(given, element("header", element("h1", given), id="heading"), (note,), footer(given) or Html(""))


if __name__ == "__main__":
    main(sys.argv[1:])
