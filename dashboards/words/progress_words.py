"""How far a run is, in words, for the page and the terminal alike; loads nothing, since `stsq status` is to answer at once."""

from sweeps.findings import Headway


def duration_words(seconds: float) -> str:
    """A duration as people tell it: `48 s`, `12.5 min`, `3.2 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:,.1f} h"


def left_words(seconds: float | None) -> str:
    """A time left in words; empty where nothing tells it."""
    return "" if seconds is None else f"about {duration_words(seconds)}"


def ended_words(headway: Headway) -> str:
    """How many trials ended, of all where their number is known: a search asks for more as it goes on."""
    if headway.num_searching and headway.num_ended == headway.num_trials:
        return f"{headway.num_ended:,}"
    return f"{headway.num_ended:,} of {headway.num_trials:,}"


def searches_words(headway: Headway) -> str:
    """How many searches are done; empty where none goes on."""
    if not headway.num_searching:
        return ""
    return f"{headway.num_searches - headway.num_searching} of {headway.num_searches} searches done"
