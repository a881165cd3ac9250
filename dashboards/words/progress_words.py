"""The progress of a run in words, for the page and the terminal; imports nothing heavy, so that `stsq status` is quick."""

from sweeps.findings import Progress


def duration_words(seconds: float) -> str:
    """A duration: `48 s`, `12.5 min`, `3.2 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:,.1f} h"


def left_words(seconds: float | None) -> str:
    """The time left in words; empty where it is unknown."""
    return "" if seconds is None else f"about {duration_words(seconds)}"


def ended_words(progress: Progress) -> str:
    """The number of trials that ended, of the total where it is known: a search adds trials as it goes on."""
    if progress.num_searching and progress.num_ended == progress.num_trials:
        return f"{progress.num_ended:,}"
    return f"{progress.num_ended:,} of {progress.num_trials:,}"


def searches_words(progress: Progress) -> str:
    """How many searches are done; empty where none goes on."""
    if not progress.num_searching:
        return ""
    return f"{progress.num_searches - progress.num_searching} of {progress.num_searches} searches done"
