"""Lines and tables on standard output and error, also for a pipe, which has no width of its own."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 200

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def harmless(text: str) -> str:
    """A text of a file or another program; control characters, with which it could write over the terminal, are escaped."""
    return text.translate(_CONTROLS)


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # the exit code is the command's affair


def _console(stream: TextIO) -> Console:
    return _Console(file=stream, width=None if stream.isatty() else PIPE_WIDTH)


def out() -> Console:
    """The console for results."""
    return _console(sys.stdout)


def log() -> Console:
    """The console for progress and warnings."""
    return _console(sys.stderr)


def drop(stream: TextIO) -> None:
    """Let the null device take the place of a stream, and of what it holds back."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


class Unfailing:
    """A standard stream whose writes never fail: where it is full, or nobody reads it, the null device takes its place."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        try:
            return self._stream.write(text)
        except OSError:
            drop(self._stream)
            return len(text)

    def flush(self) -> None:
        try:
            self._stream.flush()
        except OSError:
            drop(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def unfailing_output() -> Iterator[None]:
    """Let nothing that becomes of standard output and error stop what is done in the block, or change its exit code."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = streams = Unfailing(sys.stdout), Unfailing(sys.stderr)
    try:
        yield
    finally:
        for stream in streams:
            stream.flush()
        sys.stdout, sys.stderr = before


def print_line(console: Console, text: str) -> None:
    """Print a line as it is: no markup, no colours, no wrapping."""
    console.print(harmless(text), highlight=False, markup=False, soft_wrap=True)


def table(names: Sequence[str], rows: Iterable[Sequence[Any]], *, right: Sequence[str] = ()) -> Table:
    """A plain table."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        made.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*(Text("" if value is None else harmless(str(value))) for value in row))
    return made


def print_table(console: Console, made: Table) -> None:
    """Print a table without colouring numbers in it, and without blanks at the ends of its lines where it goes to a file."""
    if console.is_terminal:
        console.print(made, highlight=False)
        return
    with console.capture() as captured:
        console.print(made, highlight=False)
    lines = (line.rstrip() for line in captured.get().splitlines())
    console.out("\n".join(lines), highlight=False)


def error_line(error: Exception) -> str:
    """The most informative line of an error: the last that names an exception, where Ray sends a whole traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    named = [line for line in lines if line.startswith(("RuntimeError:", "ValueError:", "Exception:"))]
    return named[-1] if named else lines[0]
