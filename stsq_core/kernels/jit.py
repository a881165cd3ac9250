"""How the inner loops of a core are compiled, by Numba.

Every trial is a loop of its own over contiguous rows whose length is a multiple of `LANES`, so its bits cannot depend on the
trials beside it; whole vectors leave no scalar tail. Indices that are not plain loop variables are unsigned: a signed one might
count from the end, which no vector loop can do.
"""

import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba.extending import intrinsic

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
    cache, folder = dispatcher._cache, numba.config.CACHE_DIR  # type: ignore[attr-defined]
    file, locator = cache._cache_file, cache._impl.locator
    file._source_stamp = _DIGEST
    if folder:
        locator._cache_path = cache._cache_path = file._cache_path = os.path.join(folder, f"stsq-{_DIGEST}")
        file._index_path = os.path.join(file._cache_path, file._index_name)
    return dispatcher


def jitted(function: Callable[..., None]) -> Any:
    """A loop that is called."""
    return _by_contents(numba.njit(cache=True, error_model="numpy", fastmath=REORDERED)(function))


def inlined(function: Callable[..., Any]) -> Any:
    """A piece of a vectorised loop, in the order in which it is written."""
    return _by_contents(numba.njit(cache=True, error_model="numpy", fastmath={"contract"}, forceinline=True)(function))


def summed(function: Callable[..., Any]) -> Any:
    """A piece of a loop whose sums may be reordered."""
    return _by_contents(numba.njit(cache=True, error_model="numpy", fastmath=REORDERED, forceinline=True)(function))


def emitted(function: Callable[..., Any]) -> Any:
    """Instructions on vectors written out: sums of several rows that stay in registers are no loop that LLVM would find."""
    return intrinsic(function)
