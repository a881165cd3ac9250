"""Draws the pages of runs into a folder, again whenever a run has changed, until its standard input ends.

`python -m dashboards.serving.renderer FOLDER RUN [RUN ...]`, started by `opening`. It runs at low priority and takes about
`SHARE` of one core's time at most, so that a sweep on the same cores hardly notices.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from dashboards.serving.shelf import View
from dashboards.serving.views import ComparisonView, RunView

SHARE = 0.2
"""The most of one core's time that drawing takes: the whole page as results come in, and, apart from it, the progress."""

LEAST_PAUSE_S = 1.0
NICENESS = 10


def render(folder: Path, runs: Sequence[str], *, wait: Callable[[float], bool]) -> None:
    """Draw the pages until `wait(seconds)` says that it is over.

    Of one run the page lies in `folder`; of several their comparison does, and the pages in `folder/runs/1`, `folder/runs/2`
    and so on.
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


def main(arguments: Sequence[str]) -> None:
    """Render until the process that started this one closes its end of the pipe, or ends in whatever way."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches both; the server ends this process in order
    with contextlib.suppress(OSError):
        os.nice(NICENESS)
    over = threading.Event()
    threading.Thread(target=_set_at_end_of_input, args=(over,), daemon=True).start()
    render(Path(arguments[0]), arguments[1:], wait=over.wait)


def _set_at_end_of_input(over: threading.Event) -> None:
    sys.stdin.read()
    over.set()


if __name__ == "__main__":
    main(sys.argv[1:])
