"""Files of JSON lines that are only appended to: a line is whole, or it is left out and named.

A line that we append ends with a checksum of what stands before it. Lines of former versions have none and are read too. A
crash can tear the last line alone: readers leave it out, and the next writer cuts it off. A line that is damaged otherwise is
left out by every reader, which names it once, and set aside by the next run (module `damage`).
"""

import fcntl
import json
import logging
import os
from binascii import crc32
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeVar

import orjson
from pydantic import ValidationError

from stsq_core.configs import UserError
from sweeps.store.files import disk_errors, write_atomically

LOG = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 16

CRC = "crc"
_SEAL = b',"crc":"'
_SEAL_BYTES = len(_SEAL) + 8 + 2
"""A sealed line ends with the name, eight hex digits, a quote and a brace."""

WORDS = ("nan", "inf", "-inf")
"""The numbers that JSON does not have, as our lines hold them."""

Read = TypeVar("Read")
Seen = TypeVar("Seen")
Check = Callable[[dict[str, Any], bool], Read]
"""Makes what is read of the fields of a line; the flag says whether a checksum vouches for them. Raises ValueError."""


def sealed(text: bytes) -> bytes:
    """A JSON object as a line, with a checksum as its last field."""
    body = text[:-1]
    return b'%b%b%08x"}\n' % (body, _SEAL, crc32(body))


def unsealed(line: bytes) -> tuple[dict[str, Any], bool]:
    """The fields of a line, and whether a checksum vouches for them.

    Raises:
        ValueError: the line is no JSON object, or not what its checksum was made of.
    """
    text = line.rstrip()
    is_sealed = has_seal(text)
    try:
        fields = orjson.loads(text)
    except ValueError:
        raise ValueError(f"it is not JSON: {text[:60]!r}") from None
    if not isinstance(fields, dict):
        raise ValueError(f"it is no JSON object: {text[:60]!r}")
    fields.pop(CRC, None)
    return fields, is_sealed


def has_seal(text: bytes) -> bool:
    """Whether a line without its end has a checksum.

    Raises:
        ValueError: it is that of another line.
    """
    if text[-_SEAL_BYTES : len(_SEAL) - _SEAL_BYTES] != _SEAL:
        return False
    if text[-10:-2] != b"%08x" % crc32(text[:-_SEAL_BYTES]):
        raise ValueError("its checksum does not match")
    return True


def number(value: object) -> float:
    """A number of a line, also one that is not finite, as a word.

    Raises:
        ValueError: it is none.
    """
    if type(value) in (int, float) or value in WORDS:
        return float(value)  # type: ignore[arg-type]
    raise ValueError(f"{value!r} is no number")


class JsonLines(Generic[Read]):
    """The checked lines of a file, which may be missing. `bad` holds the damaged lines by number with what is wrong with each,
    `torn` says whether the last was torn; both are complete once everything was read.
    """

    def __init__(self, path: Path, check: Check[Read]) -> None:
        self.path = path
        self.bad: dict[int, str] = {}
        self.torn = False
        self._check = check
        self._end = 0

    def __iter__(self) -> Iterator[Read]:
        return self._read(0, self._line)

    def after(self, offset: int) -> Iterator[tuple[Read, int]]:
        """The lines after `offset` bytes that have their line end, each with the offset behind it.

        A file in which no line ends at `offset` has become shorter and is read from its start.
        """
        return ((read, self._end) for read in self._read(offset, self._line, ended=True))

    def _line(self, line: bytes) -> Read:
        return self._check(*unsealed(line))

    def scan(self) -> "JsonLines[Read]":
        """Look for damaged lines alone: a line that matches its checksum is not read any further."""

        def check(line: bytes) -> None:
            if not has_seal(line.rstrip()):
                self._check(*unsealed(line))

        for _ in self._read(0, check):
            pass
        return self

    @property
    def note(self) -> str:
        """The damaged lines in words; nothing where there are none."""
        if not self.bad:
            return ""
        (first, why), more = next(iter(self.bad.items())), len(self.bad) - 1
        and_more = f", and so are {more} more of its lines" if more else ""
        return f"{self.path}:{first} is damaged and left out ({why}){and_more}"

    def _read(self, offset: int, check: Callable[[bytes], Seen], *, ended: bool = False) -> Iterator[Seen]:
        """Read on from an offset; a last line without its end is whole unless it is torn, and left for later where `ended`."""
        try:
            with self.path.open("rb") as file:
                start = offset = _line_start(file, offset)
                for place, line in enumerate(file, start=1):
                    is_last = not line.endswith(b"\n")
                    if is_last and ended:
                        return
                    offset += len(line)
                    try:
                        read = check(line)
                    except UserError as error:  # a line of another version, which must not be lost
                        raise UserError(f"{self.path}:{place + _num_lines(self.path, start)}: {error}") from None
                    except ValueError as error:
                        if is_last:
                            self.torn = True
                        elif line.strip():
                            self.bad[place + _num_lines(self.path, start)] = problem_in(error)
                        continue
                    self._end = offset
                    yield read
        except FileNotFoundError:
            return
        except OSError as error:
            raise UserError(f"{str(self.path)!r} cannot be read: {error.strerror}") from None


def _line_start(file: BinaryIO, offset: int) -> int:
    """Go to an offset if a line begins there, else to the start of the file."""
    file.seek(max(offset - 1, 0))
    if offset and file.read(1) != b"\n":
        file.seek(0)
        return 0
    return offset


def _num_lines(path: Path, size: int) -> int:
    """How many lines stand before an offset: asked only where a line is damaged."""
    with path.open("rb") as file:
        return file.read(size).count(b"\n")


def problem_in(error: ValueError) -> str:
    """What is wrong with a value, on one line."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return ": ".join(filter(None, [".".join(map(str, first["loc"])), first["msg"]]))
    return (str(error).splitlines() or [type(error).__name__])[0]


def read_lines(lines: JsonLines[Read]) -> Iterator[Read]:
    """The whole lines; the damaged ones are named in the log, once a process."""
    yield from lines
    warn_once(lines.note)


@cache
def warn_once(text: str) -> None:
    """Say a thing in the log, once a process."""
    if text:
        LOG.warning("%s", text)


def aside(path: Path) -> Path:
    """Where what is damaged in a file is kept."""
    return path.with_name(f"{path.name}.rejected")


def free_name(path: Path) -> Path:
    """Where a damaged file is moved to: beside it, under a name that is not taken."""
    place, number = aside(path), 1
    while place.exists():
        place, number = aside(path.with_name(f"{path.name}.{number}")), number + 1
    return place


def set_aside(lines: JsonLines[Any]) -> None:
    """Move the damaged lines of a file that was read to the file beside it: first added there, then taken out here.

    Raises:
        UserError: the disk is full or may not be written.
    """
    if not lines.bad:
        return
    with disk_errors(lines.path), lines.path.open("rb") as file:
        all_lines = list(file)
    rejected = aside(lines.path)
    earlier = rejected.read_bytes() if rejected.exists() else b""
    write_atomically(rejected, earlier + b"".join(all_lines[number - 1] for number in lines.bad))
    write_atomically(lines.path, b"".join(line for place, line in enumerate(all_lines, 1) if place not in lines.bad))


def cut_torn_line(path: Path) -> tuple[int, bool]:
    """Make the file where there is none, drop a torn last line, and return the size that is left and whether one was torn.

    A last line that is whole but for its line end is given one.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
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
        try:
            unsealed(tail[tail.rfind(b"\n") + 1 :])
        except ValueError:
            os.ftruncate(descriptor, whole)
            return whole, True
        os.pwrite(descriptor, b"\n", size)
        return size + 1, False
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


class Addition:
    """Adds whole lines to the end of a file when called, all or none, also while another process adds to it.

    It may be called again after it failed: what an earlier try has left there is not added twice. `cut` says that a torn line
    stood at the end and is gone.
    """

    def __init__(self, path: Path, data: bytes) -> None:
        self.path = path
        self.cut = False
        self._data = data
        self._start: int | None = None

    def __call__(self) -> None:
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            with suppress(OSError):  # where a file system has no locks, one write to the end of a file is not divided either
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            if self._start is None or os.pread(descriptor, len(self._data), self._start) != self._data:
                self._start, was_torn = cut_torn_line(self.path)
                self.cut |= was_torn
                self._write(descriptor, self._start)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _write(self, descriptor: int, start: int) -> None:
        try:
            view = memoryview(self._data)
            while view:
                view = view[os.write(descriptor, view) :]
        except OSError:
            os.ftruncate(descriptor, start)
            raise


def append_lines(path: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Add sealed lines to a file, and return once they are on disk.

    Raises:
        UserError: the disk is full or may not be written.
    """
    with disk_errors(path):
        Addition(path, sealed_lines(lines))()


def sealed_lines(lines: Iterable[Mapping[str, Any]]) -> bytes:
    """Fields as sealed lines."""
    return b"".join(sealed(json.dumps(fields).encode()) for fields in lines)
