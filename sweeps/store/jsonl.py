"""Files of JSON lines that are only appended to: a line is whole, or it is left out.

A crash can tear the last line alone. Readers leave it out, and the next writer cuts it off.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

from sweeps.store.files import disk_errors

CHUNK_BYTES = 1 << 16


def parsed(line: bytes) -> dict[str, Any] | None:
    """The object on a line; None where there is none, as on a torn line."""
    try:
        values = orjson.loads(line)
    except ValueError:
        return None
    return values if isinstance(values, dict) else None


def read_lines(path: Path, *, on_torn: Callable[[], None] = lambda: None) -> Iterator[bytes]:
    """The lines of a file, none where there is no file; the last one also without its line end, unless it is torn."""
    try:
        with path.open("rb") as file:
            for line in file:
                if not line.endswith(b"\n") and parsed(line) is None:
                    on_torn()
                    return
                yield line
    except FileNotFoundError:
        return


def read_objects(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file; former versions went on behind a torn line, so one anywhere in the file is left out."""
    return (values for line in read_lines(path) if (values := parsed(line)) is not None)


def lines_after(path: Path, offset: int) -> Iterator[tuple[bytes, int]]:
    """The lines after `offset` bytes that have their line end, each with the offset behind it.

    A file in which no line ends at `offset` has become shorter and is read from its start.
    """
    try:
        with path.open("rb") as file:
            if offset:
                file.seek(offset - 1)
                if file.read(1) != b"\n":
                    file.seek(0)
                    offset = 0
            for line in file:
                if not line.endswith(b"\n"):
                    return
                offset += len(line)
                yield line, offset
    except FileNotFoundError:
        return


def cut_torn_line(path: Path) -> tuple[int, bool]:
    """Make the file where there is none, drop a torn last line, and return the size that is left and whether one was torn.

    A last line that is whole but for its line end is given one.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        size = start = os.fstat(descriptor).st_size
        tail = b""
        while start and b"\n" not in tail:
            step = min(start, CHUNK_BYTES)
            start -= step
            tail = os.pread(descriptor, step, start) + tail
        whole = start + tail.rfind(b"\n") + 1
        if whole == size:
            return size, False
        if parsed(tail[tail.rfind(b"\n") + 1 :]) is not None:
            os.pwrite(descriptor, b"\n", size)
            return size + 1, False
        os.ftruncate(descriptor, whole)
        return whole, True
    finally:
        os.close(descriptor)


def write_from(path: Path, data: bytes, offset: int) -> None:
    """Write and force to disk all of `data` from `offset` on, over what a failed try has left there, or nothing of it."""
    # Without O_CREAT: where the storage went away, a new file would begin in its place.
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.ftruncate(descriptor, offset)
        os.lseek(descriptor, offset, os.SEEK_SET)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, offset)
            raise
    finally:
        os.close(descriptor)


def append_lines(path: Path, data: bytes) -> None:
    """Add whole lines to the file of a single writer, and return once they are on disk.

    Raises:
        UserError: the disk is full or may not be written.
    """
    with disk_errors(path):
        write_from(path, data, cut_torn_line(path)[0])
