"""The progress of a run in words, for the page and the terminal; imports nothing heavy, so that `stsq status` is quick."""

from sweeps.findings import CellProgress, Progress
from sweeps.schedule import Outlook


def duration_words(seconds: float) -> str:
    """A duration: `48 s`, `12.5 min`, `3.2 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:,.1f} h"


def left_words(seconds: float | None) -> str:
    """The time left in words; empty where it is unknown."""
    return "" if seconds is None else f"about {duration_words(seconds)}"


def total_words(progress: Progress | CellProgress) -> str:
    """The number of all trials; `about`, where searches are expected to ask for more."""
    searching = progress.searching if isinstance(progress, CellProgress) else bool(progress.outlook.num_searching)
    return about_words(progress.num_trials, searching=searching)


def about_words(number: int, *, searching: bool) -> str:
    """A number that is an estimate while searches go on."""
    return f"{'about ' if searching else ''}{number:,}"


def ended_words(progress: Progress | CellProgress) -> str:
    """The number of trials that ended, of all or of about so many."""
    return f"{progress.num_ended:,} of {total_words(progress)}"


def searches_words(outlook: Outlook) -> str:
    """How many searches are done; empty where none goes on."""
    if not outlook.num_searching:
        return ""
    return f"{outlook.num_searches - outlook.num_searching} of {outlook.num_searches} searches done"
