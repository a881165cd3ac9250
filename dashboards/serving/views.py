"""What the renderer keeps of a run between two looks at it: so that it draws only what has changed."""

from collections.abc import Sequence
from pathlib import Path

from dashboards.page import (
    Compared,
    Contents,
    Document,
    comparison_of,
    contents_of,
    footer,
    heading,
    progress_section,
    section,
    write_figures,
    write_tables,
)
from dashboards.serving.shelf import Pulse, View
from dashboards.words import Html, element, ended_words, left_words
from stsq_core.configs import UserError
from sweeps.cells import Cell
from sweeps.findings import Findings, KnownThresholds, Progress, read_findings, read_progress
from sweeps.store import RunDirectory


class RunView:
    """One run as it was last seen, and its page."""

    def __init__(self, given: str, view: View) -> None:
        self.given = given
        self._run = RunDirectory(Path(given))
        self._view = view
        self._known: KnownThresholds = {}
        self._cells: Sequence[Cell] = ()
        self._findings: Findings | None = None
        self._contents: Contents | None = None
        self._progress: Progress | None = None
        self._results: object = None
        self._signs: object = None

    def refresh(self, *, draw: bool = True) -> bool:
        """Look at the run, and show what has changed; says whether results came in and were drawn.

        Without `draw` only the progress is shown anew: results that came in wait for the next look.
        """
        results = _stamp([self._run.spec, self._run.ledger]) if draw or self._results is None else self._results
        signs = self._signs_of_life()
        if (results, signs) == (self._results, self._signs):
            return False
        came_in = results != self._results
        try:
            self._look(came_in)
        except UserError as error:
            self._view.put(_unreadable(self.given, str(error)), Pulse(f"{self.given} cannot be read", running=False))
            came_in = False
        self._results, self._signs = results, signs
        return came_in

    def draw_figures(self) -> None:
        """Draw the figures for papers: last, because nobody waits for them."""
        if self._contents is not None:
            write_figures(self._contents.figures, self._view.folder)

    @property
    def compared(self) -> Compared | None:
        """What a comparison tells of this run; None before it could be read."""
        if self._findings is None or self._progress is None:
            return None
        return Compared(self.given, self._findings, self._progress)

    def _look(self, came_in: bool) -> None:
        if came_in or self._findings is None:
            self._findings = read_findings(self._run.path)
        findings = self._findings
        self._progress = read_progress(self._run, findings.known)
        if came_in or self._contents is None:
            write_tables(findings, self._view.folder)
            self._contents = contents_of(findings, self._progress, given=self.given, known=self._known)
        else:
            self._contents = self._contents.with_section(progress_section(self._progress, thresholds=findings.thresholds))
        document = Document(findings.spec.heading, heading(findings), self._contents.sections, footer(self.given))
        self._view.put(document, pulse_of(self._progress))

    def _signs_of_life(self) -> object:
        """Changes while packs train, and when a session begins or ends."""
        journals = self._run.curves.glob("*.jsonl") if self._run.curves.is_dir() else ()
        return _stamp([self._run.sessions, self._run.lock, *sorted(journals)])


class ComparisonView:
    """The page that compares several runs."""

    def __init__(self, runs: Sequence[RunView], view: View) -> None:
        self._runs = runs
        self._view = view

    def draw(self) -> None:
        """Draw it from what was last seen of the runs."""
        told = [run.compared for run in self._runs]
        unreadable = [run.given for run, one in zip(self._runs, told, strict=True) if one is None]
        compared = [one for one in told if one is not None]
        document = comparison_of(
            compared, pages=[f"runs/{place}/" for place, one in enumerate(told, start=1) if one is not None]
        )
        words = f"{len(compared)} runs compared" + (f"; {', '.join(unreadable)} cannot be read" if unreadable else "")
        self._view.put(document, Pulse(words, running=any(one.progress.holder for one in compared)))


def pulse_of(progress: Progress) -> Pulse:
    """How far a run is, in a few words."""
    if progress.complete:
        return Pulse(f"All {progress.num_trials:,} trials have ended", running=False)
    left = left_words(progress.seconds_left)
    words = f"{ended_words(progress)} trials" + (f", {left} left" if left else "")
    return Pulse(words if progress.holder else f"{words}; nobody runs it now", running=progress.holder is not None)


def _stamp(paths: Sequence[Path]) -> object:
    """Changes when one of the files does."""
    told = []
    for path in paths:
        try:
            found = path.stat()
        except OSError:
            continue
        told.append((path.name, found.st_size, found.st_mtime_ns))
    return tuple(told)


def _unreadable(given: str, reason: str) -> Document:
    note = section("unreadable", "This run cannot be read", element("p", reason, class_="note"))
    return Document(given, element("header", element("h1", given), id="heading"), (note,), footer(given) or Html(""))
