"""How the inner loops of a core are compiled, by Numba.

Every trial is a loop of its own over contiguous rows whose length is a multiple of `LANES`, so its bits cannot depend on the
trials beside it; whole vectors leave no scalar tail. Indices that are not plain loop variables are unsigned: a signed one might
count from the end, which no vector loop can do.
"""

import fcntl
import hashlib
import os
import stat
import tempfile
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core import event
from numba.extending import intrinsic

from stsq_core.kernels.compile_clock import training_clock

PATIENCE_S = 120.0
"""How long a process waits for another that compiles the same function."""

REORDERED = {"reassoc", "nsz", "contract", "arcp"}
"""Sums may be reordered (the same way for every trial), nothing else: NaN and infinity keep their meaning."""


def _keep_cache() -> None:
    """Let Numba keep its cache below the temporary directory where it may write to neither its source's folder nor the user's,
    as in a container: else it compiles nothing. As the cache is code, nobody else may write to it.
    """
    try:
        numba.njit(cache=True)(_keep_cache)
    except RuntimeError:
        folder = Path(tempfile.gettempdir(), f"stsq-numba-{os.getuid()}")
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        held = folder.lstat()
        is_own = stat.S_ISDIR(held.st_mode) and held.st_uid == os.getuid() and not held.st_mode & 0o077
        own = str(folder) if is_own else tempfile.mkdtemp(prefix="stsq-numba-")
        numba.config.CACHE_DIR = own  # type: ignore[attr-defined]  # one of those that it makes from the environment


_keep_cache()


class _Compiling(event.Listener):
    """Lets the clock know when Numba compiles."""

    def on_start(self, _: Any) -> None:
        training_clock.begin()

    def on_end(self, _: Any) -> None:
        training_clock.end()


event.register("numba:compile", _Compiling())  # type: ignore[no-untyped-call]


def _digest() -> str:
    """A digest of the modules of this folder."""
    modules = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(hashlib.sha256(path.read_bytes()).digest() for path in modules)).hexdigest()[:16]


_DIGEST = _digest()


def _by_contents(dispatcher: Any) -> Any:
    """Numba's cache notices a change of the file that holds a function; this notices one of those that it calls, too. In a
    folder that the user provides (`NUMBA_CACHE_DIR`) all copies of the modules share what was compiled for one, as in the
    folders into which Ray unpacks the code of jobs.
    """
    kept, folder = dispatcher._cache, numba.config.CACHE_DIR  # type: ignore[attr-defined]
    file, locator = kept._cache_file, kept._impl.locator
    file._source_stamp = _DIGEST
    if folder:
        locator._cache_path = kept._cache_path = file._cache_path = os.path.join(folder, f"stsq-{_DIGEST}")
        file._index_path = os.path.join(file._cache_path, file._index_name)
    _compile_once(kept)
    return dispatcher


def _compile_once(kept: Any) -> None:
    """Let one process compile a function that several need, as workers that start together do, and the others wait for it.

    Each function has a byte of one lock file. Nobody waits in a circle, because functions do not call each other in one.
    """
    load, save, place = kept.load_overload, kept.save_overload, zlib.crc32(kept._cache_file._index_name.encode())

    def load_or_wait(signature: Any, context: Any) -> Any:
        with training_clock.running():
            found = load(signature, context)
        if found is None and _wait_for(kept, place):
            found = load(signature, context)
            if found is not None:
                fcntl.lockf(_lock_file(kept.cache_path), fcntl.LOCK_UN, 1, place)
        return found

    def save_and_release(signature: Any, compiled: Any) -> None:
        save(signature, compiled)
        with suppress(OSError):
            fcntl.lockf(_lock_file(kept.cache_path), fcntl.LOCK_UN, 1, place)

    kept.load_overload, kept.save_overload = load_or_wait, save_and_release


def _wait_for(kept: Any, place: int) -> bool:
    """Whether the lock of a function was had in time, on a file system that has locks."""
    deadline = time.monotonic() + PATIENCE_S
    with training_clock.running(), suppress(OSError):
        kept._impl.locator.ensure_cache_path()
        file = _lock_file(kept.cache_path)
        while time.monotonic() < deadline:
            with suppress(BlockingIOError, PermissionError):
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                return True
            time.sleep(0.05)
    return False


@cache
def _lock_file(folder: str) -> int:
    """Opened once, because a process that closes a file loses all its locks in it."""
    return os.open(os.path.join(folder, "compiling.lock"), os.O_RDWR | os.O_CREAT, 0o600)


def jitted(function: Callable[..., None]) -> Any:
    """A loop that is called."""
    return _by_contents(numba.njit(cache=True, error_model="numpy", fastmath=REORDERED)(function))


def inlined(function: Callable[..., Any]) -> Any:
    """A piece of a vectorised loop, in the order in which it is written."""
    return _by_contents(numba.njit(cache=True, error_model="numpy", fastmath={"contract"}, forceinline=True)(function))


def summed(function: Callable[..., Any]) -> Any:
    """A piece of a loop whose sums may be reordered."""
    return _by_contents(numba.njit(cache=True, error_model="numpy", fastmath=REORDERED, forceinline=True)(function))


def exact(function: Callable[..., None]) -> Any:
    """A loop that is called, whose every operation is rounded; unsaid, it would have the licences of its caller."""
    return _by_contents(numba.njit(cache=True, error_model="numpy", fastmath=False)(function))


def emitted(function: Callable[..., Any]) -> Any:
    """Instructions on vectors written out: sums of several rows that stay in registers are no loop that LLVM would find."""
    return intrinsic(function)
