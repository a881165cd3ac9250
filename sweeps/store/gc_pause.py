"""Python's search for cyclic garbage, held back where it costs much and finds nothing, or must not run."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_lock = threading.Lock()
_num_holders = 0
_was_enabled = True


@contextmanager
def gc_paused() -> Iterator[None]:
    """Hold the search back, in all threads, until every block that asks for it has ended.

    For what allocates much that stays: an import of torch and Ray Tune spends a fifth of its time on the search.
    """
    global _num_holders, _was_enabled
    with _lock:
        if not _num_holders:
            _was_enabled = gc.isenabled()
            gc.disable()
        _num_holders += 1
    try:
        yield
    finally:
        with _lock:
            _num_holders -= 1
            if not _num_holders and _was_enabled:
                gc.enable()
