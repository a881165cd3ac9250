"""How far a run is, in words, for the page and the terminal alike; loads nothing, since `stsq status` is to answer at once."""

from sweeps.findings import Progress


def duration_words(seconds: float) -> str:
    """A duration as people tell it: `48 s`, `12.5 min`, `3.2 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:,.1f} h"


def left_words(seconds: float | None) -> str:
    """A time left in words; empty where nothing tells it."""
    return "" if seconds is None else f"about {duration_words(seconds)}"


def ended_words(progress: Progress) -> str:
    """How many trials ended, of all where their number is known: a search asks for more as it goes on."""
    if progress.num_searching and progress.num_ended == progress.num_trials:
        return f"{progress.num_ended:,}"
    return f"{progress.num_ended:,} of {progress.num_trials:,}"


def searches_words(progress: Progress) -> str:
    """How many searches are done; empty where none goes on."""
    if not progress.num_searching:
        return ""
    return f"{progress.num_searches - progress.num_searching} of {progress.num_searches} searches done"
